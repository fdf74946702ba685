//! The fuzzing kit: graphs to run, an oracle that says what they compute, and checks of the engine against it.

mod draft;
mod draws;
mod generate;
mod graph_options;
mod mutate;
mod reduce;
mod texts;

pub use draws::{Draw, scripted_draws, seeded_draws};
pub use generate::{draw_graph, random_graph, random_graph_with};
pub use graph_options::GraphOptions;
pub use mutate::mutate_graph;
pub use reduce::{GraphSize, ReduceOptions, Reduced, reduce, reduce_counting};
pub use texts::{check_random_graph, check_random_text, mutate_text};
