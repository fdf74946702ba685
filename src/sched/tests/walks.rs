//! The walk of a thread along its tape, on plans by hand: what it runs and waits for at which timestamps, and where it
//! ends.

use super::hand::{CALL, HandPlan, barrier, hand_body, hand_tapes, units};
use crate::arena::tensor::TensorArena;
use crate::kernels::abi::{ArenaPtr, Args};
use crate::kernels::fault::{Bad, Cause, INDEX, ITERATIONS, STILL_GOING};
use crate::sched::exec::{Exec, ThreadState};
use crate::sched::instructions::{BufKind, Instr};
use crate::sched::link::Segment;
use crate::sched::nonfinite::{NonfiniteFindings, WatchedCall};
use crate::sched::observer::StepObserver;
use crate::sched::planned_body::{Extern, FlagBound, LoopExit, Outer, PlannedBody};
use crate::sched::share::share_tapes_above;
use crate::sched::tape::{Entry, Tapes};
use crate::sched::track::Track;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// What a thread asks and tells in turn: `r` before an instruction and `w` before a barrier, with its timestamp, and
/// `d` behind an instruction, with its number.
struct Log {
    arena: ArenaPtr,
    /// How often it may go on.
    left: usize,
    told: Vec<String>,
}

impl Log {
    fn ask(&mut self, what: String) -> bool {
        self.told.push(what);
        let on = self.left > 0;
        self.left = self.left.saturating_sub(1);
        on
    }
}

impl StepObserver for Log {
    fn arena(&mut self) -> ArenaPtr {
        self.arena
    }

    fn goes_on(&mut self, time: usize) -> bool {
        self.ask(format!("r{time}"))
    }

    fn barrier(&mut self, time: usize) -> bool {
        self.ask(format!("w{time}"))
    }

    fn dead(&mut self, _: &[Range<usize>]) {}

    fn done(&mut self, segment: &Segment, i: usize) {
        self.told.push(format!("d{}", segment.first + i));
    }
}

/// The walk of thread 0 that may go on `left` times, with `start` in [`around`]'s read and its first byte in the write:
/// whether it ran all of its part, what it told, and the bad value that it found, with the timestamp.
#[allow(unsafe_code)]
fn walked(exec: &Exec, start: &[u8], left: usize) -> (bool, Vec<String>, Option<(usize, Bad)>) {
    let mut arena = TensorArena::new(exec.bytes()).unwrap();
    arena.bytes_mut()[..start.len()].copy_from_slice(start);
    arena.bytes_mut()[FLAG] = start[0];
    let (state, ptr) = (ThreadState::default(), ArenaPtr::new(arena.bytes_mut()));
    let mut log = Log { arena: ptr, left, told: Vec::new() };
    // SAFETY: the arena has the bytes of the program, and nothing else uses it: no other thread runs its part.
    let all = unsafe { exec.run(0, &state, &mut log) };
    let bad = state.fault.get().map(|bad| (state.at.load(Ordering::Relaxed), bad));
    (all, log.told, bad)
}

/// The byte of the write of [`around`].
const FLAG: usize = 64;

/// An instruction, one that runs `bodies`, and another one. Read 0 of the second has `bytes` bytes, write 0 has one.
/// Two threads run the bodies if `team`, all of whose instructions are for thread 0.
fn around(bodies: &[PlannedBody], bytes: usize, team: bool) -> Exec {
    let mut all = vec![vec![units(0, 0, 1), units(1, 0, 1), units(2, 0, 1)]];
    if team {
        all[0].insert(1, barrier(1));
        all.push(vec![barrier(1), units(1, 0, 1)]);
    }
    let inner = bodies.iter().map(|l| {
        let mut threads: Vec<Vec<Entry>> = vec![Vec::new(); all.len()];
        threads[0].extend((0..l.plan.code.len() as u32).map(|i| units(i, 0, 1)));
        hand_tapes(&threads, Vec::new())
    });
    let inner: Vec<Tapes> = inner.collect();
    let mut p = HandPlan::new();
    let (read, write) = (p.bytes(0, bytes, BufKind::Input), p.bytes(FLAG, 1, BufKind::Activation));
    p.call(&CALL);
    p.call_bodies(bodies.iter().cloned(), &Instr { reads: &[read], writes: &[write], ..CALL });
    p.call(&CALL);
    Exec::new(&p.plan(2), hand_tapes(&all, inner)).unwrap()
}

