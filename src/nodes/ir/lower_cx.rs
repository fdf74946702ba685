//! A node as the `lower` function of an op definition reads it, and the calls that the function writes.

use super::attrs::Attrs;
use super::call::{Buf, Call, Temp, View};
use super::cost_cx::CostCx;
use super::dtype::{DType, Ty};
use super::graph::Graph;
use super::op::Op;
use crate::arena::dims::Dims;
use crate::arena::{Node, ids::Id};
use crate::kernels::abi::Split;
use crate::kernels::conv::Convolutions;
use crate::kernels::gemm::Precision;

/// Writes the calls of one node. The error is a message.
pub type LowerFn = fn(&mut LowerCx<'_>) -> Result<(), String>;

/// The context of the lowering of one node.
#[non_exhaustive]
pub struct LowerCx<'x> {
    /// The graph.
    pub graph: Graph<'x>,
    /// The node.
    pub node: Node,
    /// For each result: true if it has a reader.
    pub used: &'x [bool],
    /// Number of threads. Results must have the same bits for any number.
    pub threads: usize,
    /// How products of `f32` are computed.
    pub precision: Precision,
    /// How convolutions are computed.
    pub convolutions: Convolutions,
    /// Whether the node is in the body of a loop or of a choice.
    pub in_body: bool,
    /// Calls, in order.
    pub calls: Vec<Call>,
    /// Temporaries.
    pub temps: Vec<Temp>,
    /// Results that are views: no kernel runs.
    pub views: Vec<View>,
}

impl<'x> LowerCx<'x> {
    /// A context for `node` and one thread, without calls.
    pub fn new(graph: Graph<'x>, node: Node, used: &'x [bool]) -> LowerCx<'x> {
        let (precision, convolutions) = (Precision::F32, Convolutions::Direct);
        let (calls, temps, views) = (Vec::new(), Vec::new(), Vec::new());
        LowerCx { graph, node, used, threads: 1, precision, convolutions, in_body: false, calls, temps, views }
    }

    /// Attributes.
    pub fn attrs(&self) -> Attrs<'x> {
        self.graph.attrs(self.node)
    }

    /// The op.
    pub fn op(&self) -> Op {
        self.graph.op[self.node.at()]
    }

    /// Number of operands.
    pub fn args(&self) -> usize {
        self.graph.args_of(self.node).len()
    }

    /// Type of operand `i`.
    pub fn arg(&self, i: usize) -> Ty {
        self.graph.ty(self.graph.args_of(self.node)[i])
    }

    /// Type of result `i`.
    pub fn out(&self, i: usize) -> Ty {
        self.graph.ty(crate::arena::Value::new(self.graph.out(self.node).at() + i))
    }

    /// Dimensions of operand `i`.
    pub fn arg_dims(&self, i: usize) -> Dims {
        self.graph.shape_dims(self.arg(i).shape)
    }

    /// Dimensions of result `i`.
    pub fn out_dims(&self, i: usize) -> Dims {
        self.graph.shape_dims(self.out(i).shape)
    }

    /// Element type of operand `i`.
    pub fn dtype(&self, i: usize) -> DType {
        self.arg(i).dtype
    }

    /// Adds a temporary of `len` elements of `size` bytes, shared by the calls of this node.
    pub fn temp(&mut self, size: usize, len: usize) -> Buf {
        self.temps.push(Temp { size, len, per_thread: false });
        Buf::Temp(self.temps.len() - 1)
    }

    /// Adds scratch of `len` elements of `size` bytes for each thread. Returns the operand and its split.
    pub fn scratch(&mut self, size: usize, len: usize) -> (Buf, Split) {
        self.temps.push(Temp { size, len, per_thread: true });
        (Buf::Temp(self.temps.len() - 1), Split::PerThread(len))
    }

    /// Declares that result `out` is operand `arg` from element `offset` on.
    pub fn view(&mut self, out: usize, arg: usize, offset: usize) {
        self.views.push(View { out, arg, offset });
    }

    /// Adds a call.
    pub fn call(&mut self, call: Call) {
        self.calls.push(call);
    }

    /// Floating-point operations of the node, by the `cost` of its op definition.
    pub fn flops(&self) -> u64 {
        (self.graph.def_of(self.node).cost)(&CostCx { graph: self.graph, node: self.node })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::attrs::Attr;
    use crate::nodes::{Builder, GraphBuf};

    /// A node with two results of different types.
    fn largest() -> GraphBuf {
        let g = Builder::new("g");
        let x = g.input("x", [3, 5], DType::F32);
        let both = g.emit(Op::TOP_K, &[x], &[Attr::Int(2)]);
        g.finish([both[0].named("values"), both[1].named("positions")]).unwrap()
    }

    #[test]
    fn a_context_knows_the_types_of_its_node() {
        let graph = largest();
        let view = graph.view();
        let cx = LowerCx::new(view, view.def[view.outputs()[1].at()], &[true, true]);
        assert_eq!((cx.threads, cx.args(), cx.op(), cx.flops()), (1, 1, Op::TOP_K, 30));
        assert_eq!((cx.dtype(0), cx.out(0).dtype, cx.out(1).dtype), (DType::F32, DType::F32, DType::I32));
        assert_eq!((&cx.arg_dims(0)[..], &cx.out_dims(1)[..]), (&[3, 5][..], &[3, 2][..]));
    }

    #[test]
    fn what_a_lowering_asks_for_is_kept_in_order() {
        let graph = largest();
        let view = graph.view();
        let mut cx = LowerCx::new(view, view.def[view.outputs()[0].at()], &[true, true]);
        assert_eq!(cx.temp(4, 10), Buf::Temp(0));
        assert_eq!(cx.scratch(8, 3), (Buf::Temp(1), Split::PerThread(3)));
        let temp = |size, len, per_thread| Temp { size, len, per_thread };
        assert_eq!(cx.temps, [temp(4, 10, false), temp(8, 3, true)]);
        cx.view(1, 0, 5);
        assert_eq!(cx.views, [View { out: 1, arg: 0, offset: 5 }]);
    }
}
