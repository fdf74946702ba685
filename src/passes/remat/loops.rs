//! Loops under a budget: a forward loop and the backward loops that read its stacks run in stretches.
//!
//! The forward loop keeps its carries before each stretch. A backward loop runs a stretch of the forward loop again,
//! which stacks what it reads, and then its own iterations of the stretch. Loops of which stacks meet in one backward
//! loop are one group: they have stretches of one length, the one that takes the fewest bytes. All lengths repeat the
//! same operations, those of one more run of the forward loops.

use super::facts::RematFacts;
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, GraphBuf, Op, Var};
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};
use crate::passes::stretches::{StretchResults, StretchYields, Stretches};

/// The most lengths of stretches that are compared.
const MAX_LENGTHS: usize = 4096;

/// Forward loops, and the backward loops that read their stacks.
#[derive(Clone, Debug)]
pub struct LoopGroup {
    /// The forward loops, in order.
    forward: Vec<Node>,
    /// The backward loops.
    backward: Vec<Node>,
    /// Number of iterations of a stretch.
    each: usize,
    /// Bytes that stretches save.
    saved: u64,
    /// Operations that run twice.
    pub flops: u64,
}

/// The scan that node `n` of the entry is, if it is one.
fn loop_of(g: Graph<'_>, n: Node) -> Option<Scan> {
    matches!(g.def_of(n).lower, Lower::Loop).then(|| Scan::of(&g.attrs(n)))
}

/// The stacked results of forward loops that backward loops of as many iterations read, slice by slice, and nothing
/// else.
fn stacks_of_loops(g: Graph<'_>, f: &RematFacts) -> Side<Value, bool> {
    let mut stacks = Side::filled(g.values(), false);
    for n in g.region_nodes(g.entry()) {
        let scan = loop_of(g, n);
        let reads_slices = |i: usize| scan.is_some_and(|s| i >= s.xs()) && !f.is_forward(n);
        for (_, &a) in g.args_of(n).iter().enumerate().filter(|(i, _)| !reads_slices(*i)) {
            stacks[a] = false;
        }
        if let Some(s) = scan.filter(|s| f.is_forward(n) && s.length > 1 && s.keep_every.is_none()) {
            g.outs_of(n).skip(s.carries).for_each(|v| stacks[v] = true);
        }
    }
    g.outputs().iter().for_each(|&v| stacks[v] = false);
    g.updates.iter().for_each(|&(_, next)| stacks[next] = false);
    stacks
}

/// The groups of loops that stretches make smaller, those first that save most for each repeated operation.
pub fn loop_groups(g: Graph<'_>, f: &RematFacts) -> Vec<LoopGroup> {
    let stacks = stacks_of_loops(g, f);
    let mut groups: Vec<LoopGroup> = Vec::new();
    for n in g.region_nodes(g.entry()).filter(|&n| !f.is_forward(n) && loop_of(g, n).is_some()) {
        let mut forward: Vec<Node> = g.args_of(n).iter().filter(|&&a| stacks[a]).map(|a| g.def[a.at()]).collect();
        if forward.is_empty() {
            continue;
        }
        let mut backward = vec![n];
        groups.retain(|group| {
            let apart = group.forward.iter().all(|f| !forward.contains(f));
            if !apart {
                forward.extend(&group.forward);
                backward.extend(&group.backward);
            }
            apart
        });
        forward.sort_unstable();
        forward.dedup();
        groups.push(LoopGroup { forward, backward, each: 1, saved: 0, flops: 0 });
    }
    groups.iter_mut().for_each(|group| group.measure(g, f, &stacks));
    groups.retain(|group| group.saved > 0);
    groups.sort_by_key(|group| (u128::from(group.flops) << 32) / u128::from(group.saved));
    groups
}

