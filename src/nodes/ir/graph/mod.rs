//! The graph: a `Copy` bundle of columns in a bump arena.
//!
//! A graph never changes: a pass reads one set of columns and writes another ([`Emit`](super::emit::Emit)). Invariants,
//! which the verifier checks as V1–V12: an operand's id is smaller than the ids of its node's results; the nodes of a
//! region are contiguous; a region stands before its users, and the entry is last; a body sees only its own arguments.

use super::attrs::{Attrs, attrs_are_inline};
use super::dtype::{DType, Ty};
use super::leaf::NameAttrs;
use super::opdef::{Op, OpDef};
use crate::arena::dims::Dims;
use crate::arena::pool::RunPool;
use crate::arena::{Node, Region, Shape, Sym, Value, ids::Id};
use crate::error::Location;
use bumpalo::Bump;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The role of a leaf of the entry region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeafKind {
    /// Written by the caller before a step.
    Input,
    /// Trained: bound by name, persists from step to step, differentiated by default.
    Param,
    /// Persists from step to step, not differentiated by default.
    State,
}

/// A leaf of the entry region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaf<'a> {
    /// The value.
    pub value: Value,
    /// The role.
    pub kind: LeafKind,
    /// The name.
    pub name: &'a str,
}

/// The columns of a graph.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Graph<'a> {
    /// Name of the graph.
    pub name: Sym,
    /// The op table, which [`Op`] indexes.
    pub ops: &'a [&'static OpDef],
    /// Op of each node.
    pub op: &'a [Op],
    /// Operands of node `n`: `args[args_at[n]..args_at[n + 1]]`.
    pub args_at: &'a [u32],
    /// Results of node `n`: values `outs_at[n]..outs_at[n + 1]`.
    pub outs_at: &'a [u32],
    /// Attributes of each node. If they are one word: the word itself. If they are more: a position in `extra`, which
    /// has there the number of words, then the words. Unused if the op has no attributes.
    pub attr: &'a [u32],
    /// Location of each node: an index into `locs`, or `u32::MAX`.
    pub loc: &'a [u32],
    /// Operands, in order.
    pub args: &'a [Value],
    /// Attribute words.
    pub extra: &'a [u32],
    /// Node of each value.
    pub def: &'a [Node],
    /// Element type of each value.
    pub dtype: &'a [DType],
    /// Shape of each value.
    pub shape: &'a [Shape],
    /// Debug name of each value, or [`Sym::NONE`].
    pub names: &'a [Sym],
    /// Nodes of region `r`: `nodes_at[r]..nodes_at[r + 1]`.
    pub nodes_at: &'a [u32],
    /// Yields of region `r`: `yields[yields_at[r]..yields_at[r + 1]]`.
    pub yields_at: &'a [u32],
    /// Yielded values, by region; the entry region's are the graph's outputs.
    pub yields: &'a [Value],
    /// Name of each region.
    pub region_names: &'a [Sym],
    /// Names of the outputs, in the order of the entry region's yields.
    pub output_names: &'a [Sym],
    /// Pairs `(leaf, next)`: after a step, the leaf (a param or a state) has the value `next`.
    pub updates: &'a [(Value, Value)],
    /// Interned shapes.
    pub shapes: RunPool<'a, usize>,
    /// Interned strings.
    pub strings: RunPool<'a, u8>,
    /// Distinct source locations of nodes.
    pub locs: &'a [Location<Sym>],
}

impl<'a> From<&'a GraphBuf> for Graph<'a> {
    fn from(g: &'a GraphBuf) -> Graph<'a> {
        g.view()
    }
}

impl<'a> From<&&'a GraphBuf> for Graph<'a> {
    fn from(g: &&'a GraphBuf) -> Graph<'a> {
        g.view()
    }
}

impl<'a> From<&Graph<'a>> for Graph<'a> {
    fn from(g: &Graph<'a>) -> Graph<'a> {
        *g
    }
}

