//! Lowering of loops and choices: each body is lowered and planned once, and the node becomes one instruction.

use super::{BufferSlice, Lowered, Lowerer, LoweringChoices, lowerer_error};
use crate::arena::tensor::LINE;
use crate::arena::{Node, Region, Value, ids::Id};
use crate::error::Result;
use crate::kernels::abi::Split;
use crate::kernels::copy::byte_copies;
use crate::kernels::copy::{self, Fill};
use crate::kernels::cost_model::CostClass;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::scan::trips::trips_carry;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::nodes::{DType, Graph, Op};
use crate::sched::instructions::{BufKind, Instr, Instructions, NO_LOOP, Operand, PartialBuffer};
use crate::sched::modelled_time::InstrTime;
use crate::sched::pack::lines;
use crate::sched::planned_body::{
    Extern, FlagBound, LoopExit, Outer, PartialWrite, PlannedBody, UNBOUNDED_LENGTH, count_timestamps,
};
use crate::sched::planner::{PlannerTimer, plan_and_prove};
use std::sync::Arc;

/// Most carries of a loop: in-place pairs are numbered in a byte.
const MAX_CARRIES: usize = 250;

/// A carry that a loop stacks twice: its values before the iterations, and those behind them. Both stacks are windows
/// of one buffer, which has one slice more than the loop has iterations.
#[derive(Clone, Copy)]
struct Trajectory {
    carry: usize,
    /// The yields that are stacked.
    before: usize,
    after: usize,
}

/// The trajectories of loop `n`. A loop that ends early has none.
fn lowered_loop_trajectories(g: Graph<'_>, s: &Scan) -> Vec<Trajectory> {
    let yields = g.region_yields(s.body);
    let mut all: Vec<Trajectory> = Vec::new();
    for (carry, (arg, &next)) in g.region_args(s.body).zip(&yields[..s.carries]).enumerate() {
        let stacked = |v: Value| (s.carries..yields.len().min(MAX_CARRIES)).find(|&k| yields[k] == v);
        let Some((before, after)) = stacked(arg).zip(stacked(next)).filter(|(b, a)| a != b) else { continue };
        let free = all.iter().all(|t| t.after != after);
        if free && g.bytes(arg) > 0 && s.length > 0 && s.exit.is_none() {
            all.push(Trajectory { carry, before, after });
        }
    }
    all
}

/// How a body reads and writes the operands of its instruction.
struct LoweredBodyShape {
    region: Region,
    /// Number of carries: the first arguments and yields, which are one operand each.
    carries: usize,
    /// The first argument that has a slice of its operand.
    xs: usize,
    /// The read that is the first argument.
    first_read: usize,
    trajectories: Vec<Trajectory>,
    /// The first read behind the arguments, for constants.
    constants: usize,
    length: usize,
    reverse: bool,
    when: Option<bool>,
    exit: Option<LoopExit>,
    partial: Vec<PartialWrite>,
}

impl LoweredBodyShape {
    /// `stacked`: the number of stacked results whose first contents are reads, behind those of the carries.
    fn of_loop(g: Graph<'_>, s: &Scan, trajectories: Vec<Trajectory>, stacked: usize) -> LoweredBodyShape {
        let (region, constants) = (s.body, g.region_args(s.body).count() + stacked);
        let (carries, xs, reverse) = (s.carries, s.xs(), s.reverse);
        let length = if s.is_unbounded() { UNBOUNDED_LENGTH } else { s.length };
        let exit = s.exit.map(|exit| match exit {
            Exit::Flag => LoopExit::Flag(match s.bound {
                _ if s.is_unbounded() => FlagBound::None,
                Some(0) => FlagBound::Ends,
                told => FlagBound::Stops(told.unwrap_or(s.length)),
            }),
            Exit::Count => LoopExit::Count(s.carries + stacked),
        });
        LoweredBodyShape {
            region,
            carries,
            xs,
            first_read: stacked,
            trajectories,
            constants,
            length,
            reverse,
            when: None,
            exit,
            partial: Vec::new(),
        }
    }

    /// The branch that runs if the predicate, read 0, is `when`.
    fn of_branch(g: Graph<'_>, region: Region, when: bool, constants: usize) -> LoweredBodyShape {
        let (xs, when, trajectories) = (g.region_args(region).count(), Some(when), Vec::new());
        let (carries, first_read, length, reverse, exit) = (0, 1, 1, false, None);
        LoweredBodyShape {
            region,
            carries,
            xs,
            first_read,
            trajectories,
            constants,
            length,
            reverse,
            when,
            exit,
            partial: Vec::new(),
        }
    }