/// Checks that thread 0 of two walks as `wanted` says, that one thread alone does without the waits, and that both end
/// wherever they may not go on.
fn assert_walks(bodies: &[PlannedBody], start: &[u8], wanted: &str) {
    for team in [true, false] {
        let exec = around(bodies, start.len(), team);
        let wanted: Vec<&str> = wanted.split(' ').filter(|what| team || !what.starts_with('w')).collect();
        let (all, told, bad) = walked(&exec, start, usize::MAX);
        assert_eq!(told, wanted);
        assert_eq!((all, bad), (true, None), "{wanted:?}");
        let asked = (0..wanted.len()).filter(|&at| !wanted[at].starts_with('d'));
        for (left, end) in asked.enumerate() {
            let (all, told, bad) = walked(&exec, start, left);
            assert_eq!(told, &wanted[..=end]);
            assert_eq!((all, bad), (false, None), "{told:?}");
        }
    }
}

/// Checks that thread 0 of two walks as `wanted` says and finds `value`, at the timestamp of the loop, and that one
/// thread alone does.
fn assert_stops(loops: &[PlannedBody], start: &[u8], wanted: &str, value: (i64, usize), cause: &'static Cause) {
    for team in [true, false] {
        let exec = around(loops, start.len(), team);
        let wanted: Vec<&str> = wanted.split(' ').filter(|what| team || !what.starts_with('w')).collect();
        let (all, told, bad) = walked(&exec, start, usize::MAX);
        assert_eq!(told, wanted);
        assert_eq!((all, bad), (false, Some((1, Bad::new(0, Some(value), cause)))));
    }
}

fn count_down(args: &mut Args<'_>) {
    let flag = &mut args.write::<u8>(0)[0];
    *flag = flag.wrapping_sub(1);
}

/// Three iterations of two instructions. The first counts the write of the loop down.
fn body(exit: Option<LoopExit>) -> PlannedBody {
    let mut p = HandPlan::new();
    let flag = p.bytes(0, 1, BufKind::State);
    p.call(&Instr { kernel: count_down, writes: &[flag], ..CALL });
    p.call(&CALL);
    let externs = vec![Extern { buf: flag.buf, outer: Outer::Write(0), sliced: false, behind_start: false }];
    let l = PlannedBody { externs, base: 1, exit, ..hand_body(p.plan(2), 3) };
    PlannedBody { timestamps: 2 + l.barriers(), ..l }
}

/// Threads meet behind each iteration.
#[test]
fn a_loop_runs_all_its_iterations() {
    let wanted = "r0 d0 w1 r1 r2 d3 r3 d4 w4 r5 d3 r6 d4 w7 r8 d3 r9 d4 w10 d1 r11 d2";
    assert_walks(&[body(None)], &[0], wanted);
}

/// Threads meet before the first iteration and behind each one, and again when they have read the flag.
#[test]
fn a_loop_ends_by_its_flag_or_its_bound() {
    let walk = |iterations: &[usize]| {
        let turns = iterations.iter().map(|at| format!("r{at} d3 r{} d4 w{} w{} ", at + 1, at + 2, at + 3));
        format!("r0 d0 w1 r1 w1 {}d1 r14 d2", turns.collect::<String>())
    };
    for (flag, bound, iterations) in [
        (0, FlagBound::Ends, &[][..]),
        (2, FlagBound::Ends, &[2, 6]),
        (3, FlagBound::Ends, &[2, 6, 10]),
        (5, FlagBound::Ends, &[2, 6, 10]),
        (2, FlagBound::Stops(7), &[2, 6]),
        (3, FlagBound::Stops(7), &[2, 6, 10]),
        // Without a bound, iterations behind the last one have its timestamps.
        (5, FlagBound::None, &[2, 6, 10, 10, 10]),
    ] {
        assert_walks(&[body(Some(LoopExit::Flag(bound)))], &[flag], &walk(iterations));
    }
    let stops = [body(Some(LoopExit::Flag(FlagBound::Stops(7))))];
    let wanted = walk(&[2, 6, 10]).replace(" d1 r14 d2", "");
    assert_stops(&stops, &[4], &wanted, (7, 7), &STILL_GOING);
}

#[test]
fn a_loop_runs_as_many_iterations_as_it_is_told() {
    let counted = [body(Some(LoopExit::Count(0)))];
    for (count, wanted) in [
        (0i64, "r0 d0 w1 r1 w1 d1 r11 d2"),
        (2, "r0 d0 w1 r1 w1 r2 d3 r3 d4 w4 r5 d3 r6 d4 w7 d1 r11 d2"),
        (3, "r0 d0 w1 r1 w1 r2 d3 r3 d4 w4 r5 d3 r6 d4 w7 r8 d3 r9 d4 w10 d1 r11 d2"),
    ] {
        assert_walks(&counted, &count.to_ne_bytes(), wanted);
    }
    for count in [-1i64, 4] {
        assert_stops(&counted, &count.to_ne_bytes(), "r0 d0 w1 r1 w1", (count, 4), &ITERATIONS);
    }
}

