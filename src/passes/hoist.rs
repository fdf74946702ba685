//! Moves nodes out of the body of a loop if they read nothing but constants of the loop.
//!
//! Such a node runs once, before the loop, and its result becomes a constant of the loop. Moves and fills stay where
//! they are read: they cost little, and their results may be large. A loop that may end early keeps its body, because
//! it may run no iteration at all. Loops inside a loop come first, so that their code may leave the outer loop in a
//! later round. Invariant: the bits stay, because a node computes the same from the same operands; only the products
//! whose weights [`super::exchange_weights`] exchanges add in another order.
//!
//! Before a reverse derivative, broadcasts of small constants move out, too. The adjoint loop then sums the cotangents
//! of the broadcast, and the sum is reduced once, after the loop, instead of in each iteration.

use super::exchange_weights::{exchanged_for_loops, find_exchanged_weights};
use super::rebuild::{RebuildVisit, rebuild};
use super::simplify::Hits;
use crate::arena::{Node, Region, Value, Window, ids::Id};
use crate::error::Result;
use crate::kernels::abi::DEPTH;
use crate::nodes::ir::flags::Flags;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::{Graph, GraphBuf, Op, Ty, Var};
use bumpalo::Bump;

/// The most elements of a constant whose broadcast leaves a loop.
const MOST_SMALL: usize = 64;
/// The most elements of such a broadcast.
const MOST_BROADCAST: usize = 1 << 14;
/// The most rounds of [`move_out_for_adjoint`]: loops in loops, of which no plan has more.
const ROUNDS: usize = DEPTH;

/// What leaves the loops of a graph.
#[derive(Clone, Copy, PartialEq)]
enum Leaving {
    /// All but moves.
    Work,
    /// These, and broadcasts of small constants.
    WorkAndBroadcasts,
}

/// Moves what does not change out of the loops of `g`. Counts the nodes in `hits`.
pub fn move_invariants_out<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    run_round(g, bump, Leaving::Work, hits)
}

/// `g` with loops whose adjoints reduce the cotangents of constants once. `None` if no loop changes.
pub fn move_out_for_adjoint(g: Graph<'_>) -> Result<Option<GraphBuf>> {
    let mut done = None;
    for _ in 0..ROUNDS {
        let mut hits = Hits::default();
        let g = done.as_ref().map_or(g, GraphBuf::view);
        let next = GraphBuf::make(|b| run_round(g, b, Leaving::WorkAndBroadcasts, &mut hits))?;
        if hits.is_empty() {
            break;
        }
        done = Some(next);
    }
    Ok(done)
}

fn run_round<'b>(g: Graph<'_>, bump: &'b Bump, leaving: Leaving, hits: &mut Hits) -> Result<Graph<'b>> {
    rebuild(g, bump, &mut |v| {
        if !matches!(v.def.lower, Lower::Loop) {
            return None;
        }
        let scan = Scan::of(&g.attrs(v.node));
        if scan.exit.is_some() || scan.length == 0 {
            return None;
        }
        let body = Hoist::new(g, scan, leaving);
        if body.leaving.is_empty() && body.exchanged.is_empty() {
            return None;
        }
        for (what, count) in [("hoisted", body.leaving.len()), ("weight-exchanged", body.exchanged.len())] {
            if count > 0 {
                *hits.entry(what).or_default() += count;
            }
        }
        Some(body.write(v))
    })
}

/// True if `n` repeats a few floats.
fn repeats_few_floats(g: Graph<'_>, n: Node) -> bool {
    if g.op[n.at()] != Op::BROADCAST || !g.dtype[g.out(n).at()].is_differentiable() {
        return false;
    }
    let (from, to) = (g.numel(g.args_of(n)[0]), g.numel(g.out(n)));
    from <= MOST_SMALL && from < to && to <= MOST_BROADCAST
}

/// The values of region `r` that are added to a product: a bias, which is fused with it.
fn find_product_biases(g: Graph<'_>, r: Region) -> Window<Value, bool> {
    let mut summands = Window::filled(g.region_values(r), false);
    for n in g.region_nodes(r).filter(|&n| g.op[n.at()] == Op::ADD) {
        if g.args_of(n).iter().any(|a| g.def_of(g.def[a.at()]).flags.has(Flags::PRODUCT)) {
            g.args_of(n).iter().for_each(|&a| summands[a] = true);
        }
    }
    summands
}

/// The body of a loop, and what leaves it.
struct Hoist<'x> {
    g: Graph<'x>,
    scan: Scan,
    /// Nodes that run in front of the loop, in order; among them moves that these read.
    before: Vec<Node>,
    /// Values of nodes in `before` that become constants of the loop.
    leaving: Vec<Value>,
    /// Products that read a weight whose axes are exchanged before the loop, and the weights.
    exchanged: Vec<(Node, Value)>,
    /// Values that the new body reads or yields.
    live: Window<Value, bool>,
}

