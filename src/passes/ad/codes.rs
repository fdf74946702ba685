//! Codes: integers that stand for real numbers, such as those that [`quantize`](crate::nodes::Op::QUANTIZE) gives.
//!
//! A derivative passes through a code as through the real number that it stands for. So the tangent and the cotangent
//! of a code are those of that number, in `f32`: its own dtype could hold neither. No integer is a code by its dtype
//! alone. It is one if an op of [`Flags::QUANT`] makes it or reads it, or if a move, a loop, a branch or a call
//! connects it with a code. Invariant: [`Codes::tangent_dtype`] is the only answer to the question whether a value has
//! a tangent, and of which dtype.

use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::attrs::Kind as FieldKind;
use crate::nodes::ir::opdef::{Deriv, Flags, Lower, planned_regions};
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{DType, Graph, OpDef, Var};

/// The codes of a graph.
pub struct Codes<'x> {
    g: Graph<'x>,
    /// `None` if the graph has no op that makes or reads codes.
    is_code: Option<Side<Value, bool>>,
}

impl<'x> Codes<'x> {
    /// The codes of `g`.
    pub fn of(g: Graph<'x>) -> Codes<'x> {
        let quantised = |n: Node| g.def_of(n).flags.has(Flags::QUANT);
        if !(0..g.nodes()).map(Node::new).any(quantised) {
            return Codes { g, is_code: None };
        }
        let mut classes = AdCodeClasses { parent: Side::filled(g.values(), Value::NONE) };
        (0..g.nodes()).map(Node::new).for_each(|n| classes.join_node(g, n));
        let mut marked = Side::filled(g.values(), false);
        for n in (0..g.nodes()).map(Node::new).filter(|&n| quantised(n)) {
            let is_code = |i: usize| !(i == 2 && g.def_of(n).flags.has(Flags::ZERO_POINT));
            let operands = g.args_of(n).iter().enumerate().filter(|(i, _)| is_code(*i)).map(|(_, &a)| a);
            for v in operands.chain(g.outs_of(n)) {
                marked[classes.root(v)] = true;
            }
        }
        let mut is_code = Side::filled(g.values(), false);
        for v in (0..g.values()).map(Value::new).filter(|v| g.dtype[v.at()].may_be_code()) {
            is_code[v] = marked[classes.root(v)];
        }
        Codes { g, is_code: Some(is_code) }
    }

    /// The graph.
    pub fn graph(&self) -> Graph<'x> {
        self.g
    }

    /// True if `v` is a code.
    pub fn is_code(&self, v: Value) -> bool {
        self.is_code.as_ref().is_some_and(|codes| codes[v])
    }

    /// The dtype of the tangents and cotangents of `v`; `None` if it has none.
    pub fn tangent_dtype(&self, v: Value) -> Option<DType> {
        let dtype = self.g.dtype[v.at()];
        (dtype.is_differentiable() || self.is_code(v)).then(|| dtype.of_tangent())
    }

    /// True if `v` may have a tangent.
    pub fn carries(&self, v: Value) -> bool {
        self.tangent_dtype(v).is_some()
    }

    /// An error if the derivative of node `n` passes through a code, and the op passes no derivative of codes on.
    /// `operand` says which operands the derivative passes through, `result` which results.
    pub fn check_passage(
        &self,
        n: Node,
        operand: impl Fn(usize) -> bool,
        result: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let def = self.g.def_of(n);
        if self.is_code.is_none() || passes_tangents_on(def) {
            return Ok(());
        }
        let args = self.g.args_of(n).iter().copied().enumerate();
        let outs = self.g.outs_of(n).enumerate();
        let arg = args.filter(|(i, v)| operand(*i) && self.is_code(*v)).map(|(i, v)| ("operand", i, v)).next();
        let out = || outs.filter(|(i, v)| result(*i) && self.is_code(*v)).map(|(i, v)| ("result", i, v)).next();
        let Some((what, i, v)) = arg.or_else(out) else { return Ok(()) };
        let text = format!(
            "{}: {what} {i} is {}, codes that stand for real numbers, and only quantised ops and moves pass the \
             derivative of codes on; dequantize them first, or stop the gradient",
            def.name,
            self.g.ty_text(v)
        );
        Err(Error::new(Kind::Derivative, text).at(self.g.location(n)))
    }
}

/// True if the derivative rule of an op passes tangents of codes on.
fn passes_tangents_on(def: &OpDef) -> bool {
    let moves = def.flags.has(Flags::QUANT) || def.flags.has(Flags::MOVES_CODES);
    moves || matches!(def.deriv, Deriv::Loop | Deriv::Choice)
}

/// True if the op ends every derivative on purpose: a step function, or `stop_gradient`.
pub fn code_ends_derivatives(def: &OpDef) -> bool {
    matches!(def.deriv, Deriv::Zero) && (def.flags.has(Flags::STEP) || def.flags.has(Flags::STOP))
}

/// Zeros as the tangent of `x`.
pub fn zero_tangent_of_code<'g>(x: Var<'g>) -> Var<'g> {
    match x.dtype().is_differentiable() {
        true => x.full_like(0.0),
        false => x.g.full(0.0, x.dims(), x.dtype().of_tangent()),
    }
}

/// Classes of values that are codes together.
struct AdCodeClasses {
    /// Another value of the class; `NONE` for its root.
    parent: Side<Value, Value>,
}

impl AdCodeClasses {
    fn root(&mut self, v: Value) -> Value {
        let mut root = v;
        while self.parent[root] != Value::NONE {
            root = self.parent[root];
        }
        let mut at = v;
        while at != root {
            at = std::mem::replace(&mut self.parent[at], root);
        }
        root
    }

    fn join(&mut self, a: Value, b: Value) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.parent[a] = b;
        }
    }

    /// Joins what node `n` hands on unchanged.
    fn join_node(&mut self, g: Graph<'_>, n: Node) {
        let (def, args) = (g.def_of(n), g.args_of(n));
        if def.flags.has(Flags::MOVES_CODES) {
            args.iter().for_each(|&a| self.join(a, g.out(n)));
        }
        match def.lower {
            Lower::Loop => {
                let scan = Scan::of(&g.attrs(n));
                self.join_region(g, n, scan.body, args);
                let carries = g.region_args(scan.body).zip(g.region_yields(scan.body)).take(scan.carries);
                carries.for_each(|(a, &y)| self.join(a, y));
            }
            Lower::Choice => planned_regions(g, n).for_each(|r| self.join_region(g, n, r, &args[1..])),
            // The rules of a custom function follow the function itself.
            _ if def.is_inlined() && def.attrs.first().is_some_and(|f| f.kind == FieldKind::Region) => {
                self.join_region(g, n, g.attrs(n).region(0), args);
            }
            _ => {}
        }
    }

    /// Joins arguments of region `r` with `operands`, and yields with results of node `n`.
    fn join_region(&mut self, g: Graph<'_>, n: Node, r: Region, operands: &[Value]) {
        g.region_args(r).zip(operands).for_each(|(a, &b)| self.join(a, b));
        g.region_yields(r).iter().zip(g.outs_of(n)).for_each(|(&y, out)| self.join(y, out));
    }
}
