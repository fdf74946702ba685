//! Optimisers: update rules with torch's names, formulas and defaults, as part of the training step.
//!
//! Each optimiser is made by its type's `new`, which takes the learning rate; methods set its hyper-parameters, and
//! what all optimisers share: clipping, frozen params, groups, moving averages, accumulation over micro-batches.
//! [`train`] turns a graph with a loss into a graph of one training step.
//!
//! ```
//! use arenagrad::prelude::*;
//! # fn main() -> Result<()> {
//! let g = Builder::new("line");
//! let (x, y) = (g.input("x", [8, 1], DType::F32), g.input("y", [8, 1], DType::F32));
//! let graph = g.finish([nn::linear(&g, "fc", x, 1).mse(y).named("loss")])?;
//! let sgd = optim::Sgd::new(0.1).momentum(0.9).nesterov(true).clip_norm(1.0);
//! let step = train(&graph, "loss", sgd)?;
//! # Ok(())
//! # }
//! ```

pub use crate::nodes::{AdamOptions, SgdOptions};
pub use crate::passes::optimiser::{
    Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, EMA, GRAD_NORM, Group, KEPT_GRAD, KeptGrad, LOSS_SCALE, LR,
    Lamb, Layout, Lbfgs, Lion, LossScale, MOMENTUM, Muon, MuonScale, NAdam, NAdamW, Optimiser, OwnedState, Projection,
    RAdam, RmsProp, Rule, STEP, Sgd, Shard, SparseAdam, Split, train, train_at, train_split,
};
