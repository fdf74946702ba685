//! Training around a step program: schedules, batches, checkpoints, metrics, and the loop that ties them.
//!
//! Invariant: everything that a run's bits depend on is a function of (seed, step): the learning rate of
//! [`schedule`], the order of [`batches`], the state in a [`checkpoint`]. So a run that is resumed equals one that was
//! never stopped. Top of the library: only programs import this room.

pub mod atomic;
pub mod batches;
pub mod checkpoint;
pub mod metrics;
pub mod sampling;
pub mod schedule;
pub mod trainer;

pub use atomic::write_atomically;
pub use batches::{Batches, permutation};
pub use checkpoint::{Digest, Entry, Loaded};
pub use metrics::{Jsonl, Times};
pub use sampling::{Sampler, Sampling};
pub use schedule::Schedule;
pub use trainer::{Progress, Trainer, averages, copy_averages, copy_params};
