//! The layer of gated DeltaNets.

use super::conv_layers::conv1d;
use super::linear_layers::{linear_no_bias, linear_width};
use super::mamba::step_bias_init;
use super::norms::rms_norm;
use crate::error::Kind;
use crate::nodes::Conv1d;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, Init, Var};

/// Options of [`gated_delta_net`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatedDeltaNet {
    /// Number of heads.
    pub heads: usize,
    /// Elements of a query and of a key of a head.
    pub keys: usize,
    /// Elements of a value of a head; `None` is twice `keys`.
    pub values: Option<usize>,
    /// Taps of the causal convolutions.
    pub kernel: usize,
}

impl GatedDeltaNet {
    /// A layer of `heads` heads with keys of `keys` elements and values of twice as many, and convolutions of 4 taps.
    pub fn new(heads: usize, keys: usize) -> GatedDeltaNet {
        GatedDeltaNet { heads, keys, values: None, kernel: 4 }
    }
}

setters! {
    [] GatedDeltaNet { heads: usize, keys: usize, values: impl Into<Option<usize>> => values.into(), kernel: usize }
}

/// `x` through `name_proj`, a causal convolution of each channel `name_conv1d`, and SiLU.
#[track_caller]
fn project_stream<'g>(g: &'g Builder, name: &str, x: Var<'g>, width: usize, kernel: usize) -> Var<'g> {
    let x = linear_no_bias(g, &format!("{name}_proj"), x, width).transpose(&[0, 2, 1]);
    let causal = Conv1d { pad: [kernel - 1, 0], groups: width, ..Conv1d::default() };
    let y = conv1d(g, &format!("{name}_conv1d"), x, width, kernel, causal.bias(false));
    y.transpose(&[0, 2, 1]).silu()
}

/// A gated DeltaNet layer of `x` `[batch, steps, width]`: a result of the same shape, each step of which sees the steps
/// so far.
///
/// Queries, keys and values are `name.q_proj`, `name.k_proj` and `name.v_proj`, each with a causal convolution
/// `name.q_conv1d` … and SiLU; queries and keys of a head have length 1. β is the sigmoid of `name.b_proj`, and the
/// gate is −exp(`name.A_log`)·softplus(`name.a_proj` + `name.dt_bias`). The outputs of
/// [`Var::gated_delta_net`](crate::graph::Var::gated_delta_net) are normalised for each head by `name.o_norm`,
/// multiplied by SiLU of `name.g_proj`, and go through `name.o_proj`. Source: Yang et al., "Gated Delta Networks".
#[track_caller]
pub fn gated_delta_net<'g>(g: &'g Builder, name: &str, x: Var<'g>, options: GatedDeltaNet) -> Var<'g> {
    g.layer_scope(name, || {
        let GatedDeltaNet { heads, keys, values, kernel } = options;
        let (width, values) = (linear_width(x), values.unwrap_or(keys.saturating_mul(2)));
        let [batch, steps, _] = x.dims()[..] else {
            return g.fail(Kind::Shape, format!("gated_delta_net({x:?}): [batch, steps, width] is needed"));
        };
        let counts = [("heads", heads), ("keys", keys), ("values", values), ("kernel", kernel), ("the width", width)];
        if let Some((what, _)) = counts.into_iter().find(|c| c.1 == 0) {
            return g.fail(Kind::Shape, format!("gated_delta_net({x:?}): {what} is 0; it must be at least 1"));
        }
        let stream = |of: &str, n: usize| {
            let all = project_stream(g, &format!("{name}.{of}"), x, heads.saturating_mul(n), kernel);
            all.reshape([batch, steps, heads, n])
        };
        let unit = |x: Var<'g>| x * (x.square().sum(-1).unsqueeze(-1) + 1e-6).rsqrt();
        let (q, k, v) = (unit(stream("q", keys)), unit(stream("k", keys)), stream("v", values));
        let beta = linear_no_bias(g, &format!("{name}.b_proj"), x, heads).sigmoid();
        // Rates from 1 to 16, as the layers that are trained this way start.
        let rates = Init::Between { low: 0.0, high: 16f64.ln() };
        let a = g.param(&format!("{name}.A_log"), [heads], x.dtype(), rates);
        let bias = g.param(&format!("{name}.dt_bias"), [heads], x.dtype(), step_bias_init());
        let gate = -a.exp() * (linear_no_bias(g, &format!("{name}.a_proj"), x, heads) + bias).softplus();
        let [o, _] = q.gated_delta_net(k, v, gate, beta, None);
        let o = rms_norm(g, &format!("{name}.o_norm"), o, 1e-5).reshape([batch, steps, heads.saturating_mul(values)]);
        let open = linear_no_bias(g, &format!("{name}.g_proj"), x, heads.saturating_mul(values)).silu();
        linear_no_bias(g, &format!("{name}.o_proj"), o * open, width)
    })
}
