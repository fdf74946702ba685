//! Dense layers with a low-rank adaptation.

use super::dropout::dropout;
use super::init::uniform_by_fan_in;
use super::linear_layers::{linear_project, linear_width};
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, Init, Var};

/// Options of [`lora_linear`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Lora {
    /// Rank r of the adaptation.
    pub rank: usize,
    /// The adaptation is scaled by alpha / r, or by alpha / √r with `rslora`.
    pub alpha: f64,
    /// Probability that an input of the adaptation is dropped while training ([`Builder::training`]).
    pub dropout: f64,
    /// Adds a frozen param `name.bias`.
    pub bias: bool,
    /// Scales by alpha / √r instead of alpha / r (Kalajdzievski 2023, "rsLoRA").
    pub rslora: bool,
}

impl Lora {
    /// Rank `rank` and scale `alpha`, without dropout, with a bias.
    pub fn new(rank: usize, alpha: f64) -> Lora {
        Lora { rank, alpha, dropout: 0.0, bias: true, rslora: false }
    }

    /// The number by which the product of the factors is scaled.
    pub fn scale(&self) -> f64 {
        let r = self.rank as f64;
        self.alpha / if self.rslora { r.sqrt() } else { r }
    }
}

setters! {
    [] Lora { rank: usize, alpha: f64, dropout: f64, bias: bool, rslora: bool }
}

/// A linear layer with a low-rank adaptation (Hu et al. 2021, "LoRA"): `y = x·Wᵀ + b + s·(drop(x)·Aᵀ)·Bᵀ`, where `W`
/// and `b` are frozen. Names and start values are loralib's: params `name.weight` `[outputs, inputs]`, `name.bias`,
/// `name.lora_A` `[r, inputs]` (uniform in ±1/√inputs) and `name.lora_B` `[outputs, r]` (zeros). The scale s of
/// [`Lora::scale`] is the buffer `name.lora_scale`, so files keep it with the factors, and
/// [`merge`](crate::train::merge) needs no number.
///
/// # Errors
/// Those of [`Builder::finish`]: a rank that is 0 or above the smaller of inputs and outputs; a scale that is not
/// finite or larger than `x`'s type can hold.
#[track_caller]
pub fn lora_linear<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, options: Lora) -> Var<'g> {
    g.layer_scope(name, || {
        let (inputs, r) = (linear_width(x), options.rank);
        if x.is_some() && (r == 0 || r > inputs.min(outputs)) {
            let text = format!("lora_linear({x:?}): rank {r}; it goes from 1 to {}", inputs.min(outputs));
            return g.fail(Kind::Shape, text);
        }
        let init = uniform_by_fan_in(inputs);
        let w = g.frozen_param(&format!("{name}.weight"), [outputs, inputs], x.dtype(), init);
        let b = options.bias.then(|| g.frozen_param(&format!("{name}.bias"), [outputs], x.dtype(), init));
        let down = g.param(&format!("{name}.lora_A"), [r, inputs], x.dtype(), init);
        let up = g.param(&format!("{name}.lora_B"), [outputs, r], x.dtype(), Init::Zeros);
        let scale = g.buffer(&format!("{name}.lora_scale"), [], x.dtype(), Init::Constant(options.scale()));
        // The factor is scaled, not the result, and before the products: they stay those of the fused op.
        let up = up * scale;
        let low = linear_project(dropout(x, options.dropout), down, None);
        linear_project(x, w, b) + linear_project(low, up, None)
    })
}
