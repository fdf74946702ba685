//! A causal convolution along time, with one filter for each channel, as one op.

use super::block_op;
use crate::ensure;
use crate::nodes::Conv2d;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Real;

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.float(0)?;
    (1..3).try_for_each(|i| cx.same_dtype(0, i))?;
    let (x, w) = (cx.rank(0, "x", 3)?, cx.rank(1, "w", 4)?);
    ensure!(w[3] > 0, "w has shape {w}: no taps");
    ensure!(x[1] > 0 && x[2] > 0, "x has shape {x}: no steps or no channels");
    cx.expect_dims(1, "w", &[x[2], 1, 1, w[3]])?;
    cx.expect_dims(2, "the left pad", &[x[0], w[3] - 1, x[2]])?;
    cx.same_as(0)
}

/// The left pad and x joined along time, convolved with one filter for each channel. Time is the last axis meanwhile.
fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, w, before) = (s.args[0], s.args[1], s.args[2]);
    let (d, taps) = (x.dims(), w.dims()[3]);
    let long = before.concat(&[x], 1).transpose(&[0, 2, 1]).reshape([d[0], d[2], 1, d[1] + taps - 1]);
    let y = long.conv2d(w, Conv2d { groups: d[2], ..Conv2d::default() });
    vec![y.reshape([d[0], d[2], d[1]]).transpose(&[0, 2, 1])]
}

/// A causal 1-D convolution of each channel.
pub const DEPTHWISE_CONV1D_CAUSAL: OpDef = OpDef {
    name: "depthwise_conv1d_causal",
    doc: "y[b,t,c] = Σₖ w[c,0,0,k]·z[b,t+k,c], z = (left pad, x) joined along time, from (x[B,S,C], w[C,1,1,K], \
        pad[B,K−1,C])",
    arity: Arity::Exactly(3),
    infer: infer_types,
    cost: |cx| 2 * cx.out() * (cx.arg(1) / cx.graph.dims(cx.graph.args_of(cx.node)[1])[0].max(1) as u64),
    cases: &[
        Case { args: "f[2,5,3] f[3,1,1,4] f[2,3,3]", attrs: "", domains: &[Real] },
        Case { args: "f[1,2,4] f[4,1,1,1] f[1,0,4]", attrs: "", domains: &[Real] },
    ],
    ..block_op(Deriv::ViaDecompose, decompose_node)
};
