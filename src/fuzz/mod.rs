//! The fuzzing kit: graphs to run, an oracle that says what they compute, and checks of the engine against it.

mod planned_graph;
mod simulate_plan;
mod wrong_plans;

pub use planned_graph::{PlannedGraph, plan_apart};
pub use simulate_plan::{is_free_buffer, simulate_plan};
pub use wrong_plans::WRONG_PLANS;
