//! Blocks: cuts divide the forward half into blocks. Values that cross a cut are kept; those in between are recomputed.
//!
//! A cut costs the bytes that cross it. A block costs the bytes of the values in it that would otherwise be kept: they
//! are alive together while its backward part runs. For each of a few block sizes, a shortest path finds the cheapest
//! set of cuts. Candidates are the points that the fewest bytes cross. If the user marked boundaries (`checkpoint`),
//! these are the only cut points.

use super::cut;
use super::facts::{Class, RematFacts};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::nodes::{Graph, Op};

/// The most cut points that are considered.
const MAX_CUT_POINTS: usize = 128;
/// Block sizes to try: a block may hold 1/n of all kept bytes.
const FRACTIONS: [u64; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];

/// A division of the forward half into blocks, of which the first ones are computed again.
#[derive(Clone, Debug)]
pub struct RematBlocks {
    /// Number of blocks that are computed again.
    recomputed: usize,
    /// Number of all blocks.
    total: usize,
    /// The last node of the blocks that are computed again.
    last: Node,
    /// The values that cross a cut before `last`.
    crosses: Side<Value, bool>,
}

impl RematBlocks {
    /// The choice in words: `2 of 5 blocks`.
    pub fn name(&self) -> String {
        format!("{} of {} blocks", self.recomputed, self.total)
    }

    /// True if `v`, made by `n`, may be computed again: any value between cuts, and cheap values after the last cut.
    pub fn recomputable(&self, f: &RematFacts, n: Node, v: Value) -> bool {
        match n <= self.last {
            true => f.class[n] < Class::Never && !self.crosses[v],
            false => f.class[n] <= Class::Cheap,
        }
    }
}

/// A position between two nodes of the forward half.
#[derive(Clone, Copy)]
struct CutPoint {
    /// Position of the node before it.
    at: usize,
    /// Bytes of the values that cross it.
    width: u64,
    /// Bytes of the kept values that are made before it.
    before: u64,
}

/// One set of cuts, and how many of its blocks are computed again.
#[derive(Clone, PartialEq)]
struct Division {
    /// Positions of the nodes before the cuts, rising.
    cuts: Vec<usize>,
    recomputed: usize,
}

/// The divisions worth trying.
pub fn find_divisions(g: Graph<'_>, f: &RematFacts) -> Vec<RematBlocks> {
    let last_use = last_forward_reads(g, f);
    let kept = cut::least_cut(g, f, &|n, _| f.class[n] <= Class::Cheap);
    let (points, total) = block_cut_points(g, f, &last_use, &kept);
    let mut all: Vec<Division> = Vec::new();
    for part in FRACTIONS {
        let cuts = best_block_cuts(&points, total, total / part);
        // The last block is never computed again: its backward part follows at once.
        for share in [4usize, 3, 2, 1] {
            let division = Division { cuts: cuts.clone(), recomputed: cuts.len().div_ceil(share) };
            if division.recomputed > 0 && !all.contains(&division) {
                all.push(division);
            }
        }
    }
    let start = f.fwd_bwd_boundary.at() - f.position(f.fwd_bwd_boundary);
    let make = |Division { cuts, recomputed }: Division| {
        let mut crosses = Side::filled(g.values(), false);
        for n in g.region_nodes(g.entry()).filter(|&n| f.is_forward(n)) {
            for v in g.outs_of(n) {
                let from = f.position(n);
                crosses[v] = cuts[..recomputed].iter().any(|&c| from <= c && c < last_use[v.at()]);
            }
        }
        RematBlocks { recomputed, total: cuts.len() + 1, last: Node::new(start + cuts[recomputed - 1]), crosses }
    };
    all.into_iter().map(make).collect()
}

/// Position of the last forward reader of each value.
fn last_forward_reads(g: Graph<'_>, f: &RematFacts) -> Vec<usize> {
    let mut last = vec![0; g.values()];
    for n in g.region_nodes(g.entry()).filter(|&n| f.is_forward(n)) {
        g.args_of(n).iter().for_each(|a| last[a.at()] = f.position(n));
    }
    last
}

/// The cut points in order, and the bytes of all values that would be kept.
fn block_cut_points(
    g: Graph<'_>,
    f: &RematFacts,
    last_use: &[usize],
    kept: &Side<Value, bool>,
) -> (Vec<CutPoint>, u64) {
    let count = f.position(f.fwd_bwd_boundary) + 1;
    let (mut change, mut made) = (vec![0i64; count], vec![0u64; count]);
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
            if kept[v] && f.read_by_backward[v] {
                made[at] += f.bytes[v];
            }
        }
    }
    let (mut width, mut before) = (0i64, 0u64);
    let mut all: Vec<CutPoint> = Vec::with_capacity(count);
    for at in 0..count {
        width += change[at];
        before += made[at];
        all.push(CutPoint { at, width: width.max(0) as u64, before });
    }
    let total = before;
    if !marks.is_empty() {
        return (marks.into_iter().map(|m| all[m]).collect(), total);
    }
    // The kept bytes are divided into `MAX_CUT_POINTS` parts. Each part keeps its narrowest point, the last of equals.
    let mut narrow: Vec<CutPoint> = Vec::new();
    let part = |p: &CutPoint| p.before.saturating_mul(MAX_CUT_POINTS as u64).checked_div(total).unwrap_or(0);
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

/// The cuts of least total width such that no block holds more than `most` bytes. A block between neighbouring points
/// may hold more.
fn best_block_cuts(points: &[CutPoint], total: u64, most: u64) -> Vec<usize> {
    let ends = points.len() + 1;
    // Least total width of the cuts up to a point, and the cut before it. Point `ends - 1` is the boundary.
    let mut best = vec![(u64::MAX, usize::MAX); ends];
    let before = |i: usize| points.get(i).map_or(total, |p| p.before);
    for to in 0..ends {
        let own = points.get(to).map_or(0, |p| p.width);
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
        cuts.push(points[at].at);
        at = best[at].1;
    }
    cuts.reverse();
    cuts
}
