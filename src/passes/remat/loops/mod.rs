//! Loops under a budget: a forward loop and the backward loops that read its stacks run in stretches.
//!
//! The forward loop keeps its carries before each stretch. For each stretch, the forward loop runs again and stacks the
//! values that the backward loop reads; then the backward loop runs its iterations of the stretch. Stretches of every
//! length repeat the same operations, so the length that takes the fewest bytes is chosen. It may be that only the
//! first iterations of a loop run in stretches; the last ones then keep their stacks and run once. Forward loops whose
//! stacks one backward loop reads are one group, with the same stretches.

use super::facts::RematFacts;
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::Result;
use crate::kernels::abi::DEPTH;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::loop_method;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, GraphBuf, Op, Var};
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};
use crate::passes::stretches::{StretchArgs, StretchResults, StretchYields, Stretches, stretch_levels_inside};
use std::ops::Range;

/// The most lengths of stretches that are compared.
const MAX_LENGTHS: usize = 4096;

/// The parts of a loop that [`RematLoopGroup::stretched`] counts.
pub const LOOP_PARTS: usize = 4;

/// Forward loops, and the backward loops that read their stacks.
#[derive(Clone, Debug)]
pub struct RematLoopGroup {
    /// The forward loops, in order.
    forward: Vec<Node>,
    /// The backward loops.
    backward: Vec<Node>,
    /// Number of iterations.
    length: usize,
    /// Bytes of the forward loops' carries.
    carried: u64,
    /// Bytes of the stacks that one iteration needs.
    stacked: u64,
    /// Bytes that are copied if the loops do not run in equal stretches.
    copied: u64,
    /// Operations of the forward loops.
    flops: u64,
    /// The parts of the iterations that run in stretches, of [`LOOP_PARTS`].
    pub stretched: usize,
}

/// The scan that node `n` of the entry is, if it is one that runs all its iterations.
fn remat_loop_of(g: Graph<'_>, n: Node) -> Option<Scan> {
    matches!(g.def_of(n).lower, Lower::Loop).then(|| Scan::of(&g.attrs(n))).filter(|s| s.exit.is_none())
}

