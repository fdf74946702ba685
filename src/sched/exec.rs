//! The executor: runs tapes over an arena.
//!
//! A step allocates nothing, takes no lock and makes no system call. An [`Exec`] is made only from a [`Checked`] plan
//! and from tapes that [`race_free`] proved; the one unsafe block that makes kernel arguments rests on both.

use super::areas::join_ranges;
use super::checker::Checked;
use super::faults::FaultCommits;
use super::link::{Linked, LinkedBody, Segment, find_red_zones, link};
use super::modelled_time::modelled_alone;
use super::nonfinite::{NonfiniteFindings, NonfiniteObserver, WatchedCall};
use super::observer::{END, Meeting, StepObserver};
use super::panicked::panicked;
use super::planned_body::{FlagBound, LoopExit};
use super::races::race_free;
pub use super::stop::Stop;
use super::tape::{Entry, LAST, Tapes};
use super::track::{Track, TrackObserver};
use crate::arena::Node;
use crate::arena::tensor::TensorArena;
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::{ArenaPtr, Args, LoopOffsets, OperandRef};
use crate::kernels::fault::{Bad, Cause, Fault, ITERATIONS, STILL_GOING};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A program that can run.
pub struct Exec {
    pub(super) linked: Linked,
    threads: usize,
    bytes: usize,
    /// Picoseconds of each instruction of the graph on one thread, modelled.
    pub(super) times: Vec<u64>,
    /// Timestamp of the first instruction that writes leaves; `usize::MAX` if none does.
    first_commit: usize,
    /// The bytes of the arena that steps write, by rising start.
    written: Vec<Range<usize>>,
    /// Whether threads may run parts of others: what all threads run follows from their tapes, not from data.
    pub(super) moves_parts: bool,
}

/// What one thread reports about its part of a step.
#[derive(Default)]
pub struct ThreadState {
    /// The bad element that a kernel reported.
    pub fault: Fault,
    /// Timestamp of the instruction that it runs.
    pub at: AtomicUsize,
}

/// The walk of one thread along its tape.
struct ExecWalk<'a, W> {
    exec: &'a Exec,
    thread: usize,
    state: &'a ThreadState,
    observer: &'a mut W,
}

fn items_in_range<T>(items: &[T], r: (u32, u32)) -> &[T] {
    &items[r.0 as usize..r.1 as usize]
}

