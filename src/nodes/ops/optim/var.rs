//! Optimiser steps as methods of [`Var`], with torch's options and defaults.

use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::optim::attrs::{AdamAttrs, SgdAttrs, SgdMomentumAttrs};
use crate::nodes::ops::optim::step_options::{AdamOptions, SgdOptions};

impl<'g> Var<'g> {
    /// The param after one step of gradient descent: `p − lr·(g + weight_decay·p)`. `g` has the param's shape and
    /// dtype, and `lr` is a scalar of its dtype.
    #[track_caller]
    pub fn sgd_step(self, g: Var<'g>, lr: Var<'g>, weight_decay: f64) -> Var<'g> {
        self.g.emit1(Op::SGD, &[self, g, lr], &SgdAttrs { weight_decay }.list())
    }

    /// The param and the momentum buffer after step `t` of SGD, as in `torch.optim.SGD`. `t` is an `i64` scalar that
    /// counts from 1; in step 1 the buffer is the gradient. The momentum must be above 0.
    #[track_caller]
    pub fn sgd_momentum_step(self, g: Var<'g>, buf: Var<'g>, lr: Var<'g>, t: Var<'g>, opt: SgdOptions) -> [Var<'g>; 2] {
        let SgdOptions { momentum, dampening, nesterov, weight_decay } = opt;
        let attrs = SgdMomentumAttrs { momentum, dampening, nesterov, weight_decay };
        let all = self.g.emit(Op::SGD_MOMENTUM, &[self, g, buf, lr, t], &attrs.list());
        [all[0], all[1]]
    }

    /// The param and both moments after step `t` of Adam, or of AdamW if `opt.decoupled`, by torch's formulas. `t` is
    /// an `i64` scalar that counts from 1.
    #[track_caller]
    pub fn adam_step(
        self,
        g: Var<'g>,
        moments: [Var<'g>; 2],
        lr: Var<'g>,
        t: Var<'g>,
        opt: AdamOptions,
    ) -> [Var<'g>; 3] {
        let AdamOptions { betas: [beta1, beta2], eps, weight_decay, decoupled } = opt;
        let attrs = AdamAttrs { beta1, beta2, eps, weight_decay, decoupled };
        let all = self.g.emit(Op::ADAM, &[self, g, moments[0], moments[1], lr, t], &attrs.list());
        [all[0], all[1], all[2]]
    }
}
