//! Linking: a proven plan and its tapes become segments of calls with arena offsets, one segment for the graph and one
//! for each loop's body.
//!
//! A body was planned in an address space of its own. Its externs get the offsets of the loop's operands, and its
//! workspace that of the loop's scratch. The offsets of slices of stacked operands advance with each iteration.
//!
//! Invariant: at each iteration, two buffers of a body have disjoint bytes, unless both are only read. The checker
//! proved this: the loop's operands are disjoint in this sense, and externs fit them. Only [`Exec`](super::exec::Exec)
//! links; the observers of steps read segments.

use super::checker::Checked;
use super::instructions::{OUT_OF_PLACE, Operand};
use super::planned_body::{FlagBound, LoopExit, Outer, PlannedBody, count_timestamps};
use super::tape::Tapes;
use crate::arena::Node;
use crate::arena::tensor::LINE;
use crate::kernels::abi::{DEPTH, Kernel, OperandRef, Prepared, Strides};
use std::ops::Range;

/// One instruction, with ranges of its operands in [`Segment::slots`] and of its parameters in [`Segment::params`].
#[derive(Clone, Copy)]
pub(super) struct LinkedCall {
    pub kernel: Kernel,
    pub reads: (u32, u32),
    pub writes: (u32, u32),
    pub params: (u32, u32),
    /// The loop or the branches that it runs instead of the kernel, as a range of [`Linked::loop_calls`]; else empty.
    pub loop_calls: (u32, u32),
    /// Its timestamp, from the start of the segment.
    pub time: usize,
}

impl LinkedCall {
    /// True if it runs its kernel, not a loop or a branch.
    pub fn runs_kernel(&self) -> bool {
        self.loop_calls.0 == self.loop_calls.1
    }
}

/// The linked code of the graph, or of one iteration of a loop.
pub(super) struct Segment {
    pub calls: Vec<LinkedCall>,
    /// Operands of all calls: reads, then writes, call by call.
    pub slots: Vec<OperandRef>,
    pub params: Vec<u64>,
    /// What was prepared for each call.
    pub prepared: Vec<Option<Prepared>>,
    pub tapes: Tapes,
    /// Bytes to poison while it runs.
    pub deaths: LinkedDeaths,
    /// Bytes that instruction `i` must not change: `red_zones[i]`. Empty unless red zones are checked.
    pub red_zones: Vec<Vec<Range<usize>>>,
    /// Number of its first instruction, counted over all segments.
    pub first: usize,
}

/// A linked loop.
pub(super) struct LinkedBody {
    pub segment: u32,
    pub length: usize,
    pub reverse: bool,
    /// For a branch: the predicate with which it runs.
    pub when: Option<bool>,
    /// What ends it early.
    pub exit: Option<LoopExit>,
    /// Barriers behind each iteration, if all threads run it.
    pub barriers: usize,
    /// True if all threads run it.
    pub team: bool,
    /// Number of loops around it.
    pub depth: usize,
    /// Timestamps of one iteration.
    pub timestamps: usize,
}

impl LinkedBody {
    /// The operand of the instruction that decides what runs: a predicate, a flag, or a number of iterations.
    pub fn decides(&self, reads: &[OperandRef], writes: &[OperandRef]) -> Option<OperandRef> {
        match (self.when, self.exit) {
            (Some(_), _) => Some(reads[0]),
            (None, Some(LoopExit::Flag(_))) => Some(writes[0]),
            (None, Some(LoopExit::Count(k))) => Some(reads[k]),
            (None, None) => None,
        }
    }

    /// The most iterations that run, where `value` is the number that ends the loop. `None` if it is above the bound.
    pub fn iterations(&self, value: i64) -> Option<usize> {
        match self.exit {
            Some(LoopExit::Count(_)) => usize::try_from(value).ok().filter(|&n| n <= self.length),
            Some(LoopExit::Flag(FlagBound::None)) => Some(usize::MAX),
            _ => Some(self.length),
        }
    }

    /// True if iterations behind iteration `n` have its timestamps too.
    fn shares_timestamps(&self, n: usize) -> bool {
        self.exit == Some(LoopExit::Flag(FlagBound::None)) && n + 1 >= self.length
    }
}

/// All segments, the graph's first.
#[derive(Default)]
pub(super) struct Linked {
    pub segments: Vec<Segment>,
    pub loop_calls: Vec<LinkedBody>,
    /// Strides of operands in loops; the first is all zeros.
    pub strides: Vec<Strides>,
    /// Node of each instruction of all segments.
    pub nodes: Vec<Node>,
}

