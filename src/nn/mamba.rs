//! The layer of Mamba: a gated selective scan, named as in its reference implementation.

use super::conv_layers::causal_depthwise_conv1d;
use super::linear_layers::{Linear, linear_no_bias, linear_width, linear_with};
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, Init, SelectiveScan, Var};

/// Options of [`mamba`]; the defaults are those of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mamba {
    /// Numbers of the state of a channel.
    pub states: usize,
    /// Taps of the causal convolution.
    pub kernel: usize,
    /// Channels of the scan for each element of the width.
    pub expand: usize,
    /// Width of the inner product that makes Δ; `None` is the width over 16, rounded up.
    pub rank: Option<usize>,
}

impl Default for Mamba {
    fn default() -> Mamba {
        Mamba { states: 16, kernel: 4, expand: 2, rank: None }
    }
}

setters! {
    [] Mamba { states: usize, kernel: usize, expand: usize, rank: impl Into<Option<usize>> => rank.into() }
}

/// The least and the largest Δ at the start.
const STEPS: [f64; 2] = [0.001, 0.1];

/// The most elements of A, whose start values are a list.
const MOST_RATES: usize = 1 << 24;

/// Start values of a bias whose softplus lies between the two of [`STEPS`]: ln(e^y − 1) is the x with softplus(x) = y.
pub(super) fn step_bias_init() -> Init {
    let [low, high] = STEPS.map(|y| y.exp_m1().ln());
    Init::Between { low, high }
}

/// A Mamba layer of `x` `[batch, steps, width]`: a result of the same shape, each step of which sees the steps so far.
///
/// `name.in_proj` makes the channels and their gate. The channels pass a causal convolution `name.conv1d` and SiLU;
/// `name.x_proj` makes B, C and, with `name.dt_proj` and softplus, Δ. The scan has A = −exp(`name.A_log`), which
/// starts at −1, −2, …, and `name.D`, which starts at 1; Δ starts between 0.001 and 0.1. Its result times SiLU of the
/// gate goes through `name.out_proj`. Source: Gu and Dao, "Mamba".
///
/// ```
/// use arenagrad::nn::{self, Mamba};
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("net");
/// let x = g.input("x", [2, 32, 8], DType::F32);
/// let y = x + nn::mamba(&g, "mixer", nn::rms_norm(&g, "norm", x, 1e-5), Mamba::default().states(4));
/// let loss = (y * y).mean(..).named("loss");
/// let mut p = Session::new().compile(&optim::train(&g.finish([loss])?, "loss", optim::Adam::new(1e-3))?)?;
/// p.init(0)?;
/// p.values_mut::<f32>("x")?.fill(0.5);
/// p.step()?;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn mamba<'g>(g: &'g Builder, name: &str, x: Var<'g>, options: Mamba) -> Var<'g> {
    g.layer_scope(name, || {
        let Mamba { states, kernel, expand, rank } = options;
        let width = linear_width(x);
        if x.rank() != 3 || width == 0 || !x.dtype().is_float() {
            return g.fail(Kind::Shape, format!("mamba({x:?}): a float [batch, steps, width] is needed"));
        }
        let (inner, rank) = (expand.saturating_mul(width), rank.unwrap_or(width.div_ceil(16)));
        let counts = [("states", states), ("kernel", kernel), ("expand", expand), ("rank", rank)];
        if let Some((what, _)) = counts.into_iter().find(|c| c.1 == 0) {
            return g.fail(Kind::Shape, format!("mamba({x:?}): {what} is 0; it must be at least 1"));
        }
        if inner.checked_mul(states).is_none_or(|n| n > MOST_RATES) {
            let text = format!("mamba({x:?}): {states} states for {inner} channels; at most {MOST_RATES} are allowed");
            return g.fail(Kind::Shape, text);
        }
        let both = linear_no_bias(g, &format!("{name}.in_proj"), x, inner.saturating_mul(2));
        let [x, gate] = [0, 1].map(|i| both.narrow(-1, i * inner, inner));
        let x = causal_depthwise_conv1d(g, &format!("{name}.conv1d"), x.transpose(&[0, 2, 1]), kernel);
        let x = x.transpose(&[0, 2, 1]).silu();
        let y = scan_channels(g, name, x, states, rank) * gate.silu();
        linear_no_bias(g, &format!("{name}.out_proj"), y, width)
    })
}

/// The scan of `x` `[batch, steps, channels]` with what it needs made of x.
#[track_caller]
fn scan_channels<'g>(g: &'g Builder, name: &str, x: Var<'g>, states: usize, rank: usize) -> Var<'g> {
    let (inner, dtype) = (linear_width(x), x.dtype());
    let of_x = linear_no_bias(g, &format!("{name}.x_proj"), x, states.saturating_mul(2).saturating_add(rank));
    let [b, c] = [rank, rank + states].map(|at| of_x.narrow(-1, at, states));
    let dt = Linear {
        weight_init: Some(Init::Uniform(1.0 / (rank as f64).sqrt())),
        bias_init: Some(step_bias_init()),
        ..Linear::default()
    };
    let delta = linear_with(g, &format!("{name}.dt_proj"), of_x.narrow(-1, 0, rank), inner, dt).softplus();
    let logs: Vec<f64> = (1..=states).map(|n| (n as f64).ln()).collect();
    let rows = logs.repeat(inner);
    let a = g.param(&format!("{name}.A_log"), [inner, states], dtype, g.start_values(&rows));
    let d = g.param(&format!("{name}.D"), [inner], dtype, Init::Ones);
    x.selective_scan(delta, -a.exp(), b, c, SelectiveScan::default().d(d))[0]
}
