//! Tapes of plans by hand: barriers, shares of units, and numbers of threads.

use super::*;
use crate::nodes::ir::call::Looks;
use crate::sched::faults::FaultCheck;
use crate::sched::instructions::{BufKind, Instr};
use crate::sched::modelled_time::InstrTime;
use crate::sched::planned_body::PlannedBody;
use crate::sched::tests::hand::{CALL, HandPlan, barrier, hand_body, hand_tapes, units};

/// The time of an instruction that runs on all threads, if one of a picosecond does.
const TEAM: InstrTime = InstrTime { total: 1, fixed: 0 };
const SOLO: InstrTime = InstrTime { total: 0, fixed: 0 };

fn time_of(team: bool) -> InstrTime {
    if team { TEAM } else { SOLO }
}

/// How an instruction uses bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    Write,
    Scratch,
}

/// Adds an instruction of two units that uses 64 bytes from byte `at` on, and 64 others that no other one uses.
fn add_use(p: &mut HandPlan, used: Use, team: bool, at: usize) {
    let far = 1000 * (1 + p.code.len());
    let mut all = [far, at].map(|at| p.bytes(at, 64, BufKind::Activation));
    let call = Instr { units: 2, time: time_of(team), ..CALL };
    match used {
        Use::Read => p.call(&Instr { reads: &all, ..call }),
        Use::Write => p.call(&Instr { writes: &all, ..call }),
        Use::Scratch => {
            // The bytes of each of two threads. Scratch may have no bytes.
            all.iter_mut().for_each(|o| o.split = Split::PerThread(32));
            let none = Operand { split: Split::PerThread(0), ..p.bytes(at + 1, 0, BufKind::Scratch) };
            p.call(&Instr { writes: &[all[0], all[1], none], ..call });
        }
    }
}

/// Instructions with a barrier in front of them, where those of a picosecond run on both of two threads.
fn barriers(mut p: HandPlan) -> Vec<u32> {
    // One instruction runs on all threads.
    p.call(&Instr { units: 2, time: TEAM, ..CALL });
    let tapes = share_tapes_above(&p.plan(2), 1);
    assert_eq!(tapes.threads(), 2);
    let all = |t: usize| tapes.thread(t).iter().filter(|e| e.barrier).map(|e| e.instr).collect::<Vec<_>>();
    assert_eq!(all(0), all(1));
    all(0)
}

#[test]
fn a_barrier_stands_where_another_thread_may_touch_the_same_bytes() {
    let uses = [Use::Read, Use::Write, Use::Scratch];
    for (first, second) in uses.into_iter().flat_map(|a| uses.map(|b| (a, b))) {
        for (team, other) in [(false, false), (false, true), (true, false), (true, true)] {
            // The first uses bytes 64..128. Only thread t touches the bytes of thread t in the same scratch.
            for (at, overlap, same) in [(0, false, false), (32, true, false), (64, true, true), (96, true, false)]
                .into_iter()
                .chain([(128, false, false)])
            {
                let wanted = overlap
                    && match (first, second) {
                        (Use::Read, Use::Read) => false,
                        (Use::Scratch, Use::Scratch) => !same,
                        (Use::Scratch, _) | (_, Use::Scratch) => true,
                        (Use::Write, _) | (_, Use::Write) => team || other,
                    };
                let mut p = HandPlan::new();
                add_use(&mut p, first, team, 64);
                add_use(&mut p, second, other, at);
                let found = barriers(p);
                let wanted: &[u32] = if wanted { &[1] } else { &[] };
                assert_eq!(found, wanted, "{first:?} by all: {team}, then {second:?} by all: {other}, at {at}");
            }
        }
    }
}

#[test]
fn behind_a_barrier_only_what_follows_it_counts() {
    let mut p = HandPlan::new();
    let [x, y] = [0, 64].map(|at| p.bytes(at, 64, BufKind::Activation));
    let team = Instr { units: 2, time: TEAM, ..CALL };
    p.call(&Instr { writes: &[x], ..team });
    p.call(&Instr { reads: &[x], writes: &[y], ..team });
    p.call(&Instr { reads: &[x], ..team });
    p.call(&Instr { reads: &[y], ..team });
    assert_eq!(barriers(p), [1, 3]);
}

/// An instruction that checks indices of its own, which `at` tells.
fn stopping(p: &mut HandPlan, at: usize, reads: &[Operand], team: bool) {
    let looks = Looks { read: 0, below: Some(9), or: None, early: false };
    let checks = [FaultCheck { buf: p.bytes(at, 4, BufKind::Input).buf, off: 0, bytes: 4, looks }];
    p.call(&Instr { units: 2, time: time_of(team), reads, checks: &checks, ..CALL });
}