/// The stacked results of forward loops that backward loops of as many iterations read, slice by slice, and nothing
/// else.
fn remat_loop_stacks(g: Graph<'_>, f: &RematFacts) -> Side<Value, bool> {
    let mut stacks = Side::filled(g.values(), false);
    for n in g.region_nodes(g.entry()) {
        let scan = remat_loop_of(g, n);
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
pub fn remat_loop_groups(g: Graph<'_>, f: &RematFacts) -> Vec<RematLoopGroup> {
    let (stacks, inside) = (remat_loop_stacks(g, f), stretch_levels_inside(g, |_| 1));
    let fits = |n: &Node| remat_loop_of(g, *n).is_some_and(|s| inside[s.body] + 2 <= DEPTH);
    let mut groups: Vec<RematLoopGroup> = Vec::new();
    for n in g.region_nodes(g.entry()).filter(|&n| !f.is_forward(n) && remat_loop_of(g, n).is_some()) {
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
        let length = remat_loop_of(g, n).map_or(0, |s| s.length);
        let (carried, stacked, copied, flops) = (0, 0, 0, 0);
        groups.push(RematLoopGroup {
            forward,
            backward,
            length,
            carried,
            stacked,
            copied,
            flops,
            stretched: LOOP_PARTS,
        });
    }
    groups.iter_mut().for_each(|group| group.measure(g, f, &stacks));
    groups.retain(|group| group.saved() > 0 && group.forward.iter().chain(&group.backward).all(fits));
    groups.sort_by_key(|group| (u128::from(group.flops) << 32) / u128::from(group.saved()));
    groups
}

impl RematLoopGroup {
    fn measure(&mut self, g: Graph<'_>, f: &RematFacts, stacks: &Side<Value, bool>) {
        for &n in self.forward.iter().chain(&self.backward) {
            let carries = remat_loop_of(g, n).map_or(0, |s| s.carries);
            let sum = |kept: bool| g.outs_of(n).skip(carries).filter(|&v| stacks[v] != kept).map(|v| f.bytes[v]).sum();
            let (dropped, kept): (u64, u64) = (sum(false), sum(true));
            self.stacked += dropped / self.length.max(1) as u64;
            self.copied += kept;
            if f.is_forward(n) {
                self.carried += g.outs_of(n).take(carries).map(|v| f.bytes[v]).sum::<u64>();
                self.flops += f.flops[n];
            }
        }
    }

    /// Number of iterations that run in stretches.
    fn iterations(&self) -> usize {
        (self.length as u64 * self.stretched as u64).div_ceil(LOOP_PARTS as u64) as usize
    }

    /// Operations that run twice.
    pub fn flops(&self) -> u64 {
        (u128::from(self.flops) * self.iterations() as u128 / self.length.max(1) as u128) as u64
    }

    /// Bytes of the iterations in stretches of `each`.
    fn bytes(&self, each: usize) -> u64 {
        let count = self.iterations();
        let starts = (count.div_ceil(each) as u64).saturating_mul(self.carried);
        let copied = if self.length.is_multiple_of(each) && count == self.length { 0 } else { self.copied };
        starts.saturating_add(self.stacked.saturating_mul(each as u64)).saturating_add(copied)
    }

    /// The length of a stretch that takes the fewest bytes.
    fn each(&self) -> usize {
        let count = self.iterations().max(1);
        let best = (count as f64 * self.carried as f64 / self.stacked.max(1) as f64).sqrt() as usize;
        let from = best.saturating_sub(MAX_LENGTHS / 2).clamp(1, count);
        let lengths = from..=from.saturating_add(MAX_LENGTHS).min(count);
        lengths.min_by_key(|&each| self.bytes(each)).unwrap_or(1)
    }

    /// Bytes that stretches save.
    fn saved(&self) -> u64 {
        self.stacked.saturating_mul(self.iterations() as u64).saturating_sub(self.bytes(self.each()))
    }

    /// The iterations that run without stretches: the last ones, in the order in which the first forward loop runs.
    fn plain(&self, g: Graph<'_>) -> Range<usize> {
        let count = self.iterations();
        match self.forward.first().and_then(|&n| remat_loop_of(g, n)) {
            Some(s) if s.reverse => 0..self.length - count,
            _ => count..self.length,
        }
    }
}

/// `g` with the loops of `groups` in stretches.
pub fn run_in_stretches(g: Graph<'_>, f: &RematFacts, groups: &[RematLoopGroup]) -> Result<GraphBuf> {
    let mut how = Side::filled(g.nodes(), None);
    for group in groups.iter().filter(|group| group.stretched > 0) {
        let one = StretchedLoop { each: group.each(), plain: (group.plain(g).start, group.plain(g).end) };
        group.forward.iter().chain(&group.backward).for_each(|&n| how[n] = Some(one));
    }
    let mut loops = RematLoops { stacks: remat_loop_stacks(g, f), rows: vec![Vec::new(); g.nodes()] };
    rebuild_buf(g, &mut |v| {
        let how = how[v.node]?;
        Some(match f.is_forward(v.node) {
            true => loops.forward_loop(v, how),
            false => loops.backward_loop(v, how),
        })
    })
}

/// How a loop runs in stretches.
#[derive(Clone, Copy)]
struct StretchedLoop {
    /// Number of iterations of a stretch.
    each: usize,
    /// The first iteration that runs without stretches, and the first behind these.
    plain: (usize, usize),
}

/// The loops that are being written in stretches.
struct RematLoops {
    /// Results of forward loops that are not kept.
    stacks: Side<Value, bool>,
    /// By forward loop and part of it: its carries before each stretch, or its stacks in the plain part.
    rows: Vec<Vec<Vec<Value>>>,
}

/// The operands of a loop: carries, constants and stacked inputs.
fn remat_loop_operands<'o, 'g>(scan: &Scan, args: &'o [Var<'g>]) -> [&'o [Var<'g>]; 3] {
    let (carries, rest) = args.split_at(scan.carries);
    let (consts, xs) = rest.split_at(scan.consts);
    [carries, consts, xs]
}

/// Writes `length` iterations of the loop `n`. Its carries, and its stacked results.
fn remat_loop_iterations<'g>(
    v: &RebuildVisit<'_, 'g>,
    n: Node,
    length: usize,
    args: &[Var<'g>],
) -> (Vec<Var<'g>>, Vec<Var<'g>>) {
    let scan = Scan::of(&v.src.attrs(n));
    let body = v.regions[scan.body.at()];
    let inner = Scan { length, keep_every: None, ..scan };
    v.g.with(|e| e.set_loc(v.src.loc[n.at()]));
    let mut carries = Vec::from(v.g.emit(Op::SCAN, args, &inner.over(body, scan.carries, scan.consts).list()));
    let ys = carries.split_off(scan.carries.min(carries.len()));
    (carries, ys)
}

