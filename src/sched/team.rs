//! A fixed team of threads that runs the tapes of one program.
//!
//! The caller's thread is thread 0. The others spin for a while between steps, then park; while steps follow one
//! another nothing here allocates, locks or asks the operating system for anything, unless there are more threads than
//! cores, or others want them: then waiting threads yield.
//!
//! A step that must stop says so by the time of the instruction at fault. A thread runs what lies at or before the
//! least such number and nothing behind it, so that all agree which instruction stopped the step, and no thread waits
//! at a barrier that another will not reach.

use super::exec::{Exec, Stop, ThreadState};
use super::link::Segment;
use super::observer::StepObserver;
use super::trace::{Traced, Track};
use crate::arena::tensor::TensorArena;
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::{ArenaPtr, Bad};
use crossbeam::sync::{Parker, Unparker};
use crossbeam::utils::CachePadded;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No instruction: the step goes on.
const GO: usize = usize::MAX;
/// Most spins before a waiting thread yields: some hundred microseconds.
const SPINS: u32 = 4_000;
/// Spins before the most impatient thread yields: some twenty microseconds, so that those it waits for may come to run.
const FEW: u32 = 512;
/// A yield longer than this means that another thread ran on our core.
const LONG: Duration = Duration::from_micros(20);
/// Yields before a thread that waits for a step parks.
const YIELDS: u32 = 500;

/// One thread's place.
struct WorkerState {
    state: ThreadState,
    panicked: AtomicBool,
    asleep: AtomicBool,
    /// For others within a step, and for the next step.
    backoff: [Backoff; 2],
    /// Where a step that is traced is written down.
    track: Mutex<Option<Track>>,
}

impl WorkerState {
    /// Of a thread that spins at most `spins` times.
    fn new(spins: u32) -> WorkerState {
        let backoff = || Backoff(AtomicU32::new(spins));
        WorkerState {
            state: ThreadState::default(),
            panicked: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            backoff: [backoff(), backoff()],
            track: Mutex::new(None),
        }
    }

    /// Puts `track` in its place; what was there.
    fn swap(&self, track: Option<Track>) -> Option<Track> {
        std::mem::replace(&mut *self.track.lock().unwrap_or_else(PoisonError::into_inner), track)
    }
}

struct Shared {
    exec: Exec,
    /// The arena of the step under way.
    base: AtomicPtr<u8>,
    len: AtomicUsize,
    /// Counts steps; a change starts one.
    epoch: CachePadded<AtomicUsize>,
    /// Arrivals at barriers in this step.
    arrived: CachePadded<AtomicUsize>,
    /// The least time of an instruction at fault in this step.
    stop: CachePadded<AtomicUsize>,
    /// Threads other than the caller's that are through with this step.
    done: CachePadded<AtomicUsize>,
    quit: AtomicBool,
    /// Whether the step under way is traced.
    traced: AtomicBool,
    workers_state: Vec<CachePadded<WorkerState>>,
    /// Spins before yielding.
    spins: u32,
}

/// How often a thread spins before it yields. Where a yield took long, another program wants this core (maybe one of
/// those who are waited for), and the thread spins half as long from then on; waits that end in time, and short yields,
/// lengthen its backoff again. So two teams on one team's cores take loop_calls, and a team that is alone asks the
/// system for nothing.
struct Backoff(AtomicU32);

impl Backoff {
    /// Looks until there is something to see; `look` gets how often this wait has yielded.
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

/// A step of one thread of a team.
struct TeamObserver<'a> {
    shared: &'a Shared,
    frame: ArenaPtr,
    thread: usize,
    barriers: usize,
}

impl StepObserver for TeamObserver<'_> {
    #[inline(always)]
    fn frame(&mut self) -> ArenaPtr {
        self.frame
    }

    #[inline(always)]
    fn goes_on(&mut self, time: usize) -> bool {
        self.shared.stop.load(Ordering::Relaxed) >= time
    }

    #[inline(always)]
    fn barrier(&mut self, time: usize) -> bool {
        self.barriers += 1;
        self.goes_on(time) && self.shared.barrier(self.thread, self.barriers, time)
    }

    #[inline(always)]
    fn dead(&mut self, _: &[Range<usize>]) {}

    #[inline(always)]
    fn done(&mut self, _: &Segment, _: usize) {}
}

