//! A fixed team of threads that runs tapes: those of whichever program is lent to it for a step.
//!
//! The caller's thread is thread 0. The others spin for a while between steps, then park. While steps follow one
//! another, nothing here allocates, locks or makes a system call. Exception: with more threads than cores, or other
//! programs on the cores, waiting threads yield.
//!
//! A thread that finds a fault publishes the timestamp of its instruction. The team keeps the least one. Every thread
//! runs its instructions up to that timestamp and none behind it, so all threads agree on the instruction that stopped
//! the step, and none waits at a barrier that another will not reach.

use super::exec::{Exec, Stop, ThreadState};
use super::link::Segment;
use super::observer::StepObserver;
use super::track::{Track, TrackObserver};
use crate::arena::tensor::TensorArena;
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::ArenaPtr;
use crossbeam::sync::{Parker, Unparker};
use crossbeam::utils::CachePadded;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// [`TeamShared::stop`] while no thread has found a fault.
const GO: usize = usize::MAX;
/// Most spins before a waiting thread yields: one to two hundred microseconds.
const SPINS: u32 = 4_000;
/// Fewest spins before a waiting thread yields, once yields have been long: about twenty microseconds, so that the
/// threads it waits for get a core.
const FEW: u32 = 512;
/// A yield longer than this means that another thread ran on our core.
const LONG: Duration = Duration::from_micros(20);
/// Yields before a thread that waits for a step parks.
const YIELDS: u32 = 500;

/// What the team shares about one thread.
struct TeamWorkerState {
    state: ThreadState,
    panicked: AtomicBool,
    asleep: AtomicBool,
    /// For waits at barriers.
    at_barrier: TeamBackoff,
    /// For waits for the next step.
    between_steps: TeamBackoff,
    /// Where a recorded step is written.
    track: Mutex<Option<Track>>,
}

impl TeamWorkerState {
    /// The state of a thread that spins at most `spins` times.
    fn new(spins: u32) -> TeamWorkerState {
        let backoff = || TeamBackoff(AtomicU32::new(spins));
        TeamWorkerState {
            state: ThreadState::default(),
            panicked: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            at_barrier: backoff(),
            between_steps: backoff(),
            track: Mutex::new(None),
        }
    }

    /// Replaces the track. Returns the old one.
    fn swap(&self, track: Option<Track>) -> Option<Track> {
        std::mem::replace(&mut *self.track.lock().unwrap_or_else(PoisonError::into_inner), track)
    }
}

/// What all threads of a team share.
struct TeamShared {
    /// The program of the step under way.
    exec: AtomicPtr<Exec>,
    /// The arena of the step under way.
    base: AtomicPtr<u8>,
    len: AtomicUsize,
    /// Counts steps; a change starts one.
    epoch: CachePadded<AtomicUsize>,
    /// Arrivals at barriers in this step.
    arrived: CachePadded<AtomicUsize>,
    /// The least timestamp of an instruction at fault in this step.
    stop: CachePadded<AtomicUsize>,
    /// Threads other than the caller's that have finished this step.
    done: CachePadded<AtomicUsize>,
    quit: AtomicBool,
    /// True if the step under way is recorded.
    traced: AtomicBool,
    states: Vec<CachePadded<TeamWorkerState>>,
    /// Most spins before a yield.
    spins: u32,
}

/// How often a thread spins before it yields.
///
/// A long yield means that another thread ran on this core, perhaps one that this thread waits for, so the thread spins
/// half as often from then on. Waits that end while spinning, and short yields, raise the number again. So two teams on
/// the same cores alternate, and a single team makes no system calls.
struct TeamBackoff(AtomicU32);

