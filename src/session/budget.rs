//! Memory budgets: the program with the fewest repeated operations that fits.
//!
//! Choices are tried in ascending order of the operations that they repeat. The first that fits is kept. The order does
//! not depend on the budget, so a larger budget never repeats more operations, and a smaller budget never gives a
//! larger arena.
//!
//! Invariant: bits do not depend on the number of threads. Where values are kept in half precision, they depend on what
//! is computed again. So the choice is then that of one thread, and the scratch of further threads is not counted.

use super::{CompiledGraph, Keep, Recomputed, Session};
use crate::error::{Error, Kind, Result};
use crate::nodes::Graph;
use crate::passes::{pipeline, remat};
use std::ops::ControlFlow;

/// A size that a program can be made in.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Bytes of the arena; where values are kept in half precision, of that of one thread.
    pub arena_bytes: usize,
    /// What is computed twice.
    pub recomputed: Recomputed,
}

impl Session {
    /// The arena sizes of `graph` that recomputation can reach, largest first. Each repeats more operations than the
    /// one before it. The first repeats nothing; no budget below the last can be met. With [`Session::keep`] in half
    /// precision they are those of one thread, as in [`Session::memory_budget`].
    pub fn budgets<'a>(&self, graph: impl Into<Graph<'a>>) -> Result<Vec<Budget>> {
        let (mut list, mut failed) = (Vec::<Budget>::new(), None);
        each_budget(graph.into(), self, |r| match budget_size(self, &r, &|r| Ok(r.scheduled.plan.bytes)) {
            Ok(arena_bytes) => {
                if list.last().is_none_or(|b| arena_bytes < b.arena_bytes) {
                    list.push(Budget { arena_bytes, recomputed: r.recomputed });
                }
                ControlFlow::Continue(())
            }
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(list), Err)
    }
}

/// What a budget is compared with: `size` of `ready` or, in half precision, of the same program on one thread.
fn budget_size(
    session: &Session,
    ready: &CompiledGraph,
    size: &dyn Fn(&CompiledGraph) -> Result<usize>,
) -> Result<usize> {
    if session.keep == Keep::F32 || session.threads <= 1 {
        return size(ready);
    }
    size(&CompiledGraph::new(ready.graph.clone(), &Session { threads: 1, ..session.clone() })?)
}

/// Makes a program for each choice, cheapest first, until `see` has seen enough.
fn each_budget(g: Graph<'_>, session: &Session, mut see: impl FnMut(CompiledGraph) -> ControlFlow<()>) -> Result<()> {
    let (first, second) = match session.runs_all_passes() {
        true => pipeline::pipeline_halves(),
        false => pipeline::minimal_pipeline_halves(),
    };
    let simple = pipeline::run_pipeline(g, &first, false)?.0;
    // What nothing reads of a loop in stretches goes.
    let graphs = remat::graphs(simple, |g| Ok(pipeline::run_pipeline(g, &["trim"], false)?.0))?;
    for (i, choice) in remat::choices_of_graphs(&graphs) {
        let again = remat::apply(graphs[i].graph.view(), &graphs[i].facts, &choice)?;
        let (graph, kept) = pipeline::run_and_keep(again.view(), &second, session.keep)?;
        let mut ready = CompiledGraph::new(graph, session)?;
        ready.kept = kept;
        ready.recomputed = Recomputed { what: choice.name, nodes: choice.nodes, flops: choice.flops };
        if see(ready).is_break() {
            break;
        }
    }
    Ok(())
}

/// A program within a budget, or the smallest budget that would do.
pub enum Fit<T> {
    Fits(T),
    Needs(usize),
}

/// The error that names the smallest budget.
pub fn budget_too_small(bytes: usize, least: usize) -> Error {
    let text = format!("the memory budget of {bytes} bytes is too small; the smallest that would do is {least} bytes");
    Error::new(Kind::Plan, text)
}

/// A program for `g` whose `size` is at most `bytes` bytes; in half precision, not counting the scratch of threads
/// after the first.
pub fn fit_budget(
    g: Graph<'_>,
    session: &Session,
    bytes: usize,
    size: &dyn Fn(&CompiledGraph) -> Result<usize>,
) -> Result<Fit<CompiledGraph>> {
    let (mut found, mut least, mut failed) = (None, usize::MAX, None);
    each_budget(g, session, |r| match budget_size(session, &r, size) {
        Ok(size) if size <= bytes => {
            found = Some(r);
            ControlFlow::Break(())
        }
        Ok(size) => {
            least = least.min(size);
            ControlFlow::Continue(())
        }
        Err(e) => {
            failed = Some(e);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    Ok(found.map_or(Fit::Needs(least), Fit::Fits))
}
