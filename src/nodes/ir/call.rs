//! Kernel calls, as the `lower` function of an op definition writes them: on operands, results and scratch. `sched`
//! turns them into instructions.

use crate::kernels::abi::{Kernel, Prepared, Split};
use crate::kernels::cost_model::CostClass;

/// An operand of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Buf {
    /// Operand `.0` of the node.
    Arg(usize),
    /// Result `.0` of the node.
    Out(usize),
    /// Temporary `.0` of the node. It lives from the first to the last call that uses it.
    Temp(usize),
}

/// A kernel's check of an operand that holds indices, or matrices that may be singular. A bad one is a fault, which
/// stops the step.
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
#[non_exhaustive]
pub struct Call {
    /// The kernel.
    pub kernel: Kernel,
    /// Its parameters.
    pub params: Vec<u64>,
    /// What the kernel needs beside them, made once.
    pub prepared: Option<Prepared>,
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
            prepared: None,
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

    /// Adds what the kernel needs beside its parameters.
    pub fn prepared(self, prepared: Prepared) -> Call {
        Call { prepared: Some(prepared), ..self }
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

    /// Declares that the kernel faults by a test of its own: at an integer divisor of 0, or at a singular matrix.
    pub fn faults(self) -> Call {
        Call { looks: Some(Looks { read: 0, below: None, or: None, early: false }), ..self }
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

    /// Adds scratch of [`LowerCx::scratch`](super::lower_cx::LowerCx::scratch).
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

    /// Sets the number of operations as the cost class counts them. Without this call it is the number of
    /// floating-point operations.
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
