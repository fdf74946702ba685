//! Running a tape: the loop that a step is.
//!
//! Nothing here allocates, locks or asks the operating system for anything. An [`Exec`] is made only from a [`Checked`]
//! plan and tapes that are proved free of races, which is what the one unsafe block rests on.

use super::alias::OUT_OF_PLACE;
use super::check::Checked;
use super::tape::{Entry, Tapes, race_free};
use crate::arena::tensor::TensorArena;
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::{Args, Fault, Frame, Kernel, Slot};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The operands of one instruction, resolved.
#[derive(Clone, Copy)]
struct Call {
    kernel: Kernel,
    reads: (u32, u32),
    writes: (u32, u32),
    params: (u32, u32),
}

/// A program that can run.
pub struct Exec {
    calls: Vec<Call>,
    slots: Vec<Slot>,
    params: Vec<u64>,
    tapes: Tapes,
    bytes: usize,
    /// Bytes to poison after instruction `i`: `dying[dying_at[i]..dying_at[i + 1]]`.
    dying_at: Vec<u32>,
    dying: Vec<Range<usize>>,
    /// Bytes to poison before a step.
    dead: Vec<Range<usize>>,
}

/// Why a step stopped: the instruction, and the bad element that its kernel reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stop {
    /// The instruction.
    pub instr: usize,
    /// The element; `None` if the kernel panicked.
    pub element: Option<usize>,
}

/// What one thread says about its part of a step.
#[derive(Default)]
pub struct Lane {
    /// The bad element that a kernel reported.
    pub fault: Fault,
    /// The instruction being run.
    pub at: AtomicUsize,
}

fn cut<T>(items: &[T], r: (u32, u32)) -> &[T] {
    &items[r.0 as usize..r.1 as usize]
}

impl Exec {
    /// The program of a checked plan, for these tapes.
    pub fn new(plan: &Checked, tapes: Tapes) -> Result<Exec> {
        race_free(plan, &tapes).map_err(|e| Error::new(Kind::Plan, format!("the tapes are wrong: {e}")))?;
        let code = &plan.code;
        let mut slots = Vec::with_capacity(code.reads.len() + code.writes.len());
        let mut calls = Vec::with_capacity(code.len());
        for i in 0..code.len() {
            let start = slots.len() as u32;
            let slot = |o: &super::code::Operand, inplace| Slot {
                off: plan.place[o.buf as usize] + o.off,
                len: o.len,
                size: o.size,
                split: o.split,
                inplace,
            };
            for (o, &w) in code.reads_of(i).iter().zip(&plan.inplace[code.read_range(i)]) {
                slots.push(slot(o, (w != OUT_OF_PLACE).then_some(w)));
            }
            let mid = slots.len() as u32;
            slots.extend(code.writes_of(i).iter().map(|o| slot(o, None)));
            calls.push(Call {
                kernel: code.kernel[i],
                reads: (start, mid),
                writes: (mid, slots.len() as u32),
                params: (code.params_at[i], code.params_at[i + 1]),
            });
        }
        let (dying_at, dying, dead) = deaths(plan);
        Ok(Exec { calls, slots, params: code.params.clone(), tapes, bytes: plan.bytes, dying_at, dying, dead })
    }

    /// Bytes that the arena must have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of threads that the tapes are for.
    pub fn lanes(&self) -> usize {
        self.tapes.lanes()
    }

    /// What thread `t` does.
    #[inline]
    pub fn lane(&self, t: usize) -> &[Entry] {
        self.tapes.lane(t)
    }

    /// Runs one entry.
    ///
    /// # Safety
    /// `frame` is that of an arena of at least [`Exec::bytes`] bytes that nobody else uses during the step; threads run
    /// the entries of their own lanes, in order, and all meet at each barrier.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub unsafe fn entry(&self, e: &Entry, frame: Frame, lane: usize, fault: &Fault) {
        let c = &self.calls[e.instr as usize];
        let (reads, writes) = (cut(&self.slots, c.reads), cut(&self.slots, c.writes));
        // SAFETY: the checker proved that this instruction's operands lie in the arena and that writes overlap no
        // reads; tapes give threads disjoint units, and barriers keep other instructions' accesses apart.
        let mut args =
            unsafe { Args::new(frame, reads, writes, cut(&self.params, c.params), e.from..e.to, lane, fault) };
        (c.kernel)(&mut args);
    }

    /// Runs one step on this thread. The tapes must be for one thread.
    pub fn step(&self, arena: &mut TensorArena, lane: &Lane) -> Result<(), Stop> {
        assert!(arena.len() >= self.bytes && self.lanes() == 1);
        let frame = Frame::new(arena.bytes_mut());
        guarded(lane, || {
            for e in &self.tapes.entries {
                lane.at.store(e.instr as usize, Ordering::Relaxed);
                // SAFETY: the arena is borrowed for the whole loop, it is large enough, and there is one thread.
                #[allow(unsafe_code)]
                unsafe {
                    self.entry(e, frame, 0, &lane.fault)
                };
                if lane.fault.get().is_some() {
                    break;
                }
            }
        })
    }

    /// As [`Exec::step`], but all bytes that hold nothing are filled with ones (NaN for floats) before the step, and
    /// those of a buffer after its last use: a program that reads what it should not gives other results.
    pub fn step_poisoned(&self, arena: &mut TensorArena, lane: &Lane) -> Result<(), Stop> {
        assert!(arena.len() >= self.bytes && self.lanes() == 1);
        self.dead.iter().for_each(|r| arena.bytes_mut()[r.clone()].fill(0xff));
        guarded(lane, || {
            for e in &self.tapes.entries {
                lane.at.store(e.instr as usize, Ordering::Relaxed);
                // SAFETY: as in `step`; the frame is made anew because the arena is touched between instructions.
                #[allow(unsafe_code)]
                unsafe {
                    self.entry(e, Frame::new(arena.bytes_mut()), 0, &lane.fault)
                };
                if lane.fault.get().is_some() {
                    break;
                }
                let i = e.instr as usize;
                let dying = cut(&self.dying, (self.dying_at[i], self.dying_at[i + 1]));
                dying.iter().for_each(|r| arena.bytes_mut()[r.clone()].fill(0xff));
            }
        })
    }
}

/// Runs `step`, and tells why it stopped: a fault that a kernel reported, or a panic. Forgets the fault.
pub fn guarded(lane: &Lane, step: impl FnOnce()) -> Result<(), Stop> {
    let ended = catch_unwind(AssertUnwindSafe(step));
    let element = lane.fault.get();
    if ended.is_ok() && element.is_none() {
        return Ok(());
    }
    lane.fault.clear();
    Err(Stop { instr: lane.at.load(Ordering::Relaxed), element: element.filter(|_| ended.is_ok()) })
}

/// Which bytes die after each instruction, and which hold nothing before a step. By place, not by the planner's
/// lifetimes: a place is dead from the last use of the last buffer that is put there.
fn deaths(plan: &Checked) -> (Vec<u32>, Vec<Range<usize>>, Vec<Range<usize>>) {
    let code = &plan.code;
    let n = code.bytes.len();
    let whole = |b: usize| plan.place[b]..plan.place[b] + code.bytes[b];
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
            handed[o.buf as usize] |= w != OUT_OF_PLACE && last[o.buf as usize] == i as u32;
        }
    }
    code.outputs.iter().for_each(|o| kept[o.buf as usize] = true);
    code.updates.iter().for_each(|u| {
        let b = u.from.buf as usize;
        kept[b] |= plan.place[b] + u.from.off == plan.place[u.leaf as usize];
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