    /// The write that is yield `i`; `None` if it is a window of another one.
    fn write_of(&self, i: usize) -> Option<usize> {
        let windows = self.trajectories.iter().filter(|t| t.before <= i);
        (!self.trajectories.iter().any(|t| t.before == i)).then(|| i - windows.count())
    }
}

/// Lowers and plans a body. Also returns the constants that it reads: they become reads of the instruction.
fn lower_loop_body(g: Graph<'_>, s: &LoweredBodyShape, how: LoweringChoices<'_>) -> Result<(PlannedBody, Vec<Value>)> {
    let mut l = Lowerer::new(g, s.region, how);
    l.code.iterated = true;
    let mut externs = Vec::new();
    for (i, v) in g.region_args(s.region).enumerate() {
        let (kind, outer) = match i < s.carries {
            true => (BufKind::State, Outer::Write(i)),
            false => (BufKind::Input, Outer::Read(s.first_read + i)),
        };
        let buf = l.code.buffer(g.bytes(v), kind, v);
        l.slices[v.at()] = BufferSlice { buf, off: 0 };
        externs.push(Extern { buf, outer, sliced: i >= s.xs, behind_start: false });
    }
    for n in g.region_nodes(s.region).filter(|n| g.op[n.at()] != Op::ARG) {
        l.node(n).map_err(|e| e.at(g.location(n)))?;
    }
    let mut leaves = vec![u32::MAX; g.region_yields(s.region).len()];
    for (i, &y) in g.region_yields(s.region).iter().enumerate() {
        let Some(write) = s.write_of(i) else { continue };
        let leaf = match i < s.carries {
            true => externs[i].buf,
            false => {
                let buf = l.code.buffer(g.bytes(y), BufKind::State, y);
                let behind_start = s.trajectories.iter().any(|t| t.after == i);
                externs.push(Extern { buf, outer: Outer::Write(write), sliced: s.when.is_none(), behind_start });
                buf
            }
        };
        leaves[i] = leaf;
        l.update(leaf, y, g.def[y.at()]);
    }
    for p in how.partials.slices(s.region) {
        let buf = |i: usize| if p.is_yield { leaves[i] } else { externs[i].buf };
        l.code.partial.push(PartialBuffer { buf: buf(p.stack), trips: buf(p.trips), depth: p.depth });
    }
    let mut constants = Vec::new();
    for b in (0..l.code.bytes.len()).filter(|&b| l.code.kind[b] == BufKind::Constant) {
        let outer = Outer::Read(s.constants + constants.len());
        externs.push(Extern { buf: b as u32, outer, sliced: false, behind_start: false });
        constants.push(l.code.value[b]);
    }
    let lowered = Lowered { code: l.code, slices: l.slices };
    let plan = plan_and_prove(g, lowered, how.threads, &lines::pack_lines, how.places, PlannerTimer::new())?.plan;
    let base: usize = externs.iter().map(|e| plan.code.bytes[e.buf as usize].div_ceil(LINE) * LINE).sum();
    let (length, reverse, when, exit, partial) = (s.length, s.reverse, s.when, s.exit, s.partial.clone());
    let mut body = PlannedBody { plan, externs, base, length, reverse, when, exit, partial, timestamps: 0 };
    let times = (0..body.plan.code.len()).map(|i| count_timestamps(&body.plan.code, i));
    body.timestamps = times.fold(body.barriers(), usize::saturating_add);
    Ok((body, constants))
}