/// Bytes to poison: they hold no value that is still needed.
#[derive(Default)]
pub(super) struct LinkedDeaths {
    /// Before the segment runs.
    pub before: Vec<Range<usize>>,
    /// Ranges of instruction `i`: `ranges[at[i]..at[i + 1]]`.
    at: Vec<u32>,
    ranges: Vec<Range<usize>>,
}

impl LinkedDeaths {
    /// Bytes that die after instruction `i`.
    pub fn after(&self, i: usize) -> &[Range<usize>] {
        &self.ranges[self.at[i] as usize..self.at[i + 1] as usize]
    }
}

/// An arena offset at iteration 0 of all loops around, and how it moves.
#[derive(Clone, Copy)]
struct ArenaOffset {
    off: usize,
    strides: Strides,
}

/// An extern of a loop's body.
struct MappedExtern {
    /// Its bytes in the body's address space.
    bytes: Range<usize>,
    to: ArenaOffset,
}

/// How addresses of one segment map to the arena.
struct LinkMap {
    /// By rising address.
    externs: Vec<MappedExtern>,
    /// First byte of the workspace, as an address.
    base: usize,
    /// First byte of the workspace in the arena.
    at: usize,
}

impl LinkMap {
    /// The arena offset of addresses `r`. An error if they are in no extern and not in the workspace.
    fn offset(&self, r: Range<usize>) -> Result<ArenaOffset, String> {
        if r.start >= self.base || r.is_empty() {
            let off = if r.is_empty() { 0 } else { self.at + (r.start - self.base) };
            return Ok(ArenaOffset { off, strides: [0; DEPTH] });
        }
        let after = self.externs.partition_point(|e| e.bytes.start <= r.start);
        match after.checked_sub(1).map(|i| &self.externs[i]) {
            Some(e) if r.end <= e.bytes.end => {
                Ok(ArenaOffset { off: e.to.off + (r.start - e.bytes.start), strides: e.to.strides })
            }
            _ => Err(format!("bytes {r:?} of a loop's body lie in no operand of the loop")),
        }
    }
}

/// Links `plan`. An error if an operand of a loop's body is outside the loop's operands or not aligned there, or if
/// loops are nested deeper than [`DEPTH`].
pub(super) fn link(plan: &Checked, tapes: Tapes) -> Result<Linked, String> {
    let mut l = Linked { strides: vec![[0; DEPTH]], ..Linked::default() };
    let map = LinkMap { externs: Vec::new(), base: 0, at: 0 };
    l.segment(plan, tapes, &map, 0, find_deaths(plan))?;
    Ok(l)
}

impl Linked {
    /// Links `plan` inside `depth` loops. Returns the index of its segment.
    fn segment(
        &mut self,
        plan: &Checked,
        mut tapes: Tapes,
        map: &LinkMap,
        depth: usize,
        deaths: LinkedDeaths,
    ) -> Result<u32, String> {
        let code = &plan.code;
        let inner = std::mem::take(&mut tapes.inner);
        let first = self.nodes.len();
        self.nodes.extend_from_slice(&code.node);
        let index = self.segments.len();
        let (calls, slots) = (Vec::with_capacity(code.len()), Vec::with_capacity(code.reads.len() + code.writes.len()));
        let (params, prepared) = (code.params.clone(), code.prepared.clone());
        self.segments.push(Segment { calls, slots, params, prepared, tapes, deaths, red_zones: Vec::new(), first });
        let mut inner: Vec<Option<Tapes>> = inner.into_iter().map(Some).collect();
        let mut loop_calls_of = vec![(0, 0); code.len()];
        for i in (0..code.len()).filter(|&i| code.has_body(i)) {
            let mut calls = Vec::new();
            for b in code.body_range(i) {
                let tapes = inner.get_mut(b).and_then(Option::take).ok_or("a body without tapes")?;
                calls.push(self.loop_call(plan, i, b, tapes, map, depth)?);
            }
            // Inner loops come between them, so the calls of one instruction are put side by side.
            let from = self.loop_calls.len() as u32;
            self.loop_calls.extend(calls);
            loop_calls_of[i] = (from, self.loop_calls.len() as u32);
        }
        let mut time = 0;
        for (i, &loop_calls) in loop_calls_of.iter().enumerate() {
            let start = self.segments[index].slots.len() as u32;
            for (o, &w) in code.reads_of(i).iter().zip(&plan.inplace[code.read_range(i)]) {
                let slot = self.slot(plan, o, map)?;
                self.segments[index].slots.push(OperandRef { inplace: (w != OUT_OF_PLACE).then_some(w), ..slot });
            }
            let mid = self.segments[index].slots.len() as u32;
            for o in code.writes_of(i) {
                let slot = self.slot(plan, o, map)?;
                self.segments[index].slots.push(slot);
            }
            let end = self.segments[index].slots.len() as u32;
            let params = (code.params_at[i], code.params_at[i + 1]);
            let call = LinkedCall {
                kernel: code.kernel[i],
                reads: (start, mid),
                writes: (mid, end),
                params,
                loop_calls,
                time,
            };
            self.segments[index].calls.push(call);
            time = time.saturating_add(count_timestamps(code, i));
        }
        Ok(index as u32)
    }

