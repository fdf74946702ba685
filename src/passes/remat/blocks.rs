//! Blocks: cuts through the early half between which everything is computed again.
//!
//! A cut costs the bytes that cross it; a block costs the bytes that it would have kept, which are alive together while
//! its backward half runs. For a few sizes of blocks, a shortest path over the narrow places finds the cuts whose
//! crossings are cheapest. Boundaries that the user marked take the place of narrow ones.

use super::cut;
use super::facts::{Class, Facts};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::nodes::{Graph, Op};

/// Most places that are considered for cuts.
const PLACES: usize = 128;
/// Parts of all kept bytes that a block may hold.
const PARTS: [u64; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];

/// The first blocks are computed again, the others keep what they would.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Number of blocks computed again, and of all blocks.
    count: (usize, usize),
    /// The last node of those that are computed again.
    last: Node,
    /// Whether a value crosses a cut between them.
    crosses: Side<Value, bool>,
}

impl Blocks {
    /// The choice in words.
    pub fn name(&self) -> String {
        format!("{} of {} blocks", self.count.0, self.count.1)
    }

    /// Whether `v`, made by `n`, may be computed again: anything between cuts, cheap values after the last.
    pub fn again(&self, f: &Facts, n: Node, v: Value) -> bool {
        match n <= self.last {
            true => f.class[n] < Class::Never && !self.crosses[v],
            false => f.class[n] <= Class::Cheap,
        }
    }
}

/// A place between two nodes of the early half.
#[derive(Clone, Copy)]
struct Place {
    /// Position of the node before it.
    at: usize,
    /// Bytes that cross it.
    width: u64,
    /// Bytes, of those that would be kept, that are made before it.
    before: u64,
}

/// The blocks worth trying.
pub fn blocks(g: Graph<'_>, f: &Facts) -> Vec<Blocks> {
    let last_use = last_early_use(g, f);
    let kept = cut::least(g, f, &|n, _| f.class[n] <= Class::Cheap);
    let (places, total) = places(g, f, &last_use, &kept);
    let mut all: Vec<(Vec<usize>, usize)> = Vec::new();
    for part in PARTS {
        let cuts = best_cuts(&places, total, total / part);
        // The last block is needed at once: to compute it again gains nothing.
        for share in [4usize, 3, 2, 1] {
            let again = cuts.len().div_ceil(share);
            if again > 0 && !all.contains(&(cuts.clone(), again)) {
                all.push((cuts.clone(), again));
            }
        }
    }
    let start = f.fwd_bwd_boundary.at() - f.position(f.fwd_bwd_boundary);
    let make = |(cuts, again): (Vec<usize>, usize)| {
        let mut crosses = Side::filled(g.values(), false);
        for n in g.region_nodes(g.entry()).filter(|&n| f.is_forward(n)) {
            for v in g.outs_of(n) {
                let from = f.position(n);
                crosses[v] = cuts[..again].iter().any(|&c| from <= c && c < last_use[v.at()]);
            }
        }
        Blocks { count: (again, cuts.len() + 1), last: Node::new(start + cuts[again - 1]), crosses }
    };
    all.into_iter().map(make).collect()
}

/// Position of the last early reader of each value.
fn last_early_use(g: Graph<'_>, f: &Facts) -> Vec<usize> {
    let mut last = vec![0; g.values()];
    for n in g.region_nodes(g.entry()).filter(|&n| f.is_forward(n)) {
        g.args_of(n).iter().for_each(|a| last[a.at()] = f.position(n));
    }
    last
}

/// The places for cuts, from first to last, and all bytes that would be kept.
fn places(g: Graph<'_>, f: &Facts, last_use: &[usize], kept: &Side<Value, bool>) -> (Vec<Place>, u64) {
    let count = f.position(f.fwd_bwd_boundary) + 1;
    let (mut change, mut made) = (vec![0i64; count + 1], vec![0u64; count]);
    let mut marks = Vec::new();
    for n in g.region_nodes(g.entry()).filter(|&n| f.is_forward(n)) {
        let at = f.position(n);
        if g.op[n.at()] == Op::CHECKPOINT {
            marks.push(at);
        }
        for v in g.outs_of(n).filter(|&v| !f.free[v]) {
            if last_use[v.at()] > at {
                change[at] += f.bytes[v] as i64;
                change[last_use[v.at()]] -= f.bytes[v] as i64;
            }
            if kept[v] && f.late[v] {
                made[at] += f.bytes[v];
            }
        }
    }
    let (mut width, mut before) = (0i64, 0u64);
    let mut all: Vec<Place> = Vec::with_capacity(count);
    for at in 0..count {
        width += change[at];
        before += made[at];
        all.push(Place { at, width: width.max(0) as u64, before });
    }
    let total = before;
    if !marks.is_empty() {
        return (marks.into_iter().map(|m| all[m]).collect(), total);
    }
    // Of the places that lie in one part of the kept bytes, the narrowest; the last of equals.
    let mut narrow: Vec<Place> = Vec::new();
    let part = |p: &Place| p.before.saturating_mul(PLACES as u64).checked_div(total).unwrap_or(0);
    for p in all.into_iter().filter(|p| p.before > 0 && p.before < total) {
        match narrow.last_mut() {
            Some(l) if part(l) == part(&p) => {
                if p.width <= l.width {
                    *l = p;
                }
            }
            _ => narrow.push(p),
        }
    }
    (narrow, total)
}

/// The cuts of least width in all, such that no block holds more than `most` where that can be had.
fn best_cuts(places: &[Place], total: u64, most: u64) -> Vec<usize> {
    let ends = places.len() + 1;
    // Cheapest width of cuts up to a place, and the cut before it; place `ends - 1` is the turn.
    let mut best = vec![(u64::MAX, usize::MAX); ends];
    let before = |i: usize| places.get(i).map_or(total, |p| p.before);
    for to in 0..ends {
        let own = places.get(to).map_or(0, |p| p.width);
        if before(to) <= most || to == 0 {
            best[to] = (own, usize::MAX);
        }
        for from in (0..to).rev() {
            if before(to) - before(from) > most && from + 1 < to {
                break;
            }
            let width = best[from].0.saturating_add(own);
            if width < best[to].0 {
                best[to] = (width, from);
            }
        }
    }
    let mut cuts = Vec::new();
    let mut at = best[ends - 1].1;
    while at != usize::MAX {
        cuts.push(places[at].at);
        at = best[at].1;
    }
    cuts.reverse();
    cuts
}
