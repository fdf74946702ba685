//! The facts of a graph that rules ask for: readers, definitions and fills.

use crate::arena::dims::Dims;
use crate::arena::{Node, Side, Value, ids::Id};
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::matmul::activation::Activation;
use crate::nodes::ops::matmul::attrs::{MatmulAttrs, MatmulBiasActAttrs};
use crate::nodes::{Graph, Op};

/// A value times a number.
pub(super) struct Scaled {
    /// The multiplication.
    pub(super) node: Node,
    pub(super) value: Value,
    pub(super) factor: f64,
}

/// The operands of `x·weight`, and whether each is transposed.
pub(super) struct Linear {
    pub(super) x: Value,
    pub(super) weight: Value,
    pub(super) transposed: [bool; 2],
}

/// The facts of a graph that rules ask for.
pub(super) struct PatternFacts<'x> {
    pub(super) g: Graph<'x>,
    /// Number of reads of each value by nodes, outputs and updates.
    pub(super) reads: Side<Value, u32>,
    /// The nodes that read value v: `readers[readers_at[v]..readers_at[v + 1]]`, in order.
    pub(super) readers_at: Vec<u32>,
    pub(super) readers: Vec<Node>,
}

impl<'x> PatternFacts<'x> {
    pub(super) fn new(g: Graph<'x>) -> PatternFacts<'x> {
        let mut reads = Side::filled(g.values(), 0);
        g.args.iter().for_each(|&a| reads[a] += 1);
        let mut at = Vec::with_capacity(g.values() + 1);
        let mut end = 0;
        at.push(0);
        at.extend(reads.as_slice().iter().map(|n| {
            end += n;
            end
        }));
        let (mut readers, mut next) = (vec![Node::NONE; end as usize], at.clone());
        for n in (0..g.nodes()).map(Node::new) {
            for a in g.args_of(n) {
                readers[next[a.at()] as usize] = n;
                next[a.at()] += 1;
            }
        }
        for &v in g.yields.iter().chain(g.updates.iter().map(|u| &u.1)) {
            reads[v] += 1;
        }
        PatternFacts { g, reads, readers_at: at, readers }
    }

    /// The nodes that read `v`, in order.
    pub(super) fn readers(&self, v: Value) -> &[Node] {
        &self.readers[self.readers_at[v.at()] as usize..self.readers_at[v.at() + 1] as usize]
    }

    /// The only reader of `v`, a node.
    pub(super) fn reader(&self, v: Value) -> Option<Node> {
        self.readers(v).first().copied().filter(|_| self.alone(v))
    }

    /// The node that makes `v`.
    pub(super) fn node(&self, v: Value) -> Node {
        self.g.def[v.at()]
    }

    /// True if `next` is what the region yields for its argument `v`, as a loop's carry and its next value.
    pub(super) fn is_carried_to(&self, v: Value, next: Value) -> bool {
        let Some(arg) = self.is(v, Op::ARG) else { return false };
        let r = self.g.region_of(arg);
        self.g.region_yields(r).get(ArgAttrs::of(&self.g.attrs(arg)).index as usize) == Some(&next)
    }

    /// The node of `v`, if `v` is the first result of an `op`.
    pub(super) fn is(&self, v: Value, op: Op) -> Option<Node> {
        let n = self.node(v);
        (self.g.op[n.at()] == op && self.g.out(n) == v).then_some(n)
    }

    pub(super) fn args(&self, n: Node) -> &'x [Value] {
        self.g.args_of(n)
    }

    pub(super) fn attrs(&self, n: Node) -> Attrs<'x> {
        self.g.attrs(n)
    }

    pub(super) fn dims(&self, v: Value) -> Dims {
        self.g.dims(v)
    }

    /// True if one node reads `v`, once, and there is no other reader.
    pub(super) fn alone(&self, v: Value) -> bool {
        self.reads[v] == 1
    }

    /// The number that fills `v`.
    pub(super) fn fill(&self, v: Value) -> Option<f64> {
        self.is(v, Op::FULL).map(|n| FullAttrs::of(&self.attrs(n)).value)
    }

    /// The operand of `v`, if `v` is a broadcast.
    pub(super) fn repeated(&self, v: Value) -> Option<Value> {
        self.is(v, Op::BROADCAST).map(|n| self.args(n)[0])
    }

    /// The parts of `v`, if `v` is a multiplication by a fill.
    pub(super) fn scaled(&self, v: Value) -> Option<Scaled> {
        let n = self.is(v, Op::MUL)?;
        let a = self.args(n);
        [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| Some(Scaled { node: n, value: a[i], factor: self.fill(a[j])? }))
    }

    /// The operand of `v`, if `v` is a reshape with one reader; its node is pushed to `nodes`. Else `v`.
    pub(super) fn through(&self, v: Value, nodes: &mut Vec<Node>) -> Value {
        match self.is(v, Op::RESHAPE).filter(|_| self.alone(v)) {
            Some(n) => {
                nodes.push(n);
                self.args(n)[0]
            }
            None => v,
        }
    }

    /// The operands of `n`, if `n` is a product by a matrix, biased or not, without an activation.
    pub(super) fn linear(&self, n: Node) -> Option<Linear> {
        let (a, attrs) = (self.args(n), self.attrs(n));
        let plain = match self.g.op[n.at()] {
            Op::MATMUL => true,
            Op::MATMUL_BIAS_ACT => MatmulBiasActAttrs::of(&attrs).act == Activation::None,
            _ => false,
        };
        (plain && self.dims(a[1]).len() == 2).then(|| {
            let MatmulAttrs { ta, tb } = MatmulAttrs::of(&attrs);
            Linear { x: a[0], weight: a[1], transposed: [ta, tb] }
        })
    }

    /// The reason of a miss: `v`, called `what`, has other readers.
    pub(super) fn reads_of(&self, what: &str, v: Value) -> String {
        let n = self.reads[v];
        if self.g.yields.contains(&v) {
            format!("{what} is an output too")
        } else {
            format!("{what} is read {n} times")
        }
    }
}