#[test]
fn no_thread_writes_a_leaf_while_another_may_stop_the_step() {
    for (stops, team, other) in [false, true]
        .into_iter()
        .flat_map(|a| [(false, false), (false, true), (true, false), (true, true)].map(|(b, c)| (a, b, c)))
    {
        let mut p = HandPlan::new();
        match stops {
            true => stopping(&mut p, 1000, &[], team),
            false => p.call(&Instr { units: 2, time: time_of(team), ..CALL }),
        }
        let leaf = p.bytes(0, 64, BufKind::Param);
        p.call(&Instr { units: 2, time: time_of(other), writes: &[leaf], ..CALL });
        let wanted: &[u32] = if stops && (team || other) { &[1] } else { &[] };
        assert_eq!(barriers(p), wanted, "stops: {stops}, by all: {team}, then {other}");
    }
    // The one that may stop has a barrier in front.
    let mut p = HandPlan::new();
    let [x, leaf] = [(64, BufKind::Activation), (0, BufKind::State)].map(|(at, kind)| p.bytes(at, 64, kind));
    p.call(&Instr { units: 2, time: TEAM, writes: &[x], ..CALL });
    stopping(&mut p, 1000, &[x], true);
    p.call(&Instr { units: 2, time: TEAM, writes: &[leaf], ..CALL });
    assert_eq!(barriers(p), [1, 2]);
}

#[test]
fn units_are_divided_evenly_and_small_instructions_run_on_thread_0() {
    let mut p = HandPlan::new();
    for (units, time) in [(5, TEAM), (3, SOLO), (2, TEAM)] {
        p.call(&Instr { units, time, ..CALL });
    }
    let plan = p.plan(3);
    let threads = [
        vec![units(0, 0, 2), units(1, 0, 3), units(2, 0, 1)],
        vec![units(0, 2, 4), units(2, 1, 2)],
        vec![units(0, 4, 5)],
    ];
    assert_eq!(share_tapes_above(&plan, 1), hand_tapes(&threads, Vec::new()));
    // Nothing is worth two threads.
    let single = [vec![units(0, 0, 5), units(1, 0, 3), units(2, 0, 2)]];
    assert_eq!(share_tapes_above(&plan, 2), hand_tapes(&single, Vec::new()));
    let portions = |units, threads| {
        let all = (0..threads).map(|t| units_of_thread(units, threads, t));
        all.map(|r| (r.start, r.end)).collect::<Vec<_>>()
    };
    assert_eq!((portions(0, 2), portions(9, 1)), (vec![(0, 0), (0, 0)], vec![(0, 9)]));
    assert_eq!(portions(7, 3), [(0, 3), (3, 5), (5, 7)]);
}

/// A body of one instruction of `n` units.
fn body_of(n: usize, time: InstrTime) -> PlannedBody {
    let mut p = HandPlan::new();
    p.call(&Instr { units: n, time, ..CALL });
    hand_body(p.plan(2), 10)
}

