//! XLA's product: any batch axes, free axes and contracted axes.

use super::attrs::DotGeneralAttrs;
use super::int_matmul::product_dtype;
use crate::ensure;
use crate::nodes::arguments::axes::check_axes;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Real;

/// The axes of `rank` that neither list names.
fn free_axes(rank: usize, batch: &[usize], contract: &[usize]) -> Vec<usize> {
    (0..rank).filter(|a| !batch.contains(a) && !contract.contains(a)).collect()
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    let dtype = if d.is_float() { d } else { product_dtype(d)? };
    cx.same_dtype(0, 1)?;
    let (a, b) = (cx.dims(0), cx.dims(1));
    let axes = DotGeneralAttrs::of(&cx.attrs);
    let (ba, bb) = (check_axes(&axes.batch_a, a.len())?, check_axes(&axes.batch_b, b.len())?);
    let (ca, cb) = (check_axes(&axes.contract_a, a.len())?, check_axes(&axes.contract_b, b.len())?);
    ensure!(ba.len() == bb.len(), "{} and {} batch axes", ba.len(), bb.len());
    ensure!(ca.len() == cb.len(), "{} and {} contracted axes", ca.len(), cb.len());
    ensure!(
        !ca.iter().any(|x| ba.contains(x)) && !cb.iter().any(|x| bb.contains(x)),
        "an axis is both batch and contracted"
    );
    for (&x, &y) in ba.iter().zip(&bb).chain(ca.iter().zip(&cb)) {
        ensure!(a[x] == b[y], "axis {x} of {a} and axis {y} of {b} differ");
    }
    let free = |d: &[usize], batch: &[usize], con: &[usize]| -> Vec<usize> {
        free_axes(d.len(), batch, con).into_iter().map(|i| d[i]).collect()
    };
    let batch: Vec<usize> = ba.iter().map(|&i| a[i]).collect();
    cx.result(dtype, &[batch, free(&a, &ba, &ca), free(&b, &bb, &cb)].concat())
}

/// Transposes and reshapes both sides to `[batch, free, contracted]` and multiplies.
fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let side = |x: Var<'g>, batch: &[usize], contract: &[usize]| {
        let d = x.dims();
        let free = free_axes(d.len(), batch, contract);
        let size = |axes: &[usize]| axes.iter().map(|&i| d[i]).product::<usize>();
        let perm = [batch, &free, contract].concat();
        let flat = if perm.is_sorted() { x } else { x.permute(&perm) };
        let dims: Vec<usize> = batch.iter().chain(&free).map(|&i| d[i]).collect();
        (flat.reshape([size(batch), size(&free), size(contract)]), dims)
    };
    let axes = DotGeneralAttrs::of(&s.attrs);
    let (a, mut dims) = side(s.args[0], &to_size_attrs(&axes.batch_a), &to_size_attrs(&axes.contract_a));
    let (b, rest) = side(s.args[1], &to_size_attrs(&axes.batch_b), &to_size_attrs(&axes.contract_b));
    dims.extend(&rest[axes.batch_b.len()..]);
    vec![a.matmul_t(b, false, true).reshape(&dims)]
}

/// XLA's general product, `DotGeneral`.
pub const DOT_GENERAL: OpDef = OpDef {
    name: "dot_general",
    doc: "XLA's product: batch axes, then free axes of a, then free axes of b; contracted axes are summed",
    arity: Arity::Exactly(2),
    attrs: DotGeneralAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "f[3,4] f[4,5]", attrs: "batch_a=[] batch_b=[] contract_a=[1] contract_b=[0]", domains: &[Real] },
        Case {
            args: "f[2,3,4] f[5,4,2]",
            attrs: "batch_a=[0] batch_b=[2] contract_a=[2] contract_b=[1]",
            domains: &[Real],
        },
        Case {
            args: "f[2,3] f[3,2]",
            attrs: "batch_a=[] batch_b=[] contract_a=[0,1] contract_b=[1,0]",
            domains: &[Real],
        },
    ],
    ..OpDef::BLANK
};
