//! Options of the steps of SGD and Adam.

use crate::nodes::arguments::setters::setters;

/// Options of [`Var::sgd_momentum_step`](crate::nodes::Var::sgd_momentum_step).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SgdOptions {
    /// μ.
    pub momentum: f64,
    /// The share of the gradient that the momentum buffer leaves out.
    pub dampening: f64,
    /// Nesterov momentum.
    pub nesterov: bool,
    /// L2 penalty, added to the gradient.
    pub weight_decay: f64,
}

/// Options of [`Var::adam_step`](crate::nodes::Var::adam_step).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AdamOptions {
    /// Decays of the first and the second moment.
    pub betas: [f64; 2],
    /// Added to the denominator, for numerical stability.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// True for AdamW: the decay shrinks the param. False for Adam: the decay is added to the gradient.
    pub decoupled: bool,
}

impl Default for AdamOptions {
    fn default() -> AdamOptions {
        AdamOptions { betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0, decoupled: false }
    }
}

setters! {
    [] SgdOptions { momentum: f64, dampening: f64, nesterov: bool, weight_decay: f64 }
}

setters! {
    [] AdamOptions { betas: [f64; 2], eps: f64, weight_decay: f64, decoupled: bool }
}
