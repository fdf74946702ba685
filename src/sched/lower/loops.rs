//! Lowering of loops: the body is lowered and planned once, for one iteration; the loop becomes one instruction.

use super::{BufferSlice, Lowered, Lowerer, lowering_error};
use crate::arena::tensor::LINE;
use crate::arena::{Node, Value, ids::Id};
use crate::error::Result;
use crate::kernels::abi::Split;
use crate::kernels::bytes;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gemm::Precision;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, Op};
use crate::sched::instructions::{BufKind, Instr, InstrTime, NO_LOOP, Operand};
use crate::sched::pack::lines;
use crate::sched::planned_loop::{Extern, Outer, PlannedLoop, loop_timestamps};
use crate::sched::planner::{PlannerTimer, run_planner};
use std::sync::Arc;

/// Most carries of a loop: in-place pairs are numbered in a byte.
const MAX_CARRIES: usize = 250;

/// Lowers and plans the body of loop `s`. Also returns the constants that the body reads: they become reads of the
/// loop's instruction behind its own.
fn lower_loop_body(
    g: Graph<'_>,
    s: &Scan,
    threads: usize,
    precision: &[Precision],
) -> Result<(PlannedLoop, Vec<Value>)> {
    let mut l = Lowerer::new(g, s.body, threads, precision);
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
    let lowered = Lowered { code: l.code, slices: l.slices };
    let plan = run_planner(lowered, threads, &lines::pack_lines, PlannerTimer::new())?.plan;
    let base: usize = externs.iter().map(|e| plan.code.bytes[e.buf as usize].div_ceil(LINE) * LINE).sum();
    let timestamps = (0..plan.code.len()).map(|i| loop_timestamps(&plan.code, i)).fold(1usize, usize::saturating_add);
    let (length, reverse) = (s.length, s.reverse);
    Ok((PlannedLoop { plan, externs, base, length, reverse, timestamps }, constants))
}

impl Lowerer<'_> {
    /// Lowers the loop `n`: initial carries are copied into the buffers of the final carries, and the loop works there.
    pub(super) fn lower_loop(&mut self, n: Node) -> Result<()> {
        let g = self.g;
        let s = Scan::of(&g.attrs(n));
        if s.carries > MAX_CARRIES {
            return Err(lowering_error(format!("scan: {} carries; {MAX_CARRIES} is the limit", s.carries)));
        }
        let (args, outs) = (g.args_of(n), g.outs_of(n));
        let whole = |slice: BufferSlice, v: Value| Operand::of_bytes(slice.buf, slice.off, g.bytes(v), Split::Whole);
        let results: Vec<Operand> = outs.map(|v| whole(self.result(v), v)).collect();
        for (&from, to) in args.iter().zip(&results[..s.carries]).filter(|(_, to)| to.bytes() > 0) {
            self.code.push(&Instr {
                kernel: bytes::keep_bytes_kernel,
                params: &[],
                reads: &[self.whole(from)],
                writes: &[Operand { split: Split::PerUnit(bytes::UNIT), ..*to }],
                pairs: &[(0, 0)],
                units: to.bytes().div_ceil(bytes::UNIT),
                node: n,
                flops: 0,
                time: InstrTime::of(CostClass::COPY, 0, 2 * to.bytes() as u64),
                whole: 0,
                copies: true,
                body: NO_LOOP,
                checks: &[],
            });
        }
        if s.length > 0 {
            self.loop_instruction(n, &s, results)?;
        }
        self.code.close(false);
        Ok(())
    }

    /// Adds the instruction that runs all iterations. `results` are the loop's results, carries first.
    fn loop_instruction(&mut self, n: Node, s: &Scan, results: Vec<Operand>) -> Result<()> {
        let g = self.g;
        let (body, constants) = lower_loop_body(g, s, self.threads, self.precision)?;
        // Twice the timestamps: sums of them must not overflow either.
        if body.timestamps.checked_mul(s.length).and_then(|t| t.checked_mul(2)).is_none_or(|t| t > isize::MAX as usize)
        {
            return Err(lowering_error(format!(
                "scan: {} iterations of {} instructions are too many",
                s.length, body.timestamps
            )));
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
        let time = code.time.iter().fold(0u64, |sum, t| sum.saturating_add(t.total)).saturating_mul(s.length as u64);
        let checks = body.checks(&reads);
        self.code.loops.push(Arc::new(body));
        self.code.push(&Instr {
            kernel: loop_kernel_stub,
            params: &[],
            reads: &reads,
            writes: &writes,
            pairs: &pairs,
            units: 1,
            node: n,
            flops,
            time: InstrTime { total: time, fixed: 0 },
            whole: 0,
            copies: false,
            body: self.code.loops.len() as u32 - 1,
            checks: &checks,
        });
        Ok(())
    }
}

/// The kernel column of a loop; never called.
fn loop_kernel_stub(_: &mut crate::kernels::abi::Args<'_>) {}
