//! The fuzzing kit: graphs to run, an oracle that says what they compute, and checks of the engine against it.

mod check_pass;
mod check_random;
mod check_run;
mod check_transform;
mod compare_arrays;
mod compare_graphs;
mod draft;
mod draws;
mod engine_run;
mod finding;
mod generate;
mod graph_options;
mod inner_product;
mod mutate;
mod mutate_text;
mod oracle;
mod planned_graph;
mod reduce;
mod simulate_plan;

pub use check_pass::check_pass;
pub use check_random::{check_any_graph, check_any_text};
pub use check_run::{check_on_leaves, check_run, check_with_oracle};
pub use check_transform::check_transform;
pub use compare_arrays::{Agreement, ElementDifference, compare_arrays, compare_references};
pub use compare_graphs::{
    GraphComparison, GraphMismatch, OutputComparison, compare_graph_signatures, compare_graphs, compare_with_options,
};
pub use draws::{Draw, scripted_draws, seeded_draws};
pub use engine_run::{EngineStep, RunOptions, run_engine};
pub use finding::Finding;
pub use generate::{draw_graph, random_graph, random_graph_with};
pub use graph_options::GraphOptions;
pub use inner_product::InnerProduct;
pub use mutate::change_randomly;
pub use mutate_text::mutate_text;
pub use oracle::{
    Array, LeafValue, LeafValues, Named, OracleNode, OracleOps, Reference, Stop, decode_array, encode_array, interpret,
};
pub use planned_graph::{PlannedGraph, WRONG_PLANS, plan_without_reuse};
pub use reduce::{GraphSize, ReduceOptions, Reduced, reduce, shrink_graph_counting};
pub use simulate_plan::{is_free_in_simulated_plan, simulate_plan};
