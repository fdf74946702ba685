//! Matrix products.

pub mod activation;
pub mod attrs;
pub mod einsum;
pub mod epilogue;
pub mod integers;
pub mod lora;
pub mod lower;
pub mod matmul_dims;
pub mod var;

use crate::ensure;
use crate::nodes::build::axes::check_axes;
use crate::nodes::build::size_attrs::to_size_attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Real;
use attrs::{DotGeneralAttrs, MatmulAttrs};
use matmul_dims::{matmul_flops, matmul_operand_dims};

fn infer_matmul(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    let dims = matmul_operand_dims(cx)?;
    cx.result(dtype, &dims)
}

/// The product with the batch's axis before all axes that the operands broadcast.
fn batch_matmul<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let rank = s.rank(0).max(s.rank(1));
    Some(s.site.rebuild_with(&[s.aligned(0, rank), s.aligned(1, rank)]))
}

/// ā and b̄ are products again, in the layout that needs no transposed copy; broadcast batch axes are summed.
fn transpose_matmul<'g>(s: &Site<'_, 'g>, i: usize, g: Var<'g>) -> Option<Var<'g>> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&s.attrs);
    let (a, b) = (s.args[0], s.args[1]);
    let full = match (i, ta, tb) {
        (0, false, _) => g.matmul_t(b, false, !tb),
        (0, true, _) => b.matmul_t(g, tb, true),
        (_, _, false) => a.matmul_t(g, !ta, false),
        (_, _, true) => g.matmul_t(a, true, ta),
    };
    Some(full.unbroadcast(&s.args[i].dims()))
}

/// The matrix product.
pub const MATMUL: OpDef = OpDef {
    name: "matmul",
    doc: "y[.., i, j] = Σₖ a[.., i, k]·b[.., k, j], with either operand's last two axes exchanged first; leading axes broadcast",
    arity: Arity::Exactly(2),
    attrs: MatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::PRODUCT),
    infer: infer_matmul,
    deriv: Deriv::Multilinear(transpose_matmul),
    batch: Batch::Rule(batch_matmul),
    decompose: None,
    lower: Lower::Kernel(lower::lower_matmul),
    cost: matmul_flops,
    cases: &[
        Case { args: "f[3,4] f[4,5]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[4,3] f[4,5]", attrs: "ta=true tb=false", domains: &[Real] },
        Case { args: "f[3,4] f[5,4]", attrs: "ta=false tb=true", domains: &[Real] },
        Case { args: "f[4,3] f[5,4]", attrs: "ta=true tb=true", domains: &[Real] },
        Case { args: "f[2,1,3,4] f[5,4,2]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[2,3,4] f[4,6]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[1,17] f[17,33]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[3,0] f[0,2]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[37,19] f[19,41]", attrs: "ta=false tb=false", domains: &[Real] },
    ],
};

/// The axes of `rank` that neither list names.
fn dot_general_free_axes(rank: usize, batch: &[usize], contract: &[usize]) -> Vec<usize> {
    (0..rank).filter(|a| !batch.contains(a) && !contract.contains(a)).collect()
}

fn infer_dot_general(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    let dtype = if d.is_float() { d } else { integers::int_matmul_dtype(d)? };
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
        dot_general_free_axes(d.len(), batch, con).into_iter().map(|i| d[i]).collect()
    };
    let batch: Vec<usize> = ba.iter().map(|&i| a[i]).collect();
    cx.result(dtype, &[batch, free(&a, &ba, &ca), free(&b, &bb, &cb)].concat())
}

/// Transposes and reshapes both sides to `[batch, free, contracted]` and multiplies.
fn decompose_dot_general<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let side = |x: Var<'g>, batch: &[usize], contract: &[usize]| {
        let d = x.dims();
        let free = dot_general_free_axes(d.len(), batch, contract);
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
    infer: infer_dot_general,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_dot_general),
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
};
