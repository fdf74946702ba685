//! Kernel calls, as the `lower` function of an op definition writes them: on operands, results and scratch. `sched`
//! turns them into instructions.

use super::attrs::Attrs;
use super::dtype::{DType, Ty};
use super::graph::Graph;
use super::op::Op;
use crate::arena::intern::Dims;
use crate::arena::{Node, ids::Id};
use crate::kernels::abi::{Kernel, Split};
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm::Precision;

/// An operand of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buf {
    /// Operand `.0` of the node.
    Arg(usize),
    /// Result `.0` of the node.
    Out(usize),
    /// Temporary `.0` of the node. It lives from the first to the last call that uses it.
    Temp(usize),
}

/// A kernel's check of an operand that holds indices. A bad index is a fault, which stops the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Looks {
    /// Position of the operand among the call's reads.
    pub read: usize,
    /// Valid indices are in `0..below`. `None` if the kernel has another test.
    pub below: Option<u64>,
    /// One more valid value.
    pub or: Option<i64>,
    /// True if each unit checks the whole operand before it writes anything.
    pub early: bool,
}

/// One kernel call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The kernel.
    pub kernel: Kernel,
    /// Its parameters.
    pub params: Vec<u64>,
    /// Number of units.
    pub units: usize,
    /// Operands that it reads.
    pub reads: Vec<Buf>,
    /// Operands that it writes, and how units divide them.
    pub writes: Vec<(Buf, Split)>,
    /// Pairs `(read, write)`, by position, that may share their bytes: the kernel has an in-place form.
    pub inplace: Vec<(usize, usize)>,
    /// Floating-point operations of all units.
    pub flops: u64,
    /// A bit mask over the reads. Bit `k` is set if each unit reads all of read `k`, or scattered parts of it. The cost
    /// model then counts cache lines that a thread fetches from other threads.
    pub whole: u64,
    /// The cost class.
    pub work: CostClass,
    /// Number of operations, as the cost class counts them.
    pub ops: u64,
    /// The check of indices, for a kernel that calls [`Args::fault`](crate::kernels::abi::Args::fault). With it, the
    /// planner puts every check that may fail before the first write of a param or a state, so a step that a fault
    /// stops changes none of them. Without it, such a step may have changed some.
    pub looks: Option<Looks>,
}

impl Call {
    /// A call of `kernel` over `units` units, without operands.
    pub fn new(kernel: Kernel, params: impl Into<Vec<u64>>, units: usize) -> Call {
        let (reads, writes, inplace) = (Vec::new(), Vec::new(), Vec::new());
        Call {
            kernel,
            params: params.into(),
            units,
            reads,
            writes,
            inplace,
            flops: 0,
            whole: 0,
            work: CostClass::COPY,
            ops: 0,
            looks: None,
        }
    }

    /// Adds reads of `bufs`.
    pub fn reads(mut self, bufs: &[Buf]) -> Call {
        self.reads.extend_from_slice(bufs);
        self
    }

    /// Adds reads of operands `0..n` of the node.
    pub fn reads_args(mut self, n: usize) -> Call {
        self.reads.extend((0..n).map(Buf::Arg));
        self
    }

    /// Adds a write of `buf`, of which each unit writes `per_unit` elements.
    pub fn writes(self, buf: Buf, per_unit: usize) -> Call {
        self.divided(buf, Split::PerUnit(per_unit))
    }

    /// Adds a write of `buf`, divided by `split`.
    pub fn divided(mut self, buf: Buf, split: Split) -> Call {
        self.writes.push((buf, split));
        self
    }

    /// Declares that the kernel faults if an element of read `read` is not in `0..below`.
    pub fn looks(self, read: usize, below: usize) -> Call {
        Call { looks: Some(Looks { read, below: Some(below as u64), or: None, early: false }), ..self }
    }

    /// Declares that the check accepts `value` too.
    pub fn or(self, value: i64) -> Call {
        Call { looks: self.looks.map(|l| Looks { or: Some(value), ..l }), ..self }
    }

    /// Declares that each unit checks all indices before it writes anything.
    pub fn early(self) -> Call {
        Call { looks: self.looks.map(|l| Looks { early: true, ..l }), ..self }
    }

    /// Drops the check: the indices are known to be valid.
    pub fn sure(self) -> Call {
        Call { looks: None, ..self }
    }

    /// Adds scratch of [`LowerCx::scratch`].
    pub fn scratch(mut self, scratch: (Buf, Split)) -> Call {
        self.writes.push(scratch);
        self
    }

    /// Adds in-place pairs `(read, write)`.
    pub fn inplace(mut self, pairs: &[(usize, usize)]) -> Call {
        self.inplace.extend_from_slice(pairs);
        self
    }

    /// Sets the number of floating-point operations, for all units.
    pub fn flops(self, flops: u64) -> Call {
        Call { flops, ops: flops, ..self }
    }

    /// Sets the cost class. The default is [`CostClass::COPY`].
    pub fn cost_class(self, work: CostClass) -> Call {
        Call { work, ..self }
    }

    /// Sets the bits of [`Call::whole`].
    pub fn whole(self, whole: u64) -> Call {
        Call { whole, ..self }
    }

    /// Sets the number of operations of the cost class, if it is not the number of floating-point operations.
    pub fn ops(self, ops: u64) -> Call {
        Call { ops, ..self }
    }
}

/// A temporary of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temp {
    /// Bytes of one element.
    pub size: usize,
    /// Number of elements; for scratch, for each thread.
    pub len: usize,
    /// True for scratch: each thread has `len` elements.
    pub per_thread: bool,
}

/// A result that is a range of an operand's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Position of the result.
    pub out: usize,
    /// Position of the operand.
    pub arg: usize,
    /// First element of the operand.
    pub offset: usize,
}

/// Writes the calls of one node. The error is a message.
pub type LowerFn = fn(&mut LowerCx<'_>) -> Result<(), String>;

/// The context of the lowering of one node.
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
        let (precision, calls, temps, views) = (Precision::F32, Vec::new(), Vec::new(), Vec::new());
        LowerCx { graph, node, used, threads: 1, precision, calls, temps, views }
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

/// The argument of the `cost` of an op definition.
pub struct CostCx<'x> {
    /// The graph.
    pub graph: Graph<'x>,
    /// The node.
    pub node: Node,
}

impl CostCx<'_> {
    /// Elements of operand `i`.
    pub fn arg(&self, i: usize) -> u64 {
        self.graph.numel(self.graph.args_of(self.node)[i]) as u64
    }

    /// Elements of all operands.
    pub fn args(&self) -> u64 {
        self.graph.args_of(self.node).iter().map(|&v| self.graph.numel(v) as u64).sum()
    }

    /// Elements of the first result.
    pub fn out(&self) -> u64 {
        self.graph.numel(self.graph.out(self.node)) as u64
    }
}
