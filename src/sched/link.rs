//! Linking: a proven plan and its tapes become segments of calls with places, one segment for the graph and one for
//! each loop's body.
//!
//! A body was planned in a space of its own; here its externs get the places of the loop's operands and its workspace
//! that of the loop's scratch. Operands in slices of stacked tensors move with the iteration. Invariant: distinct
//! buffers of a body go to bytes that are distinct at each iteration, unless both are only read: the checker proved
//! that of the loop's operands, and that externs fit them. Made by [`Exec`](super::exec::Exec) alone.

use super::check::Checked;
use super::code::{OUT_OF_PLACE, Operand};
use super::loops::{Loop, Outer, timestamps};
use super::tape::Tapes;
use crate::arena::Node;
use crate::arena::tensor::LINE;
use crate::kernels::abi::{DEPTH, Kernel, OperandRef, Strides};
use std::ops::Range;

/// The operands of one instruction, resolved.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub kernel: Kernel,
    pub reads: (u32, u32),
    pub writes: (u32, u32),
    pub params: (u32, u32),
    /// The loop that it runs instead, or `u32::MAX`.
    pub loop_call: u32,
    /// When it runs, in timestamps from the start of its segment.
    pub time: usize,
}

/// The code of the graph, or of one iteration of a loop.
pub(super) struct Segment {
    pub calls: Vec<Call>,
    pub slots: Vec<OperandRef>,
    pub params: Vec<u64>,
    pub tapes: Tapes,
    /// Bytes to poison after instruction `i`: `dying[dying_at[i]..dying_at[i + 1]]`.
    pub dying_at: Vec<u32>,
    pub dying: Vec<Range<usize>>,
    /// Bytes to poison before it runs.
    pub dead: Vec<Range<usize>>,
    /// Bytes that instruction `i` must leave as they are: `guarded[i]`; none unless red zones are watched.
    pub red_zones: Vec<Vec<Range<usize>>>,
    /// Number of its first instruction among those of all segments.
    pub first: usize,
}

/// A loop that is ready to run.
pub(super) struct LoopCall {
    pub segment: u32,
    pub length: usize,
    pub reverse: bool,
    /// Whether all threads run it.
    pub team: bool,
    /// Number of loops around it.
    pub depth: usize,
    pub timestamps: usize,
}

/// All segments, the graph's first.
#[derive(Default)]
pub(super) struct Linked {
    pub segments: Vec<Segment>,
    pub loop_calls: Vec<LoopCall>,
    /// Ways to move; the first is to stay.
    pub strides: Vec<Strides>,
    /// Node of each instruction of all segments.
    pub nodes: Vec<Node>,
}

/// Where bytes lie at iteration 0 of all loops around, and how they move.
#[derive(Clone, Copy)]
struct Place {
    off: usize,
    moves: Strides,
}

/// How the addresses of one segment become places in the arena.
struct Space {
    /// Externs: their addresses, rising, and places.
    externs: Vec<(Range<usize>, Place)>,
    /// Where the workspace begins, in addresses and in the arena.
    base: usize,
    at: usize,
}

impl Space {
    fn place(&self, r: Range<usize>) -> Result<Place, String> {
        if r.start >= self.base || r.is_empty() {
            let off = if r.is_empty() { 0 } else { self.at + (r.start - self.base) };
            return Ok(Place { off, moves: [0; DEPTH] });
        }
        let after = self.externs.partition_point(|e| e.0.start <= r.start);
        match after.checked_sub(1).map(|i| &self.externs[i]) {
            Some((e, p)) if r.end <= e.end => Ok(Place { off: p.off + (r.start - e.start), moves: p.moves }),
            _ => Err(format!("bytes {r:?} of a loop's body lie in no operand of the loop")),
        }
    }
}

/// The segments of `plan`.
pub(super) fn link(plan: &Checked, tapes: Tapes) -> Result<Linked, String> {
    let mut l = Linked { strides: vec![[0; DEPTH]], ..Linked::default() };
    let space = Space { externs: Vec::new(), base: 0, at: 0 };
    let (dying_at, dying, dead) = deaths(plan);
    l.segment(plan, tapes, &space, 0, (dying_at, dying), dead)?;
    Ok(l)
}

