//! Random graphs that are valid by construction.
//!
//! A node is drawn as an op, one of its conformance cases, and operands: values of the graph where they fit or can be
//! made to fit, else new leaves. Invariant: a new op needs no change here; its cases are drawn from its definition.
//! Draws of 0 are the simplest choices, and a source that has ended draws zeros.

mod adapt;
mod leaves;
mod node;
mod regions;

use super::draws::Draw;
use super::graph_options::GraphOptions;
use crate::arena::{Region, Value};
use crate::error::Result;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::emit::Emit;
use crate::nodes::ir::graph::GraphBuf;
use crate::nodes::ir::opdef::{Op, OpDef};

/// Debug names: plain and odd ones, few enough to collide.
const NAMES: &[&str] = &["h", "y", "fc1.weight", "odd name", "7", "q\"uo\\te", "tab\there", "é", "_", "x", "", "\u{1}"];

/// The most nodes in regions for each drawn node of the entry, and some more.
const REGION_NODES: u32 = 4;

/// A graph that is being drawn.
struct Generator<'a, 'd> {
    e: Emit,
    draw: &'a mut Draw<'d>,
    options: &'a GraphOptions,
    /// Ops that may be drawn, with the sum of the weights up to each.
    rows: Vec<(u32, Op, &'static OpDef)>,
    /// Closed regions that may be called.
    regions: Vec<(Region, Vec<Ty>)>,
    /// Inputs, params and states so far; updates change only the latter two.
    leaves: Vec<Value>,
    /// Nodes that may still be drawn inside regions.
    region_nodes: u32,
    /// Number of open regions besides the entry.
    level: u32,
    /// Which values of the entry are read, for those there are.
    read: Vec<bool>,
}

/// A graph of up to `options.nodes` drawn nodes, and the leaves, regions and fitting nodes that they need.
///
/// # Errors
/// None of the drawing itself: those of custom ops that cannot be registered.
pub fn draw_graph(options: &GraphOptions, draw: &mut Draw<'_>) -> Result<GraphBuf> {
    let mut e = Emit::new("drawn");
    for def in options.extra() {
        e.register(def);
    }
    if let Some(error) = e.take_error() {
        return Err(error);
    }
    let mut sum = 0;
    let ops = e.ops.iter().enumerate().filter(|(i, def)| options.weight(*i) > 0 && !def.cases.is_empty());
    let rows: Vec<_> = ops
        .map(|(i, def)| {
            sum += options.weight(i);
            (sum, Op(i as u16), *def)
        })
        .collect();
    let region_nodes = REGION_NODES * options.nodes.min(1 << 20) + REGION_NODES;
    let (regions, leaves, read) = (Vec::new(), Vec::new(), Vec::new());
    let mut d = Generator { e, draw, options, rows, regions, leaves, region_nodes, level: 0, read };
    for _ in 0..=(d.draw)(options.nodes.max(1)) {
        d.node();
    }
    d.updates();
    d.outputs();
    let e = d.e;
    GraphBuf::make(|bump| e.finish(bump))
}

/// A graph of up to `nodes` drawn nodes, with the other options as they are by default.
pub fn random_graph(nodes: u32, draw: &mut Draw<'_>) -> Result<GraphBuf> {
    random_graph_with(nodes, &[], draw)
}

/// A graph of up to `nodes` drawn nodes, of the built-in ops and these custom ops.
pub fn random_graph_with(nodes: u32, extra_ops: &[&'static OpDef], draw: &mut Draw<'_>) -> Result<GraphBuf> {
    draw_graph(&GraphOptions::default().nodes(nodes).extra_ops(extra_ops), draw)
}

impl Generator<'_, '_> {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.draw)(from.len() as u32) as usize]
    }

    /// True in `times` out of `of` draws; 0 is false.
    fn chance(&mut self, times: u32, of: u32) -> bool {
        (self.draw)(of) >= of - times
    }

    /// Whether `op` may be drawn to make an operand fit.
    fn may(&self, op: Op) -> bool {
        self.options.weight(op.0 as usize) > 0
    }

    /// Whether a value may have type `ty`.
    fn fits(&self, ty: Ty) -> bool {
        let dims = self.e.shapes.dims(ty.shape);
        let small = dims.iter().all(|&d| d <= self.options.largest_axis) && dims.numel() <= self.options.largest_value;
        small && self.may_have(ty.dtype)
    }

    /// A value of the open region, one of the last `depth`, if there is any.
    fn recent(&mut self) -> Option<Value> {
        let count = self.e.values() as u32;
        (count > 0).then(|| Value(count - 1 - (self.draw)(count.min(self.options.depth.max(1)))))
    }

    /// Adds a node, or nothing if shape inference refuses it.
    fn emit(&mut self, op: Op, args: &[Value], attrs: &[Attr<'_>]) -> Vec<Value> {
        let outs = self.e.emit(op, args, attrs);
        if self.e.take_error().is_some() {
            return Vec::new();
        }
        if self.level == 0 {
            self.read.resize(self.e.values(), false);
            args.iter().for_each(|a| self.read[a.0 as usize] = true);
        }
        outs.iter().collect()
    }

    fn emit_one(&mut self, op: Op, args: &[Value], attrs: &[Attr<'_>]) -> Option<Value> {
        self.emit(op, args, attrs).first().copied()
    }

    /// Gives `v` a debug name, now and then.
    fn name(&mut self, v: Value) {
        if self.chance(1, 4) {
            let name = self.pick(NAMES);
            let name = self.e.strings.intern(name);
            self.e.set_name(v, name);
        }
    }

    /// Most values that no node reads become outputs, and a few others.
    fn outputs(&mut self) {
        self.read.resize(self.e.values(), false);
        let unread = (0..self.e.values() as u32).rev().map(Value).filter(|v| !self.read[v.0 as usize]);
        let sinks: Vec<Value> = unread.filter(|&v| self.e.def(v).is_some_and(|d| !d.op.is_named_leaf())).collect();
        let mut outs: Vec<Value> = sinks.into_iter().filter(|_| (self.draw)(5) != 4).take(8).collect();
        for _ in 0..(self.draw)(3) {
            outs.extend(self.recent());
        }
        for (i, v) in outs.into_iter().enumerate() {
            let name = [format!("out{i}"), format!("odd {i}"), format!("{i}"), format!("a\\\"{i}")];
            self.e.output(&name[(self.draw)(4) as usize], v);
        }
    }
}
