//! Training with a step program: rates, batches, streams, checkpoints, metrics, sampling, data files, and the
//! [`Trainer`] that combines them.
//!
//! Invariant: everything that a run's bits depend on is a function of seed and step ([`schedule`], [`batches`]), or in
//! the checkpoint ([`checkpoint`], [`Rate`], [`Trainer::kept`]). So a resumed run equals one that never stopped. No
//! other module of the library imports this one.

pub mod atomic;
pub mod batches;
pub mod checkpoint;
pub mod data;
mod early_stopping;
mod exported;
mod file_kinds;
mod fit;
#[cfg(feature = "gguf")]
pub mod gguf;
pub mod metrics;
pub mod parallel;
mod plateau;
mod rate;
pub mod sampling;
mod saved_names;
pub mod schedule;
mod stream_source;
pub mod trainer;

pub use crate::arena::rng::permutation;
pub use atomic::write_atomically;
pub use batches::{Batches, Partial};
pub use checkpoint::{
    Adapter, Digest, Entry, Load, LoadReport, Loaded, Stored, Tensor, Unmatched, Unusable, Weights, merge, peft_name,
};
pub use early_stopping::{Best, EarlyStopping};
pub use exported::check_exported;
pub use file_kinds::open_regular;
pub use fit::{Callback, Ended, Evaluate, Event, Every, Fit, Fitted};
pub use metrics::{EventFile, Jsonl, Times};
pub use parallel::{Comm, LocalComm, Parallel, Reduce, SyncStates};
pub use plateau::{Mode, ReduceLrOnPlateau, Threshold};
pub use rate::{Rate, RateInput};
pub use sampling::{Sampler, Sampling};
pub use schedule::Schedule;
pub use stream_source::{Source, Stream, StreamPosition, Supply, stream};
pub use trainer::{NonFinite, Progress, Trainer, averages, copy_averages, copy_params, set_params};
