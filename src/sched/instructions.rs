//! Code: columns of instructions over buffers that have no offsets yet.
//!
//! Invariants: the instructions of one node are contiguous (a *group*); a buffer is written by one group only, or is a
//! leaf; an operand that is a view names its root buffer and a byte offset. [`lower`](super::lower) makes it,
//! [`order`](super::order) permutes it, [`alias`](super::alias) appends copies, and every other file of `sched` reads
//! it.

pub use super::buf_kind::BufKind;
use super::faults::FaultCheck;
use super::modelled_time::InstrTime;
pub use super::operand::Operand;
use super::planned_body::PlannedBody;
use crate::arena::{Node, Value};
use crate::kernels::abi::{Kernel, Prepared, Split};
use crate::kernels::copy::byte_copies;
use crate::kernels::cost_model::CostClass;
use std::sync::Arc;

/// A leaf's new value: after a step, buffer `leaf` holds the contents of `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The leaf's buffer.
    pub leaf: u32,
    /// The next value, of the leaf's size. Never a leaf itself.
    pub from: Operand,
}

/// In the code of a loop's body: a buffer from outside, a slice of a stack, that has contents only in as many slices of
/// its own as iterations ran of the loop that made it. As a state it is one after the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialBuffer {
    /// The buffer.
    pub buf: u32,
    /// The buffer from outside that has the number of iterations, or in the same way the slices of these numbers.
    pub trips: u32,
    /// How many loops further in the slices are of iterations: 0 if those of this buffer are.
    pub depth: usize,
}

/// One instruction, as [`Instructions::push`] reads it.
pub struct Instr<'a> {
    /// The kernel.
    pub kernel: Kernel,
    /// Its parameters.
    pub params: &'a [u64],
    /// What was prepared for it.
    pub prepared: Option<&'a Prepared>,
    /// Operands that it reads.
    pub reads: &'a [Operand],
    /// Operands that it writes.
    pub writes: &'a [Operand],
    /// `(read, write)` positions that the kernel allows to share bytes.
    pub pairs: &'a [(u8, u8)],
    /// Number of units.
    pub units: usize,
    /// The node that it computes a part of.
    pub node: Node,
    /// Floating-point operations.
    pub flops: u64,
    /// Modelled time.
    pub time: InstrTime,
    /// Bit `k` is set if each unit reads all of read `k`.
    pub whole: u64,
    /// True if it copies its read to its write, byte by byte.
    pub copies: bool,
    /// The bodies that it runs instead of the kernel, as a range of [`Instructions::loops`]: one for a loop, two for a
    /// choice of branches; [`NO_LOOP`] for none.
    pub body: (u32, u32),
    /// Index operands that it checks; a bad index stops the step.
    pub checks: &'a [FaultCheck],
}

/// [`Instr::body`] of an instruction that runs its kernel.
pub const NO_LOOP: (u32, u32) = (u32::MAX, u32::MAX);

/// The entry of a read that shares no bytes with a write, in the `inplace` columns of [`Alias`](super::alias::Alias)
/// and [`Plan`](super::plan::Plan).
pub const OUT_OF_PLACE: u8 = u8::MAX;

