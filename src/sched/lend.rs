//! Bytes that a step is done with, lent to a second thread while the step goes on.
//!
//! Invariant: a part is lent from a timestamp on behind which no instruction of the step reads or writes one of its
//! bytes. The timestamp follows from the operands of the proven plan. So the two threads never touch the same bytes,
//! and the step returns only when the second one is done. A step is handed over by one lock, before it begins. Then the
//! first thread publishes the timestamps that it has reached by an atomic, and wakes the second where a part becomes
//! free. Used by [`train::Parallel`](crate::train::Parallel), which exchanges gradients.

use super::exec::{Exec, ExecSingleThread, Stop, ThreadState, catch_stop};
use super::link::Segment;
use super::observer::{END, Meeting, StepObserver};
use super::panicked::panicked;
use crate::arena::tensor::TensorArena;
use crate::clock::Instant;
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::{ArenaPtr, Args, LoopOffsets, OperandRef, Split};
use crate::kernels::fault::Fault;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread, park};
use std::time::Duration;

/// Bytes of the arena that a step lends.
#[derive(Clone, Debug, PartialEq)]
pub struct LentPart {
    /// The bytes.
    pub bytes: Range<usize>,
    /// The last instruction that touches one of them; `None` if no instruction does.
    pub last: Option<usize>,
    /// The part of the step's modelled time, on one thread, that is left behind that instruction.
    pub left: f64,
    /// The timestamp from which on no instruction touches them.
    from: usize,
}

/// What takes the parts of a step, in order, on the second thread.
pub trait Taker: Send {
    /// Takes part `part`. `computes` is false once the step has run and waits for this.
    fn take(&mut self, part: usize, bytes: &mut [u8], computes: bool);
}

impl Exec {
    /// What a step lends of `bytes`.
    pub fn lent_part(&self, bytes: Range<usize>) -> LentPart {
        let graph = &self.linked.segments[0];
        let touches = |o: &OperandRef| o.off < bytes.end && o.off + o.len * o.size > bytes.start && o.len > 0;
        let slots = |r: (u32, u32)| &graph.slots[r.0 as usize..r.1 as usize];
        let last = graph.calls.iter().rposition(|c| slots(c.reads).iter().chain(slots(c.writes)).any(touches));
        let all: u64 = self.times.iter().sum();
        let rest: u64 = self.times[last.map_or(0, |i| i + 1)..].iter().sum();
        let from = last.map_or(0, |i| end_of(graph, i));
        LentPart { bytes, last, left: rest as f64 / all.max(1) as f64, from }
    }
}

/// The timestamp behind instruction `i` of the graph.
fn end_of(graph: &Segment, i: usize) -> usize {
    graph.calls.get(i + 1).map_or(END, |next| next.time)
}

/// The thread that takes parts of the steps of one program.
pub struct Lender {
    exec: Arc<Exec>,
    shared: Arc<LenderShared>,
    thread: Option<JoinHandle<()>>,
    /// How long the last step waited for the thread, after its instructions.
    pub waited: Duration,
}

struct LenderShared {
    parts: Vec<LentPart>,
    operands: Vec<OperandRef>,
    /// Timestamps at which a part becomes free, by rising time.
    opens: Vec<usize>,
    /// The step that the thread has not begun to take parts of.
    job: Mutex<Option<LenderJob>>,
    /// The timestamp that the step has reached.
    reached: AtomicUsize,
    /// Whether the thread is done with the step.
    done: AtomicBool,
    panicked: AtomicBool,
    quit: AtomicBool,
}

/// A step: who takes its parts, and from which arena.
struct LenderJob {
    /// Valid until the thread is done with the step.
    taker: &'static mut dyn Taker,
    arena: ArenaPtr,
    caller: Thread,
}

