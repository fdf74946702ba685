//! How the threads of a team meet: the start of a step, its barriers, its end, sleep between steps, and the stop of a
//! step after a fault or a panic.
//!
//! What stands between two barriers of a thread's tape is a *part*. The thread whose [`TeamGate::begin`] succeeds runs
//! it: its own, or one that has waited at the barrier behind it for a while. So a thread that has no core
//! holds no other up, unless it lost the core within a part. When it runs again, it passes what others did, and goes
//! on. It takes no part in a step that ended before it looked.
//!
//! Invariants, which `src/sched/tests/team_model` checks under a model checker: writes of the caller before a step are
//! seen in the step; writes of a thread before a barrier are seen after the barrier; writes of a thread in a step are
//! seen after the step; each part runs once; no wake-up is lost; a step that stops ends on all threads; threads that
//! are told to quit end.
//!
//! A thread that finds a fault publishes the timestamp of its instruction. The gate keeps the least one. Every thread
//! runs its instructions up to that timestamp and none after it, so all threads agree on the instruction that stopped
//! the step, and none waits at a barrier that another will not reach.

use super::atomics::{AtomicBool, AtomicUsize, Parker, Unparker, YIELDS, fence, spin_loop, yield_now};
use crate::clock::Instant;
use crate::sched::observer::Meeting;
use crate::sched::panicked::panicked;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// [`TeamGate::stopped`] while no thread has found a fault.
pub(in crate::sched) const GO: usize = usize::MAX;
/// Most spins before a waiting thread yields: one to two hundred microseconds.
pub(in crate::sched) const SPINS: u32 = 4_000;
/// Fewest spins before a waiting thread yields, once yields have been long: about twenty microseconds, so that the
/// threads it waits for get a core.
const FEW: u32 = 512;
/// Most looks at a barrier before a thread begins the part of another: about five microseconds.
const PATIENCE: u32 = 128;
/// Looks for the next step between two looks at the clock: a microsecond or less.
const LOOKS: usize = 16;
/// A yield longer than this means that another thread ran on our core.
const LONG: Duration = Duration::from_micros(20);

/// What the threads of a team meet at.
pub(in crate::sched) struct TeamGate {
    /// Counts steps; a change starts one. Only the caller's thread writes it.
    epoch: CachePadded<AtomicUsize>,
    /// Parts that have run in this step.
    arrived: CachePadded<AtomicUsize>,
    /// The least timestamp of an instruction at fault in this step.
    stop: CachePadded<AtomicUsize>,
    /// Threads other than the caller's that have finished this step, or will take no part in it.
    done: CachePadded<AtomicUsize>,
    quit: AtomicBool,
    waits: Vec<CachePadded<TeamWaits>>,
    /// Most spins before a yield.
    spins: u32,
    /// Nanoseconds for which a thread looks for the next step before it sleeps; `u64::MAX` if nothing was chosen.
    awake: AtomicU64,
}

/// The waits of one thread, and what it has begun.
struct TeamWaits {
    /// Parts of its tape that were begun in this step, by any thread.
    begun: AtomicUsize,
    /// The last step that it takes part in, or that ended without it.
    joined: AtomicUsize,
    /// Looks at a barrier before it begins the part of another thread: none if that thread was late at the last one.
    patience: AtomicU32,
    asleep: AtomicBool,
    at_barrier: GateBackoff,
    between_steps: GateBackoff,
}

/// How often a thread spins before it yields.
///
/// A long yield means that another thread ran on this core, perhaps one that this thread waits for, so the thread spins
/// half as often from then on. Waits that end while spinning, and short yields, raise the number again. So two teams on
/// the same cores alternate, and a single team makes no system calls.
struct GateBackoff(AtomicU32);

impl GateBackoff {
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
            spin_loop();
        }
        let mut yields = 0u32;
        loop {
            yields = yields.saturating_add(1);
            let start = Instant::now();
            yield_now();
            let (long, spins) = (start.elapsed() > LONG, self.0.load(Ordering::Relaxed));
            let next = if long { (spins / 2).max(FEW) } else { spins.saturating_mul(2) };
            self.0.store(next.min(most), Ordering::Relaxed);
            if let Some(seen) = look(yields) {
                return seen;
            }
        }
    }
}

