//! The growing columns of one region, and what the body of a loop captures. Plain data of [`Emit`](super::Emit).

use super::outs::Outs;
use crate::arena::{Node, Region, Sym, Value};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::op::Op;
use hashbrown::{HashMap, HashTable};

/// The columns of one region, growing.
#[derive(Default)]
pub(super) struct Body {
    pub(super) op: Vec<Op>,
    pub(super) args_at: Vec<u32>,
    pub(super) outs_at: Vec<u32>,
    pub(super) attr: Vec<u32>,
    pub(super) loc: Vec<u32>,
    pub(super) args: Vec<Value>,
    pub(super) def: Vec<Node>,
    pub(super) ty: Vec<Ty>,
    pub(super) names: Vec<Sym>,
    pub(super) yields: Vec<Value>,
    pub(super) name: Option<Sym>,
    pub(super) table: HashTable<u32>,
    /// Identifies the region among all that were opened.
    pub(super) scope: u32,
    /// For the body of a loop or of a custom function: the values from outside that it uses.
    pub(super) captures: Option<Captures>,
}

impl Body {
    pub(super) fn new() -> Body {
        Body { args_at: vec![0], outs_at: vec![0], ..Body::default() }
    }

    /// The columns of this closed body, for another region.
    pub(super) fn copied(&self) -> Body {
        Body {
            op: self.op.clone(),
            args_at: self.args_at.clone(),
            outs_at: self.outs_at.clone(),
            attr: self.attr.clone(),
            loc: self.loc.clone(),
            args: self.args.clone(),
            def: self.def.clone(),
            ty: self.ty.clone(),
            names: self.names.clone(),
            yields: self.yields.clone(),
            name: self.name,
            ..Body::default()
        }
    }

    pub(super) fn reserve(&mut self, nodes: usize, values: usize, args: usize) {
        self.op.reserve(nodes);
        self.args_at.reserve(nodes);
        self.outs_at.reserve(nodes);
        self.attr.reserve(nodes);
        self.loc.reserve(nodes);
        self.args.reserve(args);
        self.def.reserve(values);
        self.ty.reserve(values);
        self.names.reserve(values);
        self.table.reserve(nodes, |_| 0);
    }

    pub(super) fn args_of(&self, n: usize) -> &[Value] {
        &self.args[self.args_at[n] as usize..self.args_at[n + 1] as usize]
    }

    pub(super) fn outs(&self, n: usize) -> Outs {
        Outs { first: Value(self.outs_at[n]), len: self.outs_at[n + 1] - self.outs_at[n] }
    }
}

/// The captures of the body of a loop or of a custom function.
#[derive(Default)]
pub(super) struct Captures {
    /// Pairs of a value of the enclosing region and its argument, in order of first use.
    pub(super) pairs: Vec<(Value, Value)>,
    /// The argument of each captured value.
    pub(super) known: HashMap<Value, Value>,
    /// The argument for the number of the iteration.
    pub(super) index: Option<Value>,
    /// True if that argument is the last carry, and not the last argument.
    pub(super) index_is_carry: bool,
    /// The random key of the iteration.
    pub(super) key: Option<Value>,
    /// True if the region runs once: its random key is that of the region around it.
    pub(super) once: bool,
}

/// A closed body, and the operands that its loop must pass to it.
pub struct Closed {
    /// The body. Its arguments are carries, captured values, slices of stacked inputs and, if `indexed`, the number of
    /// the iteration.
    pub region: Region,
    /// The captured values, in the region around the loop.
    pub captures: Vec<Value>,
    /// True if the last argument is the number of the iteration, a `u32`. False if that is a carry.
    pub indexed: bool,
}