/// `length` iterations of `n` instructions that do nothing.
fn idle(n: usize, length: usize) -> PlannedBody {
    let mut p = HandPlan::new();
    (0..n).for_each(|_| p.call(&CALL));
    hand_body(p.plan(2), length)
}

#[test]
fn a_choice_runs_one_branch_at_timestamps_of_its_own() {
    let branches = [(true, 1), (false, 2)].map(|(when, n)| PlannedBody { when: Some(when), ..idle(n, 1) });
    assert_walks(&branches, &[1], "r0 d0 w1 r1 r2 d3 w3 d1 r7 d2");
    assert_walks(&branches, &[0], "r0 d0 w1 r1 r4 d4 r5 d5 w6 d1 r7 d2");
}

#[test]
fn a_thread_ends_at_the_bad_value_that_it_finds() {
    let mut p = HandPlan::new();
    p.bytes(0, 128, BufKind::Input);
    p.call(&CALL);
    p.call(&Instr { kernel: |args| args.fault(5), ..CALL });
    p.call(&CALL);
    let plan = p.plan(1);
    let exec = Exec::new(&plan, share_tapes_above(&plan, u64::MAX)).unwrap();
    let (all, told, bad) = walked(&exec, &[0], usize::MAX);
    assert_eq!(told, ["r0", "d0", "r1"]);
    assert_eq!((all, bad), (false, Some((1, Bad::new(5, None, &INDEX)))));
}

#[test]
fn tapes_that_leave_units_out_are_refused() {
    let mut p = HandPlan::new();
    p.call(&Instr { units: 2, ..CALL });
    let e = Exec::new(&p.plan(1), hand_tapes(&[vec![units(0, 0, 1)]], Vec::new())).err().unwrap();
    assert_eq!(e.message, "the tapes are wrong: the units of instruction 0 are not run once each");
}

fn one_more(args: &mut Args<'_>) {
    args.write::<u8>(0)[0] += 1;
}

#[test]
fn a_barrier_of_one_thread_waits_for_no_other_in_any_kind_of_step() {
    let mut p = HandPlan::new();
    let counts = [p.bytes(0, 1, BufKind::Param)];
    (0..2).for_each(|_| p.call(&Instr { kernel: one_more, writes: &counts, ..CALL }));
    let tape = vec![units(0, 0, 1), barrier(1), units(1, 0, 1)];
    let exec = Exec::new(&p.plan(1), hand_tapes(&[tape], Vec::new())).unwrap();
    let (mut arena, state) = (TensorArena::new(exec.bytes()).unwrap(), ThreadState::default());
    exec.step(&mut arena, &state).unwrap();
    exec.step_poisoned(&mut arena, &state).unwrap();
    let calls = [(); 2].map(|()| WatchedCall::default());
    exec.step_watched(&mut arena, &state, &calls, &mut NonfiniteFindings::default()).unwrap();
    let mut track = Track::new(exec.track_events(0));
    exec.step_traced(&mut arena, &state, &mut track).unwrap();
    assert_eq!((arena.bytes()[0], track.events().len(), track.dropped()), (8, 3, 0));
}

fn sevens(args: &mut Args<'_>) {
    args.write_bytes(0).fill(7);
}

/// Params and outputs do not die.
#[test]
fn a_poisoned_step_fills_bytes_when_they_die() {
    let mut p = HandPlan::new();
    p.bytes(0, 64, BufKind::Param);
    let (t, y) = (p.bytes(64, 64, BufKind::Activation), p.bytes(128, 64, BufKind::Output));
    p.call(&Instr { kernel: sevens, writes: &[t], ..CALL });
    p.call(&Instr { kernel: sevens, reads: &[t], writes: &[y], ..CALL });
    p.code.outputs = vec![y];
    let plan = p.plan(1);
    let exec = Exec::new(&plan, share_tapes_above(&plan, u64::MAX)).unwrap();
    let mut arena = TensorArena::new(exec.bytes()).unwrap();
    exec.step_poisoned(&mut arena, &ThreadState::default()).unwrap();
    assert_eq!(arena.bytes(), [[0u8; 64], [0xff; 64], [7; 64]].concat());

    // A program, and the loop in it, may have no bytes.
    let mut p = HandPlan::new();
    p.call_bodies([idle(1, 3)], &CALL);
    let plan = p.plan(1);
    let exec = Exec::new(&plan, share_tapes_above(&plan, u64::MAX)).unwrap();
    exec.step_poisoned(&mut TensorArena::default(), &ThreadState::default()).unwrap();
}
