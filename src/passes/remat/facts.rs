//! Facts about a graph for rematerialisation: where the forward half ends, which values are always available, and the
//! cost of each value and node.

use crate::arena::{Node, Side, Value, ids::Id};
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::{Graph, Op};

/// The cost class of running a node again, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Works element by element, or only moves elements.
    Pointwise,
    /// At most [`CHEAP`] operations for each element that it reads or writes: reductions, softmax, norms.
    Cheap,
    /// More operations: products, convolutions.
    Expensive,
    /// Must not run twice.
    Never,
}

/// The most operations for each element read or written of a cheap node.
pub const CHEAP: u64 = 12;

/// The facts by node and by value of one graph.
#[derive(Clone, Debug)]
pub struct RematFacts {
    /// The last forward node.
    pub fwd_bwd_boundary: Node,
    /// Values that the backward half always has: leaves, constants, outputs, next values.
    pub free: Side<Value, bool>,
    /// Values that depend on no leaf. A copy of such a node would merge with the original.
    pub constant: Side<Value, bool>,
    /// Forward values that a backward node reads and that are not free.
    pub read_by_backward: Side<Value, bool>,
    /// Size in bytes.
    pub bytes: Side<Value, u64>,
    /// Floating-point operations.
    pub flops: Side<Node, u64>,
    /// Cost class of running the node again.
    pub class: Side<Node, Class>,
    first: Node,
}

impl RematFacts {
    /// True if `n` is in the forward half: at the boundary or before it.
    pub fn is_forward(&self, n: Node) -> bool {
        n <= self.fwd_bwd_boundary
    }

    /// Position of a node of the entry among the entry's nodes.
    pub fn position(&self, n: Node) -> usize {
        n.at() - self.first.at()
    }
}

/// The facts of `g`.
pub fn remat_facts(g: Graph<'_>) -> RematFacts {
    let entry = g.region_nodes(g.entry());
    let mut f = RematFacts {
        fwd_bwd_boundary: Node::new(0),
        free: Side::filled(g.values(), false),
        constant: Side::filled(g.values(), false),
        read_by_backward: Side::filled(g.values(), false),
        bytes: Side::filled(g.values(), 0),
        flops: Side::filled(g.nodes(), 0),
        class: Side::filled(g.nodes(), Class::Never),
        first: g.region_nodes(g.entry()).next().unwrap_or(Node::new(0)),
    };
    for n in entry {
        let def = g.def_of(n);
        let constant = !def.is_leaf() && g.args_of(n).iter().all(|&a| f.constant[a]);
        for v in g.outs_of(n) {
            f.bytes[v] = g.bytes(v) as u64;
            f.constant[v] = constant;
            f.free[v] = constant || def.is_leaf();
        }
        f.flops[n] = (def.cost)(&CostCx { graph: g, node: n });
        f.class[n] = RematFacts::class(&g, n, constant, f.flops[n]);
    }
    g.outputs().iter().for_each(|&v| f.free[v] = true);
    g.updates.iter().for_each(|&(_, next)| f.free[next] = true);
    f.fwd_bwd_boundary = RematFacts::fwd_bwd_boundary(g, &f);
    for n in g.region_nodes(g.entry()).filter(|&n| n > f.fwd_bwd_boundary) {
        for &a in g.args_of(n) {
            f.read_by_backward[a] |= g.def[a.at()] <= f.fwd_bwd_boundary && !f.free[a];
        }
    }
    f
}

impl RematFacts {
    fn class(g: &Graph<'_>, n: Node, constant: bool, flops: u64) -> Class {
        let def = g.def_of(n);
        if constant
            || def.names_region()
            || def.is_leaf()
            || !def.is_pure()
            || matches!(def.lower, Lower::Control)
            || g.op[n.at()] == Op::CHECKPOINT
        {
            return Class::Never;
        }
        if matches!(def.lower, Lower::Tile(..)) || flops == 0 {
            return Class::Pointwise;
        }
        let elements = |values: &mut dyn Iterator<Item = Value>| values.map(|v| g.numel(v) as u64).sum::<u64>();
        let moved = elements(&mut g.args_of(n).iter().copied()) + elements(&mut g.outs_of(n));
        if flops <= CHEAP.saturating_mul(moved) { Class::Cheap } else { Class::Expensive }
    }

    /// The last node that the loss needs, if later nodes read values that the loss needs; else [`RematFacts::widest`].
    /// The loss is the first scalar output.
    fn fwd_bwd_boundary(g: Graph<'_>, f: &RematFacts) -> Node {
        let scalar = |v: &&Value| g.dims(**v).is_empty() && g.dtype[v.at()].is_differentiable();
        let Some(&loss) = g.outputs().iter().find(scalar) else { return RematFacts::widest(g, f) };
        let mut needed = vec![false; g.nodes()];
        needed[g.def[loss.at()].at()] = true;
        let mut last = None;
        for n in g.region_nodes(g.entry()).rev().filter(|n| !g.def_of(*n).is_leaf()) {
            if needed[n.at()] {
                last = last.or(Some(n));
                g.args_of(n).iter().for_each(|a| needed[g.def[a.at()].at()] = true);
            }
        }
        let Some(last) = last else { return RematFacts::widest(g, f) };
        let reads = |n: Node| g.args_of(n).iter().any(|a| !f.free[*a] && needed[g.def[a.at()].at()]);
        let used = g.region_nodes(g.entry()).any(|n| n > last && reads(n));
        if used { last } else { RematFacts::widest(g, f) }
    }

    /// The node after which the most bytes are kept for later nodes. Values that only updates read do not count:
    /// gradients are kept to the end of the graph, and the boundary is at the loss.
    fn widest(g: Graph<'_>, f: &RematFacts) -> Node {
        let (start, count) = (f.first.at(), g.region_nodes(g.entry()).count());
        let updates = RematFacts::update_nodes(g);
        let mut last = vec![0usize; g.values()];
        for n in g.region_nodes(g.entry()).filter(|n| !updates[n.at()]) {
            g.args_of(n).iter().for_each(|a| last[a.at()] = n.at() - start);
        }
        let mut change = vec![0i64; count];
        for n in g.region_nodes(g.entry()) {
            for v in g.outs_of(n).filter(|&v| !f.free[v] && last[v.at()] > n.at() - start) {
                change[n.at() - start] += f.bytes[v] as i64;
                change[last[v.at()]] -= f.bytes[v] as i64;
            }
        }
        let (mut waiting, mut most, mut at) = (0i64, 0i64, 0);
        for (i, c) in change.iter().enumerate() {
            waiting += c;
            if waiting > most {
                (most, at) = (waiting, i);
            }
        }
        Node::new(start + at)
    }

    /// Nodes that make next values of leaves, and pointwise nodes that only such nodes read.
    fn update_nodes(g: Graph<'_>) -> Vec<bool> {
        let mut updates = vec![false; g.nodes()];
        for &(_, next) in g.updates {
            updates[g.def[next.at()].at()] = true;
        }
        let mut other = vec![false; g.values()];
        let mut read = vec![false; g.values()];
        g.outputs().iter().for_each(|v| other[v.at()] = true);
        for n in g.region_nodes(g.entry()).rev() {
            let outs = || g.outs_of(n);
            if g.def_of(n).is_pointwise() && outs().all(|v| read[v.at()] && !other[v.at()]) {
                updates[n.at()] = true;
            }
            for &a in g.args_of(n) {
                read[a.at()] = true;
                other[a.at()] |= !updates[n.at()];
            }
        }
        updates
    }
}