impl<W: StepObserver> ExecWalk<'_, W> {
    /// Runs the thread's tape of `segment`, whose first instruction has timestamp `clock`. False if the step stopped.
    ///
    /// # Safety
    /// As for [`Exec::run`].
    #[allow(unsafe_code)]
    unsafe fn segment(&mut self, segment: &Segment, moves: &LoopOffsets<'_>, clock: usize) -> bool {
        let exec = self.exec;
        self.observer.dead(&segment.deaths.before);
        let mut part = 0;
        for e in segment.tapes.thread(self.thread) {
            if e.barrier {
                let time = clock + segment.calls[e.instr as usize].time;
                // SAFETY: as for this function.
                if !unsafe { self.meet(segment, part, moves, clock, time) } {
                    return false;
                }
                part += 1;
                continue;
            }
            let runs = self.observer.owns() || exec.linked.is_on_team(&segment.calls[e.instr as usize]);
            // SAFETY: as for this function.
            if runs && !unsafe { self.entry(segment, e, moves, clock) } {
                return false;
            }
        }
        true
    }

    /// Waits at the barrier before `time`, behind part `part` of the tapes of `s`, and runs the parts of late threads.
    /// False if the step stopped.
    ///
    /// # Safety
    /// As for [`Exec::run`].
    #[allow(unsafe_code)]
    #[inline]
    unsafe fn meet(&mut self, s: &Segment, part: usize, moves: &LoopOffsets<'_>, clock: usize, time: usize) -> bool {
        loop {
            let late = match self.observer.barrier(time) {
                Meeting::Open => return true,
                Meeting::Stopped => return false,
                Meeting::Late(t) => t,
            };
            let own = std::mem::replace(&mut self.thread, late);
            for e in s.tapes.part(late, part) {
                // All threads walk through a loop that all of them run.
                let walked = self.exec.linked.is_on_team(&s.calls[e.instr as usize]);
                // SAFETY: as for this function: the part is this thread's now.
                if !walked && !unsafe { self.entry(s, e, moves, clock) } {
                    return false;
                }
            }
            self.thread = own;
        }
    }

    /// Runs an entry of a tape of `segment` that is no barrier. False if the step stopped.
    ///
    /// # Safety
    /// As for [`Exec::run`].
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn entry(&mut self, segment: &Segment, e: &Entry, moves: &LoopOffsets<'_>, clock: usize) -> bool {
        let c = &segment.calls[e.instr as usize];
        let time = clock + c.time;
        if !self.observer.goes_on(time) {
            return false;
        }
        let (reads, writes) = (items_in_range(&segment.slots, c.reads), items_in_range(&segment.slots, c.writes));
        let exec = self.exec;
        let bodies = exec.linked.calls_of(c);
        if !bodies.is_empty() {
            let mut start = time + 1;
            for body in bodies {
                // SAFETY: as for this function. The predicate is read 0 of the instruction, which no branch
                // writes; a barrier in front of the instruction keeps those who write it apart.
                if !unsafe { self.body(body, (reads, writes), moves, start) } {
                    return false;
                }
                start += body.length * body.timestamps;
            }
        } else {
            self.state.at.store(time, Ordering::Relaxed);
            self.observer.begins(segment, e.instr as usize, moves);
            let (params, units, fault) = (items_in_range(&segment.params, c.params), e.from..e.to, &self.state.fault);
            // SAFETY: the checker proved that this instruction's operands lie in the arena and that writes overlap
            // no reads; tapes give threads disjoint units, and barriers keep other instructions' accesses apart.
            // In a loop's body that holds of the body's own space, which linking maps to bytes that are distinct
            // at each iteration, and the barrier after each iteration keeps the next apart.
            let args = unsafe { Args::new(self.observer.arena(), reads, writes, params, units, self.thread, fault) };
            let prepared = segment.prepared[e.instr as usize].as_ref();
            (c.kernel)(&mut args.with_prepared(prepared).moved(moves));
            if self.state.fault.get().is_some() {
                return false;
            }
        }
        self.observer.done(segment, e.instr as usize);
        true
    }

    /// Runs a loop or a branch of an instruction with these operands; a branch only if its predicate, read 0, says so.
    /// The first iteration has the timestamps from `clock` on. False if the step stopped.
    ///
    /// # Safety
    /// As for [`Exec::run`].
    #[allow(unsafe_code)]
    unsafe fn body(
        &mut self,
        body: &LinkedBody,
        (reads, writes): (&[OperandRef], &[OperandRef]),
        moves: &LoopOffsets<'_>,
        clock: usize,
    ) -> bool {
        let ends = body.decides(reads, writes);
        // SAFETY: as for this function: no thread writes the operand now.
        let mut value = ends.map_or(0, |slot| unsafe { self.value(slot, moves) });
        if let Some(when) = body.when
            && (value != 0) != when
        {
            return true;
        }
        // Behind the barrier all threads have read what ends the loop.
        if body.exit.is_some() && body.team && self.observer.barrier(clock - 1) != Meeting::Open {
            return false;
        }
        let Some(length) = body.iterations(value) else {
            return self.stop_loop(clock - 1, &ITERATIONS, (value, body.length.saturating_add(1)));
        };
        let flag = ends.filter(|_| matches!(body.exit, Some(LoopExit::Flag(_))));
        let segment = &self.exec.linked.segments[body.segment as usize];
        let mut moves = LoopOffsets { depth: body.depth + 1, ..*moves };
        for n in 0..length {
            if flag.is_some() && value == 0 {
                return true;
            }
            moves.at[body.depth] = if body.reverse { length - 1 - n } else { n.min(body.length - 1) };
            let clock = clock + n.min(body.length - 1) * body.timestamps;
            // SAFETY: as for this function.
            let mut on = unsafe { self.segment(segment, &moves, clock) };
            if on && body.team {
                let time = clock + body.timestamps - body.barriers;
                // SAFETY: as for this function.
                on = unsafe { self.meet(segment, LAST, &moves, clock, time) };
            }
            if !on {
                return false;
            }
            if let Some(slot) = flag {
                // SAFETY: as for this function: one barrier is behind, and the next is ahead.
                value = unsafe { self.value(slot, &moves) };
                if body.team && self.observer.barrier(clock + body.timestamps - 1) != Meeting::Open {
                    return false;
                }
            }
        }
        match body.exit {
            Some(LoopExit::Flag(FlagBound::Stops(told))) if value != 0 => {
                self.stop_loop(clock - 1, &STILL_GOING, (told as i64, told))
            }
            _ => true,
        }
    }

    /// Stops the step at timestamp `time`, that of a loop's instruction, with the number of iterations and its bound.
    /// False.
    fn stop_loop(&mut self, time: usize, cause: &'static Cause, iterations: (i64, usize)) -> bool {
        self.state.at.store(time, Ordering::Relaxed);
        self.state.fault.record(Bad::new(0, Some(iterations), cause));
        false
    }

    /// The value of an operand that decides what runs: one byte, or an `i64`.
    ///
    /// # Safety
    /// As for [`Exec::run`], and no thread writes the operand now.
    #[allow(unsafe_code)]
    unsafe fn value(&mut self, slot: OperandRef, moves: &LoopOffsets<'_>) -> i64 {
        let (fault, arena) = (&self.state.fault, self.observer.arena());
        let slot = [OperandRef { inplace: None, ..slot }];
        // SAFETY: as for this function; the checker proved that the operand lies in the arena.
        let args = unsafe { Args::new(arena, &slot, &[], &[], 0..1, self.thread, fault) };
        match *args.moved(moves).read::<u8>(0) {
            [byte] => i64::from(byte),
            ref number => number.try_into().map_or(-1, i64::from_ne_bytes),
        }
    }
}

