//! Methods of [`Var`]: optimiser steps, with torch's options and defaults.

use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::optim::attrs::{AdamAttrs, SgdAttrs, SgdMomentumAttrs};

/// Options of [`Var::sgd_step`] and [`Var::sgd_momentum_step`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sgd {
    /// μ.
    pub momentum: f64,
    /// The part of the gradient that the buffer does not take.
    pub dampening: f64,
    /// Whether the step looks ahead along the buffer.
    pub nesterov: bool,
    /// L2 penalty.
    pub weight_decay: f64,
}

/// Options of [`Var::adam_step`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decays of the first and the second moment.
    pub betas: [f64; 2],
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Whether the decay shrinks the param (AdamW) and does not join the gradient.
    pub decoupled: bool,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0, decoupled: false }
    }
}

impl<'g> Var<'g> {
    /// The param after a step along `g` at rate `lr` (a scalar), without momentum.
    #[track_caller]
    pub fn sgd_step(self, g: Var<'g>, lr: Var<'g>, opt: Sgd) -> Var<'g> {
        self.g.emit1(Op::SGD, &[self, g, lr], &SgdAttrs { weight_decay: opt.weight_decay }.list())
    }

    /// The param and the momentum buffer after step `t` (an `i64` scalar, from 1).
    #[track_caller]
    pub fn sgd_momentum_step(self, g: Var<'g>, buf: Var<'g>, lr: Var<'g>, t: Var<'g>, opt: Sgd) -> [Var<'g>; 2] {
        let Sgd { momentum, dampening, nesterov, weight_decay } = opt;
        let attrs = SgdMomentumAttrs { momentum, dampening, nesterov, weight_decay };
        let all = self.g.emit(Op::SGD_MOMENTUM, &[self, g, buf, lr, t], &attrs.list());
        [all[0], all[1]]
    }

    /// The param and both moments after step `t` (an `i64` scalar, from 1) of Adam or AdamW.
    #[track_caller]
    pub fn adam_step(self, g: Var<'g>, moments: [Var<'g>; 2], lr: Var<'g>, t: Var<'g>, opt: Adam) -> [Var<'g>; 3] {
        let Adam { betas: [beta1, beta2], eps, weight_decay, decoupled } = opt;
        let attrs = AdamAttrs { beta1, beta2, eps, weight_decay, decoupled };
        let all = self.g.emit(Op::ADAM, &[self, g, moments[0], moments[1], lr, t], &attrs.list());
        [all[0], all[1], all[2]]
    }
}
