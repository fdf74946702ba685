//! Training with a step program: schedules, batches, checkpoints, metrics, sampling, and the [`Trainer`] that combines
//! them.
//!
//! Invariant: everything that a run's bits depend on is a function of seed and step: the learning rate ([`schedule`]),
//! the order of examples ([`batches`]), the state ([`checkpoint`]). So a resumed run equals one that never stopped.
//! Only programs import this module.

pub mod atomic;
pub mod batches;
pub mod checkpoint;
pub mod metrics;
pub mod sampling;
pub mod schedule;
pub mod trainer;

pub use crate::arena::rng::permutation;
pub use atomic::write_atomically;
pub use batches::Batches;
pub use checkpoint::{Digest, Entry, Load, LoadReport, Loaded, Tensor, Weights, merge, peft_name};
pub use metrics::{Jsonl, Times};
pub use sampling::{Sampler, Sampling};
pub use schedule::Schedule;
pub use trainer::{Progress, Trainer, averages, copy_averages, copy_params, set_params};