impl Lowerer<'_> {
    /// Lowers the loop `n`: initial carries are copied into the buffers of the final carries, and the loop works there.
    pub(super) fn lower_loop(&mut self, n: Node) -> Result<()> {
        let g = self.g;
        let s = Scan::of(&g.attrs(n));
        let (args, outs) = (g.args_of(n), g.outs_of(n));
        let carries = if s.exit.is_some() { outs.len() } else { s.carries };
        if carries > MAX_CARRIES {
            let of = if s.exit.is_some() { " and stacked results" } else { "" };
            return Err(lowerer_error(format!("scan: {carries} carries{of}; {MAX_CARRIES} is the limit")));
        }
        let trajectories = lowered_loop_trajectories(g, &s);
        for t in &trajectories {
            self.start_loop_trajectory(n, &s, t);
        }
        let whole = |slice: BufferSlice, v: Value| Operand::of_bytes(slice.buf, slice.off, g.bytes(v), Split::Whole);
        let results: Vec<Operand> = outs.map(|v| whole(self.result(v), v)).collect();
        for (&from, to) in args.iter().zip(&results[..s.carries]).filter(|(_, to)| to.bytes() > 0) {
            self.code.push(&Instr {
                kernel: byte_copies::copy_bytes_unless_shared_kernel,
                params: &[],
                prepared: None,
                reads: &[self.whole(from)],
                writes: &[Operand { split: Split::PerUnit(byte_copies::UNIT), ..*to }],
                pairs: &[(0, 0)],
                units: to.bytes().div_ceil(byte_copies::UNIT),
                node: n,
                flops: 0,
                time: InstrTime::of(CostClass::COPY, 0, 2 * to.bytes() as u64),
                whole: 0,
                copies: true,
                body: NO_LOOP,
                checks: &[],
            });
        }
        if s.exit.is_some() {
            let filled = |(v, to): &(Value, &Operand)| to.bytes() > 0 && !self.how.partials.has(*v);
            let stacked: Vec<_> = g.outs_of(n).zip(&results).skip(s.carries).filter(filled).collect();
            stacked.into_iter().for_each(|(_, to)| self.fill_loop_with_zeros(n, to));
        }
        if s.length > 0 || s.is_unbounded() {
            self.loop_instruction(n, &s, results, trajectories)?;
        }
        self.code.close(false);
        Ok(())
    }

    /// Makes both stacks of `t` windows of one buffer, and adds the instruction that copies the initial carry into it.
    fn start_loop_trajectory(&mut self, n: Node, s: &Scan, t: &Trajectory) {
        let g = self.g;
        let (from, after) = (g.args_of(n)[t.carry], Value::new(g.out(n).at() + t.after));
        let (slice, stack) = (g.bytes(from), g.bytes(after));
        let buf = self.code.buffer(stack + slice, BufKind::Activation, after);
        let (first, second) = (BufferSlice { buf, off: 0 }, BufferSlice { buf, off: slice });
        let (before_at, after_at, start) = if s.reverse { (second, first, stack) } else { (first, second, 0) };
        self.slices[g.out(n).at() + t.before] = before_at;
        self.slices[after.at()] = after_at;
        self.code.push(&Instr {
            kernel: byte_copies::place_bytes_kernel,
            params: &[start as u64],
            prepared: None,
            reads: &[self.whole(from)],
            writes: &[Operand::of_bytes(buf, 0, stack + slice, Split::Whole)],
            pairs: &[],
            units: 1,
            node: n,
            flops: 0,
            time: InstrTime::of(CostClass::COPY, 0, 2 * slice as u64),
            whole: 0,
            copies: false,
            body: NO_LOOP,
            checks: &[],
        });
    }

    /// Adds the instruction that fills a stacked result with zeros, for the slices that no iteration makes.
    fn fill_loop_with_zeros(&mut self, n: Node, to: &Operand) {
        let p = Fill { len: to.bytes(), value: 0 };
        self.code.push(&Instr {
            kernel: copy::fill_kernel_for(DType::Bool),
            params: &p.to_words(),
            reads: &[],
            writes: &[Operand { split: Split::PerUnit(p.per_unit()), ..*to }],
            pairs: &[],
            units: p.units(),
            node: n,
            flops: 0,
            time: InstrTime::of(CostClass::COPY, 0, to.bytes() as u64),
            prepared: None,
            whole: 0,
            copies: false,
            body: NO_LOOP,
            checks: &[],
        });
    }

    /// Adds the instruction that runs all iterations. `results` are the loop's results, carries first.
    fn loop_instruction(
        &mut self,
        n: Node,
        s: &Scan,
        results: Vec<Operand>,
        trajectories: Vec<Trajectory>,
    ) -> Result<()> {
        let g = self.g;
        let partial: Vec<usize> =
            g.outs_of(n).enumerate().skip(s.carries).filter(|y| self.how.partials.has(y.1)).map(|y| y.0).collect();
        // The writes that have contents before the first iteration: in a loop that may end early, all but partial ones.
        let starts: Vec<usize> = match s.exit {
            Some(_) => (0..results.len()).filter(|i| !partial.contains(i)).collect(),
            None => (0..s.carries).chain(trajectories.iter().map(|t| t.after)).collect(),
        };
        let mut shape = LoweredBodyShape::of_loop(g, s, trajectories, starts.len() - s.carries);
        let trips = match shape.exit {
            Some(LoopExit::Count(k)) => Some(Outer::Read(k)),
            _ => trips_carry(g, n).map(Outer::Write),
        };
        shape.partial = partial
            .into_iter()
            .zip(trips.into_iter().cycle())
            .map(|(write, trips)| PartialWrite { write, trips })
            .collect();
        let (body, constants) = lower_loop_body(g, &shape, self.how)?;
        // Twice the timestamps: sums of them must not overflow either.
        if body
            .timestamps
            .checked_mul(shape.length)
            .and_then(|t| t.checked_mul(2))
            .is_none_or(|t| t > isize::MAX as usize)
        {
            return Err(lowerer_error(format!(
                "scan: {} iterations of {} instructions are too many",
                shape.length, body.timestamps
            )));
        }
        // A trajectory is written with the slice that it starts with.
        let all = |i: usize| match shape.trajectories.iter().any(|t| t.after == i) {
            true => Operand { off: 0, len: self.code.bytes[results[i].buf as usize], ..results[i] },
            false => results[i],
        };
        let mut reads: Vec<Operand> = starts.iter().map(|&i| all(i)).collect();
        let writes = (0..results.len()).filter(|&i| shape.write_of(i).is_some()).map(all).collect();
        reads.extend(g.args_of(n)[s.carries..].iter().map(|&v| self.whole(v)));
        self.read_loop_constants(&constants, &mut reads);
        let written = starts.iter().map(|&i| shape.write_of(i).unwrap_or(i));
        let pairs: Vec<(u8, u8)> = written.enumerate().map(|(r, w)| (r as u8, w as u8)).collect();
        self.run_loop_bodies(n, vec![body], &reads, writes, &pairs);
        Ok(())
    }

    /// Lowers the choice `n`: one instruction with two bodies, whose workspace is that of the larger one.
    pub(super) fn lower_choice(&mut self, n: Node) -> Result<()> {
        let g = self.g;
        let attrs = IfAttrs::of(&g.attrs(n));
        let mut reads: Vec<Operand> = g.args_of(n).iter().map(|&v| self.whole(v)).collect();
        let mut bodies = Vec::new();
        for (region, when) in [(attrs.then, true), (attrs.otherwise, false)] {
            let shape = LoweredBodyShape::of_branch(g, region, when, reads.len());
            let (body, constants) = lower_loop_body(g, &shape, self.how)?;
            self.read_loop_constants(&constants, &mut reads);
            bodies.push(body);
        }
        let whole = |slice: BufferSlice, v: Value| Operand::of_bytes(slice.buf, slice.off, g.bytes(v), Split::Whole);
        let results: Vec<Operand> = g.outs_of(n).map(|v| whole(self.result(v), v)).collect();
        let all = bodies.iter().map(|b| b.timestamps).fold(0usize, usize::saturating_add);
        if all > isize::MAX as usize / 2 {
            return Err(lowerer_error("if: its branches have too many instructions"));
        }
        self.run_loop_bodies(n, bodies, &reads, results, &[]);
        self.code.close(false);
        Ok(())
    }

    /// Appends the constants that a body reads to the reads of its instruction.
    fn read_loop_constants(&mut self, constants: &[Value], reads: &mut Vec<Operand>) {
        let g = self.g;
        for &v in constants {
            if self.slices[v.at()] == BufferSlice::NONE {
                self.slices[v.at()] = BufferSlice { buf: self.code.buffer(g.bytes(v), BufKind::Constant, v), off: 0 };
            }
            reads.push(self.whole(v));
        }
    }

    /// Adds the instruction of node `n` that runs `bodies`.
    fn run_loop_bodies(
        &mut self,
        n: Node,
        bodies: Vec<PlannedBody>,
        reads: &[Operand],
        mut writes: Vec<Operand>,
        pairs: &[(u8, u8)],
    ) {
        let workspace = bodies.iter().map(PlannedBody::workspace).max().unwrap_or(0);
        if workspace > 0 {
            let buf = self.code.buffer(workspace, BufKind::Scratch, Value::NONE);
            writes.push(Operand::of_bytes(buf, 0, workspace, Split::Whole));
        }
        let most = |of: fn(&Instructions) -> u64| {
            let each = bodies.iter().map(|b| of(&b.plan.code).saturating_mul(b.expected() as u64));
            each.max().unwrap_or(0)
        };
        let flops = most(|code| code.flops.iter().fold(0u64, |sum, f| sum.saturating_add(*f)));
        let time = most(|code| code.time.iter().fold(0u64, |sum, t| sum.saturating_add(t.total)));
        let checks: Vec<_> = bodies.iter().flat_map(|b| b.checks(reads)).collect();
        let first = self.code.loops.len() as u32;
        self.code.loops.extend(bodies.into_iter().map(Arc::new));
        self.code.push(&Instr {
            kernel: loop_kernel_stub,
            params: &[],
            prepared: None,
            reads,
            writes: &writes,
            pairs,
            units: 1,
            node: n,
            flops,
            time: InstrTime { total: time, fixed: 0, by_bytes: true },
            whole: 0,
            copies: false,
            body: (first, self.code.loops.len() as u32),
            checks: &checks,
        });
    }
}

/// The kernel column of a loop; never called.
fn loop_kernel_stub(_: &mut crate::kernels::abi::Args<'_>) {}