impl Exec {
    /// Links `plan` with `tapes`. Errors (kind `Plan`): the tapes race or do not fit the plan; the plan cannot be
    /// linked.
    pub fn new(plan: &Checked, tapes: Tapes) -> Result<Exec> {
        race_free(plan, &tapes).map_err(|e| Error::new(Kind::Plan, format!("the tapes are wrong: {e}")))?;
        let threads = tapes.threads();
        let linked =
            link(plan, tapes).map_err(|e| Error::new(Kind::Plan, format!("the plan cannot be linked: {e}")))?;
        let first = FaultCommits::new(plan).writes.iter().position(|w| *w);
        let first_commit = first.map_or(usize::MAX, |i| linked.segments[0].calls[i].time);
        let decided = |body: &LinkedBody| body.team && (body.when.is_some() || body.exit.is_some());
        let moves_parts = !linked.loop_calls.iter().any(decided);
        // What the bodies of loops write are writes of the loops.
        let written = join_ranges(plan.code.writes.iter().map(|o| plan.arena_range(o)).collect());
        let times = (0..plan.code.len()).map(|i| modelled_alone(&plan.code, i)).collect();
        Ok(Exec { linked, threads, bytes: plan.bytes, times, first_commit, written, moves_parts })
    }

    /// Whether steps write any of the bytes `r` of the arena.
    pub fn writes(&self, r: &Range<usize>) -> bool {
        let before = self.written.partition_point(|w| w.start < r.end);
        !r.is_empty() && before.checked_sub(1).is_some_and(|k| self.written[k].end > r.start)
    }

    /// Panics if the arena is too small, or if a step would write a block that other arenas read.
    pub(super) fn assert_fits(&self, arena: &TensorArena) {
        let shared = arena.front().is_shared() && self.writes(&(0..arena.front().len()));
        assert!(arena.len() >= self.bytes && !shared);
    }

    fn assert_alone(&self, arena: &TensorArena) {
        self.assert_fits(arena);
        assert!(self.threads() == 1);
    }

    /// Lets poisoned steps check the red zones behind the buffers that the graph's instructions write. `plan` must be
    /// the plan that this was made from, scheduled by [`super::plan_with_red_zones`].
    pub fn with_red_zones(mut self, plan: &Checked) -> Exec {
        self.linked.segments[0].red_zones = find_red_zones(plan);
        self
    }

    /// Bytes that the arena must have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of threads that the tapes are for.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The node of each instruction: those of the graph, then those of loops' bodies.
    pub fn nodes(&self) -> &[Node] {
        &self.linked.nodes
    }

