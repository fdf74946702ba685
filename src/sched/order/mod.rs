//! The order of instruction groups.
//!
//! Candidates are made by list scheduling, each in O((V + E) log V), and scored by their largest sum of live lines
//! after sharing of bytes. The least is kept. Earlier candidates win ties, program order first: it is the user's order,
//! and it keeps values in cache. Where the least is above the [certificate](bound), a [bounded search](local) moves
//! single groups. No rule is used without this comparison: on some graphs the memory-aware rule needs twice the lines
//! of program order.
//!
//! Besides data dependencies there are *preferences*: readers of a leaf should come before the group that makes its
//! next value, so that the value can be made in the leaf's bytes. A preference that contradicts data is dropped.

use super::alias::{self, Alias};
use super::instructions::Instructions;
use super::intervals::{Intervals, intervals, lifetimes_in_order};
use crate::arena::HAS_SYSTEM;
use crate::error::Result;
use deps::Deps;
pub use list::Rule;
use rayon::prelude::*;

pub mod bound;
pub mod deps;
pub mod fitting_groups;
pub mod list;
pub mod local;
pub mod ready_groups;

/// Code in one order, with its sharing and its lifetimes.
pub struct Ordered {
    /// The instructions, in order, with the copies that updates need.
    pub code: Instructions,
    /// Which buffers share bytes.
    pub alias: Alias,
    /// Lifetimes.
    pub live: Intervals,
    /// The largest sum of live lines: a lower bound of the arena for this order.
    pub bound: u64,
    /// Name of the candidate.
    pub name: &'static str,
    /// Lower bound for all orders, in lines: see [`bound`].
    pub order_bound: u64,
    /// The groups of the code before ordering, in this order.
    pub groups: Vec<u32>,
}

/// The candidates; earlier ones win ties.
pub const CANDIDATES: &[(&str, Rule)] = &[
    ("program", Rule::Program),
    ("eager", Rule::Eager),
    ("peak", Rule::Peak),
    ("net", Rule::Net),
    ("depth", Rule::Depth),
];

/// Code of fewer instructions is ordered by the caller's thread: the others would take longer to wake.
const PARALLEL: usize = if HAS_SYSTEM { 128 } else { usize::MAX };

/// Waits until all workers of the pool have started: one that starts late would allocate during the first steps. Called
/// from a worker, it returns at once: all have started, and waiting would run other jobs on this stack.
pub fn wait_for_workers() {
    if rayon::current_thread_index().is_none() {
        rayon::broadcast(|_| ());
    }
}

/// The order of `code` with the fewest live lines at its peak, over the candidates and local search.
pub fn best_order(code: &Instructions) -> Result<Ordered> {
    let (deps, parallel) = (Deps::new(code), code.len() >= PARALLEL);
    let list = |&(name, rule): &(&'static str, Rule)| (name, list::order_by_rule(code, &deps, rule));
    let mut orders: Vec<(&'static str, Vec<u32>)> = match parallel {
        true => CANDIDATES.par_iter().map(list).collect(),
        false => CANDIDATES.iter().map(list).collect(),
    };
    for i in (1..orders.len()).rev() {
        if orders[..i].iter().any(|o| o.1 == orders[i].1) {
            orders.remove(i);
        }
    }
    // Scored without permuting the columns; only the best is written out.
    let peak = |(_, order): &(&'static str, Vec<u32>)| peak_lines(code, order);
    let scored: Result<Vec<u64>> = match parallel {
        true => orders.par_iter().map(peak).collect(),
        false => orders.iter().map(peak).collect(),
    };
    let scored = scored?;
    if parallel {
        wait_for_workers();
    }
    // The first of equals.
    let (name, order) = match (0..orders.len()).min_by_key(|&i| scored[i]) {
        Some(i) => (orders[i].0, &orders[i].1[..]),
        None => ("program", &[][..]),
    };
    let mut best = score_order(code, order, name)?;
    best.order_bound = bound::order_bound(code, &deps, &live_lines_of_groups(&best, order))?;
    if best.bound > best.order_bound {
        let moved = local::improve_by_moves(code, &deps, order, best.order_bound)?;
        if moved != order {
            best = Ordered { order_bound: best.order_bound, ..score_order(code, &moved, name)? };
        }
    }
    Ok(best)
}

/// The largest sum of live lines in order `order`: the bound of [`score_order`].
fn peak_lines(code: &Instructions, order: &[u32]) -> Result<u64> {
    let seq: Vec<u32> = order.iter().flat_map(|&g| code.group(g as usize)).map(|i| i as u32).collect();
    let (alias, copies) = alias::decide_aliases(code, &seq);
    Ok(lifetimes_in_order(code, &seq, &copies, &alias)?.max_live())
}

/// `code` in the order `order`, which names each group once, behind the groups whose results it needs.
pub fn score_order(code: &Instructions, order: &[u32], name: &'static str) -> Result<Ordered> {
    let mut code = code.permuted(order);
    let alias = alias::alias(&mut code);
    let live = intervals(&code, &alias)?;
    let bound = live.max_live();
    Ok(Ordered { code, alias, live, bound, name, order_bound: 0, groups: order.to_vec() })
}

/// The largest sum of live lines over the instructions of each group, by the group's number before ordering.
fn live_lines_of_groups(o: &Ordered, order: &[u32]) -> Vec<u64> {
    let by_instruction = o.live.alive();
    let mut most = vec![0; order.len()];
    for (k, &g) in order.iter().enumerate() {
        most[g as usize] = o.code.group(k).map(|i| by_instruction[i]).max().unwrap_or(0);
    }
    most
}
