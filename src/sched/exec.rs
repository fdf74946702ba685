//! Running a tape: the loop that a step is.
//!
//! Nothing here allocates, locks or asks the operating system for anything. An [`Exec`] is made only from a [`Checked`]
//! plan and tapes that are proved free of races, which is what the one unsafe block rests on.

use super::check::Checked;
use super::faults::Commits;
use super::link::{Level, Linked, Turn, behind, link};
use super::tape::{Tapes, race_free};
use super::trace::{Traced, Track};
use crate::arena::Node;
use crate::arena::tensor::TensorArena;
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::{Args, Bad, Fault, Frame, Moves};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A program that can run.
pub struct Exec {
    linked: Linked,
    lanes: usize,
    bytes: usize,
    /// The time of the first instruction that writes leaves.
    changes: usize,
}

/// Why a step stopped: the instruction, and the bad element that its kernel reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stop {
    /// The instruction, as [`Exec::nodes`] counts them.
    pub instr: usize,
    /// The bad element; `None` if the kernel panicked.
    pub bad: Option<Bad>,
    /// The iteration of the loop around the instruction, if it stands in one.
    pub iteration: Option<usize>,
    /// Whether leaves may have been changed before: never by a bad index that lowering knew of.
    pub changed: bool,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bad {
            Some(Bad { element, value: Some((value, bound)) }) => {
                write!(f, "element {element} of the index operand is {value}; it must be in 0..{bound}")?;
            }
            Some(Bad { element, .. }) => write!(f, "element {element} of the index operand is out of range")?,
            None => f.write_str("the kernel panicked")?,
        }
        if let Some(i) = self.iteration {
            write!(f, ", in iteration {i} of its loop")?;
        }
        match self.changed {
            true => f.write_str("; params and states may be changed in part: initialise or load them again"),
            false => Ok(()),
        }
    }
}

/// What one thread says about its part of a step.
#[derive(Default)]
pub struct Lane {
    /// The bad element that a kernel reported.
    pub fault: Fault,
    /// The time (see [`Watch`]) of the instruction being run.
    pub at: AtomicUsize,
}

/// What stands around the instructions of a thread's tape. Times count the instructions that run one after another in
/// a step, each iteration of a loop anew; all threads give an instruction the same time.
pub(super) trait Watch {
    /// The arena, for the next instruction.
    fn frame(&mut self) -> Frame;
    /// Whether to run what stands at `time`.
    fn goes_on(&mut self, time: usize) -> bool;
    /// Meets the other threads, before `time`: whether the step goes on.
    fn meet(&mut self, time: usize) -> bool;
    /// These bytes hold nothing any more.
    fn dead(&mut self, bytes: &[Range<usize>]);
    /// Instruction `i` of `level` is done.
    fn done(&mut self, level: &Level, i: usize);
}

/// One thread's way through its tape.
struct Walk<'a, W> {
    exec: &'a Exec,
    thread: usize,
    lane: &'a Lane,
    watch: &'a mut W,
}

fn cut<T>(items: &[T], r: (u32, u32)) -> &[T] {
    &items[r.0 as usize..r.1 as usize]
}

