//! Loops: the body is lowered, ordered, placed and proved once, as code of its own for one iteration.
//!
//! In that code the loop's operands are *externs*: buffers that are there before the iteration. Carries and stacked
//! results are states with updates, so the machinery of updates decides whether the next value of a carry is made in
//! its place or beside it, and the checker proves that at the end carries hold their next values, stacked results are
//! written, and all else that was there is as it was. Everything else is the workspace: one scratch buffer of the
//! loop's instruction. Externs come first in the body's space of addresses, the workspace behind them; linking puts
//! both where the outer plan has them, and slices of stacked operands move with the iteration.

mod fits;

use super::check::Checked;
use super::code::{BufKind, Code, Instr, NO_LOOP, Operand};
use super::lower::{BufferSlice, Lowering, bad};
use crate::arena::tensor::LINE;
use crate::arena::{Node, Region, Value, ids::Id};
use crate::error::Result;
use crate::kernels::abi::{DEPTH, Split};
use crate::kernels::bytes;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm::Precision;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, Op};
use std::ops::Range;
use std::sync::Arc;

/// Most carries of a loop: pairs of operands that share their bytes are numbered in a byte.
const MAX_CARRIES: usize = 250;

/// An operand of the loop's instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// Read `.0`.
    Read(usize),
    /// Write `.0`.
    Write(usize),
}

/// A buffer of the body that lies in an operand of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extern {
    /// The body's buffer.
    pub buf: u32,
    /// The operand.
    pub outer: Outer,
    /// Whether it is one slice of the operand, by iteration, and not all of it.
    pub sliced: bool,
}

/// A planned loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// One iteration.
    pub plan: Checked,
    /// What lies in operands of the loop; all pinned buffers of the body.
    pub externs: Vec<Extern>,
    /// Where the workspace begins in the body's space: behind the externs.
    pub base: usize,
    /// Number of iterations.
    pub length: usize,
    /// Whether the last iteration comes first.
    pub reverse: bool,
    /// Ticks of one iteration: its instructions, those of inner loops as often as they run, and a barrier.
    pub timestamps: usize,
}

/// Ticks of instruction `i`: 1, or 1 and those of all iterations.
pub fn timestamps(code: &Code, i: usize) -> usize {
    // Cannot overflow: `Lowering::repeat` refuses loops that would.
    code.loop_of(i).map_or(1, |l| 1 + l.length * l.timestamps)
}

impl Loop {
    /// Bytes of the workspace.
    pub fn workspace(&self) -> usize {
        self.plan.bytes - self.base
    }

    /// The bytes of extern `e` in the body's space.
    pub fn range(&self, e: &Extern) -> Range<usize> {
        let at = self.plan.place[e.buf as usize];
        at..at + self.plan.code.bytes[e.buf as usize]
    }
}

/// Refuses loops that stand too deep in one another, before any is lowered.
pub(super) fn check_depth(g: Graph<'_>) -> Result<()> {
    let mut inside = vec![0; g.regions()];
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r).filter(|&n| matches!(g.def_of(n).lower, Lower::Loop)) {
            inside[r.at()] = inside[r.at()].max(1 + inside[Scan::of(&g.attrs(n)).body.at()]);
            if inside[r.at()] > DEPTH {
                let why = format!("scan: loops stand more than {DEPTH} deep in one another");
                return Err(bad(why).at(g.location(n)));
            }
        }
    }
    Ok(())
}

/// Lowers and plans the body of the loop `s`; also the constants that it reads, as operands after the loop's own.
fn body(g: Graph<'_>, s: &Scan, threads: usize, precision: &[Precision]) -> Result<(Loop, Vec<Value>)> {
    let mut l = Lowering::new(g, s.body, threads, precision);
    l.code.iterated = true;
    let mut externs = Vec::new();
    for (i, v) in g.region_args(s.body).enumerate() {
        let (kind, outer) = match i < s.carries {
            true => (BufKind::State, Outer::Write(i)),
            false => (BufKind::Input, Outer::Read(i)),
        };
        let buf = l.code.buffer(g.bytes(v), kind, v);
        l.slices[v.at()] = BufferSlice { buf, off: 0 };
        externs.push(Extern { buf, outer, sliced: i >= s.xs() });
    }
    for n in g.region_nodes(s.body).filter(|n| g.op[n.at()] != Op::ARG) {
        l.node(n).map_err(|e| e.at(g.location(n)))?;
    }
    for (i, &y) in g.region_yields(s.body).iter().enumerate() {
        let leaf = match i < s.carries {
            true => externs[i].buf,
            false => {
                let buf = l.code.buffer(g.bytes(y), BufKind::State, y);
                externs.push(Extern { buf, outer: Outer::Write(i), sliced: true });
                buf
            }
        };
        l.update(leaf, y, g.def[y.at()]);
    }
    let mut constants = Vec::new();
    for b in (0..l.code.bytes.len()).filter(|&b| l.code.kind[b] == BufKind::Constant) {
        let outer = Outer::Read(g.region_args(s.body).count() + constants.len());
        externs.push(Extern { buf: b as u32, outer, sliced: false });
        constants.push(l.code.value[b]);
    }
    let a = super::arrange(&l.code, threads, &super::pack::lines::pack, &mut super::PhaseTimer::new())?;
    let base: usize = externs.iter().map(|e| a.plan.code.bytes[e.buf as usize].div_ceil(LINE) * LINE).sum();
    let timestamps = (0..a.plan.code.len()).map(|i| timestamps(&a.plan.code, i)).fold(1usize, usize::saturating_add);
    let (length, reverse) = (s.length, s.reverse);
    Ok((Loop { plan: a.plan, externs, base, length, reverse, timestamps }, constants))
}

