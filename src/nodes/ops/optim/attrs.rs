//! Attributes of optimiser steps and of fused weight updates, and the range checks on them.

use crate::ensure;
use crate::nodes::ir::attr_types::attrs;

attrs! {
    /// Attributes of `sgd`.
    pub struct SgdAttrs {
        /// The L2 penalty: this times the param is added to the gradient.
        weight_decay: f64,
    }
}

attrs! {
    /// Attributes of `sgd_momentum`.
    pub struct SgdMomentumAttrs {
        /// The factor μ of the momentum buffer.
        momentum: f64,
        /// The share of the gradient that does not enter the buffer.
        dampening: f64,
        /// Whether the momentum is Nesterov's.
        nesterov: bool,
        /// The L2 penalty: this times the param is added to the gradient.
        weight_decay: f64,
    }
}

attrs! {
    /// Attributes of `adam`.
    pub struct AdamAttrs {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the denominator.
        eps: f64,
        /// Weight decay.
        weight_decay: f64,
        /// Whether the decay shrinks the param and does not join the gradient.
        decoupled: bool,
    }
}

attrs! {
    /// Attributes of `matmul_sgd`: those of the product, then those of the step.
    pub struct MatmulSgdAttrs {
        /// Whether a is transposed.
        ta: bool,
        /// Whether b is transposed.
        tb: bool,
        /// As [`SgdAttrs::weight_decay`].
        weight_decay: f64,
    }
}

attrs! {
    /// Attributes of `matmul_sgd_momentum`: those of the product, then those of the step.
    pub struct MatmulSgdMomentumAttrs {
        /// Whether a is transposed.
        ta: bool,
        /// Whether b is transposed.
        tb: bool,
        /// As [`SgdMomentumAttrs::momentum`].
        momentum: f64,
        /// As [`SgdMomentumAttrs::dampening`].
        dampening: f64,
        /// As [`SgdMomentumAttrs::nesterov`].
        nesterov: bool,
        /// As [`SgdMomentumAttrs::weight_decay`].
        weight_decay: f64,
    }
}

attrs! {
    /// Attributes of `matmul_adam`: those of the product, then those of the step.
    pub struct MatmulAdamAttrs {
        /// Whether a is transposed.
        ta: bool,
        /// Whether b is transposed.
        tb: bool,
        /// As [`AdamAttrs::beta1`].
        beta1: f64,
        /// As [`AdamAttrs::beta2`].
        beta2: f64,
        /// As [`AdamAttrs::eps`].
        eps: f64,
        /// As [`AdamAttrs::weight_decay`].
        weight_decay: f64,
        /// As [`AdamAttrs::decoupled`].
        decoupled: bool,
    }
}

attrs! {
    /// Attributes of `adagrad_rows`.
    pub struct AdagradRowsAttrs {
        /// Added to the denominator.
        eps: f64,
    }
}

attrs! {
    /// Attributes of `adam_rows`.
    pub struct AdamRowsAttrs {
        /// As [`AdamAttrs::beta1`].
        beta1: f64,
        /// As [`AdamAttrs::beta2`].
        beta2: f64,
        /// As [`AdamAttrs::eps`].
        eps: f64,
        /// A row shrinks by lr times this before its update.
        weight_decay: f64,
    }
}

attrs! {
    /// Attributes of `coalesce`.
    pub struct CoalesceAttrs {
        /// The number of rows that indices count.
        size: i64,
    }
}

impl MatmulSgdAttrs {
    /// Those of the step.
    pub fn step_attrs(&self) -> SgdAttrs {
        SgdAttrs { weight_decay: self.weight_decay }
    }
}

impl MatmulSgdMomentumAttrs {
    /// Those of the step.
    pub fn step_attrs(&self) -> SgdMomentumAttrs {
        let &MatmulSgdMomentumAttrs { momentum, dampening, nesterov, weight_decay, .. } = self;
        SgdMomentumAttrs { momentum, dampening, nesterov, weight_decay }
    }
}

impl MatmulAdamAttrs {
    /// Those of the step.
    pub fn step_attrs(&self) -> AdamAttrs {
        let &MatmulAdamAttrs { beta1, beta2, eps, weight_decay, decoupled, .. } = self;
        AdamAttrs { beta1, beta2, eps, weight_decay, decoupled }
    }
}

impl SgdMomentumAttrs {
    /// Checks the ranges of these numbers.
    pub fn check(&self) -> Result<(), String> {
        let &SgdMomentumAttrs { momentum, dampening, nesterov, weight_decay } = self;
        check_weight_decay(weight_decay)?;
        ensure!(momentum > 0.0, "momentum is {momentum}; without momentum there is sgd");
        ensure!(!nesterov || dampening == 0.0, "nesterov needs a dampening of 0, not {dampening}");
        Ok(())
    }
}

impl SgdAttrs {
    /// Checks the range of this number.
    pub fn check(&self) -> Result<(), String> {
        check_weight_decay(self.weight_decay)
    }
}

fn check_weight_decay(decay: f64) -> Result<(), String> {
    ensure!(decay.is_finite(), "weight_decay is {decay}; it must be finite");
    Ok(())
}

impl AdamAttrs {
    /// Checks the ranges of these numbers.
    pub fn check(&self) -> Result<(), String> {
        check_moments(self.weight_decay, [self.beta1, self.beta2])
    }
}

impl AdamRowsAttrs {
    /// Checks the ranges of these numbers.
    pub fn check(&self) -> Result<(), String> {
        check_eps(self.eps)?;
        check_moments(self.weight_decay, [self.beta1, self.beta2])
    }
}

impl AdagradRowsAttrs {
    /// Checks the range of this number.
    pub fn check(&self) -> Result<(), String> {
        check_eps(self.eps)
    }
}

/// With 0, a row whose gradients are all 0 would be NaN.
fn check_eps(eps: f64) -> Result<(), String> {
    ensure!(eps.is_finite() && eps > 0.0, "eps is {eps}; it must be finite and above 0");
    Ok(())
}

fn check_moments(decay: f64, betas: [f64; 2]) -> Result<(), String> {
    check_weight_decay(decay)?;
    for (name, beta) in ["beta1", "beta2"].iter().zip(betas) {
        ensure!((0.0..1.0).contains(&beta), "{name} is {beta}; it must lie in [0, 1)");
    }
    Ok(())
}
