//! A fixed team of threads that runs tapes: those of whichever program is lent to it for a step.
//!
//! The caller's thread is thread 0. The others spin for a while between steps, then park. While steps follow one
//! another, nothing here allocates, locks or makes a system call. Exception: with more threads than cores, or other
//! programs on the cores, waiting threads yield. The threads meet at a [gate](waiting).

mod atomics;
#[cfg(test)]
mod tests;
pub(super) mod waiting;

use super::affinity::pin_worker;
use super::exec::{Exec, Stop, ThreadState};
use super::lend::{LenderWake, Lending, LendingObserver};
use super::link::Segment;
use super::observer::{END, Meeting, StepObserver};
use super::track::{Track, TrackObserver};
use crate::arena::tensor::{ArenaParts, TensorArena};
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::ArenaPtr;
use atomics::{Parker, Unparker};
use crossbeam_utils::CachePadded;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use waiting::{GO, SPINS, TeamGate};

/// What the team shares about one thread.
struct TeamWorkerState {
    state: ThreadState,
    panicked: AtomicBool,
    /// Where a recorded step is written. Empty between steps.
    track: Mutex<Track>,
}

impl TeamWorkerState {
    fn new() -> TeamWorkerState {
        let track = Mutex::new(Track::new(0));
        TeamWorkerState { state: ThreadState::default(), panicked: AtomicBool::new(false), track }
    }

    /// The track. That of a thread whose kernel panicked ends before the panic.
    fn track(&self) -> MutexGuard<'_, Track> {
        self.track.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all threads of a team share.
struct TeamShared {
    /// The program of the step under way.
    exec: AtomicPtr<Exec>,
    /// The arena of the step under way: its blocks, and their ends.
    blocks: [AtomicPtr<u8>; 2],
    ends: [AtomicUsize; 2],
    gate: TeamGate,
    /// True if the step under way is recorded.
    traced: AtomicBool,
    states: Vec<CachePadded<TeamWorkerState>>,
}

/// One thread's step within a team.
struct TeamThread<'a> {
    shared: &'a TeamShared,
    arena: ArenaPtr,
    thread: usize,
    /// Threads that run the step.
    threads: usize,
    barriers: usize,
    /// True if it runs the part of a tape that it stands in.
    owns: bool,
    /// True if it runs parts of threads that are late.
    helps: bool,
}

impl TeamThread<'_> {
    /// Begins the part behind the barriers that it passed, unless another thread has begun it.
    fn begin(&mut self) {
        self.owns = !self.helps || self.shared.gate.begin(self.thread, self.barriers);
    }
}

impl StepObserver for TeamThread<'_> {
    #[inline(always)]
    fn arena(&mut self) -> ArenaPtr {
        self.arena
    }

    #[inline(always)]
    fn goes_on(&mut self, time: usize) -> bool {
        self.shared.gate.goes_on(time)
    }

    #[inline(always)]
    fn owns(&self) -> bool {
        self.owns
    }

    #[inline]
    fn barrier(&mut self, time: usize) -> Meeting {
        if !self.goes_on(time) {
            return Meeting::Stopped;
        }
        let gate = &self.shared.gate;
        if std::mem::take(&mut self.owns) {
            gate.arrive();
        }
        // The caller's thread sees to it that all parts run; the end of the others' tapes is awaited by the gate.
        if time == END && (self.thread > 0 || !self.helps) {
            return Meeting::Open;
        }
        let met = gate.meet([self.thread, self.threads], self.barriers, time, self.helps);
        match met {
            Meeting::Open => {
                self.barriers += 1;
                self.begin();
            }
            Meeting::Late(_) => self.owns = true,
            Meeting::Stopped => {}
        }
        met
    }

    #[inline(always)]
    fn dead(&mut self, _: &[Range<usize>]) {}

    #[inline(always)]
    fn done(&mut self, _: &Segment, _: usize) {}
}

