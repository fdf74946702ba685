//! Fuzz targets of arenagrad, and the program that runs them. `docs/fuzzing.md` tells how to use it.
//!
//! * [`targets`]: one file for each target; `targets/mod.rs` holds their table.
//! * [`script`]: an input read as a list of decisions. [`engine`], [`meaning`]: the engine and the oracle as targets
//!   use them.
//! * [`runner`]: the loop that mutates, runs and keeps inputs; [`mutate`], [`corpus`], [`shrink`], [`finding`] and
//!   [`watch`] are its parts.
//! * [`agree`]: the same checks for a graph in the text form.
//! * [`coverage`] and [`memory`]: edges that an input reaches, bytes that it takes. Only these two hold unsafe code.
//!
//! Invariant: a target is a function of its input. It panics on a finding and keeps nothing from run to run.

// A target says what it found by a panic.
#![allow(clippy::panic, clippy::unwrap_used)]

pub mod agree;
mod args;
pub mod corpus;
pub mod coverage;
pub mod engine;
mod files;
pub mod finding;
pub mod meaning;
pub mod memory;
pub mod mutate;
mod report;
pub mod runner;
pub mod script;
pub mod shrink;
mod supervisor;
pub mod targets;
mod watch;

pub use args::Options;
pub use supervisor::run_fuzz;
