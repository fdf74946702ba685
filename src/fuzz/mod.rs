//! The fuzzing kit: graphs to run, an oracle that says what they compute, and checks of the engine against it.

mod check_run;
mod engine_run;
mod finding;
mod oracle;
mod planned_graph;
mod simulate_plan;
mod wrong_plans;

pub use check_run::{agree_with_oracle, check_run};
pub use engine_run::{EngineStep, RunOptions, run_engine};
pub use finding::{Agreement, Difference, Finding, compare_arrays};
pub use oracle::{Array, LeafValue, LeafValues, Named, Reference, Stop, array_of_bytes, bytes_of_array, interpret};
pub use planned_graph::{PlannedGraph, plan_apart};
pub use simulate_plan::{is_free_buffer, simulate_plan};
pub use wrong_plans::WRONG_PLANS;