impl<'a> Graph<'a> {
    /// Number of nodes.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.op.len()
    }

    /// Number of values.
    #[inline]
    pub fn values(&self) -> usize {
        self.def.len()
    }

    /// Number of regions.
    pub fn regions(&self) -> usize {
        self.nodes_at.len() - 1
    }

    /// The region that runs: the last.
    pub fn entry(&self) -> Region {
        Region::new(self.regions() - 1)
    }

    /// Nodes of `r`, in order.
    pub fn region_nodes(&self, r: Region) -> impl DoubleEndedIterator<Item = Node> + ExactSizeIterator + use<'a> {
        let range: Range<u32> = self.nodes_at[r.at()]..self.nodes_at[r.at() + 1];
        range.map(|i| Node::new(i as usize))
    }

    /// Values of `r`, as a range of ids.
    pub fn region_values(&self, r: Region) -> Range<u32> {
        self.outs_at[self.nodes_at[r.at()] as usize]..self.outs_at[self.nodes_at[r.at() + 1] as usize]
    }

    /// The region of node `n`.
    pub fn region_of(&self, n: Node) -> Region {
        Region::new(self.nodes_at.partition_point(|&at| at as usize <= n.at()) - 1)
    }

    /// Yields of `r`.
    pub fn region_yields(&self, r: Region) -> &'a [Value] {
        &self.yields[self.yields_at[r.at()] as usize..self.yields_at[r.at() + 1] as usize]
    }

    /// Arguments of `r`: the results of its leading `arg` nodes.
    pub fn region_args(&self, r: Region) -> impl Iterator<Item = Value> + use<'a> {
        let g = *self;
        self.region_nodes(r).take_while(move |&n| g.op[n.at()] == Op::ARG).map(move |n| g.out(n))
    }

    /// The graph's outputs.
    pub fn outputs(&self) -> &'a [Value] {
        self.region_yields(self.entry())
    }

    /// The op definition of `n`.
    #[inline]
    pub fn def_of(&self, n: Node) -> &'static OpDef {
        self.ops[self.op[n.at()].0 as usize]
    }

    /// Operands of `n`.
    #[inline]
    pub fn args_of(&self, n: Node) -> &'a [Value] {
        &self.args[self.args_at[n.at()] as usize..self.args_at[n.at() + 1] as usize]
    }

    /// Results of `n`.
    #[inline]
    pub fn outs_of(&self, n: Node) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator + use<> {
        (self.outs_at[n.at()]..self.outs_at[n.at() + 1]).map(|i| Value::new(i as usize))
    }

    /// First result of `n`.
    #[inline]
    pub fn out(&self, n: Node) -> Value {
        Value(self.outs_at[n.at()])
    }

    /// Attributes of `n`.
    #[inline]
    pub fn attrs(&self, n: Node) -> Attrs<'a> {
        let fields = self.def_of(n).attrs;
        let word = &self.attr[n.at()];
        let words = if fields.is_empty() {
            &[]
        } else if attrs_are_inline(fields) {
            std::slice::from_ref(word)
        } else {
            let at = *word as usize;
            &self.extra[at + 1..at + 1 + self.extra[at] as usize]
        };
        Attrs { fields, words }
    }

    /// Type of `v`.
    #[inline]
    pub fn ty(&self, v: Value) -> Ty {
        Ty { dtype: self.dtype[v.at()], shape: self.shape[v.at()] }
    }

    /// Dimensions of `v`.
    pub fn dims(&self, v: Value) -> Dims {
        self.shape_dims(self.shape[v.at()])
    }

    /// Dimensions of `s`.
    pub fn shape_dims(&self, s: Shape) -> Dims {
        Dims::new(self.shapes.run(s.at())).unwrap_or_default()
    }

    /// Number of elements of `v`.
    pub fn numel(&self, v: Value) -> usize {
        self.dims(v).numel()
    }

    /// Bytes of `v`.
    pub fn bytes(&self, v: Value) -> usize {
        self.numel(v) * self.dtype[v.at()].size()
    }

    /// The string of `s`; empty for [`Sym::NONE`].
    pub fn str(&self, s: Sym) -> &'a str {
        if s == Sym::NONE { "" } else { std::str::from_utf8(self.strings.run(s.at())).unwrap_or_default() }
    }

    /// `v`'s type as text: `f32[2,3]`.
    pub fn ty_text(&self, v: Value) -> String {
        format!("{}{}", self.dtype[v.at()], self.dims(v))
    }

    /// The kind and the name of `v`, if `v` is a leaf of the entry.
    pub fn leaf(&self, v: Value) -> Option<(LeafKind, &'a str)> {
        let n = self.def[v.at()];
        let kind = match self.op[n.at()] {
            Op::INPUT => LeafKind::Input,
            Op::PARAM => LeafKind::Param,
            Op::STATE => LeafKind::State,
            _ => return None,
        };
        Some((kind, self.str(NameAttrs::of(&self.attrs(n)).name)))
    }

    /// The leaves of the entry, in order.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf<'a>> + use<'a> {
        let g = *self;
        self.region_nodes(self.entry()).filter_map(move |n| {
            let value = g.outs_of(n).next()?;
            g.leaf(value).map(|(kind, name)| Leaf { value, kind, name })
        })
    }

    /// The leaf called `name`.
    pub fn find_leaf(&self, name: &str) -> Option<(Value, LeafKind)> {
        self.leaves().find(|l| l.name == name).map(|l| (l.value, l.kind))
    }

    /// The output called `name`.
    pub fn find_output(&self, name: &str) -> Option<Value> {
        let i = self.output_names.iter().position(|&s| self.str(s) == name)?;
        Some(self.outputs()[i])
    }

    /// The source location of `n`; its id if it has none.
    pub fn location(&self, n: Node) -> Location {
        match self.locs.get(self.loc[n.at()] as usize) {
            Some(l) => l.map(|s| self.str(s).to_string()),
            None => Location::Node(n.to_string()),
        }
    }

    /// A copy of all columns in `bump`, with the same ids.
    pub fn copied_to<'b>(&self, bump: &'b Bump) -> Graph<'b> {
        Graph {
            name: self.name,
            ops: bump.alloc_slice_copy(self.ops),
            op: bump.alloc_slice_copy(self.op),
            args_at: bump.alloc_slice_copy(self.args_at),
            outs_at: bump.alloc_slice_copy(self.outs_at),
            attr: bump.alloc_slice_copy(self.attr),
            loc: bump.alloc_slice_copy(self.loc),
            args: bump.alloc_slice_copy(self.args),
            extra: bump.alloc_slice_copy(self.extra),
            def: bump.alloc_slice_copy(self.def),
            dtype: bump.alloc_slice_copy(self.dtype),
            shape: bump.alloc_slice_copy(self.shape),
            names: bump.alloc_slice_copy(self.names),
            nodes_at: bump.alloc_slice_copy(self.nodes_at),
            yields_at: bump.alloc_slice_copy(self.yields_at),
            yields: bump.alloc_slice_copy(self.yields),
            region_names: bump.alloc_slice_copy(self.region_names),
            output_names: bump.alloc_slice_copy(self.output_names),
            updates: bump.alloc_slice_copy(self.updates),
            shapes: self.shapes.copied_to(bump),
            strings: self.strings.copied_to(bump),
            locs: bump.alloc_slice_copy(self.locs),
        }
    }

    /// Bytes of the pools and of the columns that grow with nodes, values and yields.
    pub fn column_bytes(&self) -> usize {
        let node = size_of_val(self.op) + size_of_val(self.args_at) + size_of_val(self.outs_at);
        let node = node + size_of_val(self.attr) + size_of_val(self.loc) + size_of_val(self.args);
        let value = size_of_val(self.def) + size_of_val(self.dtype) + size_of_val(self.shape) + size_of_val(self.names);
        node + value + size_of_val(self.extra) + size_of_val(self.yields) + self.shapes.bytes() + self.strings.bytes()
    }
}