impl LenderShared {
    fn job(&self) -> MutexGuard<'_, Option<LenderJob>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main loop of the second thread.
    fn work(&self) {
        while !self.quit.load(Ordering::Acquire) {
            let Some(LenderJob { taker, arena, caller }) = self.job().take() else {
                park();
                continue;
            };
            if panicked(|| self.take_parts(taker, arena)) {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.done.store(true, Ordering::Release);
            caller.unpark();
        }
    }

    fn take_parts(&self, taker: &mut dyn Taker, arena: ArenaPtr) {
        let fault = Fault::default();
        for (k, part) in self.parts.iter().enumerate() {
            while self.reached.load(Ordering::Acquire) < part.from {
                park();
            }
            let computes = self.reached.load(Ordering::Relaxed) != END;
            let operand = std::slice::from_ref(&self.operands[k]);
            // SAFETY: the step, which waits for this thread, has reached a time behind which no instruction touches
            // these bytes; parts are distinct, and `Args` checks that they lie in one block of the arena.
            #[allow(unsafe_code)]
            let mut args = unsafe { Args::new(arena, &[], operand, &[], 0..1, 0, &fault) };
            taker.take(k, args.write_bytes(0), computes);
        }
    }
}

/// A step that lends parts: it runs once, or not at all.
pub struct Lending<'a> {
    pub(super) exec: &'a Exec,
    pub(super) arena: ArenaPtr,
    pub(super) wake: LenderWake<'a>,
}

/// Tells the second thread how far the step is.
#[derive(Clone, Copy)]
pub(super) struct LenderWake<'a> {
    shared: &'a LenderShared,
    thread: &'a Thread,
}

impl LenderWake<'_> {
    fn reach(self, time: usize) {
        self.shared.reached.store(time, Ordering::Release);
        self.thread.unpark();
    }
}

impl Lending<'_> {
    /// Runs the step on this thread, whose state is `state`.
    ///
    /// # Panics
    /// If the tapes are for several threads.
    pub fn step_alone(self, state: &ThreadState) -> Result<(), Stop> {
        let exec = self.exec;
        assert!(exec.threads() == 1);
        let mut observer = LendingObserver::new(ExecSingleThread(self.arena), self.wake, true);
        // SAFETY: the arena is borrowed for the whole step and large enough. There is one thread but the one that takes
        // parts, whose bytes no instruction touches any more.
        #[allow(unsafe_code)]
        let step = || unsafe {
            exec.run(0, state, &mut observer);
        };
        catch_stop(state, step).map_err(|at| exec.located(at))
    }
}

/// Ends a step, also one that unwinds: all parts are free, and the second thread takes them before this is dropped.
struct LendingEnd<'a>(LenderWake<'a>);

impl Drop for LendingEnd<'_> {
    fn drop(&mut self) {
        self.0.reach(END);
        while !self.0.shared.done.load(Ordering::Acquire) {
            park();
        }
    }
}

impl Lender {
    /// A thread that takes `bytes`, which are distinct, of each step of `exec`, one after another.
    ///
    /// # Errors
    /// The thread cannot be started; two of `bytes` overlap.
    pub fn new(exec: &Arc<Exec>, bytes: &[Range<usize>]) -> Result<Lender> {
        let mut sorted = bytes.to_vec();
        sorted.sort_by_key(|r| r.start);
        if sorted.windows(2).any(|w| w[0].end > w[1].start) {
            return Err(Error::new(Kind::Plan, "bytes that a step lends twice"));
        }
        let parts: Vec<LentPart> = bytes.iter().map(|r| exec.lent_part(r.clone())).collect();
        let operands = bytes.iter().map(|r| OperandRef::new(r.start, r.len(), 1, Split::Whole)).collect();
        let mut opens: Vec<usize> = parts.iter().map(|p| p.from).collect();
        opens.sort_unstable();
        opens.dedup();
        let flag = || AtomicBool::new(false);
        let (job, reached, done, panicked, quit) = (Mutex::default(), AtomicUsize::new(0), flag(), flag(), flag());
        let shared = Arc::new(LenderShared { parts, operands, opens, job, reached, done, panicked, quit });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("arenagrad-lent".to_string())
            .spawn(move || own.work())
            .map_err(|e| Error::new(Kind::Io, format!("the thread beside steps cannot be started: {e}")))?;
        Ok(Lender { exec: Arc::clone(exec), shared, thread: Some(thread), waited: Duration::ZERO })
    }