    /// Turns a stop whose `instr` is a timestamp into one with an instruction and an iteration.
    pub(super) fn located(&self, at: Stop) -> Stop {
        let (instr, iteration) = self.linked.instruction_at(at.instr);
        // An instruction that finds a bad index has not written its leaf.
        let changed = at.instr > self.first_commit || (at.instr == self.first_commit && at.bad.is_none());
        Stop { instr, iteration, changed, ..at }
    }

    /// Runs the tape of thread `thread`, and the parts of others that `observer` hands to it. True if all of it ran.
    ///
    /// # Safety
    /// `observer` returns one arena of at least [`Exec::bytes`] bytes that nothing else uses during the step. It gives
    /// each part of a tape to one thread, and lets no thread pass a barrier before all parts in front of it have run.
    #[allow(unsafe_code)]
    pub(super) unsafe fn run<W: StepObserver>(&self, thread: usize, state: &ThreadState, observer: &mut W) -> bool {
        let moves = LoopOffsets { strides: &self.linked.strides, ..LoopOffsets::NONE };
        let mut walk = ExecWalk { exec: self, thread, state, observer };
        // SAFETY: as for this function.
        unsafe {
            let graph = &self.linked.segments[0];
            walk.segment(graph, &moves, 0) && walk.meet(graph, LAST, &moves, 0, END)
        }
    }

    /// Runs one step on this thread. Panics if the arena is too small or the tapes are for more than one thread.
    pub fn step(&self, arena: &mut TensorArena, state: &ThreadState) -> Result<(), Stop> {
        self.assert_alone(arena);
        let mut single = ExecSingleThread(ArenaPtr::of(arena));
        // SAFETY: the arena is borrowed for the whole step, it is large enough, and there is one thread.
        #[allow(unsafe_code)]
        let step = || unsafe {
            self.run(0, state, &mut single);
        };
        catch_stop(state, step).map_err(|at| self.located(at))
    }

    /// As [`Exec::step`]; records the step in `track`.
    pub fn step_traced(&self, arena: &mut TensorArena, state: &ThreadState, track: &mut Track) -> Result<(), Stop> {
        self.assert_alone(arena);
        let mut traced = TrackObserver::new(ExecSingleThread(ArenaPtr::of(arena)), track);
        // SAFETY: as in `step`.
        #[allow(unsafe_code)]
        let step = || unsafe {
            self.run(0, state, &mut traced);
        };
        catch_stop(state, step).map_err(|at| self.located(at))
    }

    /// Number of events that a recorded step of `thread` has.
    pub fn track_events(&self, thread: usize) -> usize {
        self.linked.track_events(thread)
    }

    /// As [`Exec::step`]; `found` tells which instruction made a NaN or an infinity. `calls` says what to scan, by
    /// instruction.
    pub fn step_watched(
        &self,
        arena: &mut TensorArena,
        state: &ThreadState,
        calls: &[WatchedCall],
        found: &mut NonfiniteFindings,
    ) -> Result<(), Stop> {
        self.assert_alone(arena);
        assert!(calls.len() == self.linked.nodes.len());
        let mut watching = NonfiniteObserver::new(arena, calls, found);
        // SAFETY: as in `step_poisoned`; the observer reads the arena between instructions.
        #[allow(unsafe_code)]
        let step = || unsafe {
            self.run(0, state, &mut watching);
        };
        catch_stop(state, step).map_err(|at| self.located(at))
    }

    /// The iteration of the innermost loop around the instruction at timestamp `time`.
    pub fn iteration(&self, time: usize) -> Option<usize> {
        self.linked.instruction_at(time).1
    }

    /// As [`Exec::step`], with dead bytes filled with 0xff (NaN for floats): all unused bytes before the step and
    /// before each iteration of a loop, and those of a buffer after its last use. So a program that reads dead bytes
    /// gives other results. Panics if an instruction wrote into its red zone.
    pub fn step_poisoned(&self, arena: &mut TensorArena, state: &ThreadState) -> Result<(), Stop> {
        self.assert_alone(arena);
        // SAFETY: as in `step`; the observer makes the pointer anew because it writes the arena between instructions.
        #[allow(unsafe_code)]
        let step = || unsafe {
            self.run(0, state, &mut ExecPoison(arena));
        };
        catch_stop(state, step).map_err(|at| self.located(at))
    }
}

