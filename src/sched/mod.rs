//! Scheduling: from a graph to a proven plan with an offset for every buffer, and the executor that runs it.
//!
//! [`lower`] writes instructions over buffers ([`instructions`]). [`planner`] puts them in order ([`order`]), lets
//! buffers share bytes ([`alias`]), finds their lifetimes ([`intervals`]) and offsets ([`pack`]), and has the plan
//! proved ([`checker`]). A [`placement`] is what a plan needs to be made again without a search. [`share`] divides the
//! plan among threads by [`modelled_time`] into [`tape`]s, and [`races`] proves the tapes. [`link`] resolves operands;
//! [`exec`] and [`team`] run steps, with [`affinity`] on chosen cores. [`faults`] says where a step may stop. The body
//! of a loop ([`planned_body`]) is planned once, as code for one iteration. [`areas`] places the plans of several
//! graphs in one arena.
//! Imports arena, kernels and nodes only.

pub mod affinity;
pub mod alias;
pub mod areas;
pub mod arithmetic;
mod buf_kind;
pub mod checker;
pub mod exec;
pub mod faults;
pub mod instructions;
pub mod intervals;
pub mod lend;
pub mod link;
pub mod lower;
pub mod modelled_time;
pub mod nonfinite;
mod observer;
mod operand;
pub mod order;
pub mod pack;
mod panicked;
mod partial_contents;
pub mod placement;
pub mod plan;
pub mod planned_body;
pub mod planner;
pub mod races;
mod schedule;
pub mod share;
mod stop;
pub mod tape;
pub mod team;

pub mod track;

pub use planner::{Scheduled, planned_offsets};
pub use schedule::{plan_again, plan_with_arithmetic, plan_with_red_zones, plan_without_thread_scratch, schedule};

#[cfg(test)]
pub(crate) mod tests;