    /// Whether it is for steps of `exec`.
    pub fn is_of(&self, exec: &Arc<Exec>) -> bool {
        Arc::ptr_eq(&self.exec, exec)
    }

    /// Runs `step` while the second thread hands the parts to `taker`. Returns when both are done.
    ///
    /// # Panics
    /// If the arena is too small, or if `taker` panicked.
    pub fn step<R>(
        &mut self,
        arena: &mut TensorArena,
        taker: &mut dyn Taker,
        step: impl FnOnce(Lending<'_>) -> R,
    ) -> R {
        self.exec.assert_fits(arena);
        let Some(thread) = &self.thread else { unreachable!("the thread runs until the lender is dropped") };
        let s = &*self.shared;
        let arena = ArenaPtr::of(arena);
        // SAFETY: only the lifetime changes. The second thread uses the taker until it is done, which `LendingEnd`
        // awaits before this function, which borrows the taker and does not use it, ends.
        #[allow(unsafe_code)]
        let taker = unsafe { std::mem::transmute::<&mut (dyn Taker + '_), &'static mut (dyn Taker + 'static)>(taker) };
        s.reached.store(0, Ordering::Relaxed);
        s.done.store(false, Ordering::Relaxed);
        *s.job() = Some(LenderJob { taker, arena, caller: std::thread::current() });
        let wake = LenderWake { shared: s, thread: thread.thread() };
        wake.thread.unpark();
        let end = LendingEnd(wake);
        let ran = step(Lending { exec: &self.exec, arena, wake });
        let start = Instant::now();
        drop(end);
        self.waited = start.elapsed();
        assert!(!s.panicked.swap(false, Ordering::Relaxed), "what takes the parts of a step panicked");
        ran
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Its panics were caught.
            let _ = thread.join();
        }
    }
}

/// The observer of the caller's thread in a step that lends parts.
pub(super) struct LendingObserver<'a, W> {
    inner: W,
    wake: LenderWake<'a>,
    /// The timestamps at which further parts become free.
    opens: &'a [usize],
    /// Whether no other thread runs the step.
    alone: bool,
}

impl<'a, W> LendingObserver<'a, W> {
    /// Wraps `inner`, the observer of the caller's thread.
    pub fn new(inner: W, wake: LenderWake<'a>, alone: bool) -> Self {
        LendingObserver { inner, wake, opens: &wake.shared.opens, alone }
    }

    /// All instructions before `time` have run on all threads.
    #[inline]
    fn reach(&mut self, time: usize) {
        if let Some(first) = self.opens.first()
            && *first <= time
        {
            self.opens = &self.opens[self.opens.partition_point(|&open| open <= time)..];
            self.wake.reach(time);
        }
    }
}

impl<W: StepObserver> StepObserver for LendingObserver<'_, W> {
    #[inline(always)]
    fn arena(&mut self) -> ArenaPtr {
        self.inner.arena()
    }

    #[inline(always)]
    fn goes_on(&mut self, time: usize) -> bool {
        self.inner.goes_on(time)
    }

    #[inline(always)]
    fn owns(&self) -> bool {
        self.inner.owns()
    }

    #[inline]
    fn barrier(&mut self, time: usize) -> Meeting {
        let met = self.inner.barrier(time);
        if met == Meeting::Open {
            self.reach(time);
        }
        met
    }

    #[inline(always)]
    fn begins(&mut self, segment: &Segment, i: usize, moves: &LoopOffsets<'_>) {
        self.inner.begins(segment, i, moves);
    }

    #[inline(always)]
    fn dead(&mut self, bytes: &[Range<usize>]) {
        self.inner.dead(bytes);
    }

    #[inline]
    fn done(&mut self, segment: &Segment, i: usize) {
        self.inner.done(segment, i);
        // Instructions of loops' bodies are parts of the loop.
        if self.alone && segment.first == 0 {
            self.reach(end_of(segment, i));
        }
    }
}