impl RematLoops {
    /// Writes the forward loop `v`. It keeps its carries before each stretch, and of its stacked results those that
    /// others read.
    fn forward_loop<'g>(&mut self, v: &RebuildVisit<'_, 'g>, how: StretchedLoop) -> Vec<Var<'g>> {
        let (g, scan) = (v.g, Scan::of(&v.src.attrs(v.node)));
        let gone: Vec<bool> = v.src.outs_of(v.node).skip(scan.carries).map(|y| self.stacks[y]).collect();
        let none = g.var(Value::NONE);
        let StretchedLoop { each, plain } = how;
        let plain_alone = scan.carries == 0 && !gone.contains(&false);
        let [carries, consts, xs] = remat_loop_operands(&scan, v.args).map(<[_]>::to_vec);
        let (loc, plain) = (v.src.loc[v.node.at()], plain.0..plain.1);
        let method = loop_method(v.src, scan.body);
        let rows = Vec::new();
        let stretches = Stretches { g, loc, method, scan, each, plain, plain_alone, carries, consts, xs, rows };
        let StretchResults { mut carries, ys, rows } = stretches.write(|a| {
            let (carries, all) = remat_loop_iterations(v, v.node, a.length, &[a.carries, a.consts, a.xs].concat());
            let pick = |want: bool| all.iter().zip(&gone).filter(|y| *y.1 == want).map(|y| *y.0).collect();
            let row = if a.plain { pick(true) } else { a.carries.to_vec() };
            StretchYields { carries, ys: pick(false), row }
        });
        self.rows[v.node.at()] = rows.iter().map(|part| part.iter().map(|x| x.v).collect()).collect();
        let mut ys = ys.into_iter();
        carries.extend(gone.iter().map(|&gone| if gone { none } else { ys.next().unwrap_or(none) }));
        carries
    }

    /// Writes the backward loop `v`, with the stretches of the forward loops that it reads.
    fn backward_loop<'g>(&mut self, v: &RebuildVisit<'_, 'g>, how: StretchedLoop) -> Vec<Var<'g>> {
        let (g, src, scan) = (v.g, v.src, Scan::of(&v.src.attrs(v.node)));
        let read = &src.args_of(v.node)[scan.xs()..];
        let mut sources: Vec<Node> = read.iter().filter(|&&a| self.stacks[a]).map(|a| src.def[a.at()]).collect();
        sources.sort_unstable();
        sources.dedup();
        let [carries, consts, xs] = remat_loop_operands(&scan, v.args).map(<[_]>::to_vec);
        let kept = xs.iter().zip(read).filter(|x| !self.stacks[*x.1]).map(|x| *x.0);
        let (mut consts, mut xs): (_, Vec<Var<'g>>) = (consts, kept.collect());
        let own = (consts.len(), xs.len());
        let mut rows: Vec<Vec<Var<'g>>> = Vec::new();
        for &n in &sources {
            let args: Vec<Var<'g>> = src.args_of(n).iter().map(|&a| v.map[a]).collect();
            let [_, more_consts, more_xs] = remat_loop_operands(&Scan::of(&src.attrs(n)), &args);
            consts.extend(more_consts);
            xs.extend(more_xs);
            rows.resize(rows.len().max(self.rows[n.at()].len()), Vec::new());
            for (all, part) in rows.iter_mut().zip(&self.rows[n.at()]) {
                all.extend(part.iter().map(|&x| g.var(x)));
            }
        }
        let (loc, StretchedLoop { each, plain }) = (src.loc[v.node.at()], how);
        let (plain, plain_alone) = (plain.0..plain.1, false);
        let method = loop_method(src, scan.body);
        let stretches = Stretches { g, loc, method, scan, each, plain, plain_alone, carries, consts, xs, rows };
        let results = stretches.write(|a| {
            let again = self.stacks_again(v, &sources, &a, own);
            let mut slices = a.xs[..own.1].iter();
            let mut args = [a.carries, &a.consts[..own.0]].concat();
            args.extend(read.iter().filter_map(|x| match self.stacks[*x] {
                true => again.iter().find(|made| made.0 == *x).map(|made| made.1),
                false => slices.next().copied(),
            }));
            let (carries, ys) = remat_loop_iterations(v, v.node, a.length, &args);
            StretchYields { carries, ys, row: Vec::new() }
        });
        [results.carries, results.ys].concat()
    }

    /// The stacks of the forward loops `sources`, which a backward loop reads. A stretch runs again; the plain part
    /// has them in its row. `own` is the number of constants and stacked inputs of the backward loop itself.
    fn stacks_again<'g>(
        &self,
        v: &RebuildVisit<'_, 'g>,
        sources: &[Node],
        a: &StretchArgs<'_, 'g>,
        own: (usize, usize),
    ) -> Vec<(Value, Var<'g>)> {
        let mut again = Vec::new();
        let mut rest = [a.row, &a.consts[own.0..], &a.xs[own.1..]];
        for &n in sources {
            let s = Scan::of(&v.src.attrs(n));
            let stacks = v.src.outs_of(n).skip(s.carries);
            if a.plain {
                let gone: Vec<Value> = stacks.filter(|&y| self.stacks[y]).collect();
                let (row, more) = rest[0].split_at(gone.len());
                again.extend(gone.into_iter().zip(row.iter().copied()));
                rest[0] = more;
                continue;
            }
            let counts = [s.carries, s.consts, v.src.args_of(n).len() - s.xs()];
            let mut args = Vec::new();
            for (list, count) in rest.iter_mut().zip(counts) {
                let (these, more) = list.split_at(count);
                args.extend_from_slice(these);
                *list = more;
            }
            again.extend(stacks.zip(remat_loop_iterations(v, n, a.length, &args).1));
        }
        again
    }
}
