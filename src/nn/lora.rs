//! Dense layers with a low-rank adaptation.

use super::dropout::dropout;
use super::init::init_by_fan_in;
use super::linear_layers::{linear_project, linear_width};
use crate::error::Kind;
use crate::nodes::build::setters::setters;
use crate::nodes::{Builder, Init, Var};

/// Options of [`lora_linear`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lora {
    /// Rank r of the adaptation.
    pub rank: usize,
    /// The adaptation is scaled by alpha / r.
    pub alpha: f64,
    /// Probability that an input of the adaptation is dropped while training ([`Builder::training`]).
    pub dropout: f64,
    /// Adds a frozen param `name.bias`.
    pub bias: bool,
}

impl Lora {
    /// Rank `rank` and scale `alpha`, without dropout, with a bias.
    pub fn new(rank: usize, alpha: f64) -> Lora {
        Lora { rank, alpha, dropout: 0.0, bias: true }
    }
}

setters! {
    [] Lora { rank: usize, alpha: f64, dropout: f64, bias: bool }
}

/// A linear layer with a low-rank adaptation (Hu et al. 2021, "LoRA"): `y = x·Wᵀ + b + (alpha/r)·(drop(x)·Aᵀ)·Bᵀ`,
/// where `W` and `b` are frozen. Names and start values are loralib's: params `name.weight` `[outputs, inputs]`,
/// `name.bias`, `name.lora_A` `[r, inputs]` (uniform in ±1/√inputs) and `name.lora_B` `[outputs, r]` (zeros).
#[track_caller]
pub fn lora_linear<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, options: Lora) -> Var<'g> {
    g.layer_scope(name, || {
        let (inputs, r) = (linear_width(x), options.rank);
        if x.is_some() && (r == 0 || r > inputs.min(outputs)) {
            let text = format!("lora_linear({x:?}): rank {r}; it goes from 1 to {}", inputs.min(outputs));
            return g.fail(Kind::Shape, text);
        }
        let init = init_by_fan_in(inputs);
        let w = g.frozen_param(&format!("{name}.weight"), [outputs, inputs], x.dtype(), init);
        let b = options.bias.then(|| g.frozen_param(&format!("{name}.bias"), [outputs], x.dtype(), init));
        let down = g.param(&format!("{name}.lora_A"), [r, inputs], x.dtype(), init);
        let up = g.param(&format!("{name}.lora_B"), [outputs, r], x.dtype(), Init::Zeros);
        let low = linear_project(dropout(x, options.dropout), down, None);
        linear_project(x, w, b) + linear_project(low, up, None) * (options.alpha / r as f64)
    })
}
