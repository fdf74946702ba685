//! Patterns: named rules that replace a group of nodes by one op.
//!
//! A rule looks at a root node and at the definitions of its operands ([`PatternFacts`]). It returns what it [`Found`].
//! Invariant: a value that has another reader (an output, an update, a later node) is never dropped. Either it is a
//! result of the match, or the rule misses with a reason.

use super::attrs::Attrs;
use super::builder::{Builder, Var};
use super::graph::Graph;
use super::opdef::{Op, OpDef};
use crate::arena::dims::Dims;
use crate::arena::{Node, Side, Value, ids::Id};

/// A named rule. The pass `patterns` applies it to each root.
#[non_exhaustive]
pub struct Pattern {
    /// The name, for `opt --report` and [`report_pipeline`](crate::passes::report_pipeline).
    pub name: &'static str,
    /// The nodes that the rule looks at.
    pub roots: Roots,
    /// What stands at a root.
    pub find: fn(&PatternFacts<'_>, Node) -> Found,
}

impl Pattern {
    /// A rule.
    pub const fn new(name: &'static str, roots: Roots, find: fn(&PatternFacts<'_>, Node) -> Found) -> Pattern {
        Pattern { name, roots, find }
    }
}

/// The nodes that a rule looks at.
#[non_exhaustive]
pub enum Roots {
    /// Those of an op that the function picks.
    Picked(fn(Op) -> bool),
    /// Those of the ops with one of these names.
    Named(&'static [&'static str]),
}

impl Roots {
    /// True for nodes of `op`, which `def` defines.
    pub fn has(&self, op: Op, def: &OpDef) -> bool {
        match self {
            Roots::Picked(pick) => pick(op),
            Roots::Named(names) => names.contains(&def.name),
        }
    }
}

/// The facts of a graph that rules ask for.
pub struct PatternFacts<'x> {
    /// The graph.
    pub g: Graph<'x>,
    /// Number of reads of each value by nodes, outputs and updates.
    pub(crate) reads: Side<Value, u32>,
    /// The nodes that read value v: `readers[readers_at[v]..readers_at[v + 1]]`, in order.
    readers_at: Vec<u32>,
    readers: Vec<Node>,
}

impl<'x> PatternFacts<'x> {
    /// Those of `g`.
    pub fn new(g: Graph<'x>) -> PatternFacts<'x> {
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
    pub fn readers(&self, v: Value) -> &[Node] {
        &self.readers[self.readers_at[v.at()] as usize..self.readers_at[v.at() + 1] as usize]
    }

    /// The only reader of `v`, a node.
    pub fn reader(&self, v: Value) -> Option<Node> {
        self.readers(v).first().copied().filter(|_| self.alone(v))
    }

    /// The node that makes `v`.
    pub fn node(&self, v: Value) -> Node {
        self.g.def[v.at()]
    }

    /// The node of `v`, if `v` is the first result of an `op`.
    pub fn is(&self, v: Value, op: Op) -> Option<Node> {
        let n = self.node(v);
        (self.g.op[n.at()] == op && self.g.out(n) == v).then_some(n)
    }

    /// The operands of `n`.
    pub fn args(&self, n: Node) -> &'x [Value] {
        self.g.args_of(n)
    }

    /// The attributes of `n`.
    pub fn attrs(&self, n: Node) -> Attrs<'x> {
        self.g.attrs(n)
    }

    /// The dimensions of `v`.
    pub fn dims(&self, v: Value) -> Dims {
        self.g.dims(v)
    }

    /// True if one node reads `v`, once, and there is no other reader.
    pub fn alone(&self, v: Value) -> bool {
        self.reads[v] == 1
    }

    /// The reason of a miss: `v`, called `what`, has other readers.
    pub fn reads_of(&self, what: &str, v: Value) -> String {
        let n = self.reads[v];
        if self.g.yields.contains(&v) {
            format!("{what} is an output too")
        } else {
            format!("{what} is read {n} times")
        }
    }

    /// True if `n` is a node of `def`: an op of a user's own, or a built-in one.
    pub fn is_of(&self, n: Node, def: &OpDef) -> bool {
        self.g.def_of(n).name == def.name
    }
}

/// Writes the replacement on the match's operands. Its results.
pub type Make = dyn for<'g> Fn(&'g Builder, &[Var<'g>]) -> Vec<Var<'g>>;

/// A group of nodes that a rule found, and its replacement.
#[non_exhaustive]
pub struct Match {
    /// Operands of the replacement.
    pub args: Vec<Value>,
    /// Replaced values, each with its position among the results of `make`. All results of a node are here, or none.
    pub gives: Vec<(Value, usize)>,
    /// Further nodes that disappear, because only the group reads them.
    pub inner: Vec<Node>,
    /// Number of nodes that `make` writes.
    pub makes: usize,
    /// Writes them.
    pub make: Box<Make>,
}

impl Match {
    /// A match whose replacement is one node.
    pub fn new(
        args: Vec<Value>,
        gives: Vec<(Value, usize)>,
        inner: Vec<Node>,
        make: impl for<'g> Fn(&'g Builder, &[Var<'g>]) -> Vec<Var<'g>> + 'static,
    ) -> Match {
        Match { args, gives, inner, makes: 1, make: Box::new(make) }
    }

    /// A match whose replacement is one node on `args`, the first result of which replaces `root`.
    pub fn one(
        root: Value,
        args: Vec<Value>,
        inner: Vec<Node>,
        make: impl for<'g> Fn(&'g Builder, &[Var<'g>]) -> Var<'g> + 'static,
    ) -> Match {
        Match::new(args, vec![(root, 0)], inner, move |g, a| vec![make(g, a)])
    }
}

/// The answer of a rule for a root.
#[non_exhaustive]
pub enum Found {
    /// The pattern is not here.
    No,
    /// One condition of the pattern failed: the reason.
    Missed(String),
    /// The pattern is here.
    Fired(Match),
}