impl Lowering<'_> {
    /// Lowers the loop `n`: its initial carries go where its final carries will be, and there it runs.
    pub(super) fn repeat(&mut self, n: Node) -> Result<()> {
        let g = self.g;
        let s = Scan::of(&g.attrs(n));
        if s.carries > MAX_CARRIES {
            return Err(bad(format!("scan: {} carries; {MAX_CARRIES} is the limit", s.carries)));
        }
        let (args, outs) = (g.args_of(n), g.outs_of(n));
        let whole = |slice: BufferSlice, v: Value| Operand::of_bytes(slice.buf, slice.off, g.bytes(v), Split::Whole);
        let results: Vec<Operand> = outs.map(|v| whole(self.result(v), v)).collect();
        for (&from, to) in args.iter().zip(&results[..s.carries]).filter(|(_, to)| to.bytes() > 0) {
            self.code.push(&Instr {
                kernel: bytes::keep,
                params: &[],
                reads: &[self.whole(from)],
                writes: &[Operand { split: Split::PerUnit(bytes::UNIT), ..*to }],
                pairs: &[(0, 0)],
                units: to.bytes().div_ceil(bytes::UNIT),
                node: n,
                flops: 0,
                time: (CostClass::COPY.time(0, 2 * to.bytes() as u64), CostClass::COPY.fixed()),
                whole: 0,
                copies: true,
                body: NO_LOOP,
                checks: &[],
            });
        }
        if s.length > 0 {
            self.iterations(n, &s, results)?;
        }
        self.code.close(false);
        Ok(())
    }

    /// The instruction that is the loop.
    fn iterations(&mut self, n: Node, s: &Scan, results: Vec<Operand>) -> Result<()> {
        let g = self.g;
        let (body, constants) = body(g, s, self.threads, self.precision)?;
        // Twice the iterations: sums of timestamps must not overflow either.
        if body.timestamps.checked_mul(s.length).and_then(|t| t.checked_mul(2)).is_none_or(|t| t > isize::MAX as usize)
        {
            return Err(bad(format!("scan: {} iterations of {} instructions are too many", s.length, body.timestamps)));
        }
        let mut reads = results[..s.carries].to_vec();
        reads.extend(g.args_of(n)[s.carries..].iter().map(|&v| self.whole(v)));
        for v in constants {
            if self.slices[v.at()] == BufferSlice::NONE {
                self.slices[v.at()] = BufferSlice { buf: self.code.buffer(g.bytes(v), BufKind::Constant, v), off: 0 };
            }
            reads.push(self.whole(v));
        }
        let mut writes = results;
        if body.workspace() > 0 {
            let buf = self.code.buffer(body.workspace(), BufKind::Scratch, Value::NONE);
            writes.push(Operand::of_bytes(buf, 0, body.workspace(), Split::Whole));
        }
        let pairs: Vec<(u8, u8)> = (0..s.carries as u8).map(|i| (i, i)).collect();
        let code = &body.plan.code;
        let flops = code.flops.iter().fold(0u64, |sum, f| sum.saturating_add(*f)).saturating_mul(s.length as u64);
        let time = code.time.iter().fold(0u64, |sum, t| sum.saturating_add(t.0)).saturating_mul(s.length as u64);
        let checks = body.checks(&reads);
        self.code.loops.push(Arc::new(body));
        self.code.push(&Instr {
            kernel: nothing,
            params: &[],
            reads: &reads,
            writes: &writes,
            pairs: &pairs,
            units: 1,
            node: n,
            flops,
            time: (time, 0),
            whole: 0,
            copies: false,
            body: self.code.loops.len() as u32 - 1,
            checks: &checks,
        });
        Ok(())
    }
}

/// Stands where a loop has no kernel.
fn nothing(_: &mut crate::kernels::abi::Args<'_>) {}
