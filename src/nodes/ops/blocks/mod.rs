//! Layers as ops: linear layers, a gated feed-forward, a causal convolution, and whole layers of transformers.
//!
//! A block has no kernel. [`expand_blocks`](crate::passes::expand_blocks()) replaces it by fused ops, to run, or by
//! primitive ops, to differentiate. There is no block for a layer that another op computes, except `linear`. Users
//! write `matmul_bias_act` for a product with bias and activation, `residual_rms_norm` for a sum with its norm, and
//! `attention` for attention without its projections.

pub mod attrs;
pub mod causal_conv;
pub mod swiglu;
pub mod transformer_blocks;

use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Expand, Flags, Lower, Op, OpDef};
use crate::nodes::ops::matmul::activation::Activation;
use crate::nodes::ops::matmul::attrs::MatmulBiasActAttrs;
use Domain::Real;
use attrs::LinearAttrs;

/// The fields that block ops share. Each definition overrides the rest.
pub(super) const fn block_op(deriv: Deriv, expand: Expand) -> OpDef {
    OpDef {
        name: "block",
        doc: "the defaults of block ops",
        arity: Arity::AtLeast(1),
        attrs: &[],
        flags: Flags::PURE.and(Flags::BLOCK),
        infer: |_| Ok(()),
        deriv,
        batch: Batch::ViaDecompose,
        decompose: Some(expand),
        lower: Lower::Expand,
        cost: block_flops,
        cases: &[],
        ..OpDef::BLANK
    }
}

/// Multiply-adds of the products of x with every operand of rank 2, for the rows of x.
fn block_flops(cx: &CostCx<'_>) -> u64 {
    let args = cx.graph.args_of(cx.node);
    let width = cx.graph.dims(args[0]).last().copied().unwrap_or(1).max(1) as u64;
    let weights = args.iter().filter(|&&a| cx.graph.dims(a).len() == 2).map(|&a| cx.graph.numel(a) as u64);
    (cx.arg(0) / width).saturating_mul(2).saturating_mul(weights.fold(0, u64::saturating_add))
}

/// Checks that all operands have one float type and that x, operand 0, has rank `rank` or more, and gives the
/// dimensions of x.
pub(super) fn check_block_input(cx: &Infer<'_>, rank: usize) -> Result<Vec<usize>, String> {
    cx.float(0)?;
    let d = cx.dims(0).to_vec();
    ensure!(d.len() >= rank, "x has shape {}; rank {rank} is needed", cx.dims(0));
    Ok(d)
}

/// Checks that operand `i` is a matrix of `rows` rows of x's type, and gives the number of its columns.
pub(super) fn check_block_weight(cx: &Infer<'_>, i: usize, what: &str, rows: usize) -> Result<usize, String> {
    cx.same_dtype(0, i)?;
    let d = cx.rank(i, what, 2)?;
    ensure!(d[0] == rows, "{what} has shape {d}; {rows} rows are needed");
    Ok(d[1])
}

/// Checks that operand `i` is a vector of `n` of x's type.
pub(super) fn check_block_vector(cx: &Infer<'_>, i: usize, what: &str, n: usize) -> Result<(), String> {
    cx.same_dtype(0, i)?;
    cx.expect_dims(i, what, &[n])
}

/// `act(x·w + bias)`, as one op if there is a bias.
pub(super) fn affine_with_act<'g>(x: Var<'g>, w: Var<'g>, bias: Option<Var<'g>>, act: Activation) -> Var<'g> {
    match bias {
        Some(b) => {
            let attrs = MatmulBiasActAttrs { ta: false, tb: false, act };
            x.g.emit1(Op::MATMUL_BIAS_ACT, &[x, w, b], &attrs.list())
        }
        None => act.apply(x.matmul(w)),
    }
}

/// A linear layer.
pub const LINEAR: OpDef = OpDef {
    name: "linear",
    doc: "y = act(x·w + bias), from (x, w[, bias]), w of shape [inputs, outputs]",
    arity: Arity::Between(2, 3),
    attrs: LinearAttrs::FIELDS,
    infer: |cx| {
        let mut d = check_block_input(cx, 2)?;
        let n = check_block_weight(cx, 1, "w", d[d.len() - 1])?;
        if cx.args.len() == 3 {
            check_block_vector(cx, 2, "the bias", n)?;
        }
        d.pop();
        d.push(n);
        cx.result(cx.dtype(0), &d)
    },
    cases: &[
        Case { args: "f[3,4] f[4,5] f[5]", attrs: "act=gelu", domains: &[Real] },
        Case { args: "f[2,3,4] f[4,5]", attrs: "act=silu", domains: &[Real] },
        Case { args: "f[2,3] f[3,4] f[4]", attrs: "act=none", domains: &[Real] },
    ],
    ..block_op(Deriv::ViaDecompose, |s| {
        vec![affine_with_act(s.args[0], s.args[1], s.args.get(2).copied(), LinearAttrs::of(&s.attrs).act)]
    })
};

/// Two linear layers of one input.
pub const SHARED_LINEAR_PAIR: OpDef = OpDef {
    name: "shared_linear_pair",
    doc: "x·w1 and x·w2",
    arity: Arity::Exactly(3),
    infer: |cx| {
        let mut d = check_block_input(cx, 2)?;
        let k = d.pop().unwrap_or(0);
        for i in 1..3 {
            let n = check_block_weight(cx, i, if i == 1 { "w1" } else { "w2" }, k)?;
            cx.result(cx.dtype(0), &[&d[..], &[n]].concat())?;
        }
        Ok(())
    },
    cases: &[
        Case { args: "f[3,4] f[4,5] f[4,2]", attrs: "", domains: &[Real] },
        Case { args: "f[2,3,4] f[4,3] f[4,3]", attrs: "", domains: &[Real] },
    ],
    ..block_op(Deriv::ViaDecompose, |s| vec![s.args[0].matmul(s.args[1]), s.args[0].matmul(s.args[2])])
};
