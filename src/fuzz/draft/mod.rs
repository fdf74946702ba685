//! A draft: the columns of a graph, which can be changed and then written as a graph again, through shape inference.
//!
//! Mutations and the reducer change these columns: operands, ops, attributes, yields, a value that replaces another, a
//! size wherever it occurs. [`Draft::write`] then makes the graph in one scan, or says why there is none. Invariant:
//! the graph is valid, because [`Emit`] infers every node again.

mod write;
mod write_attrs;
mod write_regions;

use crate::arena::{Node, Region, Value, ids::Id};
use crate::error::Error;
use crate::nodes::ir::attrs::Owned;
use crate::nodes::{Graph, Op};
use crate::passes::region_users::regions_of_node;
use std::ops::Range;

/// What stands where a value is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DraftStandIn {
    /// The value.
    Itself,
    /// An earlier value of its region.
    Other(Value),
    /// A new input of its type; for values of the entry.
    Input,
    /// A fill of its type.
    Full(f64),
}

/// An error of a draft that is no graph.
fn unfit_error(text: impl Into<String>) -> Error {
    Error::new(crate::error::Kind::Verify, text)
}

/// A rule for the dimensions of all shapes, and for the integers of attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DraftResize {
    /// Each axis of this size, and each integer with this value, becomes the second number.
    Exactly(usize, usize),
    /// Also axes that are a multiple of the size.
    Multiples(usize, usize),
    /// Axes of this size alone, no integers.
    AxesOnly(usize, usize),
    /// The first axis goes where it has this size.
    DropFirst(usize),
    /// The last axis goes where it has this size.
    DropLast(usize),
}

impl DraftResize {
    fn size(self, n: usize) -> usize {
        match self {
            DraftResize::Exactly(from, to) | DraftResize::AxesOnly(from, to) if n == from => to,
            DraftResize::Multiples(from, to) if n.is_multiple_of(from) => n / from * to,
            _ => n,
        }
    }

    /// The dimensions `dims` under the rule.
    pub(super) fn dims(self, dims: &[usize]) -> Vec<usize> {
        match self {
            DraftResize::DropFirst(n) if dims.first() == Some(&n) => dims[1..].to_vec(),
            DraftResize::DropLast(n) if dims.last() == Some(&n) => dims[..dims.len() - 1].to_vec(),
            _ => dims.iter().map(|&n| self.size(n)).collect(),
        }
    }
}

/// The columns of a graph, as they are to be written.
pub(super) struct Draft<'g> {
    pub(super) src: Graph<'g>,
    /// Whether nodes and leaves without a reader are left out.
    pub(super) sweep: bool,
    /// The op of each node.
    pub(super) op: Vec<Op>,
    /// Operands, as the column of the graph.
    pub(super) args: Vec<Value>,
    /// Yields, as the column of the graph; `None` is dropped.
    pub(super) yields: Vec<Option<Value>>,
    /// Next values of the updates; `None` drops the update.
    pub(super) updates: Vec<Option<Value>>,
    /// What stands for each value.
    pub(super) stand: Vec<DraftStandIn>,
    /// Region arguments that go, with the operands for them.
    pub(super) dropped_args: Vec<bool>,
    /// Leaves that become plain inputs.
    pub(super) as_input: Vec<bool>,
    /// Regions that are written where they are run; a loop's body once.
    pub(super) inlined: Vec<bool>,
    /// Changed attributes: node, position, value.
    pub(super) attrs: Vec<(Node, usize, Owned)>,
    /// A rule for sizes.
    pub(super) resize: Option<DraftResize>,
    /// An element type that becomes another, everywhere.
    pub(super) dtype: Option<(crate::arena::DType, crate::arena::DType)>,
    /// Nodes that are written a second time, with one operand of another value, as outputs.
    pub(super) copies: Vec<(Node, usize, Value)>,
    /// Nodes of the entry that move into a region, which is called in their place.
    pub(super) outlined: Option<Range<usize>>,
    /// Further outputs.
    pub(super) outputs: Vec<Value>,
}

impl<'g> Draft<'g> {
    /// `src` as it is.
    pub(super) fn of(src: Graph<'g>, sweep: bool) -> Draft<'g> {
        Draft {
            src,
            sweep,
            op: src.op.to_vec(),
            args: src.args.to_vec(),
            yields: src.yields.iter().copied().map(Some).collect(),
            updates: src.updates.iter().map(|u| Some(u.1)).collect(),
            stand: vec![DraftStandIn::Itself; src.values()],
            dropped_args: vec![false; src.values()],
            as_input: vec![false; src.nodes()],
            inlined: vec![false; src.regions()],
            attrs: Vec::new(),
            resize: None,
            dtype: None,
            copies: Vec::new(),
            outlined: None,
            outputs: Vec::new(),
        }
    }

    /// The value that readers of `v` read, and how.
    fn read(&self, mut v: Value) -> (Value, DraftStandIn) {
        // A stand-in is an earlier value, so the walk ends.
        while let DraftStandIn::Other(w) = self.stand[v.at()] {
            v = w;
        }
        (v, self.stand[v.at()])
    }

    fn args_of(&self, n: Node) -> &[Value] {
        &self.args[self.src.args_at[n.at()] as usize..self.src.args_at[n.at() + 1] as usize]
    }

    fn yields_of(&self, r: Region) -> &[Option<Value>] {
        &self.yields[self.src.yields_at[r.at()] as usize..self.src.yields_at[r.at() + 1] as usize]
    }

    /// The attributes of `n`, with the changes.
    fn attrs_of(&self, n: Node) -> Vec<Owned> {
        let mut attrs: Vec<Owned> = self.src.attrs(n).iter().map(|(_, a)| a).collect();
        for (_, i, new) in self.attrs.iter().filter(|a| a.0 == n) {
            attrs[*i] = new.clone();
        }
        attrs
    }
}

/// The regions that `n` runs: both branches of a choice, else the first of [`regions_of_node`]. The others are rules.
pub(super) fn bodies_of_node(g: Graph<'_>, n: Node) -> impl Iterator<Item = Region> {
    regions_of_node(g, n).take(if g.op[n.at()] == Op::IF { 2 } else { 1 })
}