impl Shared {
    /// Runs thread `t`'s part of the step.
    fn run(&self, t: usize, frame: ArenaPtr) {
        let mut member = TeamObserver { shared: self, frame, thread: t, barriers: 0 };
        let traced = self.traced.load(Ordering::Relaxed);
        match traced.then(|| self.workers_state[t].swap(None)).flatten() {
            Some(mut track) => {
                self.walk(t, &mut Traced::new(member, &mut track));
                self.workers_state[t].swap(Some(track));
            }
            None => self.walk(t, &mut member),
        }
    }

    /// Runs thread `t`'s part, watched by its [`TeamObserver`] of this step, or by what stands around that.
    fn walk<W: StepObserver>(&self, t: usize, observer: &mut W) {
        let state = &self.workers_state[t].state;
        // SAFETY: the frame of `observer` is of the arena that `Team::step` borrows until every thread is through; each
        // thread runs its own part, in order, and meets the others at each barrier.
        #[allow(unsafe_code)]
        unsafe {
            self.exec.run(t, state, observer)
        };
        if state.fault.get().is_some() {
            self.stop.fetch_min(state.at.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// As [`Shared::run`]; a panic stops the step.
    fn run_guarded(&self, t: usize) {
        let frame = ArenaPtr::from_parts(self.base.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        if catch_unwind(AssertUnwindSafe(|| self.run(t, frame))).is_err() {
            let worker = &self.workers_state[t];
            worker.panicked.store(true, Ordering::Relaxed);
            self.stop.fetch_min(worker.state.at.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Thread `t` meets all threads for the `k`th time, before `time`. False if the step stopped before it.
    fn barrier(&self, t: usize, k: usize, time: usize) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = k * self.workers_state.len();
        self.workers_state[t].backoff[0].wait(self.spins, |_| {
            if self.arrived.load(Ordering::Acquire) >= all {
                return Some(true);
            }
            (self.stop.load(Ordering::Relaxed) < time).then_some(false)
        })
    }

    /// What a thread other than the caller's does all its life.
    fn work(&self, t: usize, parker: &Parker) {
        // Up, and through with the step before the first.
        self.done.fetch_add(1, Ordering::Release);
        let mut seen = 0;
        loop {
            seen = self.workers_state[t].backoff[1].wait(self.spins, |yields| {
                if yields > YIELDS {
                    self.sleep(t, seen, parker);
                }
                Some(self.epoch.load(Ordering::Acquire)).filter(|now| *now != seen)
            });
            if self.quit.load(Ordering::Relaxed) {
                return;
            }
            self.run_guarded(t);
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    /// Parks until a step starts. The order of the two looks (mine at `epoch` after `asleep` is set, the caller's at
    /// `asleep` after `epoch` is) makes sure that one of us sees the other.
    #[cold]
    fn sleep(&self, t: usize, seen: usize, parker: &Parker) {
        let worker = &self.workers_state[t];
        worker.asleep.store(true, Ordering::SeqCst);
        if self.epoch.load(Ordering::SeqCst) == seen {
            parker.park();
        }
        worker.asleep.store(false, Ordering::SeqCst);
    }

    /// Forgets what the step said; why it stopped.
    fn verdict(&self) -> Result<(), Stop> {
        let stop = self.stop.load(Ordering::Relaxed);
        if stop == GO {
            return Ok(());
        }
        let mut least = Stop { instr: stop, bad: None, iteration: None, changed: false };
        let mut all = self.workers_state.iter().filter_map(|worker| {
            let bad = worker.state.fault.get();
            let panicked = worker.panicked.swap(false, Ordering::Relaxed);
            worker.state.fault.clear();
            let here = worker.state.at.load(Ordering::Relaxed) == stop;
            (here && !panicked).then_some(bad).flatten()
        });
        // All workers_state are looked at, so that all forget.
        least.bad = all.by_ref().fold(None, |least: Option<Bad>, bad| Some(least.map_or(bad, |l| l.min(bad))));
        Err(least)
    }
}

/// The threads of one program.
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<(Unparker, Option<JoinHandle<()>>)>,
}

impl Team {
    /// Starts the threads of `exec`'s tapes beside the caller's. They are up when this returns: a thread that comes up
    /// allocates, which no step may.
    pub fn new(exec: Exec) -> Result<Team> {
        let threads = exec.threads();
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let spins = if threads <= cores { SPINS } else { 0 };
        let padded = || CachePadded::new(AtomicUsize::new(0));
        let shared = Arc::new(Shared {
            exec,
            base: AtomicPtr::new(std::ptr::null_mut()),
            len: AtomicUsize::new(0),
            epoch: padded(),
            arrived: padded(),
            stop: CachePadded::new(AtomicUsize::new(GO)),
            done: padded(),
            quit: AtomicBool::new(false),
            traced: AtomicBool::new(false),
            workers_state: (0..threads).map(|_| CachePadded::new(WorkerState::new(spins))).collect(),
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
            team.workers.push((unparker, Some(spawned)));
        }
        // Starting takes long, which says nothing about waits in steps.
        team.wait(&Backoff(AtomicU32::new(spins)));
        Ok(team)
    }

    /// Waits until the others are through.
    fn wait(&self, backoff: &Backoff) {
        let s = &*self.shared;
        backoff.wait(s.spins, |_| (s.done.load(Ordering::Acquire) >= self.workers.len()).then_some(()));
    }

    /// Number of threads, the caller's among them.
    pub fn threads(&self) -> usize {
        self.shared.workers_state.len()
    }

    fn start(&self) {
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        for (t, (unparker, _)) in self.workers.iter().enumerate() {
            if self.shared.workers_state[t + 1].asleep.load(Ordering::SeqCst) {
                unparker.unpark();
            }
        }
    }

    /// Runs one step.
    pub fn step(&mut self, arena: &mut TensorArena) -> Result<(), Stop> {
        let s = &*self.shared;
        assert!(arena.len() >= s.exec.bytes());
        let (base, len) = ArenaPtr::new(arena.bytes_mut()).parts();
        // The others are waiting for `epoch`, which publishes these.
        s.base.store(base, Ordering::Relaxed);
        s.len.store(len, Ordering::Relaxed);
        s.arrived.store(0, Ordering::Relaxed);
        s.stop.store(GO, Ordering::Relaxed);
        s.done.store(0, Ordering::Relaxed);
        self.start();
        s.run_guarded(0);
        self.wait(&s.workers_state[0].backoff[0]);
        s.verdict().map_err(|at| s.exec.located(at))
    }

    /// As [`Team::step`]; writes down in `tracks`, one a thread, what happens.
    pub fn step_traced(&mut self, arena: &mut TensorArena, tracks: &mut [Track]) -> Result<(), Stop> {
        // Between steps no other thread looks at the workers' states.
        for (worker, track) in self.shared.workers_state.iter().zip(&mut *tracks) {
            worker.swap(Some(std::mem::replace(track, Track::new(0))));
        }
        self.shared.traced.store(true, Ordering::Relaxed);
        let done = self.step(arena);
        self.shared.traced.store(false, Ordering::Relaxed);
        for (worker, track) in self.shared.workers_state.iter().zip(tracks) {
            // The track of a thread whose kernel panicked is lost.
            if let Some(filled) = worker.swap(None) {
                *track = filled;
            }
        }
        done
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Relaxed);
        self.start();
        for (unparker, handle) in &mut self.workers {
            unparker.unpark();
            if let Some(handle) = handle.take() {
                // A worker catches panics of kernels; it has nothing else to report.
                let _ = handle.join();
            }
        }
    }
}
