//! A product with a low-rank correction (LoRA), which is added in place.

use super::lower;
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::matmul::attrs::LoraMatmulAttrs;
use Domain::Real;

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    (1..cx.args.len()).try_for_each(|i| cx.same_dtype(0, i))?;
    let (x, w, a) = (cx.dims(0), cx.rank(1, "w", 2)?, cx.rank(2, "a", 2)?);
    ensure!(x.len() >= 2, "x has shape {x}; it needs rows and columns");
    let (LoraMatmulAttrs { scale, transposed }, k) = (LoraMatmulAttrs::of(&cx.attrs), x[x.len() - 1]);
    let last = usize::from(!transposed);
    let (rank, n) = (a[last], w[last]);
    for (i, what, rows, cols) in [(1, "w", k, n), (2, "a", k, rank), (3, "b", rank, n)] {
        cx.expect_dims(i, what, &if transposed { [cols, rows] } else { [rows, cols] })?;
    }
    if cx.args.len() == 5 {
        cx.expect_dims(4, "the bias", &[n])?;
    }
    ensure!(scale.is_finite(), "scale is {scale}; it must be finite");
    let mut d = x;
    for last in [n, rank] {
        if let Some(to) = d.make_mut().last_mut() {
            *to = last;
        }
        cx.result(dtype, &d)?;
    }
    Ok(())
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let LoraMatmulAttrs { scale, transposed } = LoraMatmulAttrs::of(&s.attrs);
    let times = |x: Var<'g>, i: usize| x.matmul_t(s.args[i], false, transposed);
    let low = times(s.args[0], 2);
    let y = times(s.args[0], 1);
    let y = s.args.get(4).map_or(y, |&bias| y + bias);
    vec![y + times(low, 3) * scale, low]
}

/// A matrix product with a low-rank correction.
pub const LORA_MATMUL: OpDef = OpDef {
    name: "lora_matmul",
    doc: "y = x·w + bias + scale·(x·a)·b, from (x, w, a, b[, bias]), with wᵀ, aᵀ and bᵀ if `transposed`; also x·a, \
        which the derivative of b reads",
    arity: Arity::Between(4, 5),
    attrs: LoraMatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::PRODUCT),
    infer: infer_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower::emit_lora_matmul),
    cost: |cx| {
        let d = |i: usize| cx.graph.dims(cx.graph.args_of(cx.node)[i]);
        let rows = cx.arg(0) / d(0).last().copied().unwrap_or(1).max(1) as u64;
        2 * rows * (cx.arg(1) + cx.arg(2) + cx.arg(3))
    },
    cases: &[
        Case { args: "f[3,4] f[4,5] f[4,2] f[2,5]", attrs: "scale=0.5 transposed=false", domains: &[Real] },
        Case { args: "f[2,3,6] f[4,6] f[1,6] f[4,1]", attrs: "scale=1 transposed=true", domains: &[Real] },
        Case { args: "f[1,9] f[9,33] f[9,3] f[3,33]", attrs: "scale=-2 transposed=false", domains: &[Real] },
        Case { args: "f[70,17] f[40,17] f[4,17] f[40,4] f[40]", attrs: "scale=0.25 transposed=true", domains: &[Real] },
        Case { args: "f[3,4] f[4,5] f[4,0] f[0,5]", attrs: "scale=2 transposed=false", domains: &[Real] },
    ],
    ..OpDef::BLANK
};
