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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::text::parse;
    use crate::passes::remat::remat_facts;

    /// The least cuts of a line with points of these widths, and of these bytes before them.
    fn cuts(points: &[(u64, u64)], total: u64, most: u64) -> Vec<usize> {
        let point = |(i, &(width, before)): (usize, &(u64, u64))| CutPoint { at: 10 * (i + 1), width, before };
        let points: Vec<CutPoint> = points.iter().enumerate().map(point).collect();
        best_block_cuts(&points, total, most)
    }

    #[test]
    fn cuts_have_the_least_width_of_those_that_hold_blocks_small() {
        let even = [(5, 10), (1, 20), (5, 30), (1, 40)];
        assert_eq!(cuts(&even, 50, 50), [] as [usize; 0]);
        assert_eq!(cuts(&even, 50, 30), [20]);
        // Three blocks are needed: 20, 20 and 10.
        assert_eq!([25, 20].map(|most| cuts(&even, 50, most)), [[20, 40], [20, 40]]);
        // A block of 20 is small enough behind the first point too.
        assert_eq!(cuts(&[(3, 30), (1, 40)], 50, 20), [10]);
        // Between neighbours a block holds what it holds.
        assert_eq!(cuts(&[(2, 10), (2, 90)], 100, 20), [10, 20]);
        // Of equals the last.
        assert_eq!(cuts(&[(1, 10), (1, 20)], 30, 20), [20]);
        assert_eq!(cuts(&[], 30, 10), [] as [usize; 0]);
    }

    fn named(g: Graph<'_>, set: impl Fn(Value) -> bool) -> Vec<&str> {
        let own = g.region_values(g.entry()).map(Value).filter(|&v| set(v) && g.names[v.at()].is_some());
        own.map(|v| g.str(g.names[v.at()])).collect()
    }

    /// The cut points of a line of values of 256 bytes: position, width, bytes before. `fourth` makes the fourth one.
    fn points(fourth: &str) -> (Vec<(usize, u64, u64)>, u64) {
        let text = format!(
            "graph @points {{
                %x = input : f32[64]
                %a = exp %x
                %b = sin %a
                %c = mul %a, %b
                %e = {fourth}
                %d = tanh %e
                %loss = reduce_sum %d axes=[0] keep=false
                %p = mul %b, %d
                %q = mul %p, %e
                %r = mul %q, %c
                return loss=%loss, g=%r
            }}"
        );
        let buf = parse(&text).unwrap();
        let (g, f) = (buf.view(), remat_facts(buf.view()));
        assert_eq!(named(g, |v| f.read_by_backward[v]), ["b", "c", "e", "d"]);
        // %a is kept for no backward reader, and %c is read and not kept.
        let mut kept = Side::filled(g.values(), false);
        for v in g.region_values(g.entry()).map(Value) {
            kept[v] = g.names[v.at()].is_some() && ["a", "b", "e", "d"].contains(&g.str(g.names[v.at()]));
        }
        let (points, total) = block_cut_points(g, &f, &last_forward_reads(g, &f), &kept);
        (points.iter().map(|p| (p.at, p.width, p.before)).collect(), total)
    }

    #[test]
    fn cut_points_are_the_narrowest_for_what_is_kept_before_them() {
        // Where %c is computed, %a and %b cross; behind it, one value does.
        assert_eq!(points("exp %c"), (vec![(3, 256, 256), (4, 256, 512)], 768));
        // A mark is the only point.
        assert_eq!(points("checkpoint %c"), (vec![(4, 256, 512)], 768));
    }

    /// Four products whose activations the backward half reads.
    const PRODUCTS: &str = "graph @products {
        %x = input : f32[512,512]
        %w = param init=ones scale=0 frozen=false : f32[512,512]
        %h1 = matmul %x, %w ta=false tb=false
        %t1 = tanh %h1
        %h2 = matmul %t1, %w ta=false tb=false
        %t2 = tanh %h2
        %h3 = matmul %t2, %w ta=false tb=false
        %t3 = tanh %h3
        %h4 = matmul %t3, %w ta=false tb=false
        %t4 = tanh %h4
        %loss = reduce_sum %t4 axes=[0,1] keep=false
        %p = mul %t4, %t3
        %q = mul %p, %t2
        %r = mul %q, %t1
        return loss=%loss, grad.w=%r
    }";

    #[test]
    fn blocks_of_equal_layers_are_halves_and_quarters() {
        let buf = parse(PRODUCTS).unwrap();
        let (g, f) = (buf.view(), remat_facts(buf.view()));
        let blocks = find_divisions(g, &f);
        let names: Vec<String> = blocks.iter().map(RematBlocks::name).collect();
        assert_eq!(names, ["1 of 2 blocks", "1 of 4 blocks", "2 of 4 blocks", "3 of 4 blocks"]);
        let crosses: Vec<String> = blocks.iter().map(|b| named(g, |v| b.crosses[v]).join(" ")).collect();
        assert_eq!(crosses, ["w h3", "w h2", "w h2 h3", "w h2 h3 h4"]);
        // Before the last cut all but what crosses may run again, behind it what is cheap.
        let again = |b: &RematBlocks| named(g, |v| f.is_forward(g.def[v.at()]) && b.recomputable(&f, g.def[v.at()], v));
        assert_eq!(again(&blocks[0]).join(" "), "h1 t1 h2 t2 t3 t4 loss");
        assert_eq!(again(&blocks[1]).join(" "), "h1 t1 t2 t3 t4 loss");
    }

    #[test]
    fn shares_of_many_blocks_run_again() {
        let names = |layers: usize| {
            let mut text = "graph @line {
                %x = input : f32[512,512]
                %w = param init=ones scale=0 frozen=false : f32[512,512]
                %t0 = tanh %x\n"
                .to_string();
            for i in 1..=layers {
                let last = i - 1;
                text += &format!("%h{i} = matmul %t{last}, %w ta=false tb=false\n %t{i} = tanh %h{i}\n");
            }
            text += &format!("%loss = reduce_sum %t{layers} axes=[0,1] keep=false\n %g0 = exp %w\n");
            for i in 1..=layers {
                let last = i - 1;
                text += &format!("%g{i} = mul %g{last}, %t{i}\n");
            }
            text += &format!("return loss=%loss, grad.w=%g{layers}\n}}");
            let buf = parse(&text).unwrap();
            let blocks = find_divisions(buf.view(), &remat_facts(buf.view()));
            blocks.iter().map(|b| format!("{}/{}", b.recomputed, b.total)).collect::<Vec<String>>().join(" ")
        };
        // One, two or five cuts; one, three or seven.
        assert_eq!(names(6), "1/2 1/3 2/3 2/6 3/6 5/6");
        assert_eq!(names(8), "1/2 1/4 2/4 3/4 2/8 3/8 4/8 7/8");
    }

    #[test]
    fn choices_are_sorted_by_what_runs_twice() {
        let buf = parse(PRODUCTS).unwrap();
        let (g, f) = (buf.view(), remat_facts(buf.view()));
        let list = crate::passes::remat::list_choices(g, &f);
        let names: Vec<&str> = list.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["nothing", "point-wise ops", "1 of 4 blocks", "1 of 2 blocks"]);
        let kept: Vec<String> = list[1..].iter().map(|c| named(g, |v| c.kept[v]).join(" ")).collect();
        assert_eq!(kept, ["t1 t2 t3 t4", "t2 t3 t4", "t3 t4"]);
        let layer = |name: &str| {
            let is = |n: &Node| g.outs_of(*n).any(|v| named(g, |w| w == v) == [name]);
            f.flops[g.region_nodes(g.entry()).find(is).unwrap()]
        };
        let one = layer("h1") + layer("t1");
        let cost: Vec<(u64, usize)> = list.iter().map(|c| (c.flops, c.nodes)).collect();
        assert_eq!(cost, [(0, 0), (0, 0), (one, 2), (2 * one, 4)]);
    }
}