/// Structural equality: equal nodes, operands, attributes, types, regions, signatures and value names. Interned ids are
/// compared by their contents, not by their positions in the pools. Locations do not count.
impl PartialEq for Graph<'_> {
    fn eq(&self, o: &Graph<'_>) -> bool {
        let names = |g: &Graph<'_>, s: &[Sym]| s.iter().map(|&s| g.str(s).to_string()).collect::<Vec<_>>();
        self.op.iter().map(|op| self.ops[op.0 as usize].name).eq(o.op.iter().map(|op| o.ops[op.0 as usize].name))
            && self.args_at == o.args_at
            && self.outs_at == o.outs_at
            && self.args == o.args
            && self.dtype == o.dtype
            && self.nodes_at == o.nodes_at
            && self.yields_at == o.yields_at
            && self.yields == o.yields
            && self.updates == o.updates
            && self.str(self.name) == o.str(o.name)
            && names(self, self.names) == names(o, o.names)
            && names(self, self.region_names) == names(o, o.region_names)
            && names(self, self.output_names) == names(o, o.output_names)
            && (0..self.values()).all(|v| self.dims(Value::new(v)) == o.dims(Value::new(v)))
            && (0..self.nodes()).all(|n| self.has_attrs_of(o, Node::new(n)))
    }
}

