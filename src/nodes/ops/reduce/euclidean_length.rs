//! The Euclidean length of several tensors together. Clipping of gradients uses it.

use super::lower;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use Domain::{Positive, Real};

/// The Euclidean length of several tensors, safe against overflow.
pub const ROOT_SUM_SQUARES: OpDef = OpDef {
    name: "root_sum_squares",
    doc: "√s in f64, from (s, x, …) with s = Σ x² over all elements of the tensors x, …; where s overflowed or underflowed in \
          its type, √Σ x² again with scaled terms",
    arity: Arity::AtLeast(2),
    attrs: &[],
    flags: Flags::PURE.and(Flags::EXACT),
    infer: |cx| {
        cx.float(0)?;
        cx.expect_dims(0, "s", &[])?;
        (1..cx.args.len()).try_for_each(|i| cx.same_dtype(0, i))?;
        cx.result(DType::F64, &[])
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| vec![s.args[0].sqrt().cast(DType::F64)]),
    lower: Lower::Kernel(lower::emit_root_sum_squares),
    cost: |_| 1,
    cases: &[
        Case { args: "f[] f[3,5]", attrs: "", domains: &[Positive, Real] },
        Case { args: "f[] f[4] f[] f[2,0] f[1,9,2]", attrs: "", domains: &[Positive, Real] },
    ],
    ..OpDef::BLANK
};

/// √Σx² of all elements of `xs`, which have one type, in f64. It is right wherever it is a finite number of their type,
/// even if the squares overflow or underflow.
pub fn euclidean_length<'g>(xs: &[Var<'g>]) -> Option<Var<'g>> {
    let squares = xs.iter().map(|&x| (x * x).sum(..));
    let sum = squares.reduce(|total, s| total + s)?;
    let args: Vec<Var<'g>> = std::iter::once(sum).chain(xs.iter().copied()).collect();
    Some(sum.g.emit1(Op::ROOT_SUM_SQUARES, &args, &[]))
}

/// √x with the derivative 0 at x = 0.
pub(super) fn reduce_root_with_zero_slope<'g>(x: Var<'g>) -> Var<'g> {
    let zero = x.equal(0.0);
    zero.select(0.0, zero.select(1.0, x).sqrt())
}
