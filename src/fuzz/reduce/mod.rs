//! The reducer: a failing graph in, a small one that still fails out (delta debugging; Zeller and Hildebrandt, 2002).
//!
//! Large steps come first: outputs and nodes go in chunks that halve. Then single steps run until none helps. A step is
//! taken if the graph that it makes is smaller ([`GraphSize`]) and still fails. Invariant: at the end, unless a limit
//! was met, no single step makes the graph smaller and keeps the failure. The same graph and the same answers give the
//! same result.

mod graph_size;
mod steps;

use super::draft::Draft;
use crate::arena::Value;
use crate::nodes::ir::text::print;
use crate::nodes::{Graph, GraphBuf};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use graph_size::GraphSize;
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
    reduce_graph_counting(graph, still_fails, options).graph
}

/// Reduces `graph` as [`reduce`] does. Returns also the number of checks, and whether the end was reached.
pub fn reduce_graph_counting(
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
        again = r.chunks(|g| g.outputs().len(), Step::DropOutputs);
        again |= r.chunks(|g| g.updates.len(), Step::DropUpdates);
        again |= r.chunks(|g| g.values(), Step::CutValues);
        for list in steps::ALL {
            again |= r.each(list);
        }
    }
    let is_minimal = !r.is_over();
    if GraphSize::of(graph.view()) < r.size {
        r.best = graph.clone();
    }
    Reduced { graph: r.best, checks: r.checks, is_minimal }
}

struct Reducer<'f> {
    best: GraphBuf,
    size: GraphSize,
    still_fails: &'f mut dyn FnMut(&GraphBuf) -> bool,
    left: usize,
    checks: usize,
    end: Option<Instant>,
    stop: Option<&'f AtomicBool>,
    /// Hashes of the texts of graphs that do not fail.
    refused: HashSet<u64>,
    /// Whether each step also drops what nothing reads.
    sweep: bool,
}

impl Reducer<'_> {
    fn is_over(&self) -> bool {
        let stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        self.left == 0 || stopped || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Takes `graph` if it is smaller and still fails.
    fn offer(&mut self, graph: GraphBuf) -> bool {
        GraphSize::of(graph.view()) < self.size && self.take_if_it_fails(graph)
    }

    fn take_if_it_fails(&mut self, graph: GraphBuf) -> bool {
        let mut hasher = DefaultHasher::new();
        print(graph.view()).hash(&mut hasher);
        let hash = hasher.finish();
        if self.is_over() || self.refused.contains(&hash) {
            return false;
        }
        self.left -= 1;
        self.checks += 1;
        let fails = (self.still_fails)(&graph);
        match fails {
            true => (self.size, self.best) = (GraphSize::of(graph.view()), graph),
            false => drop(self.refused.insert(hash)),
        }
        fails
    }

    /// Drops what nothing reads. If the failure is there, unread values become outputs, so that steps see what is
    /// needed; if that hides the failure, steps drop nothing but what they name.
    fn begin(&mut self) {
        let graph = swept_for_reduce(self.best.clone());
        if graph != self.best && !self.offer(graph) {
            self.sweep = reduce_with_unread_shown(self.best.view()).is_some_and(|g| self.take_if_it_fails(g));
        }
    }

    fn attempt(&mut self, step: &Step) -> bool {
        let mut draft = Draft::of(self.best.view(), self.sweep);
        let graph = if step.apply(&mut draft) { draft.write().ok() } else { None };
        let Some(graph) = graph else { return false };
        if !self.sweep {
            return self.offer(graph);
        }
        // A region that is written in the place of a call leaves results that nothing reads: they go, or are shown.
        let shown = matches!(step, Step::Inline(_)).then(|| reduce_with_unread_shown(graph.view())).flatten();
        self.offer(swept_for_reduce(graph)) || shown.is_some_and(|graph| self.offer(graph))
    }

    /// Tries `step` on chunks of `count` things: all, halves, quarters, down to two.
    fn chunks(&mut self, count: fn(&Graph<'_>) -> usize, step: fn(usize, usize) -> Step) -> bool {
        let mut any = false;
        let mut chunk = count(&self.best.view());
        while chunk >= 2 && !self.is_over() {
            let mut at = 0;
            while at < count(&self.best.view()) {
                match self.attempt(&step(at, at + chunk)) {
                    true => any = true,
                    false => at += chunk,
                }
            }
            chunk = chunk.div_ceil(2).min(chunk - 1);
        }
        any
    }

    /// Tries each single step of a list. A step that is taken gives a new list, which goes on where the old one was.
    fn each(&mut self, list: &fn(Graph<'_>) -> Vec<Step>) -> bool {
        let (mut any, mut i) = (false, 0);
        let mut steps = list(self.best.view());
        while i < steps.len() && !self.is_over() {
            match self.attempt(&steps[i]) {
                true => {
                    any = true;
                    steps = list(self.best.view());
                }
                false => i += 1,
            }
        }
        any
    }
}

/// `g` with the values of the entry as outputs that nothing reads, and without what is still not needed.
fn reduce_with_unread_shown(g: Graph<'_>) -> Option<GraphBuf> {
    let mut draft = Draft::of(g, true);
    draft.outputs = unread_values_for_reduce(g);
    draft.write().ok()
}

/// `graph` without what nothing reads.
fn swept_for_reduce(mut graph: GraphBuf) -> GraphBuf {
    loop {
        match Draft::of(graph.view(), true).write() {
            Ok(less) if less.view().nodes() < graph.view().nodes() => graph = less,
            _ => return graph,
        }
    }
}

/// Values of the entry that nothing reads.
fn unread_values_for_reduce(g: Graph<'_>) -> Vec<Value> {
    let mut read = vec![false; g.values()];
    g.args.iter().chain(g.yields).chain(g.updates.iter().map(|u| &u.1)).for_each(|v| read[v.0 as usize] = true);
    g.region_values(g.entry()).map(Value).filter(|v| !read[v.0 as usize] && g.leaf(*v).is_none()).collect()
}