impl Graph<'_> {
    /// True if the attributes of node `n` are those of node `n` of `b`.
    fn has_attrs_of(&self, b: &Graph<'_>, n: Node) -> bool {
        use super::attrs::Owned;
        self.attrs(n).iter().zip(b.attrs(n).iter()).all(|((_, x), (_, y))| match (x, y) {
            (Owned::Shape(x), Owned::Shape(y)) => self.shape_dims(x) == b.shape_dims(y),
            (Owned::Sym(x), Owned::Sym(y)) => self.str(x) == b.str(y),
            (Owned::F64(x), Owned::F64(y)) => x.to_bits() == y.to_bits(),
            (Owned::Floats(x), Owned::Floats(y)) => x.iter().map(|x| x.to_bits()).eq(y.iter().map(|y| y.to_bits())),
            (x, y) => x == y,
        })
    }
}

/// A graph with the bump arena of its columns. Builders and passes return it.
pub struct GraphBuf {
    /// Always a graph. A function that takes plain references promises that they are valid until it returns, and a
    /// function that takes a `GraphBuf` may drop it. `MaybeUninit` takes that promise back.
    graph: MaybeUninit<Graph<'static>>,
    // Dropped after `graph`, which is `Copy` and needs no drop. Never handed out, so nothing can allocate through a
    // shared reference.
    _bump: Bump,
}

impl GraphBuf {
    /// Makes a graph in a new bump.
    pub fn make<E>(f: impl for<'b> FnOnce(&'b Bump) -> Result<Graph<'b>, E>) -> Result<GraphBuf, E> {
        let bump = Bump::new();
        let graph = f(&bump)?;
        // SAFETY: the columns are in chunks that `bump` owns and that do not move with it. `view` ties the lifetime to
        // the borrow of `self` again.
        #[allow(unsafe_code)]
        let graph = unsafe { std::mem::transmute::<Graph<'_>, Graph<'static>>(graph) };
        Ok(GraphBuf { graph: MaybeUninit::new(graph), _bump: bump })
    }

    /// The graph, borrowed.
    #[inline]
    pub fn view(&self) -> Graph<'_> {
        // SAFETY: `make` wrote it. Its columns live as long as `self`.
        #[allow(unsafe_code)]
        unsafe {
            self.graph.assume_init()
        }
    }
}

// SAFETY: nothing reads `_bump` through `&self`. Allocation needs a `&Bump`, which is never handed out.
#[allow(unsafe_code)]
unsafe impl Sync for GraphBuf {}

impl Clone for GraphBuf {
    fn clone(&self) -> GraphBuf {
        match GraphBuf::make(|bump| Ok::<_, std::convert::Infallible>(self.view().copied_to(bump))) {
            Ok(copy) => copy,
            Err(never) => match never {},
        }
    }
}

impl PartialEq for GraphBuf {
    fn eq(&self, o: &GraphBuf) -> bool {
        self.view() == o.view()
    }
}

impl std::fmt::Debug for GraphBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.view().fmt(f)
    }
}

const _: fn() = || {
    fn graph_is_send_sync<T: Send + Sync>() {}
    graph_is_send_sync::<Graph<'static>>();
    graph_is_send_sync::<GraphBuf>();
};

#[cfg(test)]
mod tests;