/// A step on one thread.
pub(super) struct ExecSingleThread(pub ArenaPtr);

impl StepObserver for ExecSingleThread {
    #[inline(always)]
    fn arena(&mut self) -> ArenaPtr {
        self.0
    }

    #[inline(always)]
    fn goes_on(&mut self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    fn dead(&mut self, _: &[Range<usize>]) {}

    #[inline(always)]
    fn done(&mut self, _: &Segment, _: usize) {}
}

/// A step on one thread that fills dead bytes and checks red zones.
struct ExecPoison<'a>(&'a mut TensorArena);

impl StepObserver for ExecPoison<'_> {
    fn arena(&mut self) -> ArenaPtr {
        ArenaPtr::of(self.0)
    }

    fn goes_on(&mut self, _: usize) -> bool {
        true
    }

    fn dead(&mut self, bytes: &[Range<usize>]) {
        bytes.iter().for_each(|r| self.0.slice_mut(r.clone()).fill(0xff));
    }

    fn done(&mut self, segment: &Segment, i: usize) {
        for r in segment.red_zones.get(i).into_iter().flatten() {
            let intact = self.0.slice(r.clone()).iter().all(|&b| b == 0xff);
            assert!(intact, "instruction {i} wrote beyond its results, into bytes {r:?}");
        }
        self.dead(segment.deaths.after(i));
    }
}

/// Runs `step`. The error says why it stopped: a fault that a kernel reported, or a panic. Its `instr` is a timestamp.
/// Clears the fault.
pub(super) fn catch_stop(state: &ThreadState, step: impl FnOnce()) -> Result<(), Stop> {
    let panicked = panicked(step);
    let bad = state.fault.get();
    if !panicked && bad.is_none() {
        return Ok(());
    }
    state.fault.clear();
    let instr = state.at.load(Ordering::Relaxed);
    Err(Stop { instr, bad: bad.filter(|_| !panicked), iteration: None, changed: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::instructions::{BufKind, Instr};
    use crate::sched::share::share_tapes_above;
    use crate::sched::tests::hand::{CALL, HandPlan, hand_body};

    /// Instruction 2, at timestamp 8, is the first that writes a leaf, if any does. Instruction 1 is a loop.
    fn stopped_at(time: usize, bad: Option<Bad>, writes: bool) -> Stop {
        let (mut p, mut body) = (HandPlan::new(), HandPlan::new());
        body.call(&CALL);
        p.call(&CALL);
        p.call_bodies([hand_body(body.plan(1), 3)], &CALL);
        let leaf = p.bytes(0, 64, if writes { BufKind::Param } else { BufKind::Activation });
        p.call(&Instr { writes: &[leaf], ..CALL });
        p.call(&CALL);
        let plan = p.plan(1);
        let exec = Exec::new(&plan, share_tapes_above(&plan, u64::MAX)).unwrap();
        assert_eq!((exec.bytes(), exec.threads(), exec.nodes().len()), (64, 1, 5));
        exec.located(Stop { instr: time, bad, iteration: None, changed: false })
    }

    #[test]
    fn a_stop_tells_the_instruction_and_whether_leaves_may_have_changed() {
        let bad = Some(Bad::new(3, None, &crate::kernels::fault::ZERO_DIVISOR));
        let at = |time, bad, writes| {
            let stop = stopped_at(time, bad, writes);
            assert_eq!(stop.bad, bad);
            (stop.instr, stop.iteration, stop.changed)
        };
        assert_eq!((at(0, None, true), at(1, bad, true)), ((0, None, false), (1, None, false)));
        // The body is instruction 4, and each iteration has a barrier.
        assert_eq!((at(2, bad, true), at(6, None, true)), ((4, Some(0), false), (4, Some(2), false)));
        // What finds a bad index has written nothing, what panics may have.
        assert_eq!((at(8, bad, true), at(8, None, true)), ((2, None, false), (2, None, true)));
        assert_eq!((at(9, bad, true), at(9, None, true)), ((3, None, true), (3, None, true)));
        assert_eq!((at(8, None, false), at(9, bad, false)), ((2, None, false), (3, None, false)));
    }
}
