#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! * [`graph`]: the builder, values, ops' options, derivatives of graphs; [`nn`]: layers with torch's names.
//! * [`optim`]: optimisers, and [`optim::train`], which turns a loss into a training step.
//! * [`op`]: what ops of your own need.
//! * [`session`]: compiling graphs into programs, running and inspecting them.
//! * [`mod@train`]: batches, schedules, checkpoints, metrics, and the trainer that combines them.
//! * [`tools`]: passes, text form, planner, products: for those who measure, fuzz or extend the engine.
//! * [`prelude`]: the names that most programs import.

/// The programs of the pages, which run as tests. Two of the cookbook need `gguf`.
#[cfg(doctest)]
mod pages {
    #[cfg(feature = "gguf")]
    #[doc = include_str!("../docs/cookbook.md")]
    mod cookbook {}
    #[doc = include_str!("../docs/from-torch.md")]
    mod from_torch {}
    #[doc = include_str!("../docs/smallest-op.md")]
    mod smallest_op {}
}

mod clock;
pub mod error;
pub mod graph;
pub mod nn;
pub mod op;
pub mod optim;
pub mod session;
pub mod tools;
pub mod train;

// The engine, by name; docs/architecture.md has the order of imports.
pub(crate) mod conform;
mod differences;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod location;
pub(crate) mod names;
pub(crate) mod nodes;
pub(crate) mod passes;
pub(crate) mod sched;

// Crates of their own, in `src/arena` and `src/kernels`.
pub(crate) use {arenagrad_arena as arena, arenagrad_kernels as kernels};

pub use arena::ensure;
pub use error::{Error, Result};
#[doc(inline)]
pub use kernels::gemm::Precision;

/// What most programs import.
pub mod prelude {
    pub use crate::Precision;
    pub use crate::error::{Error, Result};
    pub use crate::graph::window::{Conv2d, Pool2d};
    pub use crate::graph::{Attention, Builder, CrossEntropy, DType, GraphBuf, Init, Loop, Var};
    pub use crate::graph::{GradOptions, grad};
    pub use crate::nn;
    pub use crate::optim::{self, Optimiser, train};
    pub use crate::session::{Handle, Program, Session};
    pub use crate::train::{Batches, Schedule, Trainer};
}
