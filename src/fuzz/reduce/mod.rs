//! The reducer: a failing graph in, a small one that still fails out (delta debugging; Zeller and Hildebrandt, 2002).
//!
//! Large steps come first: outputs and nodes go in chunks that halve. Then single steps run until none helps. A step is
//! taken if the graph that it makes is smaller ([`GraphSize`]) and still fails. Invariant: at the end, unless a limit
//! was met, no single step makes the graph smaller and keeps the failure. The same graph and the same answers give the
//! same result.

mod graph_size;
mod reducer;
mod steps;

use crate::clock::Instant;
use crate::nodes::GraphBuf;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use graph_size::GraphSize;
use reducer::Reducer;
use steps::Step;

/// Limits of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct ReduceOptions<'s> {
    /// The largest number of graphs to check.
    pub max_checks: usize,
    /// The longest time, if there is a limit. With one, the result depends on the clock.
    pub max_time: Option<Duration>,
    /// A flag that ends the search once it is true.
    pub stop: Option<&'s AtomicBool>,
}

impl Default for ReduceOptions<'_> {
    fn default() -> Self {
        ReduceOptions { max_checks: 20_000, max_time: None, stop: None }
    }
}

/// What a reduction ends with.
#[derive(Debug)]
pub struct Reduced {
    /// The smallest failing graph that was found.
    pub graph: GraphBuf,
    /// Graphs that were checked.
    pub checks: usize,
    /// Whether no single step makes the graph smaller; false if a limit ended the search.
    pub is_minimal: bool,
}

/// A small graph for which `still_fails` is true, as it is for `graph`.
///
/// The graph must fail: otherwise the result is `graph`, or any graph on the way. `still_fails` is asked about graphs
/// that verify and no others. A graph that it answers with true is smaller than the last such graph, but for one that
/// may come first: it shows what nothing reads as outputs. A caller that wants the best graph at any time keeps the
/// smallest by [`GraphSize`]. The result is never larger than `graph`.
///
/// ```
/// use arenagrad::tools::fuzz::{GraphOptions, ReduceOptions, draw_graph, reduce, seeded_draws};
/// # fn main() -> arenagrad::Result<()> {
/// let options = GraphOptions::default().nodes(30).ops("*,tanh=20")?;
/// let has_tanh = |g: &arenagrad::graph::GraphBuf| arenagrad::tools::ir::text::print(g.view()).contains("= tanh ");
/// let mut draw = seeded_draws(3);
/// let graph = (0..100).filter_map(|_| draw_graph(&options, &mut draw).ok()).find(has_tanh).unwrap();
/// let small = reduce(&graph, &mut |g| has_tanh(g), &ReduceOptions::default());
/// assert_eq!(small.view().nodes(), 2); // an input and its tanh
/// # Ok(())
/// # }
/// ```
pub fn reduce(
    graph: &GraphBuf,
    still_fails: &mut dyn FnMut(&GraphBuf) -> bool,
    options: &ReduceOptions<'_>,
) -> GraphBuf {
    shrink_graph_counting(graph, still_fails, options).graph
}

/// Reduces `graph` as [`reduce`] does. Returns also the number of checks, and whether the end was reached.
pub fn shrink_graph_counting(
    graph: &GraphBuf,
    still_fails: &mut dyn FnMut(&GraphBuf) -> bool,
    options: &ReduceOptions<'_>,
) -> Reduced {
    let best = graph.clone();
    let end = options.max_time.and_then(|t| Instant::now().checked_add(t));
    let size = GraphSize::of(best.view());
    let (left, refused) = (options.max_checks, HashSet::new());
    let mut r = Reducer { best, size, still_fails, left, checks: 0, end, stop: options.stop, refused, sweep: true };
    r.begin();
    let mut again = true;
    while again && !r.is_over() {
        again = r.try_chunks(|g| g.outputs().len(), Step::DropOutputs);
        again |= r.try_chunks(|g| g.updates.len(), Step::DropUpdates);
        again |= r.try_chunks(|g| g.values(), Step::CutValues);
        for list in steps::ALL {
            again |= r.try_each(list);
        }
    }
    let is_minimal = !r.is_over();
    if GraphSize::of(graph.view()) < r.size {
        r.best = graph.clone();
    }
    Reduced { graph: r.best, checks: r.checks, is_minimal }
}