impl Linked {
    fn segment(
        &mut self,
        plan: &Checked,
        mut tapes: Tapes,
        space: &Space,
        depth: usize,
        dying: (Vec<u32>, Vec<Range<usize>>),
        dead: Vec<Range<usize>>,
    ) -> Result<u32, String> {
        let code = &plan.code;
        let inner = std::mem::take(&mut tapes.inner);
        let first = self.nodes.len();
        self.nodes.extend_from_slice(&code.node);
        let index = self.segments.len();
        let (dying_at, dying) = dying;
        let (calls, slots) = (Vec::with_capacity(code.len()), Vec::with_capacity(code.reads.len() + code.writes.len()));
        let params = code.params.clone();
        self.segments.push(Segment {
            calls,
            slots,
            params,
            tapes,
            dying_at,
            dying,
            dead,
            red_zones: Vec::new(),
            first,
        });
        let mut turn_of = vec![u32::MAX; code.loops.len()];
        for (i, inner) in (0..code.len()).filter(|&i| code.loop_of(i).is_some()).zip(by_use(plan, inner)) {
            turn_of[code.body[i] as usize] = self.loop_call(plan, i, inner, space, depth)?;
        }
        let mut time = 0;
        for i in 0..code.len() {
            let start = self.segments[index].slots.len() as u32;
            for (o, &w) in code.reads_of(i).iter().zip(&plan.inplace[code.read_range(i)]) {
                let slot = self.slot(plan, o, space)?;
                self.segments[index].slots.push(OperandRef { inplace: (w != OUT_OF_PLACE).then_some(w), ..slot });
            }
            let mid = self.segments[index].slots.len() as u32;
            for o in code.writes_of(i) {
                let slot = self.slot(plan, o, space)?;
                self.segments[index].slots.push(slot);
            }
            let end = self.segments[index].slots.len() as u32;
            let loop_call = turn_of.get(code.body[i] as usize).copied().unwrap_or(u32::MAX);
            let params = (code.params_at[i], code.params_at[i + 1]);
            let call =
                Call { kernel: code.kernel[i], reads: (start, mid), writes: (mid, end), params, loop_call, time };
            self.segments[index].calls.push(call);
            time = time.saturating_add(timestamps(code, i));
        }
        Ok(index as u32)
    }

    fn slot(&mut self, plan: &Checked, o: &Operand, space: &Space) -> Result<OperandRef, String> {
        let p = space.place(range(plan, o))?;
        let aligned = std::iter::once(&p.off).chain(&p.moves).all(|at| at.is_multiple_of(o.align()));
        if !aligned {
            return Err(format!("an operand of elements of {} bytes is not aligned in its loop", o.size));
        }
        let known = self.strides.iter().position(|s| *s == p.moves);
        let moves = known.unwrap_or_else(|| {
            self.strides.push(p.moves);
            self.strides.len() - 1
        });
        Ok(OperandRef { moves: moves as u32, ..OperandRef::new(p.off, o.len, o.size, o.split) })
    }

    /// The loop that is instruction `i` of `plan`.
    fn loop_call(
        &mut self,
        plan: &Checked,
        i: usize,
        tapes: Tapes,
        space: &Space,
        depth: usize,
    ) -> Result<u32, String> {
        let code = &plan.code;
        let l: &Loop = code.loop_of(i).ok_or("a loop without a body")?;
        if depth == DEPTH {
            return Err(format!("loops stand more than {DEPTH} deep in one another"));
        }
        let mut externs = Vec::new();
        for e in &l.externs {
            let o = match e.outer {
                Outer::Read(k) => &code.reads_of(i)[k],
                Outer::Write(k) => &code.writes_of(i)[k],
            };
            let mut p = space.place(range(plan, o))?;
            let bytes = l.range(e);
            if e.sliced {
                p.moves[depth] = bytes.len();
            }
            if !bytes.is_empty() {
                externs.push((bytes, p));
            }
        }
        externs.sort_by_key(|e| e.0.start);
        let at = match code.writes_of(i).last().filter(|_| l.workspace() > 0) {
            Some(o) => space.place(range(plan, o))?.off,
            None => 0,
        };
        let inside = Space { externs, base: l.base, at };
        let (dying_at, mut dying, _) = deaths(&l.plan);
        // What dies lies in the workspace: externs are pinned, or hold a next value.
        for r in &mut dying {
            *r = (r.start + at).saturating_sub(l.base)..(r.end + at).saturating_sub(l.base);
        }
        let dead = std::iter::once(at..at + l.workspace()).collect();
        let team = tapes.threads() > 1;
        let segment = self.segment(&l.plan, tapes, &inside, depth + 1, (dying_at, dying), dead)?;
        self.loop_calls.push(LoopCall {
            segment,
            length: l.length,
            reverse: l.reverse,
            team,
            depth,
            timestamps: l.timestamps,
        });
        Ok(self.loop_calls.len() as u32 - 1)
    }