impl TeamBackoff {
    /// Calls `look` until it returns a value. `look` gets the number of yields of this wait. `most` limits the spins.
    #[inline]
    fn wait<T>(&self, most: u32, mut look: impl FnMut(u32) -> Option<T>) -> T {
        let spins = self.0.load(Ordering::Relaxed);
        for _ in 0..=spins {
            if let Some(seen) = look(0) {
                if spins < most {
                    self.0.store((spins + spins / 8 + 1).min(most), Ordering::Relaxed);
                }
                return seen;
            }
            std::hint::spin_loop();
        }
        let mut yields = 0u32;
        loop {
            yields = yields.saturating_add(1);
            let start = Instant::now();
            std::thread::yield_now();
            let (long, spins) = (start.elapsed() > LONG, self.0.load(Ordering::Relaxed));
            let next = if long { (spins / 2).max(FEW) } else { spins.saturating_mul(2) };
            self.0.store(next.min(most), Ordering::Relaxed);
            if let Some(seen) = look(yields) {
                return seen;
            }
        }
    }
}

/// One thread's step within a team.
struct TeamObserver<'a> {
    shared: &'a TeamShared,
    arena: ArenaPtr,
    thread: usize,
    /// Threads that run the step.
    threads: usize,
    barriers: usize,
}

impl StepObserver for TeamObserver<'_> {
    #[inline(always)]
    fn arena(&mut self) -> ArenaPtr {
        self.arena
    }

    #[inline(always)]
    fn goes_on(&mut self, time: usize) -> bool {
        self.shared.stop.load(Ordering::Relaxed) >= time
    }

    #[inline(always)]
    fn barrier(&mut self, time: usize) -> bool {
        self.barriers += 1;
        self.goes_on(time) && self.shared.barrier(self.thread, self.barriers * self.threads, time)
    }

    #[inline(always)]
    fn dead(&mut self, _: &[Range<usize>]) {}

    #[inline(always)]
    fn done(&mut self, _: &Segment, _: usize) {}
}

impl TeamShared {
    /// The program of the step under way.
    ///
    /// # Safety
    /// A step is under way: this thread has seen its `epoch`, or is the caller's, and has not finished its part.
    #[allow(unsafe_code)]
    unsafe fn exec(&self) -> &Exec {
        // SAFETY: `Team::step` stores a borrowed program before the step and returns when all threads have finished.
        unsafe { &*self.exec.load(Ordering::Relaxed) }
    }

    /// Runs thread `t`'s part of the step.
    fn run(&self, t: usize, arena: ArenaPtr) {
        // SAFETY: only threads that take part in a step call this, before they count themselves as done.
        #[allow(unsafe_code)]
        let exec = unsafe { self.exec() };
        let mut observer = TeamObserver { shared: self, arena, thread: t, threads: exec.threads(), barriers: 0 };
        let traced = self.traced.load(Ordering::Relaxed);
        match traced.then(|| self.states[t].swap(None)).flatten() {
            Some(mut track) => {
                self.walk(exec, t, &mut TrackObserver::new(observer, &mut track));
                self.states[t].swap(Some(track));
            }
            None => self.walk(exec, t, &mut observer),
        }
    }