    /// The resolved operand `o` of `plan`.
    fn slot(&mut self, plan: &Checked, o: &Operand, map: &LinkMap) -> Result<OperandRef, String> {
        let p = map.offset(plan.arena_range(o))?;
        let aligned = std::iter::once(&p.off).chain(&p.strides).all(|at| at.is_multiple_of(o.align()));
        if !aligned {
            return Err(format!("an operand of elements of {} bytes is not aligned in its loop", o.size));
        }
        let known = self.strides.iter().position(|s| *s == p.strides);
        let moves = known.unwrap_or_else(|| {
            self.strides.push(p.strides);
            self.strides.len() - 1
        });
        Ok(OperandRef { moves: moves as u32, ..OperandRef::new(p.off, o.len, o.size, o.split) })
    }

    /// Links body `b`, which instruction `i` of `plan` runs.
    fn loop_call(
        &mut self,
        plan: &Checked,
        i: usize,
        b: usize,
        tapes: Tapes,
        map: &LinkMap,
        depth: usize,
    ) -> Result<LinkedBody, String> {
        let code = &plan.code;
        let l: &PlannedBody = &code.loops[b];
        if depth == DEPTH {
            return Err(format!("loops stand more than {DEPTH} deep in one another"));
        }
        let mut externs = Vec::new();
        for e in &l.externs {
            let o = match e.outer {
                Outer::Read(k) => &code.reads_of(i)[k],
                Outer::Write(k) => &code.writes_of(i)[k],
            };
            let mut to = map.offset(plan.arena_range(o))?;
            let bytes = l.extern_range(e);
            if e.sliced {
                to.off += l.first_slice(e);
                to.strides[depth] = bytes.len();
            }
            if !bytes.is_empty() {
                externs.push(MappedExtern { bytes, to });
            }
        }
        externs.sort_by_key(|e| e.bytes.start);
        let at = match code.writes_of(i).last().filter(|_| l.workspace() > 0) {
            Some(o) => map.offset(plan.arena_range(o))?.off,
            None => 0,
        };
        let inside = LinkMap { externs, base: l.base, at };
        let mut deaths = find_deaths(&l.plan);
        // Dying bytes are in the workspace: externs are pinned, or hold a next value.
        for r in &mut deaths.ranges {
            *r = (r.start + at).saturating_sub(l.base)..(r.end + at).saturating_sub(l.base);
        }
        deaths.before = std::iter::once(at..at + l.workspace()).collect();
        let team = tapes.threads() > 1;
        let segment = self.segment(&l.plan, tapes, &inside, depth + 1, deaths)?;
        let PlannedBody { length, reverse, when, exit, timestamps, .. } = *l;
        Ok(LinkedBody { segment, length, reverse, when, exit, barriers: l.barriers(), team, depth, timestamps })
    }

    /// The loop or the branches that `call` runs; none if it runs its kernel.
    pub fn calls_of(&self, call: &LinkedCall) -> &[LinkedBody] {
        &self.loop_calls[call.loop_calls.0 as usize..call.loop_calls.1 as usize]
    }

    /// True if all threads run the loop or the branches of `call`.
    pub fn is_on_team(&self, call: &LinkedCall) -> bool {
        self.calls_of(call).iter().any(|body| body.team)
    }