#[test]
fn a_body_is_run_by_all_threads_or_by_one() {
    let by_two = |n: usize| hand_tapes(&[vec![units(0, 0, n / 2)], vec![units(0, n / 2, n)]], Vec::new());
    let by_one = hand_tapes(&[vec![units(0, 0, 2)]], Vec::new());
    // The branch that is not divided runs on all threads with the one that is.
    let beside = hand_tapes(&[vec![units(0, 0, 2)], vec![]], Vec::new());
    let cases = [
        (vec![(4, TEAM)], vec![by_two(4)], true),
        (vec![(2, SOLO)], vec![by_one.clone()], false),
        (vec![(2, SOLO), (4, TEAM)], vec![beside.clone(), by_two(4)], true),
        (vec![(4, TEAM), (2, SOLO)], vec![by_two(4), beside], true),
        (vec![(2, SOLO), (2, SOLO)], vec![by_one.clone(), by_one], false),
    ];
    for (bodies, inner, team) in cases {
        let mut p = HandPlan::new();
        let x = p.bytes(0, 64, BufKind::Activation);
        let all = Instr { units: 2, time: TEAM, ..CALL };
        p.call(&Instr { writes: &[x], ..all });
        p.call_bodies(bodies.iter().map(|&(n, time)| body_of(n, time)), &CALL);
        p.call(&Instr { reads: &[x], ..all });
        let thread = |t: usize| match (team, t) {
            // What ran before a body that all threads run is done, so the last instruction needs no barrier.
            (true, _) => vec![units(0, t, t + 1), barrier(1), units(1, 0, 1), units(2, t, t + 1)],
            (false, 0) => vec![units(0, 0, 1), units(1, 0, 1), barrier(2), units(2, 0, 1)],
            (false, _) => vec![units(0, 1, 2), barrier(2), units(2, 1, 2)],
        };
        let wanted = hand_tapes(&[thread(0), thread(1)], inner);
        assert_eq!(share_tapes_above(&p.plan(2), 1), wanted, "{bodies:?}");
    }
    // The choice may be the first instruction.
    let mut p = HandPlan::new();
    p.call_bodies([body_of(2, SOLO), body_of(4, TEAM)], &CALL);
    let tapes = share_tapes_above(&p.plan(2), 1);
    assert_eq!(tapes.inner.iter().map(Tapes::threads).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn a_plan_is_shared_if_any_of_its_instructions_is() {
    let any = |own: &[InstrTime], bodies: &[InstrTime]| {
        let mut p = HandPlan::new();
        own.iter().for_each(|&time| p.call(&Instr { units: 2, time, ..CALL }));
        bodies.iter().for_each(|&time| p.call_bodies([body_of(2, time)], &CALL));
        divides_any(&p.plan(2), Sharing::AtLeast(1), 2)
    };
    assert!(any(&[TEAM], &[]) && any(&[SOLO, TEAM], &[]) && any(&[TEAM, SOLO], &[SOLO]));
    assert!(any(&[], &[TEAM]) && any(&[SOLO], &[SOLO, TEAM]) && any(&[], &[TEAM, SOLO]));
    assert!(!any(&[], &[]) && !any(&[SOLO, SOLO], &[]) && !any(&[SOLO], &[SOLO]));
}

/// The number of threads that is chosen for an instruction of 7 units.
fn chosen(threads: usize, total: u64, fixed: u64) -> usize {
    let mut p = HandPlan::new();
    p.call(&Instr { units: 7, time: InstrTime { total, fixed }, ..CALL });
    share_tapes(&p.plan(threads)).threads()
}

#[test]
fn the_number_of_threads_is_that_of_the_shortest_step() {
    // 3 µs are worth three threads, of 1 µs each. Barriers at the ends: 0.9 µs for two threads, 1.02 for three, 1.14
    // for four. So the step has 3 µs on one thread, 4/7 · 3 + 0.9 = 2.61 on two, 3/7 · 3 + 1.02 = 2.31 on three and
    // 3/7 · 3 + 1.14 = 2.43 on four.
    assert_eq!([1, 2, 3, 4, 5, 100].map(|threads| chosen(threads, 3_000_000, 0)), [1, 2, 3, 3, 3, 3]);
    // Of 14 µs, each unit has 2: four threads need 4 + 1.14, six 4 + 1.38, seven 2 + 1.5, eight 2 + 1.62. Seven threads
    // are only tried for a plan for seven.
    assert_eq!([4, 7, 8].map(|threads| chosen(threads, 14_000_000, 0)), [4, 7, 8]);
    // 2.45 µs, of which each call needs 0.35: 0.35 + 4/7 · 2.1 + 0.9 = 2.45 on two threads. The fewest win ties.
    assert_eq!([2_450_000, 2_460_000].map(|total| chosen(2, total, total - 2_100_000)), [1, 1]);
    assert_eq!(chosen(2, 2_450_000, 340_000), 2);
}

#[test]
fn a_loop_runs_on_all_threads_if_its_iterations_are_shorter() {
    // An iteration takes 40 µs, of which each call needs `fixed`. Two threads share the rest, and meet for 0.45 µs.
    let threads = |fixed| {
        let mut p = HandPlan::new();
        p.call(&Instr { units: 2, time: InstrTime { total: 1_000_000_000, fixed: 0 }, ..CALL });
        p.call_bodies([body_of(2, InstrTime { total: 40_000_000, fixed })], &CALL);
        let tapes = share_tapes(&p.plan(2));
        (tapes.threads(), tapes.inner[0].threads())
    };
    assert_eq!([39_000_000, 39_100_000, 39_200_000].map(threads), [(2, 2), (2, 1), (2, 1)]);
}

/// Ranges that touch are one. Only bytes that are held overlap.
#[test]
fn unions_overlap_what_they_hold() {
    let mut u = ShareBytes::default();
    u.add(10..20);
    u.add(30..40);
    u.add(25..25);
    assert_eq!(u.0, BTreeMap::from([(10, 20), (30, 40)]));
    assert!(u.overlaps(&(19..25)) && !u.overlaps(&(20..30)) && !u.overlaps(&(15..15)) && !u.overlaps(&(0..10)));
    u.add(20..30);
    assert_eq!(u.0, BTreeMap::from([(10, 40)]));
    u.add(12..15);
    u.add(5..11);
    u.add(50..60);
    assert_eq!(u.0, BTreeMap::from([(5, 40), (50, 60)]));
    u.add(39..51);
    assert_eq!(u.0, BTreeMap::from([(5, 60)]));
}