    /// Runs thread `t`'s part with its [`TeamObserver`] of this step, or with an observer that wraps it.
    fn walk<W: StepObserver>(&self, exec: &Exec, t: usize, observer: &mut W) {
        let state = &self.states[t].state;
        // SAFETY: the arena of `observer` is the one that `Team::step` borrows until every thread has finished; each
        // thread runs its own part, in order, and waits for the others at each barrier.
        #[allow(unsafe_code)]
        unsafe {
            exec.run(t, state, observer)
        };
        if state.fault.get().is_some() {
            self.stop.fetch_min(state.at.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// As [`TeamShared::run`]; a panic becomes a stop of the step.
    fn run_catching(&self, t: usize) {
        let arena = ArenaPtr::from_parts(self.base.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        if catch_unwind(AssertUnwindSafe(|| self.run(t, arena))).is_err() {
            let worker = &self.states[t];
            worker.panicked.store(true, Ordering::Relaxed);
            self.stop.fetch_min(worker.state.at.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Thread `t` waits at a barrier before `time`, until the threads have arrived at this step's barriers `all` times
    /// in sum. False if the step stopped before it.
    fn barrier(&self, t: usize, all: usize, time: usize) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        self.states[t].at_barrier.wait(self.spins, |_| {
            if self.arrived.load(Ordering::Acquire) >= all {
                return Some(true);
            }
            (self.stop.load(Ordering::Relaxed) < time).then_some(false)
        })
    }

    /// The main loop of thread `t`, not the caller's.
    fn work(&self, t: usize, parker: &Parker) {
        // Started: `Team::new` waits for this as for the end of a step.
        self.done.fetch_add(1, Ordering::Release);
        let mut seen = 0;
        loop {
            seen = self.states[t].between_steps.wait(self.spins, |yields| {
                if yields > YIELDS {
                    self.sleep(t, seen, parker);
                }
                Some(self.epoch.load(Ordering::Acquire)).filter(|now| *now != seen)
            });
            if self.quit.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: this thread has seen the step's epoch and counts itself as done below.
            #[allow(unsafe_code)]
            let threads = unsafe { self.exec() }.threads();
            if t < threads {
                self.run_catching(t);
            }
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    /// Parks until a step starts. This thread sets `asleep` and then reads `epoch`; the caller sets `epoch` and then
    /// reads `asleep`. All are sequentially consistent, so at least one of the two sees the other's write.
    #[cold]
    fn sleep(&self, t: usize, seen: usize, parker: &Parker) {
        let worker = &self.states[t];
        worker.asleep.store(true, Ordering::SeqCst);
        if self.epoch.load(Ordering::SeqCst) == seen {
            parker.park();
        }
        worker.asleep.store(false, Ordering::SeqCst);
    }

    /// The result of the step. Clears faults and panics.
    fn verdict(&self) -> Result<(), Stop> {
        let stop = self.stop.load(Ordering::Relaxed);
        if stop == GO {
            return Ok(());
        }
        let mut least = Stop { instr: stop, bad: None, iteration: None, changed: false };
        for worker in &self.states {
            let bad = worker.state.fault.get();
            let panicked = worker.panicked.swap(false, Ordering::Relaxed);
            worker.state.fault.clear();
            let here = worker.state.at.load(Ordering::Relaxed) == stop;
            if let Some(bad) = bad
                && here
                && !panicked
            {
                least.bad = Some(least.bad.map_or(bad, |l| l.min(bad)));
            }
        }
        Err(least)
    }
}

/// Threads that run the steps of one program after another.
pub struct Team {
    shared: Arc<TeamShared>,
    /// The threads other than the caller's.
    workers: Vec<Worker>,
}

/// A thread of a team.
struct Worker {
    unparker: Unparker,
    /// `None` once it is joined.
    handle: Option<JoinHandle<()>>,
}

impl Team {
    /// Starts `threads` threads, the caller's counted. They have started when this returns, because a starting thread
    /// allocates, which no step may do. An error (kind `Io`) if a thread cannot be started.
    pub fn new(threads: usize) -> Result<Team> {
        let threads = threads.max(1);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let spins = if threads <= cores { SPINS } else { 0 };
        let padded = || CachePadded::new(AtomicUsize::new(0));
        let shared = Arc::new(TeamShared {
            exec: AtomicPtr::new(std::ptr::null_mut()),
            base: AtomicPtr::new(std::ptr::null_mut()),
            len: AtomicUsize::new(0),
            epoch: padded(),
            arrived: padded(),
            stop: CachePadded::new(AtomicUsize::new(GO)),
            done: padded(),
            quit: AtomicBool::new(false),
            traced: AtomicBool::new(false),
            states: (0..threads).map(|_| CachePadded::new(TeamWorkerState::new(spins))).collect(),
            spins,
        });
        let mut team = Team { shared, workers: Vec::new() };
        for t in 1..threads {
            let parker = Parker::new();
            let unparker = parker.unparker().clone();
            let shared = Arc::clone(&team.shared);
            let spawned = std::thread::Builder::new()
                .name(format!("arenagrad-{t}"))
                .spawn(move || shared.work(t, &parker))
                .map_err(|e| Error::new(Kind::Io, format!("thread {t} of {threads} cannot be started: {e}")))?;
            team.workers.push(Worker { unparker, handle: Some(spawned) });
        }
        // A backoff of its own: a slow start says nothing about waits in steps.
        team.wait(&TeamBackoff(AtomicU32::new(spins)));
        Ok(team)
    }

    /// Waits until the other threads have finished.
    fn wait(&self, backoff: &TeamBackoff) {
        let s = &*self.shared;
        backoff.wait(s.spins, |_| (s.done.load(Ordering::Acquire) >= self.workers.len()).then_some(()));
    }

    /// Number of threads, with the caller's.
    pub fn threads(&self) -> usize {
        self.shared.states.len()
    }

    /// Starts a step on the other threads.
    fn start(&self) {
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        for (state, worker) in self.shared.states.iter().skip(1).zip(&self.workers) {
            if state.asleep.load(Ordering::SeqCst) {
                worker.unparker.unpark();
            }
        }
    }

    /// Runs one step of `exec`; on the caller's thread alone if its tapes are for one thread. Panics if the arena is
    /// too small, or if the tapes are for more threads than the team has.
    pub fn step(&mut self, exec: &Exec, arena: &mut TensorArena) -> Result<(), Stop> {
        let s = &*self.shared;
        if exec.threads() == 1 {
            return exec.step(arena, &s.states[0].state);
        }
        assert!(arena.len() >= exec.bytes() && exec.threads() <= self.threads());
        let (base, len) = ArenaPtr::new(arena.bytes_mut()).parts();
        // The other threads wait for `epoch`, which publishes these.
        s.base.store(base, Ordering::Relaxed);
        s.len.store(len, Ordering::Relaxed);
        s.exec.store(std::ptr::from_ref(exec).cast_mut(), Ordering::Relaxed);
        s.arrived.store(0, Ordering::Relaxed);
        s.stop.store(GO, Ordering::Relaxed);
        s.done.store(0, Ordering::Relaxed);
        self.start();
        s.run_catching(0);
        self.wait(&s.states[0].at_barrier);
        s.verdict().map_err(|at| exec.located(at))
    }

    /// As [`Team::step`]; records the step in `tracks`, one for each thread of the tapes.
    pub fn step_traced(&mut self, exec: &Exec, arena: &mut TensorArena, tracks: &mut [Track]) -> Result<(), Stop> {
        if let (1, [track]) = (exec.threads(), &mut *tracks) {
            return exec.step_traced(arena, &self.shared.states[0].state, track);
        }
        // Between steps no other thread uses the tracks.
        for (state, track) in self.shared.states.iter().zip(&mut *tracks) {
            state.swap(Some(std::mem::replace(track, Track::new(0))));
        }
        self.shared.traced.store(true, Ordering::Relaxed);
        let done = self.step(exec, arena);
        self.shared.traced.store(false, Ordering::Relaxed);
        for (state, track) in self.shared.states.iter().zip(tracks) {
            // The track of a thread whose kernel panicked is lost.
            if let Some(filled) = state.swap(None) {
                *track = filled;
            }
        }
        done
    }
}

const _: fn() = || {
    // Threads share a program by its address, which the compiler does not check.
    fn exec_is_shared<T: Sync>() {}
    exec_is_shared::<Exec>();
};

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Relaxed);
        self.start();
        for worker in &mut self.workers {
            worker.unparker.unpark();
            if let Some(handle) = worker.handle.take() {
                // A worker catches panics of kernels; it has nothing else to report.
                let _ = handle.join();
            }
        }
    }
}