impl<W: Watch> Walk<'_, W> {
    /// Runs the thread's tape of `level`, whose first instruction runs at `clock`. False if the step stopped.
    ///
    /// # Safety
    /// As for [`Exec::run`].
    #[allow(unsafe_code)]
    unsafe fn level(&mut self, level: &Level, moves: &Moves<'_>, clock: usize) -> bool {
        let exec = self.exec;
        self.watch.dead(&level.dead);
        for e in level.tapes.lane(self.thread) {
            let c = &level.calls[e.instr as usize];
            let time = clock + c.time;
            if e.barrier {
                if !self.watch.meet(time) {
                    return false;
                }
                continue;
            }
            if !self.watch.goes_on(time) {
                return false;
            }
            if let Some(turn) = exec.linked.turns.get(c.turn as usize) {
                // SAFETY: as for this function.
                if !unsafe { self.turn(turn, moves, time + 1) } {
                    return false;
                }
            } else {
                self.lane.at.store(time, Ordering::Relaxed);
                let (reads, writes) = (cut(&level.slots, c.reads), cut(&level.slots, c.writes));
                let (params, units, fault) = (cut(&level.params, c.params), e.from..e.to, &self.lane.fault);
                // SAFETY: the checker proved that this instruction's operands lie in the arena and that writes overlap
                // no reads; tapes give threads disjoint units, and meetings keep other instructions' accesses apart.
                // In a loop's body that holds of the body's own space, which linking maps to bytes that are distinct
                // at each iteration, and the meeting after each iteration keeps the next apart.
                let args = unsafe { Args::new(self.watch.frame(), reads, writes, params, units, self.thread, fault) };
                (c.kernel)(&mut args.moved(moves));
                if self.lane.fault.get().is_some() {
                    return false;
                }
            }
            self.watch.done(level, e.instr as usize);
        }
        true
    }

    /// Runs all iterations of a loop, the first from `clock` on. False if the step stopped.
    ///
    /// # Safety
    /// As for [`Exec::run`].
    #[allow(unsafe_code)]
    unsafe fn turn(&mut self, turn: &Turn, moves: &Moves<'_>, clock: usize) -> bool {
        let (level, mut moves) = (&self.exec.linked.levels[turn.level as usize], *moves);
        for n in 0..turn.length {
            moves.at[turn.depth] = if turn.reverse { turn.length - 1 - n } else { n };
            let clock = clock + n * turn.ticks;
            // SAFETY: as for this function.
            let on = unsafe { self.level(level, &moves, clock) };
            if !on || (turn.team && !self.watch.meet(clock + turn.ticks - 1)) {
                return false;
            }
        }
        true
    }
}

impl Exec {
    /// The program of a checked plan, for these tapes.
    pub fn new(plan: &Checked, tapes: Tapes) -> Result<Exec> {
        race_free(plan, &tapes).map_err(|e| Error::new(Kind::Plan, format!("the tapes are wrong: {e}")))?;
        let lanes = tapes.lanes();
        let linked =
            link(plan, tapes).map_err(|e| Error::new(Kind::Plan, format!("the plan cannot be linked: {e}")))?;
        let first = Commits::new(plan).writes.iter().position(|w| *w);
        let changes = first.map_or(usize::MAX, |i| linked.levels[0].calls[i].time);
        Ok(Exec { linked, lanes, bytes: plan.bytes, changes })
    }

    /// Watches the bytes behind what the graph's instructions write, in poisoned steps. `plan` is the one that this was
    /// made from, and nobody owns those bytes: see [`super::schedule_apart`].
    pub fn guard(mut self, plan: &Checked) -> Exec {
        self.linked.levels[0].guarded = behind(plan);
        self
    }

    /// Bytes that the arena must have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of threads that the tapes are for.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// The node of each instruction: those of the graph, then those of loops' bodies.
    pub fn nodes(&self) -> &[Node] {
        &self.linked.nodes
    }

    /// A stop at a time, as one at an instruction.
    pub(super) fn located(&self, at: Stop) -> Stop {
        let (instr, iteration) = self.linked.instruction_at(at.instr);
        // The instruction itself has written nothing if it found a bad index.
        let changed = at.instr > self.changes || (at.instr == self.changes && at.bad.is_none());
        Stop { instr, iteration, changed, ..at }
    }

    /// Runs the part of thread `thread`: whether all of it ran.
    ///
    /// # Safety
    /// The frames of `watch` are those of one arena of at least [`Exec::bytes`] bytes that nobody else uses during the
    /// step; each thread runs its own part, and `watch` lets none pass a meeting before all have come to it.
    #[allow(unsafe_code)]
    pub(super) unsafe fn run<W: Watch>(&self, thread: usize, lane: &Lane, watch: &mut W) -> bool {
        let moves = Moves { strides: &self.linked.strides, ..Moves::NONE };
        let mut walk = Walk { exec: self, thread, lane, watch };
        // SAFETY: as for this function.
        unsafe { walk.level(&self.linked.levels[0], &moves, 0) }
    }

