//! The gate of a team (`src/sched/team/waiting.rs`) under the model checker loom, which runs it in all orders of its
//! threads up to a number of preemptions, and with every value that a load may see. `tools/sanitize model` runs this;
//! ordinary tests do not.
//!
//! Checked properties:
//!
//! * The threads read in a step what the caller wrote before it. The caller reads after a step what the threads wrote
//!   in it.
//! * No thread passes a barrier before all parts in front of it have run. Each part runs once, on its thread or on
//!   another one.
//! * No wake-up is lost: a thread that sleeps between steps takes part in the next one, and ends when the team quits.
//! * A step in which a thread finds a fault or panics ends on all threads. They agree on the least timestamp, none runs
//!   an instruction after the barrier that follows it, and the next step is whole.
//! * A team that quits before its threads have started ends.
//!
//! The data between the threads are cells that loom watches: an access that nothing orders is an error. A thread that
//! sleeps for ever is a deadlock, which loom reports.
//!
//! Two threads run in all orders with at most three preemptions. A switch where a thread waits does not count as a
//! preemption. The start and the end of three threads are run with one preemption at most; their steps would take too
//! long (`three_threads`). Without a limit, waits that yield have too many orders. `each_planted_bug_is_found` weakens
//! every ordering of the gate, one after another, and removes its fences, wake-ups and barriers.

pub mod sync;

use crate::sched::observer::Meeting;
use crate::sched::team::waiting::{GO, TeamGate};
use Step::{EarlyBarrier, Fault, NoBarrier, Panic, Whole};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use std::sync::atomic::Ordering;
use sync::{Bug, Parker, Site, Unparker, plant, sites};

/// What happens in a step that a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Each thread writes, waits, reads what the others wrote, waits, and writes what another wrote.
    Whole,
    /// As `Whole`, but this thread finds a fault in its first instruction.
    Fault(usize),
    /// As `Whole`, but this thread panics in its first instruction.
    Panic(usize),
    /// As `Whole`, but no thread waits: a bug.
    NoBarrier,
    /// As `Whole`, but a barrier opens when all threads but one are there: a bug.
    EarlyBarrier,
}

/// What the threads share besides the gate.
struct Shared {
    gate: TeamGate,
    threads: usize,
    /// The step under way, which the caller writes.
    step: UnsafeCell<Step>,
    /// One cell for each thread.
    cells: Vec<UnsafeCell<usize>>,
}

// SAFETY: loom runs one thread at a time, and reports accesses to the cells that the gate does not order.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}
// SAFETY: as for `Sync`.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}

fn read<T: Copy>(cell: &UnsafeCell<T>) -> T {
    // SAFETY: as for `Shared`.
    #[allow(unsafe_code)]
    cell.with(|p| unsafe { *p })
}

fn write<T>(cell: &UnsafeCell<T>, x: T) {
    // SAFETY: as for `Shared`.
    #[allow(unsafe_code)]
    cell.with_mut(|p| unsafe { *p = x });
}

impl Shared {
    /// Part `nth` of the tape of thread `of`, which is instruction `nth`. False if the step stopped.
    fn part(&self, of: usize, nth: usize) -> bool {
        match (nth, read(&self.step)) {
            (0, step) => {
                write(&self.cells[of], 1);
                match step {
                    Fault(at) if at == of => {
                        self.gate.stop(0);
                        return false;
                    }
                    Panic(at) if at == of => std::panic::resume_unwind(Box::new("a kernel")),
                    _ => {}
                }
            }
            (1, _) => assert!(self.cells.iter().all(|cell| read(cell) == 1), "part {of} is behind an open barrier"),
            _ => write(&self.cells[(of + 1) % self.threads], 2),
        }
        self.gate.arrive();
        true
    }

    /// Waits at the barrier behind the parts `nth`, and runs those of threads that are late. False if the step stopped.
    fn barrier(&self, t: usize, nth: usize) -> bool {
        let (size, time) = match read(&self.step) {
            NoBarrier => return true,
            // The barrier opens when one part fewer has run.
            EarlyBarrier => (self.threads - 1, nth + 1),
            _ => (self.threads, if nth == 2 { GO } else { nth + 1 }),
        };
        loop {
            match self.gate.meet([t, size], nth, time, size == self.threads) {
                Meeting::Open => return true,
                Meeting::Stopped => return false,
                Meeting::Late(of) => {
                    if !self.part(of, nth) {
                        return false;
                    }
                }
            }
        }
    }

    /// The walk of thread `t` along its tape: instructions 0, 1 and 2, with barriers between them. The caller's waits
    /// at the end, too.
    fn walk(&self, t: usize) {
        for nth in 0..3 {
            if self.gate.begin(t, nth) && !self.part(t, nth) {
                return;
            }
            if (nth < 2 || t == 0) && !self.barrier(t, nth) {
                return;
            }
        }
        if t == 0 {
            self.gate.excuse();
        }
    }

    fn catching(&self, t: usize) {
        self.gate.catch(|| 0, || self.walk(t));
    }