impl LoopGroup {
    /// Finds the best length of the stretches, and what they save.
    fn measure(&mut self, g: Graph<'_>, f: &RematFacts, stacks: &Side<Value, bool>) {
        let Some(scan) = self.forward.first().and_then(|&n| loop_of(g, n)) else { return };
        let (mut carried, mut stacked, mut copied) = (0u64, 0u64, 0u64);
        for &n in self.forward.iter().chain(&self.backward) {
            let carries = loop_of(g, n).map_or(0, |s| s.carries);
            let sum = |kept: bool| g.outs_of(n).skip(carries).filter(|&v| stacks[v] == kept).map(|v| f.bytes[v]).sum();
            let (dropped, kept): (u64, u64) = (sum(true), sum(false));
            stacked += dropped;
            copied += kept;
            if f.is_forward(n) {
                carried += g.outs_of(n).take(carries).map(|v| f.bytes[v]).sum::<u64>();
                self.flops += f.flops[n];
            }
        }
        let length = scan.length;
        let bytes = |n: usize| {
            let rest = if length % n == 0 { 0 } else { copied };
            let starts = (length.div_ceil(n) as u64).saturating_mul(carried);
            starts.saturating_add(stacked / length as u64 * n as u64).saturating_add(rest)
        };
        let best = (length as f64 * (carried.max(1) as f64 * length as f64 / stacked.max(1) as f64)).sqrt() as usize;
        let from = best.saturating_sub(MAX_LENGTHS / 2).clamp(1, length);
        let lengths = from..=from.saturating_add(MAX_LENGTHS).min(length);
        if let Some(n) = lengths.min_by_key(|&n| bytes(n)) {
            self.each = n;
            self.saved = stacked.saturating_sub(bytes(n));
        }
    }
}

/// `g` with the loops of `groups` in stretches.
pub fn apply_loops(g: Graph<'_>, f: &RematFacts, groups: &[LoopGroup]) -> Result<GraphBuf> {
    let mut each = Side::filled(g.nodes(), 0);
    for group in groups {
        group.forward.iter().chain(&group.backward).for_each(|&n| each[n] = group.each);
    }
    let mut loops = RematLoops { stacks: stacks_of_loops(g, f), each, rows: vec![Vec::new(); g.nodes()] };
    rebuild_buf(g, &mut |v| match loops.each[v.node] {
        0 => None,
        each if f.is_forward(v.node) => Some(loops.forward_loop(v, each)),
        each => Some(loops.backward_loop(v, each)),
    })
}

/// The loops that are being written in stretches.
struct RematLoops {
    /// Results of forward loops that are not kept.
    stacks: Side<Value, bool>,
    /// Number of iterations of a stretch; 0: the node stays.
    each: Side<Node, usize>,
    /// By forward loop: its carries before each stretch, by part.
    rows: Vec<Vec<Vec<Value>>>,
}

/// The operands of a loop.
fn loop_operands<'o, 'g>(scan: &Scan, args: &'o [Var<'g>]) -> [&'o [Var<'g>]; 3] {
    let (carries, rest) = args.split_at(scan.carries);
    let (consts, xs) = rest.split_at(scan.consts);
    [carries, consts, xs]
}

/// Writes the iterations of one stretch of the loop `n`.
fn stretch_of_loop<'g>(v: &RebuildVisit<'_, 'g>, n: Node, length: usize, args: &[Var<'g>]) -> Vec<Var<'g>> {
    let scan = Scan::of(&v.src.attrs(n));
    let body = v.regions[scan.body.at()];
    let inner = Scan { length, keep_every: None, ..scan };
    v.g.with(|e| e.set_loc(v.src.loc[n.at()]));
    v.g.emit(Op::SCAN, args, &inner.over(body, scan.carries, scan.consts).list()).into()
}

