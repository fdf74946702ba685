//! The size of a graph, as the reducer compares graphs.

use crate::arena::{DType, Node, Value, ids::Id};
use crate::nodes::ir::attrs::Owned;
use crate::nodes::{Graph, Op};
use std::fmt;

/// The size of a graph. Sizes are compared field by field, the first that differs decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GraphSize {
    /// Regions besides the entry.
    pub regions: usize,
    /// Nodes with operands.
    pub nodes: usize,
    /// Leaves, arguments, and nodes without operands.
    pub leaves: usize,
    /// Outputs, yields, and twice the updates.
    pub outputs: usize,
    /// Elements and axes of all values.
    pub elements: usize,
    /// How far attributes, element types and kinds of leaves are from the plainest.
    pub details: usize,
}

impl GraphSize {
    /// The size of `g`.
    pub fn of(g: Graph<'_>) -> GraphSize {
        let nodes = (0..g.nodes()).filter(|&n| !g.args_of(Node::new(n)).is_empty()).count();
        let values = (0..g.values()).map(Value::new);
        let elements = values.clone().map(|v| g.numel(v).saturating_add(g.dims(v).len()));
        let types = values.map(|v| usize::from(g.dtype[v.at()] != DType::F32)).sum::<usize>();
        let details = (0..g.nodes()).map(Node::new).map(|n| count_node_details(g, n));
        GraphSize {
            regions: g.regions() - 1,
            nodes,
            leaves: g.nodes() - nodes,
            outputs: g.yields.len() + 2 * g.updates.len(),
            elements: elements.fold(0, usize::saturating_add),
            details: details.fold(types, usize::saturating_add),
        }
    }
}

impl fmt::Display for GraphSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GraphSize { regions, nodes, leaves, outputs, elements, .. } = self;
        write!(f, "{nodes} nodes, {leaves} leaves, {outputs} outputs, {regions} regions, {elements} elements")
    }
}

fn count_node_details(g: Graph<'_>, n: Node) -> usize {
    let kind = usize::from(matches!(g.op[n.at()], Op::PARAM | Op::STATE));
    // The number of an argument is its place.
    let attrs = g.attrs(n).iter().filter(|_| g.op[n.at()] != Op::ARG);
    kind + attrs.map(|(_, a)| attr_details_of_graph(&a)).fold(0, usize::saturating_add)
}

/// How far a value of an attribute is from the plainest one.
pub(super) fn attr_details_of_graph(a: &Owned) -> usize {
    let number = |x: f64| match x {
        x if x.to_bits() == 0 => 0,
        1.0 => 1,
        x if x.fract() == 0.0 && x.abs() < 1e6 => 2,
        _ => 3,
    };
    let int = |i: i64| 2 * i.unsigned_abs().min(1 << 40) as usize + usize::from(i < 0);
    match a {
        Owned::Bool(b) => usize::from(*b),
        Owned::Int(i) => int(*i),
        Owned::F64(x) => number(*x),
        Owned::Choice(c) => *c as usize,
        Owned::Ints(list) => list.iter().map(|&i| 1 + int(i)).fold(0, usize::saturating_add),
        Owned::Floats(list) => list.iter().map(|&x| 1 + number(x)).sum::<usize>() + 1,
        Owned::Bytes(bytes) => bytes.iter().filter(|&&b| b != 0).count(),
        Owned::DType(_) | Owned::Shape(_) | Owned::Sym(_) | Owned::Region(_) | Owned::Absent => 0,
    }
}
