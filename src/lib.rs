//! arenagrad: a training engine for CPUs.
//!
//! The rooms, each of which may import only those before it:
//! `arena` (ids, pools, memory) < `kernels` (safe slice loops) < `nodes` (graph columns, op table, builder, text)
//! < `passes` (graph → graph) < `sched` (graph → program) < `session`, `nn`, `train`.

pub mod arena;
pub mod error;
pub mod kernels;
mod names;
pub mod nn;
pub mod nodes;
pub mod passes;
pub mod sched;
pub mod session;
pub mod train;

/// What most programs import.
pub mod prelude {
    pub use crate::error::{Error, Result};
    pub use crate::nn;
    pub use crate::nodes::{
        Adam, Attention, Builder, Conv, Conv2d, Conv3d, ConvTranspose, CrossEntropy, DType, GraphBuf, Init,
        Interpolation, Layout, Loop, PadMode, Pool1d, Pool2d, Pool3d, Reduction, Sgd, Unfold, Var,
    };
    pub use crate::passes::optimiser::{Group, Optimiser, Rule, train};
    pub use crate::passes::{GradOptions, Missing, hvp, jacobian, nth_grad, vjp};
    pub use crate::session::{Program, Session, Slot};
    pub use crate::train::{Batches, Schedule, Trainer};
}

/// The README's example, which is tested so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
