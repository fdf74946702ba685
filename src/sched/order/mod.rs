//! The order of instruction groups.
//!
//! A few candidates are made by list scheduling, each in O((V + E) log V), and scored by what they cost after sharing
//! of bytes: the largest sum of lines alive at once. The cheapest is kept; earlier candidates win ties, program order
//! first, because it is what the user wrote and what caches know. Where the cheapest is above the [certificate](bound),
//! a bounded search moves single groups. A heuristic alone is not to be trusted: on some
//! graphs the memory-aware rule needs twice what program order needs.
//!
//! Beside data, *wishes* order groups: readers of a leaf come before the group that makes its next value, so that the
//! value can be made in the leaf's bytes. A wish that data forbids is dropped.

use super::alias::{self, Alias};
use super::code::Code;
use super::live::{Intervals, intervals, intervals_in};
use crate::error::Result;
use deps::Deps;
pub use list::Rule;
use rayon::prelude::*;

pub mod bound;
pub mod deps;
pub mod list;
pub mod local;
pub mod ready;

/// An order with its consequences.
pub struct Ordered {
    /// The instructions, in order, with the copies that updates need.
    pub code: Code,
    /// Who shares bytes.
    pub alias: Alias,
    /// Lifetimes.
    pub live: Intervals,
    /// Lines alive at once.
    pub bound: u64,
    /// The candidate's name.
    pub name: &'static str,
    /// Lines that no order can do without: see [`bound`].
    pub order_bound: u64,
}

/// The candidates, in the order in which they win ties.
pub const CANDIDATES: &[(&str, Rule)] = &[
    ("program", Rule::Program),
    ("eager", Rule::Eager),
    ("peak", Rule::Peak),
    ("net", Rule::Net),
    ("depth", Rule::Depth),
];

/// The best order of `code`.
pub fn best(code: &Code) -> Result<Ordered> {
    let deps = Deps::new(code);
    let mut orders: Vec<(&'static str, Vec<u32>)> =
        CANDIDATES.par_iter().map(|&(name, rule)| (name, list::schedule(code, &deps, rule))).collect();
    for i in (1..orders.len()).rev() {
        if orders[..i].iter().any(|o| o.1 == orders[i].1) {
            orders.remove(i);
        }
    }
    // Scored on the instructions as they stand; only the best is written out.
    let scored: Result<Vec<u64>> = orders.par_iter().map(|(_, order)| peak(code, order)).collect();
    let scored = scored?;
    // A worker that comes up late would allocate in the midst of the first steps. Within a worker nothing is late, and
    // waiting there would take up other work on top of this.
    if rayon::current_thread_index().is_none() {
        rayon::broadcast(|_| ());
    }
    // The first of equals.
    let (name, order) = match (0..orders.len()).min_by_key(|&i| scored[i]) {
        Some(i) => (orders[i].0, &orders[i].1[..]),
        None => ("program", &[][..]),
    };
    let mut best = score(code, order, name)?;
    best.order_bound = bound::bound(code, &deps, &alive(&best, order))?;
    if best.bound > best.order_bound {
        let moved = local::improve(code, &deps, order, best.order_bound)?;
        if moved != order {
            best = Ordered { order_bound: best.order_bound, ..score(code, &moved, name)? };
        }
    }
    Ok(best)
}

/// Lines alive at once in order `order`: the bound of [`score`].
fn peak(code: &Code, order: &[u32]) -> Result<u64> {
    let seq: Vec<u32> = order.iter().flat_map(|&g| code.group(g as usize)).map(|i| i as u32).collect();
    let (alias, copies) = alias::decide(code, &seq);
    Ok(intervals_in(code, &seq, &copies, &alias)?.max_live())
}

/// What order `order` (all groups of `code`, each after those whose results it needs) costs.
pub fn score(code: &Code, order: &[u32], name: &'static str) -> Result<Ordered> {
    let mut code = code.permuted(order);
    let alias = alias::alias(&mut code);
    let live = intervals(&code, &alias)?;
    let bound = live.max_live();
    Ok(Ordered { code, alias, live, bound, name, order_bound: 0 })
}

/// The most lines alive at one of the instructions of each group, by the group's number before ordering.
fn alive(o: &Ordered, order: &[u32]) -> Vec<u64> {
    let by_instruction = o.live.alive();
    let mut most = vec![0; order.len()];
    for (k, &g) in order.iter().enumerate() {
        most[g as usize] = o.code.group(k).map(|i| by_instruction[i]).max().unwrap_or(0);
    }
    most
}
