//! Memory budgets: the program with the fewest repeated operations that fits.
//!
//! Choices are tried in ascending order of the operations that they repeat. The first that fits is kept. The order does
//! not depend on the budget, so a larger budget never repeats more operations, and a smaller budget never gives a
//! larger arena.
//!
//! A choice is tried with sums that leave loops, and then with these sums in the loops, where nothing is stacked for
//! them.
//!
//! Invariant: bits do not depend on the number of threads. If values are kept in half precision, bits depend on which
//! values are recomputed, so the number of threads must not change that choice. So the choice is made as for one
//! thread. A budget that is large enough for it with one thread, but not with the scratch of all threads, is refused.

use super::choices::Choices;
use super::compiled_graph::CompiledGraph;
use super::{Keep, Recomputed, Session};
use crate::error::{Error, Kind, Result};
use crate::nodes::{Graph, Op};
use crate::passes::{pipeline, remat};
use std::ops::ControlFlow;

/// A size that a program can be made in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Budget {
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// What is computed twice.
    pub recomputed: Recomputed,
}

impl Session {
    /// The budgets of `graph` that recomputation can meet, largest first. Each repeats more operations than the one
    /// before it, or stacks less for sums that leave loops. The first repeats nothing; no budget below the last can be
    /// met.
    ///
    /// With [`Session::keep`] and several threads, a budget between two of these may be refused: what is computed again
    /// is chosen as for one thread, so that bits do not depend on threads.
    pub fn budgets<'a>(&self, graph: impl Into<Graph<'a>>) -> Result<Vec<Budget>> {
        let (mut list, mut sizes) = (Vec::<Budget>::new(), BudgetSizes::new(&self.choices));
        let (mut failed, size) = (None, |r: &CompiledGraph| Ok(r.scheduled.plan.bytes));
        visit_choices(graph.into(), &self.choices, |r| {
            match sizes.see(&r, &size) {
                Ok(BudgetSize { meets: Some(arena_bytes), .. }) => {
                    list.push(Budget { arena_bytes, recomputed: r.recomputed });
                }
                Ok(_) => {}
                Err(e) => {
                    failed = Some(e);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(list), Err)
    }
}

/// The sizes of choices, in the order in which they are tried.
struct BudgetSizes {
    /// The choices of one thread, if the choice is that of one thread.
    one: Option<Choices>,
    /// A budget of this many bytes or more takes a choice that was seen before.
    taken: usize,
}

/// The size of a choice.
struct BudgetSize {
    /// The least budget that takes it.
    decides: usize,
    /// Bytes of its arena.
    bytes: usize,
    /// The least budget that takes it and holds it, if there is one.
    meets: Option<usize>,
}

impl BudgetSizes {
    fn new(choices: &Choices) -> BudgetSizes {
        let halves = choices.keep != Keep::F32 && choices.threads > 1;
        BudgetSizes { one: halves.then(|| Choices { threads: 1, ..choices.clone() }), taken: usize::MAX }
    }

    /// The size of the next choice, by `size`.
    fn see(&mut self, ready: &CompiledGraph, size: &dyn Fn(&CompiledGraph) -> Result<usize>) -> Result<BudgetSize> {
        let bytes = size(ready)?;
        let decides = match &self.one {
            Some(one) => size(&CompiledGraph::new(ready.graph.clone(), one)?)?,
            None => bytes,
        };
        let needs = bytes.max(decides);
        let meets = (needs < self.taken).then_some(needs);
        self.taken = self.taken.min(decides);
        Ok(BudgetSize { decides, bytes, meets })
    }
}

/// Makes a program for each choice, cheapest first, until `see` has seen enough.
fn visit_choices(g: Graph<'_>, choices: &Choices, mut see: impl FnMut(CompiledGraph) -> ControlFlow<()>) -> Result<()> {
    let (first, second) = pipeline::halves(&choices.passes());
    let simple = pipeline::run_pipeline(g, &first, false)?.0;
    // What nothing reads of a loop in stretches goes.
    let graphs = remat::graphs_with_stretches(simple, |g| Ok(pipeline::run_pipeline(g, &["trim"], false)?.0))?;
    let in_loops = pipeline::with_sums_in_loops(&second);
    for (i, choice) in remat::list_graph_choices(&graphs) {
        let again = remat::apply_choice(graphs[i].graph.view(), &graphs[i].facts, &choice)?;
        for names in [&second, &in_loops] {
            let (graph, kept) = pipeline::run_and_keep_half(again.view(), names, choices.keep)?;
            let left = graph.view().op.contains(&Op::MATMUL_ADD_STACK);
            let mut ready = CompiledGraph::new(graph, choices)?;
            ready.kept = kept;
            let what = choice.name.clone();
            ready.recomputed = Recomputed { what, nodes: choice.nodes, flops: choice.flops };
            if see(ready).is_break() {
                return Ok(());
            }
            if !left {
                break;
            }
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
pub fn too_small_error(bytes: usize, least: usize) -> Error {
    let text = format!("the memory budget of {bytes} bytes is too small; the smallest that would do is {least} bytes");
    Error::new(Kind::Plan, text)
}

/// A program for `g` whose `size` is at most `bytes` bytes.
///
/// Fails if the choice of one thread fits, but not with the scratch of all threads.
pub fn compile_within(
    g: Graph<'_>,
    choices: &Choices,
    bytes: usize,
    size: &dyn Fn(&CompiledGraph) -> Result<usize>,
) -> Result<Fit<CompiledGraph>> {
    let (mut found, mut least, mut failed) = (None, usize::MAX, None);
    let mut sizes = BudgetSizes::new(choices);
    visit_choices(g, choices, |r| {
        match sizes.see(&r, size) {
            Err(e) => failed = Some(e),
            Ok(at) => {
                least = least.min(at.meets.unwrap_or(usize::MAX));
                match (at.decides <= bytes, at.bytes <= bytes) {
                    (true, true) => found = Some(r),
                    (true, false) => failed = Some(one_thread_error(bytes, least, choices)),
                    (false, _) => return ControlFlow::Continue(()),
                }
            }
        }
        ControlFlow::Break(())
    })?;
    failed.map_or(Ok(()), Err)?;
    Ok(found.map_or(Fit::Needs(least), Fit::Fits))
}

/// The error of a budget that holds the choice of one thread, but not with the scratch of all threads.
fn one_thread_error(bytes: usize, least: usize, choices: &Choices) -> Error {
    let text = format!(
        "the memory budget of {bytes} bytes holds this program on one thread, but not the scratch of {}: with values \
         kept in {} what is computed again is chosen as for one thread, so that bits do not depend on threads; {least} \
         bytes would do, or fewer threads",
        choices.threads,
        choices.keep.name()
    );
    Error::new(Kind::Plan, text)
}

#[cfg(test)]
mod tests;
