//! The answer of a rule: the values that it replaces, and how to write the replacement.

use super::facts::PatternFacts;
use crate::arena::{Node, Region, Value};
use crate::nodes::{Builder, Var};

/// Writes the replacement on the match's operands. Its results.
pub(super) type Make = dyn for<'g> Fn(&'g Builder, &[Var<'g>]) -> Vec<Var<'g>>;

/// A group of nodes that a rule found, and its replacement.
pub(super) struct Match {
    /// Operands of the replacement.
    pub(super) args: Vec<Value>,
    /// Replaced values, each with its position among the results of `make`. All results of a node are here, or none.
    pub(super) gives: Vec<(Value, usize)>,
    /// Further nodes that disappear, because only the group reads them.
    pub(super) inner: Vec<Node>,
    /// Number of nodes that `make` writes.
    pub(super) makes: usize,
    pub(super) make: Box<Make>,
}

impl Match {
    /// A match whose replacement is one node.
    pub(super) fn new(
        args: Vec<Value>,
        gives: Vec<(Value, usize)>,
        inner: Vec<Node>,
        make: impl for<'g> Fn(&'g Builder, &[Var<'g>]) -> Vec<Var<'g>> + 'static,
    ) -> Match {
        Match { args, gives, inner, makes: 1, make: Box::new(make) }
    }

    /// A match whose replacement is one node on `args`, the first result of which replaces `root`.
    pub(super) fn one(
        root: Value,
        args: Vec<Value>,
        inner: Vec<Node>,
        make: impl for<'g> Fn(&'g Builder, &[Var<'g>]) -> Var<'g> + 'static,
    ) -> Match {
        Match::new(args, vec![(root, 0)], inner, move |g, a| vec![make(g, a)])
    }
}

/// The first node that a match replaces.
pub(super) fn first_matched_node(f: &PatternFacts<'_>, m: &Match) -> Node {
    m.gives.iter().map(|g| f.node(g.0)).min().unwrap_or(Node::NONE)
}

/// The answer of a rule for a root.
pub(super) enum Found {
    /// The pattern is not here.
    No,
    /// One condition of the pattern failed: the reason.
    Missed(String),
    /// The pattern is here.
    Fired(Match),
}

/// An operand that is computed after the first replaced node and cannot move up. A node of the entry without operands
/// can.
pub(super) fn late_pattern_operand(f: &PatternFacts<'_>, m: &Match, r: Region) -> Option<Value> {
    let first = first_matched_node(f, m);
    let movable = |n: Node| r == f.g.entry() && f.args(n).is_empty();
    m.args.iter().copied().find(|&a| f.node(a) >= first && !movable(f.node(a)))
}
