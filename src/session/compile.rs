//! From a graph to what runs it: passes, plan and tapes, within the memory budget.

use super::budget::{self, Fit};
use super::choices::Choices;
use super::compiled_graph::CompiledGraph;
use crate::clock::Instant;
use crate::error::Result;
use crate::nodes::{Graph, GraphBuf};
use crate::passes::keep_half::KeptHalf;
use crate::passes::pipeline;

/// Runs the passes on `g`, and plans it.
pub fn graph(g: Graph<'_>, choices: &Choices) -> Result<CompiledGraph> {
    let start = Instant::now();
    let mut ready = match choices.budget {
        None => {
            let (graph, kept) = run_passes(g, choices)?;
            CompiledGraph { kept, ..CompiledGraph::new(graph, choices)? }
        }
        Some(bytes) => match budget::compile_within(g, choices, bytes, &|r| Ok(r.scheduled.plan.bytes))? {
            Fit::Fits(ready) => ready,
            Fit::Needs(least) => return Err(budget::too_small_error(bytes, least)),
        },
    };
    ready.with_red_zones(choices)?;
    ready.took = start.elapsed();
    Ok(ready)
}

/// The graph of `g` in which every op has a kernel, and what it keeps in half precision.
fn run_passes(g: Graph<'_>, choices: &Choices) -> Result<(GraphBuf, KeptHalf)> {
    pipeline::run_and_keep_half(g, &choices.passes(), choices.keep)
}