impl TeamShared {
    fn new(threads: usize) -> TeamShared {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let spins = if threads <= cores { SPINS } else { 0 };
        TeamShared {
            exec: AtomicPtr::new(std::ptr::null_mut()),
            blocks: Default::default(),
            ends: Default::default(),
            gate: TeamGate::new(threads, spins),
            traced: AtomicBool::new(false),
            states: (0..threads).map(|_| CachePadded::new(TeamWorkerState::new())).collect(),
        }
    }

    /// The program of the step under way.
    ///
    /// # Safety
    /// A step is under way: this thread has joined it, or is the caller's, and has not finished its part.
    #[allow(unsafe_code)]
    unsafe fn exec(&self) -> &Exec {
        // SAFETY: `Team::step` stores a borrowed program before the step and returns when all threads have finished.
        unsafe { &*self.exec.load(Ordering::Relaxed) }
    }

    /// Runs thread `t`'s part of the step, which lends parts of the arena by `lending`.
    fn run(&self, t: usize, arena: ArenaPtr, lending: Option<LenderWake<'_>>) {
        // SAFETY: only threads that take part in a step call this, before they count themselves as done.
        #[allow(unsafe_code)]
        let exec = unsafe { self.exec() };
        let traced = self.traced.load(Ordering::Relaxed);
        // A track has space for the events of its own thread.
        let (helps, threads) = (exec.moves_parts && !traced, exec.threads());
        let mut observer = TeamThread { shared: self, arena, thread: t, threads, barriers: 0, owns: false, helps };
        observer.begin();
        let ended = match (traced, lending) {
            (true, _) => self.walk(exec, t, &mut TrackObserver::new(observer, &mut self.states[t].track())),
            (false, Some(lending)) => self.walk(exec, t, &mut LendingObserver::new(observer, lending, false)),
            (false, None) => self.walk(exec, t, &mut observer),
        };
        if ended && t == 0 && helps {
            self.gate.excuse();
        }
    }

    /// Runs thread `t`'s part with its [`TeamThread`] of this step, or with an observer that wraps it. True if all of
    /// it ran.
    fn walk<W: StepObserver>(&self, exec: &Exec, t: usize, observer: &mut W) -> bool {
        let state = &self.states[t].state;
        // SAFETY: the arena of `observer` is the one that `Team::step` borrows until every thread has finished; each
        // thread runs the parts that it began, in order, and waits for the others at each barrier.
        #[allow(unsafe_code)]
        let ended = unsafe { exec.run(t, state, observer) };
        if state.fault.get().is_some() {
            self.gate.stop(state.at.load(Ordering::Relaxed));
        }
        ended
    }

    /// As [`TeamShared::run`]; a panic becomes a stop of the step.
    fn run_catching(&self, t: usize, lending: Option<LenderWake<'_>>) {
        let [front, base] = self.blocks.each_ref().map(|block| block.load(Ordering::Relaxed));
        let [split, len] = self.ends.each_ref().map(|end| end.load(Ordering::Relaxed));
        let arena = ArenaPtr::from_parts(ArenaParts { front, split, base, len });
        let worker = &self.states[t];
        if self.gate.catch(|| worker.state.at.load(Ordering::Relaxed), || self.run(t, arena, lending)) {
            worker.panicked.store(true, Ordering::Relaxed);
        }
    }

    /// The main loop of thread `t`, not the caller's.
    fn work(&self, t: usize, parker: &Parker) {
        self.gate.work(t, parker, || {
            // SAFETY: the gate calls this once this thread has joined the step, and counts it as done afterwards.
            #[allow(unsafe_code)]
            let threads = unsafe { self.exec() }.threads();
            if t < threads {
                self.run_catching(t, None);
            }
        });
    }

    /// Exchanges the tracks of the first threads with `tracks`.
    fn swap_tracks(&self, tracks: &mut [Track]) {
        self.states.iter().zip(tracks).for_each(|(state, track)| std::mem::swap(&mut *state.track(), track));
    }