    /// The instruction that runs at timestamp `time`, counted over all segments, and the iteration of the innermost
    /// loop around it.
    pub fn instruction_at(&self, time: usize) -> (usize, Option<usize>) {
        let (mut segment, mut clock, mut iteration) = (0, 0, None);
        loop {
            let l: &Segment = &self.segments[segment];
            let i = l.calls.partition_point(|c| clock + c.time <= time).saturating_sub(1);
            let Some(call) = l.calls.get(i) else { return (l.first, iteration) };
            let since = time - (clock + call.time).min(time);
            if since == 0 {
                return (l.first + i, iteration);
            }
            let mut start = clock + call.time + 1;
            let Some(loop_call) = self.calls_of(call).iter().find(|c| {
                let here = time < start + c.length * c.timestamps;
                start += if here { 0 } else { c.length * c.timestamps };
                here
            }) else {
                return (l.first + i, iteration);
            };
            let n = (time - start) / loop_call.timestamps;
            clock = start + n * loop_call.timestamps;
            if loop_call.shares_timestamps(n) {
                iteration = None;
            } else if loop_call.when.is_none() {
                iteration = Some(if loop_call.reverse { loop_call.length.saturating_sub(1 + n) } else { n });
            }
            segment = loop_call.segment as usize;
        }
    }
}

/// For each instruction of the graph, the red zones of the buffers that it writes: from the end of the buffer to the
/// end of the next line. Pinned buffers have none, because they are contiguous.
pub(super) fn find_red_zones(plan: &Checked) -> Vec<Vec<Range<usize>>> {
    let code = &plan.code;
    let zone = |o: &Operand| {
        let (at, bytes) = (plan.offset[o.buf as usize], code.bytes[o.buf as usize]);
        at + bytes..(at + bytes.next_multiple_of(LINE) + LINE).min(plan.bytes)
    };
    let pinned = (0..code.bytes.len()).filter(|&b| code.kind[b].is_pinned()).map(|b| plan.offset[b] + code.bytes[b]);
    let floor = pinned.max().unwrap_or(0);
    let own = |o: &&Operand| code.bytes[o.buf as usize] > 0 && plan.offset[o.buf as usize] >= floor;
    (0..code.len()).map(|i| code.writes_of(i).iter().filter(own).map(zone).collect()).collect()
}

/// The bytes that die after each instruction, and those without a value before a step. Derived from uses of buffers,
/// not from the planner's lifetimes. Foreign bytes never die.
fn find_deaths(plan: &Checked) -> LinkedDeaths {
    let code = &plan.code;
    let n = code.bytes.len();
    let whole = |b: usize| plan.offset[b]..plan.offset[b] + code.bytes[b];
    let mut last = vec![u32::MAX; n];
    for i in 0..code.len() {
        for o in code.reads_of(i).iter().chain(code.writes_of(i)) {
            last[o.buf as usize] = i as u32;
        }
    }
    // A buffer whose bytes another buffer takes over at its last use does not die there.
    let mut handed = vec![false; n];
    let mut kept = vec![false; n];
    for i in 0..code.len() {
        for (o, &w) in code.reads_of(i).iter().zip(&plan.inplace[code.read_range(i)]) {
            // A node that changes its own result in place hands it to no other buffer.
            let to = code.writes_of(i).get(usize::from(w)).filter(|to| to.buf != o.buf);
            handed[o.buf as usize] |= to.is_some() && last[o.buf as usize] == i as u32;
        }
    }
    code.outputs.iter().for_each(|o| kept[o.buf as usize] = true);
    code.updates.iter().for_each(|u| {
        let b = u.from.buf as usize;
        kept[b] |= plan.offset[b] + u.from.off == plan.offset[u.leaf as usize];
    });
    let mut at: Vec<Vec<Range<usize>>> = vec![Vec::new(); code.len()];
    for b in 0..n {
        if last[b] != u32::MAX && !handed[b] && !kept[b] && !code.kind[b].is_pinned() {
            at[last[b] as usize].push(whole(b));
        }
    }
    let mut deaths = LinkedDeaths { at: vec![0], ..LinkedDeaths::default() };
    for list in at {
        deaths.ranges.extend(list);
        deaths.at.push(deaths.ranges.len() as u32);
    }
    let mut leaves: Vec<_> = (0..n).filter(|&b| code.kind[b].is_pinned()).map(whole).collect();
    leaves.extend(plan.foreign.iter().cloned());
    leaves.sort_by_key(|r| r.start);
    let mut at = 0;
    for r in leaves {
        deaths.before.push(at..r.start.max(at));
        at = at.max(r.end);
    }
    deaths.before.push(at..plan.bytes);
    deaths
}
