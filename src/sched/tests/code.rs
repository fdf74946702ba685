//! Code by hand, for tests of the phases of the planner: buffers of whole lines, and groups of instructions.

use super::hand::CALL;
use crate::arena::Value;
use crate::arena::tensor::LINE;
use crate::kernels::abi::Split;
use crate::nodes::ir::call::Looks;
use crate::sched::faults::FaultCheck;
use crate::sched::instructions::{BufKind, Instr, Instructions, Operand, Update};

/// Code in the making. Buffers are numbered as they are made.
pub struct Code(pub Instructions);

impl Code {
    pub fn new() -> Code {
        Code(Instructions::new())
    }

    pub fn bytes(&mut self, kind: BufKind, bytes: usize) -> u32 {
        self.0.buffer(bytes, kind, Value::NONE)
    }

    pub fn input(&mut self, lines: usize) -> u32 {
        self.bytes(BufKind::Input, lines * LINE)
    }

    pub fn param(&mut self, lines: usize) -> u32 {
        self.bytes(BufKind::Param, lines * LINE)
    }

    pub fn output(&mut self, lines: usize) -> u32 {
        self.bytes(BufKind::Output, lines * LINE)
    }

    /// An activation.
    pub fn made(&mut self, lines: usize) -> u32 {
        self.bytes(BufKind::Activation, lines * LINE)
    }

    pub fn scratch(&mut self, lines: usize) -> u32 {
        self.bytes(BufKind::Scratch, lines * LINE)
    }

    /// An activation that is the next value of a new param.
    pub fn next(&mut self, lines: usize) -> u32 {
        let (leaf, from) = (self.param(lines), self.made(lines));
        self.update(leaf, from);
        from
    }

    /// After a step, `leaf` holds what `from` holds.
    pub fn update(&mut self, leaf: u32, from: u32) {
        let from = self.whole(from);
        self.0.updates.push(Update { leaf, from });
    }

    /// All of buffer `b`.
    pub fn whole(&self, b: u32) -> Operand {
        Operand::of_bytes(b, 0, self.0.bytes[b as usize], Split::Whole)
    }

    /// Line `line` of buffer `b`.
    pub fn line(&self, b: u32, line: usize) -> Operand {
        Operand::of_bytes(b, line * LINE, LINE, Split::Whole)
    }

    /// A check that what buffer `b` holds is below `below`; `None` for a check by another test.
    pub fn check(&self, b: u32, below: Option<u64>) -> FaultCheck {
        let looks = Looks { read: 0, below, or: None, early: false };
        FaultCheck { buf: b, off: 0, bytes: self.0.bytes[b as usize], looks }
    }

    /// Adds an instruction on whole buffers to the open group.
    pub fn push(&mut self, reads: &[u32], writes: &[u32], pairs: &[(u8, u8)]) {
        let of = |bufs: &[u32]| bufs.iter().map(|&b| self.whole(b)).collect::<Vec<Operand>>();
        let (reads, writes) = (of(reads), of(writes));
        self.0.push(&Instr { reads: &reads, writes: &writes, pairs, ..CALL });
    }

    /// Ends the open group.
    pub fn close(&mut self) {
        self.0.close(false);
    }

    /// Adds a group of one instruction.
    pub fn group(&mut self, reads: &[u32], writes: &[u32]) {
        self.in_place(reads, writes, &[]);
    }

    /// Adds a group of one instruction with in-place pairs.
    pub fn in_place(&mut self, reads: &[u32], writes: &[u32], pairs: &[(u8, u8)]) {
        self.push(reads, writes, pairs);
        self.close();
    }

    /// Adds a group of one instruction that makes checks.
    pub fn checking(&mut self, reads: &[u32], writes: &[u32], checks: &[FaultCheck]) {
        self.push(reads, writes, &[]);
        self.0.checks.extend_from_slice(checks);
        if let Some(end) = self.0.checks_at.last_mut() {
            *end += checks.len() as u32;
        }
        self.close();
    }
}