impl TeamWaits {
    /// True if this call decides on the step `epoch`: the thread joins it, or the caller ends it without the thread.
    fn join(&self, epoch: usize) -> bool {
        let last = epoch.wrapping_sub(1);
        self.joined.compare_exchange(last, epoch, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl TeamGate {
    /// A gate for `threads` threads, the caller's counted, which spin at most `spins` times before they yield.
    pub fn new(threads: usize, spins: u32) -> TeamGate {
        let padded = |n| CachePadded::new(AtomicUsize::new(n));
        let backoff = || GateBackoff(AtomicU32::new(spins));
        let waits = || TeamWaits {
            begun: AtomicUsize::new(0),
            joined: AtomicUsize::new(0),
            patience: AtomicU32::new(PATIENCE),
            asleep: AtomicBool::new(false),
            at_barrier: backoff(),
            between_steps: backoff(),
        };
        TeamGate {
            epoch: padded(0),
            arrived: padded(0),
            stop: padded(GO),
            done: padded(0),
            quit: AtomicBool::new(false),
            waits: (0..threads).map(|_| CachePadded::new(waits())).collect(),
            spins,
            awake: AtomicU64::new(u64::MAX),
        }
    }

    /// From now on, threads look for the next step for `time` without a yield, then sleep.
    pub fn stay_awake(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1);
        self.awake.store(nanos, Ordering::Relaxed);
    }

    /// The main loop of thread `t`, not the caller's: runs `part` in each step, until the team quits.
    pub fn work(&self, t: usize, parker: &Parker, mut part: impl FnMut()) {
        // Started: `started` waits for this as for the end of a step. There is nothing to publish yet.
        self.done.fetch_add(1, Ordering::Relaxed);
        let mut seen = 0;
        loop {
            seen = match self.awake.load(Ordering::Relaxed) {
                u64::MAX => self.waits[t].between_steps.wait(self.spins, |yields| {
                    if yields > YIELDS {
                        self.sleep(t, seen, parker);
                    }
                    Some(self.epoch.load(Ordering::Acquire)).filter(|now| *now != seen)
                }),
                _ => self.watch(t, seen, parker),
            };
            if self.quit.load(Ordering::Relaxed) {
                return;
            }
            if self.waits[t].join(seen) {
                part();
                self.done.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Looks for the step behind step `seen`, as long as [`TeamGate::stay_awake`] says, then sleeps until it starts.
    fn watch(&self, t: usize, seen: usize, parker: &Parker) -> usize {
        let mut start = None;
        loop {
            for _ in 0..LOOKS {
                let now = self.epoch.load(Ordering::Acquire);
                if now != seen {
                    return now;
                }
                spin_loop();
            }
            let waited = start.get_or_insert_with(Instant::now).elapsed();
            if waited.as_nanos() >= self.awake.load(Ordering::Relaxed).into() {
                self.sleep(t, seen, parker);
            }
        }
    }

    /// Parks until a step starts. This thread sets `asleep` and then reads `epoch`; the caller sets `epoch` and then
    /// reads `asleep`. A sequentially consistent fence stands between the two in both threads, so at least one of them
    /// sees the other's write.
    #[cold]
    fn sleep(&self, t: usize, seen: usize, parker: &Parker) {
        let asleep = &self.waits[t].asleep;
        asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.epoch.load(Ordering::Relaxed) == seen {
            parker.park();
        }
        asleep.store(false, Ordering::Relaxed);
    }

    /// Starts a step on the other threads, whose `unparkers` are in order. What this thread wrote before is theirs to
    /// read.
    pub fn start<'a>(&self, unparkers: impl Iterator<Item = &'a Unparker>) {
        self.arrived.store(0, Ordering::Relaxed);
        self.stop.store(GO, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.waits.iter().for_each(|waits| waits.begun.store(0, Ordering::Relaxed));
        self.wake(unparkers);
    }

    /// Ends the main loops of the other threads.
    pub fn quit<'a>(&self, unparkers: impl Iterator<Item = &'a Unparker>) {
        self.quit.store(true, Ordering::Relaxed);
        self.wake(unparkers);
    }

    fn wake<'a>(&self, unparkers: impl Iterator<Item = &'a Unparker>) {
        let next = self.epoch.load(Ordering::Relaxed).wrapping_add(1);
        self.epoch.store(next, Ordering::Release);
        fence(Ordering::SeqCst);
        for (waits, unparker) in self.waits.iter().skip(1).zip(unparkers) {
            if waits.asleep.load(Ordering::Relaxed) {
                unparker.unpark();
            }
        }
    }

    /// Waits until `others` threads have started their main loops.
    pub fn started(&self, others: usize) {
        // A backoff of its own: a slow start says nothing about waits in steps.
        self.all_done(others, &GateBackoff(AtomicU32::new(self.spins)));
    }

    /// Waits until the `others` have finished the step. What they wrote in it is the caller's to read.
    pub fn finish(&self, others: usize) {
        self.all_done(others, &self.waits[0].at_barrier);
    }

    /// As [`TeamGate::finish`] when the guard is dropped: a step ends on all threads even if the caller's unwinds.
    pub fn finish_at_end(&self, others: usize) -> FinishAtEnd<'_> {
        FinishAtEnd { gate: self, others }
    }

    fn all_done(&self, others: usize, backoff: &GateBackoff) {
        backoff.wait(self.spins, |_| (self.done.load(Ordering::Acquire) >= others).then_some(()));
    }

    /// True if part `nth` of thread `of` is the calling thread's to run: no thread has begun it.
    #[inline]
    pub fn begin(&self, of: usize, nth: usize) -> bool {
        let begun = &self.waits[of].begun;
        // Only who counts a part reads and writes what is in it, and only behind a barrier, which orders the accesses.
        begun.load(Ordering::Relaxed) == nth
            && begun.compare_exchange(nth, nth + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// A part of this step has run.
    #[inline]
    pub fn arrive(&self) {
        // Each arrival continues the release of those before it, so a load that sees the last one acquires all.
        self.arrived.fetch_add(1, Ordering::Release);
    }

    /// Thread `t` of `threads` waits at the barrier before `time`, behind part `nth` of all tapes. If `helps`, it
    /// begins the part of a thread that does not for a while.
    pub fn meet(&self, [t, threads]: [usize; 2], nth: usize, time: usize, helps: bool) -> Meeting {
        let TeamWaits { at_barrier, patience, .. } = &*self.waits[t];
        let (all, most, mut looks) = ((nth + 1) * threads, patience.load(Ordering::Relaxed), 0);
        let met = at_barrier.wait(self.spins, |yields| {
            if self.arrived.load(Ordering::Acquire) >= all {
                return Some(Meeting::Open);
            }
            if !self.goes_on(time) {
                return Some(Meeting::Stopped);
            }
            looks += 1;
            let waited = helps && (looks > most || yields > 0);
            (0..if waited { threads } else { 0 }).find(|&of| self.begin(of, nth)).map(Meeting::Late)
        });
        match met {
            // A thread without a core will not begin its next part either.
            Meeting::Late(_) => patience.store(0, Ordering::Relaxed),
            _ if most < PATIENCE => patience.store((2 * most + 8).min(PATIENCE), Ordering::Relaxed),
            _ => {}
        }
        met
    }

    /// Counts the threads that have not joined this step as done. All its parts have run.
    pub fn excuse(&self) {
        let now = self.epoch.load(Ordering::Relaxed);
        let late = self.waits.iter().skip(1).filter(|waits| waits.join(now)).count();
        if late > 0 {
            self.done.fetch_add(late, Ordering::Relaxed);
        }
    }

    /// True if the instruction at `time` may run; false if the step has stopped before it.
    #[inline(always)]
    pub fn goes_on(&self, time: usize) -> bool {
        self.stopped() >= time
    }

    /// The least timestamp at which a thread stopped the step; [`GO`] if none did.
    #[inline(always)]
    pub fn stopped(&self) -> usize {
        self.stop.load(Ordering::Relaxed)
    }

    /// Stops the step behind the instruction at `time`.
    pub fn stop(&self, time: usize) {
        self.stop.fetch_min(time, Ordering::Relaxed);
    }

    /// Runs a thread's `part` of a step. If it panics, the step stops at the instruction that `at` tells. True if it
    /// panicked.
    pub fn catch(&self, at: impl FnOnce() -> usize, part: impl FnOnce()) -> bool {
        let ended = panicked(part);
        if ended {
            self.stop(at());
        }
        ended
    }
}

/// What [`TeamGate::finish_at_end`] gives.
pub(in crate::sched) struct FinishAtEnd<'a> {
    gate: &'a TeamGate,
    others: usize,
}

impl Drop for FinishAtEnd<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The others must not wait at a barrier that this thread will not reach.
            self.gate.stop(0);
        }
        self.gate.finish(self.others);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_step_stops_behind_the_first_instruction_at_fault() {
        let gate = TeamGate::new(2, 4);
        assert!(gate.stopped() == GO && gate.goes_on(GO));
        [9, 7, 8].into_iter().for_each(|time| gate.stop(time));
        assert_eq!((gate.stopped(), [6, 7, 8].map(|time| gate.goes_on(time))), (7, [true, true, false]));
        let barrier = |t, nth, time| {
            gate.arrive();
            gate.meet([t, 1], nth, time, false)
        };
        // The first barrier needs one arrival. The second waits for another thread, which has stopped before it.
        assert_eq!(barrier(0, 0, 3), Meeting::Open);
        assert_eq!(barrier(1, 2, 8), Meeting::Stopped);
        // A barrier behind it that all have reached is passed.
        assert_eq!(barrier(0, 2, 9), Meeting::Open);
        gate.start(std::iter::empty());
        assert!(gate.stopped() == GO && barrier(0, 0, 3) == Meeting::Open);
        // The caller alone is a team.
        gate.started(0);
        gate.finish(0);
    }

    /// The part of a thread that never comes is begun once, and the step ends without the thread.
    #[test]
    fn a_thread_runs_the_parts_of_one_that_is_late() {
        let gate = TeamGate::new(2, 4);
        for _ in 0..2 {
            gate.start(std::iter::empty());
            for nth in 0..3 {
                assert!(gate.begin(0, nth) && !gate.begin(0, nth) && !gate.begin(1, nth + 1));
                gate.arrive();
                assert_eq!(gate.meet([0, 2], nth, 1, true), Meeting::Late(1));
                assert!(!gate.begin(1, nth));
                gate.arrive();
                assert_eq!(gate.meet([0, 2], nth, 1, true), Meeting::Open);
            }
            gate.excuse();
            gate.finish(1);
        }
        // A thread that joined in time is waited for.
        gate.start(std::iter::empty());
        assert!(gate.waits[1].join(3) && !gate.waits[1].join(3));
        gate.excuse();
        assert_eq!(gate.done.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_stops_the_step_at_its_instruction() {
        let gate = TeamGate::new(1, 4);
        assert!(!gate.catch(|| 5, || ()));
        assert_eq!(gate.stopped(), GO);
        assert!(gate.catch(|| 5, || std::panic::resume_unwind(Box::new("stop"))));
        assert_eq!(gate.stopped(), 5);
    }

    /// The caller's thread unwinds from a step. The other one ends the step before the arena is the caller's again.
    #[test]
    fn a_step_ends_on_all_threads_if_the_callers_unwinds() {
        let (gate, ended) = (TeamGate::new(2, 4), AtomicUsize::new(0));
        std::thread::scope(|s| {
            s.spawn(|| {
                while gate.epoch.load(Ordering::Acquire) == 0 {
                    yield_now();
                }
                // The caller does not arrive.
                gate.arrive();
                assert_eq!(gate.meet([1, 2], 0, 1, false), Meeting::Stopped);
                std::thread::sleep(Duration::from_millis(5));
                ended.store(1, Ordering::Relaxed);
                gate.done.fetch_add(1, Ordering::Release);
            });
            gate.start(std::iter::empty());
            assert!(panicked(|| {
                let _end = gate.finish_at_end(1);
                std::panic::resume_unwind(Box::new("the caller's thread"));
            }));
            assert_eq!(ended.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn a_wait_spins_then_yields_and_tells_how_often() {
        let mut seen = Vec::new();
        let backoff = GateBackoff(AtomicU32::new(3));
        let found = backoff.wait(100, |yields| {
            seen.push(yields);
            (yields == 2).then_some("found")
        });
        assert_eq!((found, seen), ("found", vec![0, 0, 0, 0, 1, 2]));
        assert!(backoff.0.into_inner() <= 100);
        // A wait that ends while it spins may spin an eighth longer, up to the limit.
        let after = |spins, most| {
            let backoff = GateBackoff(AtomicU32::new(spins));
            backoff.wait(most, |_| Some(()));
            backoff.0.into_inner()
        };
        assert_eq!(
            [(0, 100), (16, 100), (95, 100), (99, 100), (100, 100)].map(|(n, most)| after(n, most)),
            [1, 19, 100, 100, 100]
        );
    }
}
