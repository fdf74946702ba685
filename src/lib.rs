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