    /// The result of the step. Clears faults and panics.
    fn verdict(&self) -> Result<(), Stop> {
        let stop = self.gate.stopped();
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
                least.bad = Some(least.bad.map_or(bad, |l| l.lower(bad)));
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
        let mut team = Team { shared: Arc::new(TeamShared::new(threads)), workers: Vec::new() };
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
        team.shared.gate.started(team.workers.len());
        Ok(team)
    }

    /// Number of threads, with the caller's.
    pub fn threads(&self) -> usize {
        self.shared.states.len()
    }

    /// Puts each thread of the team on one of `cores`, the caller's excepted: the first core is for that.
    pub fn pin(&self, cores: &[usize]) -> Result<()> {
        let running = self.workers.iter().filter_map(|worker| worker.handle.as_ref());
        running.zip(cores.iter().skip(1)).try_for_each(|(handle, &core)| pin_worker(handle, core))
    }

    /// The threads other than the caller's look for the next step for `time`, then sleep.
    pub fn spin(&self, time: Duration) {
        self.shared.gate.stay_awake(time);
    }

    fn unparkers(&self) -> impl Iterator<Item = &Unparker> {
        self.workers.iter().map(|worker| &worker.unparker)
    }

    /// Runs one step of `exec`; on the caller's thread alone if its tapes are for one thread. Panics if the arena is
    /// too small, or if the tapes are for more threads than the team has.
    pub fn step(&mut self, exec: &Exec, arena: &mut TensorArena) -> Result<(), Stop> {
        if exec.threads() == 1 {
            return exec.step(arena, &self.shared.states[0].state);
        }
        exec.assert_fits(arena);
        self.step_at(exec, arena.parts(), None)
    }

    /// Runs a step that lends parts. Panics if the tapes are for more threads than the team has.
    pub fn step_lending(&mut self, lending: Lending<'_>) -> Result<(), Stop> {
        if lending.exec.threads() == 1 {
            return lending.step_alone(&self.shared.states[0].state);
        }
        self.step_at(lending.exec, lending.arena.parts(), Some(lending.wake))
    }

    /// Runs one step of `exec`, whose tapes are for several threads, in the arena at `parts`, which it fits.
    fn step_at(&mut self, exec: &Exec, parts: ArenaParts, lending: Option<LenderWake<'_>>) -> Result<(), Stop> {
        assert!(exec.threads() <= self.threads());
        let s = &*self.shared;
        let ArenaParts { front, split, base, len } = parts;
        // The other threads wait for the start of the step, which publishes these.
        s.blocks.iter().zip([front, base]).for_each(|(block, at)| block.store(at, Ordering::Relaxed));
        s.ends.iter().zip([split, len]).for_each(|(end, at)| end.store(at, Ordering::Relaxed));
        s.exec.store(std::ptr::from_ref(exec).cast_mut(), Ordering::Relaxed);
        s.gate.start(self.unparkers());
        let end = s.gate.finish_at_end(self.workers.len());
        s.run_catching(0, lending);
        drop(end);
        s.verdict().map_err(|at| exec.located(at))
    }

    /// As [`Team::step`]; records the step in `tracks`, one for each thread of the tapes.
    pub fn step_traced(&mut self, exec: &Exec, arena: &mut TensorArena, tracks: &mut [Track]) -> Result<(), Stop> {
        if let (1, [track]) = (exec.threads(), &mut *tracks) {
            return exec.step_traced(arena, &self.shared.states[0].state, track);
        }
        // Between steps no other thread uses the tracks.
        self.shared.swap_tracks(tracks);
        self.shared.traced.store(true, Ordering::Relaxed);
        let done = self.step(exec, arena);
        self.shared.traced.store(false, Ordering::Relaxed);
        self.shared.swap_tracks(tracks);
        done
    }
}

const _: fn() = || {
    // Threads share a program by its address, which the compiler does not check.
    fn team_shares_exec<T: Sync>() {}
    team_shares_exec::<Exec>();
};

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.gate.quit(self.unparkers());
        for worker in &mut self.workers {
            if let Some(handle) = worker.handle.take() {
                // A worker catches panics of kernels; it has nothing else to report.
                let _ = handle.join();
            }
        }
    }
}
