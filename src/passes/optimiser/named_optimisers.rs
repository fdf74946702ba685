//! The optimisers that users name: `AdamW::new(1e-3).weight_decay(0.1)`.
//!
//! Each type names one rule and has no fields. Its `new` gives an [`Optimiser`] of that rule, which has a method for
//! each hyperparameter of the rule. Invariant: the rule of an `Optimiser<X>` is the variant of [`Rule`] that `X` names.

use super::Optimiser;
use super::rule::Rule;
use crate::passes::optimiser::rule::MuonScale;

/// Declares types that name rules, with the variant, the defaults and the numbers of each rule.
macro_rules! optimisers {
    ($(
        $(#[$doc:meta])* $name:ident: $variant:ident = $default:ident {
            $($(#[$what:meta])* $number:ident: $ty:ty,)+
        }
    )+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum $name {}

        impl $name {
            /// The optimiser at learning rate `lr`, with torch's defaults.
            #[allow(clippy::new_ret_no_self, reason = "the type stands for a rule of `Optimiser`")]
            pub fn new(lr: f64) -> Optimiser<$name> {
                Optimiser::of(Rule::$default, lr)
            }
        }

        impl Optimiser<$name> {
            $(
                $(#[$what])*
                pub fn $number(mut self, $number: $ty) -> Self {
                    if let Rule::$variant { $number: old, .. } = &mut self.rule {
                        *old = $number;
                    }
                    self
                }
            )+
        }

        impl From<Optimiser<$name>> for Optimiser {
            fn from(opt: Optimiser<$name>) -> Optimiser {
                Optimiser::from(&opt)
            }
        }
    )+};
}

optimisers! {
    /// Stochastic gradient descent, as in `torch.optim.SGD`; the formula is that of [`Rule::Sgd`].
    Sgd: Sgd = SGD {
        /// μ, finite and not negative. Default 0: no momentum buffer is kept.
        momentum: f64,
        /// The share of the gradient that the momentum buffer leaves out. Default 0.
        dampening: f64,
        /// Nesterov momentum; it needs a momentum and no dampening. Default false.
        nesterov: bool,
        /// L2 penalty, added to the gradient. Default 0.
        weight_decay: f64,
    }
    /// Adam, as in `torch.optim.Adam`; the formula is that of [`Rule::Adam`].
    Adam: Adam = ADAM {
        /// Decays of the first and second moments, each in [0, 1). Default (0.9, 0.999).
        betas: (f64, f64),
        /// Term added to the denominator. Default 1e-8.
        eps: f64,
        /// L2 penalty, added to the gradient. Default 0.
        weight_decay: f64,
        /// Divides by the root of the largest second moment so far. Default false.
        amsgrad: bool,
    }
    /// AdamW, as in `torch.optim.AdamW`: Adam whose weight decay shrinks the param; see [`Rule::Adam`].
    AdamW: Adam = ADAMW {
        /// Decays of the first and second moments, each in [0, 1). Default (0.9, 0.999).
        betas: (f64, f64),
        /// Term added to the denominator. Default 1e-8.
        eps: f64,
        /// Weight decay: the param shrinks by lr times this in each step. Default 1e-2.
        weight_decay: f64,
        /// Divides by the root of the largest second moment so far. Default false.
        amsgrad: bool,
    }
    /// Lazy Adam for tables of which a step reads few rows, as in `torch.optim.SparseAdam`; the formula is that of
    /// [`Rule::SparseAdam`]. With a weight decay it is a lazy AdamW.
    ///
    /// Only the rows that a step reads are updated: time follows their number, not that of the table. A table that the
    /// loss reads otherwise as well (a tied output head) has a dense gradient and is updated whole. Use it for tables,
    /// by a [`Group`](crate::optim::Group), beside another rule for the rest. [`Sgd`] without momentum and [`Adagrad`]
    /// update rows alone without being asked, since for them that is the same, if there is no weight decay.
    SparseAdam: SparseAdam = SPARSE_ADAM {
        /// Decays of the first and second moments, each in [0, 1). Default (0.9, 0.999).
        betas: (f64, f64),
        /// Term added to the denominator. Default 1e-8.
        eps: f64,
        /// Weight decay: a row shrinks by lr times this in each step that reads it. Default 0.
        weight_decay: f64,
    }
    /// Adamax, as in `torch.optim.Adamax`; the formula is that of [`Rule::Adamax`]. torch's rate is 2e-3.
    Adamax: Adamax = ADAMAX {
        /// Decays of the first moment and of the largest gradient, each in [0, 1). Default (0.9, 0.999).
        betas: (f64, f64),
        /// Term added to the size of each gradient. Default 1e-8.
        eps: f64,
        /// L2 penalty, added to the gradient. Default 0.
        weight_decay: f64,
    }
    /// Rectified Adam, as in `torch.optim.RAdam`; the formula is that of [`Rule::RAdam`].
    RAdam: RAdam = RADAM {
        /// Decays of the first and second moments, each in [0, 1). Default (0.9, 0.999).
        betas: (f64, f64),
        /// Term added to the denominator. Default 1e-8.
        eps: f64,
        /// L2 penalty, added to the gradient; if decoupled, the param shrinks by lr times this. Default 0.
        weight_decay: f64,
        /// Whether the weight decay shrinks the param instead of joining the gradient. Default false.
        decoupled_weight_decay: bool,
    }
    /// L-BFGS with a fixed rate, as in `torch.optim.LBFGS` without line search, one iteration a step; the formula is
    /// that of [`Rule::Lbfgs`]. torch's rate is 1.
    ///
    /// It suits problems whose batch is the same in every step. There is no line search yet (torch's `line_search_fn`),
    /// so a loss that is far from quadratic needs a lower rate. torch's tolerances end its inner loop of `max_iter`
    /// iterations; here every iteration is a step, and the caller decides when to stop. The history takes
    /// `2·history_size` times the memory of the params. All params of L-BFGS share one history and one rate.
    Lbfgs: Lbfgs = LBFGS {
        /// Number of past steps that shape the update, from 1 to 10000. Default 100.
        history_size: usize,
        /// L2 penalty, added to the gradient. Default 0.
        weight_decay: f64,
    }
    /// RMSprop, as in `torch.optim.RMSprop`; the formula is that of [`Rule::RmsProp`].
    RmsProp: RmsProp = RMSPROP {
        /// Decay of the mean of squares, in [0, 1). Default 0.99.
        alpha: f64,
        /// Term added to the denominator. Default 1e-8.
        eps: f64,
        /// μ. Default 0.
        momentum: f64,
        /// Divides by an estimate of the deviation instead of the root mean square. Default false.
        centered: bool,
        /// L2 penalty, added to the gradient. Default 0.
        weight_decay: f64,
    }
    /// Adagrad, as in `torch.optim.Adagrad`; the formula is that of [`Rule::Adagrad`].
    Adagrad: Adagrad = ADAGRAD {
        /// Decay of the rate: lr / (1 + (t − 1)·decay). Default 0.
        lr_decay: f64,
        /// The sum of squares before the first step. Default 0.
        initial_accumulator_value: f64,
        /// Term added to the denominator. Default 1e-10.
        eps: f64,
        /// L2 penalty, added to the gradient. Default 0.
        weight_decay: f64,
    }
    /// Adadelta, as in `torch.optim.Adadelta`; the formula is that of [`Rule::Adadelta`]. torch's rate is 1.
    Adadelta: Adadelta = ADADELTA {
        /// Decay of both means of squares, in [0, 1). Default 0.9.
        rho: f64,
        /// Term added to both means. Default 1e-6.
        eps: f64,
        /// L2 penalty, added to the gradient. Default 0.
        weight_decay: f64,
    }
    /// Adam with Nesterov momentum, as in `torch.optim.NAdam`; the formula is that of [`Rule::NAdam`].
    NAdam: NAdam = NADAM {
        /// Decays of the first and second moments, each in [0, 1). Default (0.9, 0.999).
        betas: (f64, f64),
        /// Term added to the denominator. Default 1e-8.
        eps: f64,
        /// ψ, the decay of the momentum's schedule. Default 4e-3.
        momentum_decay: f64,
        /// L2 penalty, added to the gradient. Default 0.
        weight_decay: f64,
    }
    /// NAdam whose weight decay shrinks the param, as in `torch.optim.NAdam` with `decoupled_weight_decay`.
    NAdamW: NAdam = NADAMW {
        /// Decays of the first and second moments, each in [0, 1). Default (0.9, 0.999).
        betas: (f64, f64),
        /// Term added to the denominator. Default 1e-8.
        eps: f64,
        /// ψ, the decay of the momentum's schedule. Default 4e-3.
        momentum_decay: f64,
        /// Weight decay: the param shrinks by lr times this in each step. Default 1e-2.
        weight_decay: f64,
    }
    /// Lion (Chen et al., arXiv:2302.06675, algorithm 2); the formula is that of [`Rule::Lion`].
    Lion: Lion = LION {
        /// Decays of the update and of the momentum, each in [0, 1). Default (0.9, 0.99).
        betas: (f64, f64),
        /// Weight decay: the param shrinks by lr times this in each step. Default 0.
        weight_decay: f64,
    }
    /// LAMB (You et al., arXiv:1904.00962, algorithm 2); the formula is that of [`Rule::Lamb`].
    Lamb: Lamb = LAMB {
        /// Decays of the first and second moments, each in [0, 1). Default (0.9, 0.999).
        betas: (f64, f64),
        /// Term added to the denominator. Default 1e-6.
        eps: f64,
        /// Weight decay. Default 1e-2.
        weight_decay: f64,
    }
    /// Adafactor, as in `torch.optim.Adafactor`; the formula is that of [`Rule::Adafactor`].
    Adafactor: Adafactor = ADAFACTOR {
        /// Exponent of the decay of second moments, not above 0. Default -0.8.
        beta2_decay: f64,
        /// ε₁ (`None`: the spacing of the param's type at 1) and ε₂. Default (None, 1e-3).
        eps: (Option<f64>, f64),
        /// Largest root mean square of an update, not below 1. Default 1.
        d: f64,
        /// Weight decay: the param shrinks by lr times this in each step. Default 0.
        weight_decay: f64,
    }
    /// Muon for matrices, as in `torch.optim.Muon`; the formula is that of [`Rule::Muon`]. Put params that are not
    /// matrices into a group of another rule.
    Muon: Muon = MUON {
        /// μ, in [0, 1). Default 0.95.
        momentum: f64,
        /// Nesterov momentum. Default true.
        nesterov: bool,
        /// Coefficients a, b and c of the Newton–Schulz iteration. Default (3.4445, -4.7750, 2.0315).
        ns_coefficients: (f64, f64, f64),
        /// Number of Newton–Schulz iterations, at most 99. Default 5.
        ns_steps: u32,
        /// Smallest norm to divide by. Default 1e-7.
        eps: f64,
        /// Weight decay: the param shrinks by lr times this in each step. Default 0.1.
        weight_decay: f64,
        /// How the rate depends on the sides of the matrix. Default [`MuonScale::Original`].
        scale: MuonScale,
    }
}