    /// The caller's part of a step, and what it must find afterwards.
    fn step(&self, step: Step, unparkers: &[Unparker]) {
        write(&self.step, step);
        self.cells.iter().for_each(|cell| write(cell, 0));
        self.gate.start(unparkers.iter());
        self.catching(0);
        self.gate.finish(unparkers.len());
        let cells: Vec<usize> = self.cells.iter().map(read).collect();
        match step {
            Fault(_) | Panic(_) => {
                assert_eq!(self.gate.stopped(), 0, "the threads do not agree on the fault");
                assert!(cells.iter().all(|x| *x == 1), "a thread ran behind the barrier: {cells:?}");
            }
            _ => assert!(cells.iter().all(|x| *x == 2), "a thread took no part: {cells:?}"),
        }
    }
}

/// A team of `threads` threads runs `steps` and quits. If `waits`, the caller waits for its threads to start.
fn team(threads: usize, waits: bool, steps: &[Step]) {
    let cells = (0..threads).map(|_| UnsafeCell::new(0)).collect();
    let shared = Shared { gate: TeamGate::new(threads, 0), threads, step: UnsafeCell::new(Whole), cells };
    let shared = Arc::new(shared);
    let (mut unparkers, mut handles) = (Vec::new(), Vec::new());
    for t in 1..threads {
        let parker = Parker::new();
        unparkers.push(parker.unparker().clone());
        let shared = Arc::clone(&shared);
        handles.push(loom::thread::spawn(move || shared.gate.work(t, &parker, || shared.catching(t))));
    }
    if waits {
        shared.gate.started(unparkers.len());
    }
    steps.iter().for_each(|step| shared.step(*step, &unparkers));
    shared.gate.quit(unparkers.iter());
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

/// Runs [`team`] in all orders with at most `preemptions` preemptions, or in all orders.
fn all_orders(preemptions: Option<usize>, threads: usize, waits: bool, steps: &'static [Step]) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_branches) = (preemptions, 100_000);
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = orders.clone();
    model.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        team(threads, waits, steps);
    });
    println!("{threads} threads, {steps:?}: {} orders", orders.load(Ordering::Relaxed));
}

#[test]
fn two_threads() {
    for steps in [&[][..], &[Whole], &[Whole, Whole], &[Fault(0), Whole], &[Fault(1), Whole], &[Panic(0)], &[Panic(1)]]
    {
        all_orders(Some(3), 2, true, steps);
    }
}

#[test]
fn a_team_that_quits_at_once_ends() {
    all_orders(None, 2, false, &[]);
    all_orders(Some(1), 3, false, &[]);
}

#[test]
#[ignore = "has not ended within minutes"]
fn three_threads() {
    for steps in [&[Whole][..], &[Fault(1)], &[Panic(2)]] {
        all_orders(Some(1), 3, true, steps);
    }
}

/// The model that must find the planted bugs.
fn small() {
    all_orders(Some(2), 2, true, &[Whole, Whole]);
}

/// Runs each site of the gate once, so that [`sites`] knows them.
fn visit_sites() {
    all_orders(Some(1), 2, true, &[Whole, Whole]);
}

/// The orderings below `ordering`.
fn weaker(ordering: Ordering) -> &'static [Ordering] {
    match ordering {
        Ordering::SeqCst => &[Ordering::AcqRel, Ordering::Relaxed],
        Ordering::AcqRel => &[Ordering::Acquire, Ordering::Release],
        Ordering::Acquire | Ordering::Release => &[Ordering::Relaxed],
        _ => &[],
    }
}

/// Runs the test `name` of this file in another process, with `bug` planted. True if it failed.
///
/// A process, because a model that failed may leave its threads behind.
fn fails_with(name: &str, bug: &str) -> bool {
    let exe = std::env::current_exe().unwrap();
    let name = format!("sched::tests::team_model::{name}");
    let out = std::process::Command::new(exe).args(["--exact", &name, "--ignored"]).env(PLANTED, bug).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("running 1 test"), "{text}");
    !out.status.success()
}

/// The environment variable that tells which bug is planted.
const PLANTED: &str = "TEAM_MODEL_BUG";

/// All bugs that can be planted in the gate's code.
fn bugs() -> Vec<Bug> {
    let weak = |site: Site| weaker(site.ordering).iter().map(move |to| Bug::Weaker(site, *to));
    sites().into_iter().flat_map(weak).chain([Bug::NoUnpark]).collect()
}

#[test]
#[ignore = "one run of each_planted_bug_is_found"]
fn small_with_a_bug() {
    match std::env::var(PLANTED).unwrap().as_str() {
        "no barrier" => all_orders(Some(2), 2, true, &[NoBarrier]),
        "early barrier" => all_orders(Some(2), 2, true, &[EarlyBarrier]),
        "none" => small(),
        n => {
            visit_sites();
            plant(Some(bugs()[n.parse::<usize>().unwrap()]));
            small();
        }
    }
}

#[test]
fn each_planted_bug_is_found() {
    assert!(!fails_with("small_with_a_bug", "none"));
    for bug in ["no barrier", "early barrier"] {
        assert!(fails_with("small_with_a_bug", bug), "{bug} is not found");
    }
    visit_sites();
    let bugs = bugs();
    assert!(bugs.len() > 5, "{bugs:?}");
    let missed: Vec<&Bug> =
        bugs.iter().enumerate().filter(|(n, _)| !fails_with("small_with_a_bug", &n.to_string())).map(|b| b.1).collect();
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
