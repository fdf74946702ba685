//! What a row's `lower` writes: kernel calls on operands, results and scratch. `sched` turns them into a tape.

use super::attrs::Attrs;
use super::dtype::{DType, Ty};
use super::graph::Graph;
use super::opdef::Op;
use crate::arena::intern::Dims;
use crate::arena::{Node, ids::Id};
use crate::kernels::abi::{Kernel, Split};
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm::Precision;

/// What a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buf {
    /// Operand `.0` of the node.
    Arg(usize),
    /// Result `.0` of the node.
    Out(usize),
    /// Temporary `.0` of the node: lives from the first to the last call that names it.
    Temp(usize),
}

/// How a kernel looks through the index operand that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Looks {
    /// The operand, among those that the call reads.
    pub read: usize,
    /// Good indices are below it, and not negative; `None` for a test of the kernel's own.
    pub below: Option<u64>,
    /// One more good value.
    pub or: Option<i64>,
    /// Whether each unit looks through all of the operand, and before it writes anything.
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
    /// What it reads, whole.
    pub reads: Vec<Buf>,
    /// What it writes, and how units divide it.
    pub writes: Vec<(Buf, Split)>,
    /// `(read, write)` pairs (by position) that may share their bytes: the kernel has an in-place form.
    pub inplace: Vec<(usize, usize)>,
    /// Floating-point operations of all units.
    pub flops: u64,
    /// The reads (as bits, by position) of which each unit reads all, or a part that lies everywhere: threads that
    /// share the call fetch what others wrote. For estimates.
    pub whole: u64,
    /// What kind of work it is.
    pub work: CostClass,
    /// How much of it, in the operations that `work` counts.
    pub ops: u64,
    /// The indices that may stop the step: a kernel that calls [`Args::fault`](crate::kernels::abi::Args::fault) says
    /// which. Where it does not, a step that it stops may have changed params and states.
    pub looks: Option<Looks>,
}

impl Call {
    /// A call of `kernel` over `units` units, without operands yet.
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

    /// The same call, reading `bufs` after what it reads already.
    pub fn reads(mut self, bufs: &[Buf]) -> Call {
        self.reads.extend_from_slice(bufs);
        self
    }

    /// The same call, reading operands `0..n` of the node.
    pub fn reads_args(mut self, n: usize) -> Call {
        self.reads.extend((0..n).map(Buf::Arg));
        self
    }

    /// The same call, writing `buf` too, `per_unit` elements in a unit.
    pub fn writes(self, buf: Buf, per_unit: usize) -> Call {
        self.divided(buf, Split::PerUnit(per_unit))
    }

    /// The same call, writing `buf` too, which units divide so.
    pub fn divided(mut self, buf: Buf, split: Split) -> Call {
        self.writes.push((buf, split));
        self
    }

    /// The same call, which stops the step where an element of read `read` is not in `0..below`.
    pub fn looks(self, read: usize, below: usize) -> Call {
        Call { looks: Some(Looks { read, below: Some(below as u64), or: None, early: false }), ..self }
    }

    /// The same call, to whose looks `value` is good, too.
    pub fn or(self, value: i64) -> Call {
        Call { looks: self.looks.map(|l| Looks { or: Some(value), ..l }), ..self }
    }

    /// The same call, each unit of which looks through all indices before it writes anything.
    pub fn early(self) -> Call {
        Call { looks: self.looks.map(|l| Looks { early: true, ..l }), ..self }
    }

    /// The same call, without looks: its indices are known to be good.
    pub fn sure(self) -> Call {
        Call { looks: None, ..self }
    }

    /// The same call, with this scratch of [`LowerCx::scratch`].
    pub fn scratch(mut self, scratch: (Buf, Split)) -> Call {
        self.writes.push(scratch);
        self
    }

    /// The same call, where `(read, write)` pairs may share their bytes.
    pub fn inplace(mut self, pairs: &[(usize, usize)]) -> Call {
        self.inplace.extend_from_slice(pairs);
        self
    }

    /// The same call, with its number of floating-point operations.
    pub fn flops(self, flops: u64) -> Call {
        Call { flops, ops: flops, ..self }
    }

    /// The same call, work of this kind. Without it, a call is as long as a copy of its bytes.
    pub fn cost_class(self, work: CostClass) -> Call {
        Call { work, ..self }
    }

    /// The same call, each of whose units reads all of these operands.
    pub fn whole(self, whole: u64) -> Call {
        Call { whole, ..self }
    }

    /// The same call, with its number of operations of its cost class, if other than the floating-point operations.
    pub fn ops(self, ops: u64) -> Call {
        Call { ops, ..self }
    }
}

/// A temporary of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temp {
    /// Bytes of one element.
    pub size: usize,
    /// Elements; for scratch, elements per lane.
    pub len: usize,
    /// Whether each lane (thread) gets `len` elements of its own.
    pub per_thread: bool,
}

/// Writes the calls of one node.
pub type LowerFn = fn(&mut LowerCx<'_>) -> Result<(), String>;

/// The lowering of one node.
pub struct LowerCx<'x> {
    /// The graph.
    pub graph: Graph<'x>,
    /// The node.
    pub node: Node,
    /// Which results have a reader.
    pub used: &'x [bool],
    /// Threads that the calls are for. Results must have the same bits for any number.
    pub threads: usize,
    /// How products of `f32` are computed.
    pub precision: Precision,
    /// Calls, in order.
    pub calls: Vec<Call>,
    /// Temporaries.
    pub temps: Vec<Temp>,
    /// `(result, operand, element offset)`: the result is a window of the operand's bytes; nothing runs.
    pub views: Vec<(usize, usize, usize)>,
}

impl<'x> LowerCx<'x> {
    /// The lowering of `node` for one thread, empty.
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

    /// A temporary of `len` elements of `size` bytes, shared by the calls of this node.
    pub fn temp(&mut self, size: usize, len: usize) -> Buf {
        self.temps.push(Temp { size, len, per_thread: false });
        Buf::Temp(self.temps.len() - 1)
    }

    /// Scratch of `len` elements of `size` bytes for each lane, with the split to write it by.
    pub fn scratch(&mut self, size: usize, len: usize) -> (Buf, Split) {
        self.temps.push(Temp { size, len, per_thread: true });
        (Buf::Temp(self.temps.len() - 1), Split::PerThread(len))
    }

    /// Result `out` is operand `arg` from element `offset` on.
    pub fn view(&mut self, out: usize, arg: usize, offset: usize) {
        self.views.push((out, arg, offset));
    }

    /// Adds a call.
    pub fn call(&mut self, call: Call) {
        self.calls.push(call);
    }

    /// Floating-point operations of the node, as its row counts them.
    pub fn flops(&self) -> u64 {
        (self.graph.def_of(self.node).cost)(&CostCx { graph: self.graph, node: self.node })
    }
}

/// What a row's `cost` sees.
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
