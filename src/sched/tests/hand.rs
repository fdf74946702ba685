//! Plans by hand, for tests of what follows from a plan alone: tapes, times, links.

use crate::arena::{Node, Value};
use crate::kernels::abi::{Args, Split};
use crate::sched::checker::Checked;
use crate::sched::instructions::{BufKind, Instr, Instructions, NO_LOOP, OUT_OF_PLACE, Operand};
use crate::sched::modelled_time::InstrTime;
use crate::sched::plan::Plan;
use crate::sched::planned_body::{PlannedBody, count_timestamps};
use crate::sched::tape::{Entry, Tapes};
use std::sync::Arc;

fn idle_kernel(_: &mut Args<'_>) {}

/// An instruction of one unit without operands, to start from.
pub const CALL: Instr<'static> = Instr {
    kernel: idle_kernel,
    params: &[],
    prepared: None,
    reads: &[],
    writes: &[],
    pairs: &[],
    units: 1,
    node: Node(0),
    flops: 0,
    time: InstrTime { total: 0, fixed: 0, by_bytes: false },
    whole: 0,
    copies: false,
    body: NO_LOOP,
    checks: &[],
};

/// A plan in the making.
pub struct HandPlan {
    pub code: Instructions,
    pub offset: Vec<usize>,
    pub inplace: Vec<u8>,
}

impl HandPlan {
    pub fn new() -> HandPlan {
        HandPlan { code: Instructions::new(), offset: Vec::new(), inplace: Vec::new() }
    }

    /// A buffer of `bytes` bytes at byte `at`.
    pub fn buffer(&mut self, at: usize, bytes: usize, kind: BufKind) -> u32 {
        self.offset.push(at);
        self.code.buffer(bytes, kind, Value::NONE)
    }

    /// All of a new buffer, which units do not divide.
    pub fn bytes(&mut self, at: usize, bytes: usize, kind: BufKind) -> Operand {
        Operand::of_bytes(self.buffer(at, bytes, kind), 0, bytes, Split::Whole)
    }

    /// Adds an instruction, whose reads share bytes with no write.
    pub fn call(&mut self, i: &Instr<'_>) {
        self.inplace.extend(i.reads.iter().map(|_| OUT_OF_PLACE));
        self.code.push(i);
        self.code.close(false);
    }

    /// Adds an instruction that runs `bodies`.
    pub fn call_bodies(&mut self, bodies: impl IntoIterator<Item = PlannedBody>, i: &Instr<'_>) {
        let from = self.code.loops.len() as u32;
        self.code.loops.extend(bodies.into_iter().map(Arc::new));
        let body = (from, self.code.loops.len() as u32);
        self.call(&Instr { body, ..*i });
    }

    /// The plan for `threads` threads, without proof.
    pub fn plan(self, threads: usize) -> Checked {
        let HandPlan { code, offset, inplace } = self;
        let bytes = offset.iter().zip(&code.bytes).map(|(at, n)| at + n).max().unwrap_or(0);
        Checked::unproven(Plan { code, offset, inplace, bytes, threads, foreign: Vec::new() })
    }
}

/// A body without operands of the loop, for `length` iterations.
pub fn hand_body(plan: Checked, length: usize) -> PlannedBody {
    let timestamps = 1 + (0..plan.code.len()).map(|i| count_timestamps(&plan.code, i)).sum::<usize>();
    let (externs, reverse, when, exit) = (Vec::new(), false, None, None);
    PlannedBody { plan, externs, base: 0, length, reverse, when, exit, partial: Vec::new(), timestamps }
}

/// The tapes with these entries.
pub fn hand_tapes(threads: &[Vec<Entry>], inner: Vec<Tapes>) -> Tapes {
    let ends = threads.iter().scan(0, |at, t| {
        *at += t.len() as u32;
        Some(*at)
    });
    Tapes { at: std::iter::once(0).chain(ends).collect(), entries: threads.concat(), inner }
}