/// Instructions, groups, buffers, outputs and updates, as columns.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    /// Kernel of each instruction.
    pub kernel: Vec<Kernel>,
    /// What was prepared for each instruction.
    pub prepared: Vec<Option<Prepared>>,
    /// Units of each instruction.
    pub units: Vec<usize>,
    /// Node of each instruction.
    pub node: Vec<Node>,
    /// Floating-point operations of each instruction.
    pub flops: Vec<u64>,
    /// Modelled time of each instruction.
    pub time: Vec<InstrTime>,
    /// For each instruction, a bit for each read that every unit reads whole: see [`Instr::whole`].
    pub whole: Vec<u64>,
    /// True for instructions that are plain copies.
    pub copies: Vec<bool>,
    /// Parameters of instruction `i`: `params[params_at[i]..params_at[i + 1]]`.
    pub params_at: Vec<u32>,
    /// Reads of instruction `i`: `reads[reads_at[i]..reads_at[i + 1]]`.
    pub reads_at: Vec<u32>,
    /// Writes of instruction `i`: `writes[writes_at[i]..writes_at[i + 1]]`.
    pub writes_at: Vec<u32>,
    /// In-place pairs of instruction `i`: `pairs[pairs_at[i]..pairs_at[i + 1]]`.
    pub pairs_at: Vec<u32>,
    /// Checks of instruction `i`: `checks[checks_at[i]..checks_at[i + 1]]`.
    pub checks_at: Vec<u32>,
    /// Instructions of group `g`: `group_at[g]..group_at[g + 1]`.
    pub group_at: Vec<u32>,
    /// Parameter words.
    pub params: Vec<u64>,
    /// Reads.
    pub reads: Vec<Operand>,
    /// Writes.
    pub writes: Vec<Operand>,
    /// In-place pairs.
    pub pairs: Vec<(u8, u8)>,
    /// Checks of index operands.
    pub checks: Vec<FaultCheck>,
    /// Bytes of each buffer.
    pub bytes: Vec<usize>,
    /// Kind of each buffer.
    pub kind: Vec<BufKind>,
    /// The value whose bytes each buffer is; [`Value::NONE`] for scratch.
    pub value: Vec<Value>,
    /// The outputs, in the graph's order.
    pub outputs: Vec<Operand>,
    /// The updates, except those of a leaf by itself and those of empty leaves.
    pub updates: Vec<Update>,
    /// True for groups with effects, which keep their order among one another.
    pub effect: Vec<bool>,
    /// The bodies that each instruction runs, or [`NO_LOOP`].
    pub body: Vec<(u32, u32)>,
    /// The bodies of loops and branches, each with its own plan.
    pub loops: Vec<Arc<PlannedBody>>,
    /// True for the code of one iteration of a loop.
    pub iterated: bool,
    /// Buffers from outside that are partial stacks.
    pub partial: Vec<PartialBuffer>,
}

impl Instructions {
    /// Empty columns.
    pub fn new() -> Instructions {
        let at = || vec![0];
        Instructions {
            params_at: at(),
            reads_at: at(),
            writes_at: at(),
            pairs_at: at(),
            checks_at: at(),
            group_at: at(),
            ..Instructions::default()
        }
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.kernel.len()
    }

    /// True if there is no instruction.
    pub fn is_empty(&self) -> bool {
        self.kernel.is_empty()
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.group_at.len() - 1
    }

    /// Instructions of group `g`.
    pub fn group(&self, g: usize) -> std::ops::Range<usize> {
        self.group_at[g] as usize..self.group_at[g + 1] as usize
    }

    /// Positions of instruction `i`'s reads in `reads`.
    pub fn read_range(&self, i: usize) -> std::ops::Range<usize> {
        self.reads_at[i] as usize..self.reads_at[i + 1] as usize
    }

    /// Reads of instruction `i`.
    pub fn reads_of(&self, i: usize) -> &[Operand] {
        &self.reads[self.read_range(i)]
    }

    /// Writes of instruction `i`.
    pub fn writes_of(&self, i: usize) -> &[Operand] {
        &self.writes[self.writes_at[i] as usize..self.writes_at[i + 1] as usize]
    }

    /// In-place pairs of instruction `i`.
    pub fn pairs_of(&self, i: usize) -> &[(u8, u8)] {
        &self.pairs[self.pairs_at[i] as usize..self.pairs_at[i + 1] as usize]
    }

    /// Checks of instruction `i`.
    pub fn checks_of(&self, i: usize) -> &[FaultCheck] {
        &self.checks[self.checks_at[i] as usize..self.checks_at[i + 1] as usize]
    }

    /// Parameters of instruction `i`.
    pub fn params_of(&self, i: usize) -> &[u64] {
        &self.params[self.params_at[i] as usize..self.params_at[i + 1] as usize]
    }

    /// The bodies that instruction `i` runs: one of a loop, two of a choice; none if it runs its kernel.
    pub fn bodies_of(&self, i: usize) -> &[Arc<PlannedBody>] {
        self.loops.get(self.body_range(i)).unwrap_or(&[])
    }

    /// Positions of the bodies of instruction `i` in `loops`.
    pub fn body_range(&self, i: usize) -> std::ops::Range<usize> {
        self.body[i].0 as usize..self.body[i].1 as usize
    }

    /// True if instruction `i` runs bodies instead of its kernel.
    pub fn has_body(&self, i: usize) -> bool {
        !self.bodies_of(i).is_empty()
    }

    /// Adds a buffer of `bytes` bytes. Returns its number.
    pub fn buffer(&mut self, bytes: usize, kind: BufKind, value: Value) -> u32 {
        self.bytes.push(bytes);
        self.kind.push(kind);
        self.value.push(value);
        (self.bytes.len() - 1) as u32
    }