    /// Runs one step on this thread. The tapes must be for one thread.
    pub fn step(&self, arena: &mut TensorArena, lane: &Lane) -> Result<(), Stop> {
        assert!(arena.len() >= self.bytes && self.lanes() == 1);
        let mut alone = Alone(Frame::new(arena.bytes_mut()));
        // SAFETY: the arena is borrowed for the whole step, it is large enough, and there is one thread.
        #[allow(unsafe_code)]
        let step = || unsafe {
            self.run(0, lane, &mut alone);
        };
        guarded(lane, step).map_err(|at| self.located(at))
    }

    /// As [`Exec::step`]; writes down in `track` what happens.
    pub fn step_traced(&self, arena: &mut TensorArena, lane: &Lane, track: &mut Track) -> Result<(), Stop> {
        assert!(arena.len() >= self.bytes && self.lanes() == 1);
        let mut traced = Traced::new(Alone(Frame::new(arena.bytes_mut())), track);
        // SAFETY: as in `step`.
        #[allow(unsafe_code)]
        let step = || unsafe {
            self.run(0, lane, &mut traced);
        };
        guarded(lane, step).map_err(|at| self.located(at))
    }

    /// Events of a traced step of `thread`.
    pub fn events(&self, thread: usize) -> usize {
        self.linked.events(thread)
    }

    /// As [`Exec::step`], but all bytes that hold nothing are filled with ones (NaN for floats) before the step and
    /// before each iteration of a loop, and those of a buffer after its last use: a program that reads what it should
    /// not gives other results.
    pub fn step_poisoned(&self, arena: &mut TensorArena, lane: &Lane) -> Result<(), Stop> {
        assert!(arena.len() >= self.bytes && self.lanes() == 1);
        // SAFETY: as in `step`; the frame is made anew because the arena is touched between instructions.
        #[allow(unsafe_code)]
        let step = || unsafe {
            self.run(0, lane, &mut Poison(arena));
        };
        guarded(lane, step).map_err(|at| self.located(at))
    }
}

/// A step on one thread.
struct Alone(Frame);

impl Watch for Alone {
    #[inline(always)]
    fn frame(&mut self) -> Frame {
        self.0
    }

    #[inline(always)]
    fn goes_on(&mut self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    fn meet(&mut self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    fn dead(&mut self, _: &[Range<usize>]) {}

    #[inline(always)]
    fn done(&mut self, _: &Level, _: usize) {}
}

/// A step on one thread that fills dead bytes.
struct Poison<'a>(&'a mut TensorArena);

impl Watch for Poison<'_> {
    fn frame(&mut self) -> Frame {
        Frame::new(self.0.bytes_mut())
    }

    fn goes_on(&mut self, _: usize) -> bool {
        true
    }

    fn meet(&mut self, _: usize) -> bool {
        true
    }

    fn dead(&mut self, bytes: &[Range<usize>]) {
        bytes.iter().for_each(|r| self.0.bytes_mut()[r.clone()].fill(0xff));
    }

    fn done(&mut self, level: &Level, i: usize) {
        for r in level.guarded.get(i).into_iter().flatten() {
            let intact = self.0.bytes()[r.clone()].iter().all(|&b| b == 0xff);
            assert!(intact, "instruction {i} wrote beyond its results, into bytes {r:?}");
        }
        self.dead(cut(&level.dying, (level.dying_at[i], level.dying_at[i + 1])));
    }
}

/// Runs `step`, and tells why it stopped: a fault that a kernel reported, or a panic. Forgets the fault. The stop's
/// instruction is a time.
pub fn guarded(lane: &Lane, step: impl FnOnce()) -> Result<(), Stop> {
    let ended = catch_unwind(AssertUnwindSafe(step));
    let bad = lane.fault.get();
    if ended.is_ok() && bad.is_none() {
        return Ok(());
    }
    lane.fault.clear();
    let instr = lane.at.load(Ordering::Relaxed);
    Err(Stop { instr, bad: bad.filter(|_| ended.is_ok()), iteration: None, changed: false })
}