impl<'x> Hoist<'x> {
    fn new(g: Graph<'x>, scan: Scan, leaving: Leaving) -> Hoist<'x> {
        let r = scan.body;
        let mut fixed = Window::filled(g.region_values(r), false);
        g.region_args(r).take(scan.xs()).skip(scan.carries).for_each(|a| fixed[a] = true);
        for n in g.region_nodes(r).filter(|&n| g.op[n.at()] != Op::ARG) {
            if g.def_of(n).is_pure() && g.args_of(n).iter().all(|&a| fixed[a]) {
                g.outs_of(n).for_each(|v| fixed[v] = true);
            }
        }
        let summands = find_product_biases(g, r);
        // Moves, and what is made of no operand. A node with a region of its own has one copy: it leaves, or it stays.
        let cheap =
            |n: Node| g.def_of(n).flags.has(Flags::MOVE) || g.args_of(n).is_empty() && !g.def_of(n).names_region();
        let small = |n: Node| leaving == Leaving::WorkAndBroadcasts && repeats_few_floats(g, n) && !summands[g.out(n)];
        let work = leaving == Leaving::Work;
        let exchanged = if work { find_exchanged_weights(g, r, &fixed) } else { Vec::new() };
        let for_loops = exchanged_for_loops(g, r);
        let leaves = |n: Node| {
            let goes = || !cheap(n) || small(n) || work && for_loops[g.out(n)];
            g.op[n.at()] != Op::ARG && fixed[g.out(n)] && goes()
        };
        let mut live = Window::filled(g.region_values(r), false);
        g.region_yields(r).iter().for_each(|&y| live[y] = true);
        for n in g.region_nodes(r).rev() {
            if g.outs_of(n).any(|v| live[v]) && !leaves(n) {
                let kept = if exchanged.iter().any(|e| e.0 == n) { 1 } else { g.args_of(n).len() };
                g.args_of(n)[..kept].iter().for_each(|&a| live[a] = true);
            }
        }
        let nodes = || g.region_nodes(r).filter(|&n| leaves(n));
        let leaving: Vec<Value> = nodes().flat_map(|n| g.outs_of(n)).filter(|&v| live[v]).collect();
        let mut needed = Window::filled(g.region_values(r), false);
        leaving.iter().chain(exchanged.iter().map(|e| &e.1)).for_each(|&v| needed[v] = true);
        let mut before = Vec::new();
        for n in g.region_nodes(r).rev().filter(|&n| g.op[n.at()] != Op::ARG) {
            if g.outs_of(n).any(|v| needed[v]) {
                g.args_of(n).iter().for_each(|&a| needed[a] = true);
                before.push(n);
            }
        }
        before.reverse();
        Hoist { g, scan, before, leaving, exchanged, live }
    }

    /// Writes the nodes that leave, and the loop without them. Its results.
    fn write<'g>(&self, v: &RebuildVisit<'_, 'g>) -> Vec<Var<'g>> {
        let (src, g, s) = (self.g, v.g, &self.scan);
        let mut map = Window::filled(src.region_values(s.body), Value::NONE);
        src.region_args(s.body).zip(v.args).for_each(|(a, x)| map[a] = x.v);
        for &n in &self.before {
            v.copy_into(n, &mut map);
        }
        let mut weights: Vec<Value> = self.exchanged.iter().map(|e| e.1).collect();
        weights.sort_unstable();
        weights.dedup();
        let turned = weights.iter().map(|&w| (w, g.var(map[w]).t()));
        // Constants that only what left reads go.
        let kept: Vec<(Value, Var<'g>)> = src.region_args(s.body).zip(v.args.iter().copied()).collect();
        let (carries, rest) = kept.split_at(s.carries);
        let (consts, xs) = rest.split_at(s.consts);
        let consts = consts.iter().copied().filter(|c| self.live[c.0]);
        let consts = consts.chain(self.leaving.iter().map(|&x| (x, g.var(map[x])))).chain(turned);
        let consts: Vec<(Value, Var<'g>)> = consts.collect();
        let turned = carries.len() + consts.len() - weights.len();
        let (inner, args): (Vec<Value>, Vec<Var<'g>>) = [carries, &consts, xs].concat().into_iter().unzip();
        let mut tys: Vec<Ty> = inner.iter().map(|&a| src.ty(a)).collect();
        (turned..turned + weights.len()).for_each(|i| tys[i] = args[i].ty());
        let body = g.region(src.str(src.region_names[s.body.at()]), &tys, |args| {
            let mut map = Window::filled(src.region_values(s.body), Value::NONE);
            let (turned, plain) = (turned..turned + weights.len(), 0..args.len());
            let plain = plain.filter(|i| !turned.contains(i));
            plain.for_each(|i| map[inner[i]] = args[i].v);
            for n in src.region_nodes(s.body).filter(|&n| src.op[n.at()] != Op::ARG) {
                let exchanged = self.exchanged.iter().find(|e| e.0 == n && self.live[src.out(n)]);
                if let Some(i) = exchanged.and_then(|e| weights.binary_search(&e.1).ok()) {
                    g.with(|e| e.set_loc(src.loc[n.at()]));
                    let operands = [g.var(map[src.args_of(n)[0]]), args[turned.start + i]];
                    let attrs = MatmulAttrs { ta: false, tb: false };
                    map[src.out(n)] = g.emit1(Op::MATMUL, &operands, &attrs.list()).v;
                } else if src.outs_of(n).any(|v| self.live[v] && !map[v].is_some()) {
                    v.copy_into(n, &mut map);
                }
            }
            src.region_yields(s.body).iter().map(|&y| g.var(map[y])).collect()
        });
        g.with(|e| e.set_loc(src.loc[v.node.at()]));
        g.emit(Op::SCAN, &args, &s.over(body.region, s.carries, consts.len()).list()).to_vec()
    }
}