    /// True if `o` is all of its buffer.
    pub fn is_whole(&self, o: &Operand) -> bool {
        o.off == 0 && o.bytes() == self.bytes[o.buf as usize]
    }

    /// Adds an instruction to the open group, which [`Instructions::close`] ends.
    pub fn push(&mut self, i: &Instr<'_>) {
        self.kernel.push(i.kernel);
        self.prepared.push(i.prepared.cloned());
        self.units.push(i.units);
        self.node.push(i.node);
        self.flops.push(i.flops);
        self.time.push(i.time);
        self.whole.push(i.whole);
        self.copies.push(i.copies);
        self.body.push(i.body);
        self.params.extend_from_slice(i.params);
        self.reads.extend_from_slice(i.reads);
        self.writes.extend_from_slice(i.writes);
        self.pairs.extend_from_slice(i.pairs);
        self.checks.extend_from_slice(i.checks);
        self.checks_at.push(self.checks.len() as u32);
        self.params_at.push(self.params.len() as u32);
        self.reads_at.push(self.reads.len() as u32);
        self.writes_at.push(self.writes.len() as u32);
        self.pairs_at.push(self.pairs.len() as u32);
    }

    /// Ends the open group, unless it is empty. `effect` is true if the group has an effect.
    pub fn close(&mut self, effect: bool) {
        let (end, start) = (self.len() as u32, self.group_at[self.groups()]);
        if end > start {
            self.group_at.push(end);
            self.effect.push(effect);
        }
    }

    /// Adds a group that copies `from` to the start of buffer `to`; no group if `from` is empty.
    pub fn copy(&mut self, from: Operand, to: u32, node: Node) {
        let len = from.bytes();
        if len == 0 {
            return;
        }
        self.push(&Instr {
            kernel: byte_copies::copy_bytes_kernel,
            params: &[],
            prepared: None,
            reads: &[Operand::of_bytes(from.buf, from.off, len, Split::Whole)],
            writes: &[Operand::of_bytes(to, 0, len, Split::PerUnit(byte_copies::UNIT))],
            pairs: &[],
            units: len.div_ceil(byte_copies::UNIT),
            node,
            flops: 0,
            time: InstrTime::of(CostClass::COPY, 0, 2 * len as u64),
            whole: 0,
            copies: true,
            body: NO_LOOP,
            checks: &[],
        });
        self.close(false);
    }

    /// Takes the scratch of each thread from all instructions. The executor cannot run what is left.
    pub(super) fn drop_thread_scratch(&mut self) {
        let is_scratch = |o: &Operand| matches!(o.split, Split::PerThread(_));
        for o in self.writes.iter().filter(|o| is_scratch(o)) {
            self.bytes[o.buf as usize] = 0;
        }
        let mut kept = Vec::with_capacity(self.writes.len());
        for i in 0..self.len() {
            let from = kept.len() as u32;
            kept.extend(self.writes_of(i).iter().filter(|o| !is_scratch(o)));
            // The range of writes of instruction `i` is not read again.
            self.writes_at[i] = from;
        }
        let all = self.len();
        self.writes_at[all] = kept.len() as u32;
        self.writes = kept;
    }

    /// The same code with its groups in the order `order`.
    pub fn permuted(&self, order: &[u32]) -> Instructions {
        let mut c = Instructions {
            bytes: self.bytes.clone(),
            kind: self.kind.clone(),
            value: self.value.clone(),
            outputs: self.outputs.clone(),
            updates: self.updates.clone(),
            loops: self.loops.clone(),
            iterated: self.iterated,
            partial: self.partial.clone(),
            ..Instructions::new()
        };
        c.kernel.reserve(self.len());
        c.reads.reserve(self.reads.len());
        c.writes.reserve(self.writes.len());
        c.params.reserve(self.params.len());
        for &g in order {
            for i in self.group(g as usize) {
                c.push(&Instr {
                    kernel: self.kernel[i],
                    params: self.params_of(i),
                    prepared: self.prepared[i].as_ref(),
                    reads: self.reads_of(i),
                    writes: self.writes_of(i),
                    pairs: self.pairs_of(i),
                    units: self.units[i],
                    node: self.node[i],
                    flops: self.flops[i],
                    time: self.time[i],
                    whole: self.whole[i],
                    copies: self.copies[i],
                    body: self.body[i],
                    checks: self.checks_of(i),
                });
            }
            c.close(self.effect[g as usize]);
        }
        c
    }
}
