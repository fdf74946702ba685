//! Dense layers.

use super::init::uniform_by_fan_in;
use super::inputs::refuse_inputs;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, Init, Var};

/// Options of [`linear_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Linear {
    /// Length that the last axis of x must have; `None` takes that of x.
    pub inputs: Option<usize>,
    /// Adds a param `name.bias`.
    pub bias: bool,
    /// Start values of the weight; `None` is torch's default, uniform in ±1/√inputs.
    pub weight_init: Option<Init>,
    /// Start values of the bias; `None` is torch's default, uniform in ±1/√inputs.
    pub bias_init: Option<Init>,
}

impl Default for Linear {
    /// torch's defaults: with a bias, both uniform in ±1/√inputs.
    fn default() -> Linear {
        Linear { inputs: None, bias: true, weight_init: None, bias_init: None }
    }
}

setters! {
    [] Linear {
        inputs: impl Into<Option<usize>> => inputs.into(),
        bias: bool,
        weight_init: impl Into<Option<Init>> => weight_init.into(),
        bias_init: impl Into<Option<Init>> => bias_init.into(),
    }
}

impl Linear {
    /// A layer of GPT-2: weights normal with standard deviation `sigma`, the bias zero.
    pub fn normal(sigma: f64, bias: bool) -> Linear {
        Linear { bias, weight_init: Some(Init::Normal(sigma)), bias_init: Some(Init::Zeros), ..Linear::default() }
    }
}

/// A linear layer, `y = x·Wᵀ + b`, as in `torch.nn.Linear`: `x` `[…, inputs]` gives `[…, outputs]`. Params:
/// `name.weight` `[outputs, inputs]` and `name.bias` `[outputs]`, of the dtype of `x`.
#[track_caller]
pub fn linear<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize) -> Var<'g> {
    linear_with(g, name, x, outputs, Linear::default())
}

/// [`linear`] without the param `name.bias`.
#[track_caller]
pub fn linear_no_bias<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize) -> Var<'g> {
    linear_with(g, name, x, outputs, Linear { bias: false, ..Linear::default() })
}

/// [`linear`] with options.
#[track_caller]
pub fn linear_with<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, options: Linear) -> Var<'g> {
    g.layer_scope(name, || {
        if let Some(error) = refuse_inputs(name, x, -1, options.inputs) {
            return error;
        }
        let inputs = linear_width(x);
        let weight = options.weight_init.unwrap_or(uniform_by_fan_in(inputs));
        let w = g.param(&format!("{name}.weight"), [outputs, inputs], x.dtype(), weight);
        let b = options.bias.then(|| {
            let init = options.bias_init.unwrap_or(uniform_by_fan_in(inputs));
            g.param(&format!("{name}.bias"), [outputs], x.dtype(), init)
        });
        linear_project(x, w, b)
    })
}

/// The last dimension.
pub(super) fn linear_width(x: Var<'_>) -> usize {
    x.dims().last().copied().unwrap_or(0)
}

/// `x·wᵀ + b` over the last axis, with `w` `[outputs, inputs]`.
#[track_caller]
pub(super) fn linear_project<'g>(x: Var<'g>, w: Var<'g>, b: Option<Var<'g>>) -> Var<'g> {
    // Leading axes become one: one product instead of many, followed by the bias.
    let mut d = x.dims().to_vec();
    let inputs = d.pop().unwrap_or(0);
    let rows = d.iter().product();
    d.push(w.dims().first().copied().unwrap_or(0));
    let y = x.reshape([rows, inputs]).matmul_t(w, false, true);
    b.map_or(y, |b| y + b).reshape(d)
}