    /// The instruction (among those of all segments) that runs at `time`, and the iteration of the loop around it.
    pub fn instruction_at(&self, time: usize) -> (usize, Option<usize>) {
        let (mut segment, mut clock, mut iteration) = (0, 0, None);
        loop {
            let l: &Segment = &self.segments[segment];
            let i = l.calls.partition_point(|c| clock + c.time <= time).saturating_sub(1);
            let Some(call) = l.calls.get(i) else { return (l.first, iteration) };
            let since = time - (clock + call.time).min(time);
            match self.loop_calls.get(call.loop_call as usize) {
                Some(loop_call) if since > 0 => {
                    let n = (since - 1) / loop_call.timestamps;
                    clock += call.time + 1 + n * loop_call.timestamps;
                    iteration = Some(if loop_call.reverse { loop_call.length.saturating_sub(1 + n) } else { n });
                    segment = loop_call.segment as usize;
                }
                _ => return (l.first + i, iteration),
            }
        }
    }
}

/// For each instruction of the graph, the bytes behind the buffers that it writes, up to the end of the line after
/// them.
pub(super) fn behind(plan: &Checked) -> Vec<Vec<Range<usize>>> {
    let code = &plan.code;
    let zone = |o: &Operand| {
        let (at, bytes) = (plan.offset[o.buf as usize], code.bytes[o.buf as usize]);
        at + bytes..(at + bytes.next_multiple_of(LINE) + LINE).min(plan.bytes)
    };
    // What the caller owns stands side by side.
    let pinned = (0..code.bytes.len()).filter(|&b| code.kind[b].is_pinned()).map(|b| plan.offset[b] + code.bytes[b]);
    let floor = pinned.max().unwrap_or(0);
    let own = |o: &&Operand| code.bytes[o.buf as usize] > 0 && plan.offset[o.buf as usize] >= floor;
    (0..code.len()).map(|i| code.writes_of(i).iter().filter(own).map(zone).collect()).collect()
}

/// The tapes of the loops of `plan`, in the order of their instructions.
fn by_use(plan: &Checked, inner: Vec<Tapes>) -> Vec<Tapes> {
    let mut inner: Vec<Option<Tapes>> = inner.into_iter().map(Some).collect();
    let body = plan.code.body.iter();
    body.filter_map(|&b| inner.get_mut(b as usize).and_then(Option::take)).collect()
}

fn range(plan: &Checked, o: &Operand) -> Range<usize> {
    let start = plan.offset[o.buf as usize] + o.off;
    start..start + o.bytes()
}

/// Which bytes die after each instruction, and which hold nothing before a step. By place, not by the planner's
/// lifetimes: a place is dead from the last use of the last buffer that is put there.
fn deaths(plan: &Checked) -> (Vec<u32>, Vec<Range<usize>>, Vec<Range<usize>>) {
    let code = &plan.code;
    let n = code.bytes.len();
    let whole = |b: usize| plan.offset[b]..plan.offset[b] + code.bytes[b];
    let mut last = vec![u32::MAX; n];
    for i in 0..code.len() {
        for o in code.reads_of(i).iter().chain(code.writes_of(i)) {
            last[o.buf as usize] = i as u32;
        }
    }
    // A buffer whose bytes live on in another one at its last use does not die there.
    let mut handed = vec![false; n];
    let mut kept = vec![false; n];
    for i in 0..code.len() {
        for (o, &w) in code.reads_of(i).iter().zip(&plan.inplace[code.read_range(i)]) {
            // A node that goes on with what it wrote hands it to no other thread.
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
    let mut dying_at = vec![0];
    let mut dying = Vec::new();
    for list in at {
        dying.extend(list);
        dying_at.push(dying.len() as u32);
    }
    let mut leaves: Vec<_> = (0..n).filter(|&b| code.kind[b].is_pinned()).map(whole).collect();
    leaves.sort_by_key(|r| r.start);
    let mut dead = Vec::new();
    let mut at = 0;
    for r in leaves {
        dead.push(at..r.start.max(at));
        at = at.max(r.end);
    }
    dead.push(at..plan.bytes);
    (dying_at, dying, dead)
}
