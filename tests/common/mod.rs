//! What the integration tests share: tensors, draws from domains, and running a graph.
#![allow(dead_code, unused_imports)]

pub mod drawn;
pub mod families;
pub mod fixture;
pub mod models;
pub mod slopes;
pub mod zoo;

use arenagrad::graph::GraphBuf;
pub use arenagrad::tools::testing::tensor::{
    How, PLAIN, Tensor, TensorDraws, conform_distance, conform_value_type, same_conform_bits, try_run_once,
};

/// Runs `g` once on its inputs, in the order of the leaves; the outputs in order.
pub fn run(g: &GraphBuf, inputs: &[Tensor], how: How) -> Vec<Tensor> {
    try_run_once(g, inputs, how).unwrap_or_else(|e| panic!("{e}\n{g:?}"))
}
