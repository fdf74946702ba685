//! arenagrad: a training engine for CPUs.
//!
//! The rooms, each of which may import only those before it:
//! `arena` (ids, pools, memory) < `kernels` (safe slice loops) < `nodes` (graph columns, op table, builder, text)
//! < `passes` (graph → graph) < `sched` (graph → program) < `session`, `nn`, `train`.

pub mod arena;
pub mod error;
pub mod kernels;
pub mod nn;
pub mod nodes;
pub mod passes;
pub mod sched;
pub mod session;
pub mod train;

/// What most programs need: `use arenagrad::prelude::*`.
pub mod prelude {
    pub use crate::error::{Error, Result};
    pub use crate::nn;
    pub use crate::nodes::{Builder, Conv2d, CrossEntropy, DType, Graph, GraphBuf, Init, Pool2d, Reduction, Var};
    pub use crate::passes::optimiser::{Optimiser, train};
    pub use crate::passes::{GradOptions, Missing, grad, hvp, jacobian, jvp, nth_grad, vjp};
    pub use crate::session::{Program, Session};
    pub use crate::train::{Schedule, Trainer};
}

/// The README's example, compiled and run.
#[doc = include_str!("../README.md")]
#[cfg(doctest)]
pub struct Readme;
