//! Attributes of optimiser steps and of fused weight updates, and the range checks on them.

use crate::ensure;
use crate::kernels::optim::{Adam, Sgd};
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::typed::attrs;

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

impl MatmulSgdAttrs {
    /// Those of the step.
    pub fn step(&self) -> SgdAttrs {
        SgdAttrs { weight_decay: self.weight_decay }
    }
}

impl MatmulSgdMomentumAttrs {
    /// Those of the step.
    pub fn step(&self) -> SgdMomentumAttrs {
        let &MatmulSgdMomentumAttrs { momentum, dampening, nesterov, weight_decay, .. } = self;
        SgdMomentumAttrs { momentum, dampening, nesterov, weight_decay }
    }
}

impl MatmulAdamAttrs {
    /// Those of the step.
    pub fn step(&self) -> AdamAttrs {
        let &MatmulAdamAttrs { beta1, beta2, eps, weight_decay, decoupled, .. } = self;
        AdamAttrs { beta1, beta2, eps, weight_decay, decoupled }
    }
}

impl SgdMomentumAttrs {
    /// Checks the ranges of these numbers.
    pub fn check(&self) -> Result<(), String> {
        let &SgdMomentumAttrs { momentum, dampening, nesterov, .. } = self;
        ensure!(momentum > 0.0, "momentum is {momentum}; without momentum there is sgd");
        ensure!(!nesterov || dampening == 0.0, "nesterov needs a dampening of 0, not {dampening}");
        Ok(())
    }
}

impl AdamAttrs {
    /// Checks the ranges of these numbers.
    pub fn check(&self) -> Result<(), String> {
        for (name, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            ensure!((0.0..1.0).contains(&beta), "{name} is {beta}; it must lie in [0, 1)");
        }
        Ok(())
    }
}

/// The numbers of a step's kernel as words, for an op with attributes `a`: a step, or a fused weight update. The
/// largest param has `len` elements; `scaled` says whether a scalar multiplies the gradients. `None` for another op.
pub fn kernel_words(op: Op, a: &Attrs<'_>, len: usize, scaled: bool) -> Option<Vec<u64>> {
    Some(match op {
        Op::SGD => sgd(SgdAttrs::of(a), len, scaled),
        Op::MATMUL_SGD => sgd(MatmulSgdAttrs::of(a).step(), len, scaled),
        Op::SGD_MOMENTUM => sgd_momentum(SgdMomentumAttrs::of(a), len, scaled),
        Op::MATMUL_SGD_MOMENTUM => sgd_momentum(MatmulSgdMomentumAttrs::of(a).step(), len, scaled),
        Op::ADAM => adam(AdamAttrs::of(a), len, scaled),
        Op::MATMUL_ADAM => adam(MatmulAdamAttrs::of(a).step(), len, scaled),
        _ => return None,
    })
}

fn sgd(SgdAttrs { weight_decay }: SgdAttrs, len: usize, scaled: bool) -> Vec<u64> {
    Sgd { len, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay, scaled }.to_words()
}

fn sgd_momentum(a: SgdMomentumAttrs, len: usize, scaled: bool) -> Vec<u64> {
    let SgdMomentumAttrs { momentum, dampening, nesterov, weight_decay } = a;
    Sgd { len, momentum, dampening, nesterov, weight_decay, scaled }.to_words()
}

fn adam(a: AdamAttrs, len: usize, scaled: bool) -> Vec<u64> {
    let AdamAttrs { beta1, beta2, eps, weight_decay, decoupled } = a;
    Adam { len, beta1, beta2, eps, weight_decay, decoupled, scaled }.to_words()
}