impl RematLoops {
    /// Writes the forward loop `v`. It keeps its carries before each stretch, and of its stacked results those that
    /// others read.
    fn forward_loop<'g>(&mut self, v: &RebuildVisit<'_, 'g>, each: usize) -> Vec<Var<'g>> {
        let (g, scan) = (v.g, Scan::of(&v.src.attrs(v.node)));
        let [carries, consts, xs] = loop_operands(&scan, v.args).map(<[_]>::to_vec);
        let kept: Vec<bool> = v.src.outs_of(v.node).skip(scan.carries).map(|y| !self.stacks[y]).collect();
        let none = g.var(Value::NONE);
        if scan.carries == 0 && !kept.contains(&true) {
            return vec![none; kept.len()];
        }
        let loc = v.src.loc[v.node.at()];
        let stretches = Stretches { g, loc, scan, each, carries, consts, xs, rows: Vec::new() };
        let StretchResults { mut carries, ys, rows } = stretches.write(|a| {
            let mut carries = stretch_of_loop(v, v.node, a.length, &[a.carries, a.consts, a.xs].concat());
            let ys = carries.split_off(scan.carries.min(carries.len()));
            let ys = ys.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(y, _)| y).collect();
            StretchYields { carries, ys, row: a.carries.to_vec() }
        });
        self.rows[v.node.at()] = rows.iter().map(|part| part.iter().map(|x| x.v).collect()).collect();
        let mut ys = ys.into_iter();
        carries.extend(kept.iter().map(|&kept| if kept { ys.next().unwrap_or(none) } else { none }));
        carries
    }

    /// Writes the backward loop `v`, with the stretches of the forward loops that it reads.
    fn backward_loop<'g>(&mut self, v: &RebuildVisit<'_, 'g>, each: usize) -> Vec<Var<'g>> {
        let (g, src, scan) = (v.g, v.src, Scan::of(&v.src.attrs(v.node)));
        let [carries, consts, xs] = loop_operands(&scan, v.args);
        let read = &src.args_of(v.node)[scan.xs()..];
        let gone: Vec<bool> = read.iter().map(|&a| self.stacks[a]).collect();
        let mut sources: Vec<Node> = read.iter().filter(|&&a| self.stacks[a]).map(|a| src.def[a.at()]).collect();
        sources.sort_unstable();
        sources.dedup();
        let (mut all_consts, mut all_xs) = (consts.to_vec(), Vec::new());
        all_xs.extend(xs.iter().zip(&gone).filter(|(_, gone)| !**gone).map(|(x, _)| *x));
        let mut rows: Vec<Vec<Var<'g>>> = vec![Vec::new(); 2];
        let own = (all_consts.len(), all_xs.len());
        for &n in &sources {
            let s = Scan::of(&src.attrs(n));
            let args: Vec<Var<'g>> = src.args_of(n).iter().map(|&a| v.map[a]).collect();
            all_consts.extend(&args[s.carries..s.xs()]);
            all_xs.extend(&args[s.xs()..]);
            for (all, part) in rows.iter_mut().zip(&self.rows[n.at()]) {
                all.extend(part.iter().map(|&x| g.var(x)));
            }
        }
        let (loc, carries, xs) = (src.loc[v.node.at()], carries.to_vec(), all_xs);
        let stretches = Stretches { g, loc, scan, each, carries, consts: all_consts, xs, rows };
        let results = stretches.write(|a| {
            let [mut row, mut more_consts, mut more_xs] = [a.row, &a.consts[own.0..], &a.xs[own.1..]];
            let mut again: Vec<(Value, Var<'g>)> = Vec::new();
            for &n in &sources {
                let s = Scan::of(&src.attrs(n));
                let mut args = Vec::new();
                let counts = [s.carries, s.consts, src.args_of(n).len() - s.xs()];
                for (list, count) in [&mut row, &mut more_consts, &mut more_xs].into_iter().zip(counts) {
                    let (own, rest) = list.split_at(count.min(list.len()));
                    args.extend_from_slice(own);
                    *list = rest;
                }
                again.extend(src.outs_of(n).zip(stretch_of_loop(v, n, a.length, &args)));
            }
            let mut slices = a.xs[..own.1].iter();
            let mut args = [a.carries, &a.consts[..own.0]].concat();
            args.extend(read.iter().zip(&gone).filter_map(|(x, gone)| match gone {
                true => again.iter().find(|made| made.0 == *x).map(|made| made.1),
                false => slices.next().copied(),
            }));
            let mut carries = stretch_of_loop(v, v.node, a.length, &args);
            let ys = carries.split_off(scan.carries.min(carries.len()));
            StretchYields { carries, ys, row: Vec::new() }
        });
        [results.carries, results.ys].concat()
    }
}
