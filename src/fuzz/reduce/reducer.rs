//! The search: it holds the smallest failing graph so far, tries steps on it, and counts checks.

use super::GraphSize;
use super::steps::Step;
use crate::arena::Value;
use crate::clock::Instant;
use crate::fuzz::draft::Draft;
use crate::nodes::ir::text::print;
use crate::nodes::{Graph, GraphBuf};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

/// A reduction under way.
pub(super) struct Reducer<'f> {
    pub best: GraphBuf,
    pub size: GraphSize,
    pub still_fails: &'f mut dyn FnMut(&GraphBuf) -> bool,
    pub left: usize,
    pub checks: usize,
    pub end: Option<Instant>,
    pub stop: Option<&'f AtomicBool>,
    /// Hashes of the texts of graphs that do not fail.
    pub refused: HashSet<u64>,
    /// Whether each step also drops what nothing reads.
    pub sweep: bool,
}

impl Reducer<'_> {
    pub fn is_over(&self) -> bool {
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
    pub fn begin(&mut self) {
        let graph = sweep_graph(self.best.clone());
        if graph != self.best && !self.offer(graph) {
            self.sweep = show_unread(self.best.view()).is_some_and(|g| self.take_if_it_fails(g));
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
        let shown = matches!(step, Step::Inline(_)).then(|| show_unread(graph.view())).flatten();
        self.offer(sweep_graph(graph)) || shown.is_some_and(|graph| self.offer(graph))
    }

    /// Tries `step` on chunks of `count` things: all, halves, quarters, down to two.
    pub fn try_chunks(&mut self, count: fn(&Graph<'_>) -> usize, step: fn(usize, usize) -> Step) -> bool {
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
    pub fn try_each(&mut self, list: &fn(Graph<'_>) -> Vec<Step>) -> bool {
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
fn show_unread(g: Graph<'_>) -> Option<GraphBuf> {
    let mut draft = Draft::of(g, true);
    draft.outputs = unread_values(g);
    draft.write().ok()
}

/// `graph` without what nothing reads.
fn sweep_graph(mut graph: GraphBuf) -> GraphBuf {
    loop {
        match Draft::of(graph.view(), true).write() {
            Ok(less) if less.view().nodes() < graph.view().nodes() => graph = less,
            _ => return graph,
        }
    }
}

/// Values of the entry that nothing reads.
fn unread_values(g: Graph<'_>) -> Vec<Value> {
    let mut read = vec![false; g.values()];
    g.args.iter().chain(g.yields).chain(g.updates.iter().map(|u| &u.1)).for_each(|v| read[v.0 as usize] = true);
    g.region_values(g.entry()).map(Value).filter(|v| !read[v.0 as usize] && g.leaf(*v).is_none()).collect()
}
