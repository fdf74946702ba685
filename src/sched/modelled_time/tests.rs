//! Times of plans by hand and of graphs, and the numbers of threads that follow.

use super::*;
use crate::nodes::{Builder, DType, GraphBuf};
use crate::sched::instructions::{BufKind, Instr, Operand, Update};
use crate::sched::planned_body::{FlagBound, LoopExit, PlannedBody};
use crate::sched::schedule;
use crate::sched::share::share_tapes;
use crate::sched::tape::Entry;
use crate::sched::tests::hand::{CALL, HandPlan, barrier, hand_body, hand_tapes, units};

const THREADS: [usize; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128];

/// Two layers and the gradient-like product back, of width `n`.
fn layers(n: usize) -> GraphBuf {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [n, n], DType::F32), g.input("w", [n, n], DType::F32));
    let y = x.matmul(w).tanh();
    g.finish([(y.matmul(w) + x).named("y")]).unwrap()
}

/// The number of threads that is chosen, and picoseconds of a step.
fn chosen(graph: &GraphBuf, threads: usize) -> (usize, u64) {
    let s = schedule(graph.view(), threads).unwrap();
    let tapes = share_tapes(&s.plan);
    (tapes.threads(), modelled_step(&s.plan, &tapes))
}

#[test]
fn small_programs_get_one_thread_and_large_ones_all() {
    assert!([2, 4, 64].map(|threads| chosen(&layers(8), threads).0) == [1; 3]);
    assert!([2, 3, 8].map(|threads| chosen(&layers(512), threads).0) == [2, 3, 8]);
    // In between, a few threads are best.
    let (few, most) = (chosen(&layers(96), 64), chosen(&layers(1024), 64));
    assert!(few.0 < most.0, "{few:?} {most:?}");
}

#[test]
fn more_threads_are_never_slower_and_more_work_never_faster() {
    let sizes = [4, 16, 48, 96, 200, 400];
    let times = sizes.map(|n| THREADS.map(|threads| chosen(&layers(n), threads).1));
    for t in &times {
        assert!(t.windows(2).all(|w| w[1] <= w[0]), "{t:?}");
    }
    for k in 0..THREADS.len() {
        assert!(times.windows(2).all(|w| w[0][k] < w[1][k]), "{k}");
    }
    let (one, two) = (times[5][0], times[5][1]);
    assert!(2 * two > one && 3 * two < 2 * one, "two threads of large products: {two} of {one}");
}

#[test]
fn bytes_are_fetched_from_where_they_were_written() {
    let s = schedule(layers(64).view(), 2).unwrap();
    let code = &s.plan.code;
    let product = (0..code.len()).find(|&i| code.whole[i] != 0).unwrap();
    let homes = |width, spread, across| vec![Home { width, spread, across }; code.bytes.len()];
    let at = |width, spread| homes(width, spread, false);
    let bytes = |mut home: Vec<Home>, w| modelled_fetch(code, product, w, &mut home);
    let (x, none) = (64 * 64 * 4, [0; 2]);
    // A is read by rows, B by all threads.
    assert_eq!(bytes(at(2, false), 2), [x / 2; 2]);
    assert_eq!(bytes(at(1, false), 2), [0, x / 2 + x]);
    assert_eq!((bytes(at(0, false), 2), bytes(at(2, true), 2), bytes(at(1, false), 1)), (none, none, none));
    assert_eq!(bytes(at(2, false), 1), [x, 0]);
    // Columns are in the caches of their writers and rows are read: half of each is elsewhere, and counts as all.
    assert_eq!(bytes(homes(2, false, true), 2), [x / 2 + x / 2; 2]);
    // What is written in place is invalidated in the caches of those who have read it.
    let in_place = (0..code.len()).find(|&i| code.whole[i] == 0 && !code.pairs_of(i).is_empty()).unwrap();
    let bytes = |spread| modelled_fetch(code, in_place, 2, &mut homes(2, spread, false));
    assert_eq!((bytes(false), bytes(true)), (none, [x / 2; 2]));
}

#[test]
fn barriers_take_longer_among_more_threads() {
    assert_eq!([0, 1, 2, 3, 5].map(modelled_barrier), [0, 0, 450_000, 510_000, 630_000]);
}

fn time(total: u64, fixed: u64) -> InstrTime {
    InstrTime { total, fixed }
}

#[test]
fn a_step_is_the_slowest_thread_between_barriers() {
    let mut p = HandPlan::new();
    p.call(&Instr { units: 9, time: time(10_000, 1_000), ..CALL });
    p.call(&Instr { units: 5, time: time(5_000, 0), ..CALL });
    p.call(&Instr { time: time(700, 100), ..CALL });
    let plan = p.plan(2);
    // Each call has the fixed part: 6000 + 1000 and 5000 + 4000.
    let threads = [
        vec![units(0, 0, 5), units(1, 0, 1), barrier(2), units(2, 0, 1)],
        vec![units(0, 5, 9), units(1, 1, 5), barrier(2)],
    ];
    let two = hand_tapes(&threads, Vec::new());
    assert_eq!(modelled_run(&plan, &two), 9_000 + 450_000 + 700);
    assert_eq!(modelled_step(&plan, &two), 9_000 + 450_000 + 700 + 2 * 450_000);
    let one = hand_tapes(&[vec![units(0, 0, 9), units(1, 0, 5), units(2, 0, 1)]], Vec::new());
    assert_eq!([modelled_run(&plan, &one), modelled_step(&plan, &one)], [15_700; 2]);
    let none = hand_tapes(&[vec![], vec![]], Vec::new());
    assert_eq!([modelled_run(&plan, &none), modelled_step(&plan, &none)], [0, 900_000]);
}

/// A body that one thread runs in `total` picoseconds.
fn body_of(total: u64, length: usize) -> PlannedBody {
    let mut p = HandPlan::new();
    p.call(&Instr { units: 2, time: time(total, 0), ..CALL });
    hand_body(p.plan(2), length)
}

#[test]
fn a_loop_takes_all_its_iterations_and_a_choice_its_longer_branch() {
    let (by_one, by_two) = (vec![vec![units(0, 0, 2)]], vec![vec![units(0, 0, 1)], vec![units(0, 1, 2)]]);
    let run = |bodies: Vec<PlannedBody>, inner: &[Vec<Entry>]| {
        let mut p = HandPlan::new();
        let inner = vec![hand_tapes(inner, Vec::new()); bodies.len()];
        // The time of the instruction itself is that of its bodies.
        p.call_bodies(bodies, &Instr { time: time(1, 0), ..CALL });
        let outer = vec![vec![units(0, 0, 1)]; inner[0].threads()];
        modelled_run(&p.plan(2), &hand_tapes(&outer, inner))
    };
    assert_eq!(run(vec![body_of(60, 7)], &by_one), 7 * 60);
    assert_eq!(run(vec![body_of(60, 7)], &by_two), 7 * (30 + 450_000));
    assert_eq!(run(vec![body_of(60, 1), body_of(80, 1)], &by_one), 80);
    assert_eq!(run(vec![body_of(90, 1), body_of(80, 1)], &by_one), 90);
    let exit = Some(LoopExit::Flag(FlagBound::None));
    let unbounded = PlannedBody { exit, ..body_of(60, 1 << 16) };
    let guess = unbounded.expected() as u64;
    assert!(guess < 1 << 16);
    assert_eq!(run(vec![unbounded], &by_one), guess * 60);
}

/// Bytes of the operand that the tests of fetches look at.
const BYTES: u64 = 600;

/// Picoseconds that two threads wait for bytes if `writers` threads write an operand, and then `readers` threads read
/// it, by their units or whole. The instructions take no time of their own.
fn fetched(writers: usize, readers: usize, whole: u64, split: Split) -> u64 {
    let mut p = HandPlan::new();
    let x = p.bytes(0, BYTES as usize, BufKind::Activation);
    let call = Instr { units: 2, time: time(1, 0), ..CALL };
    p.call(&Instr { writes: &[Operand { split, ..x }], ..call });
    p.call(&Instr { reads: &[x], whole, ..call });
    let part = |i: u32, n: usize, t: usize| match (n, t) {
        (2, t) => Some(units(i, t, t + 1)),
        // A call of no unit: its thread waits for bytes and computes nothing.
        (_, 0) => Some(units(i, 0, 0)),
        _ => None,
    };
    let thread = |t| [part(0, writers, t), part(1, readers, t)].into_iter().flatten().collect::<Vec<_>>();
    modelled_run(&p.plan(2), &hand_tapes(&[thread(0), thread(1)], Vec::new()))
}

#[test]
fn threads_wait_for_what_others_wrote() {
    let fetched = |writers, readers, whole| fetched(writers, readers, whole, Split::PerUnit(1));
    // By units: none of its own part, else the part of a reader, or that of the other writer.
    assert_eq!([fetched(2, 2, 0), fetched(1, 1, 0)], [0, 0]);
    assert_eq!([fetched(1, 2, 0), fetched(2, 1, 0)], [BYTES / 2 * FETCH; 2]);
    // Whole: all of what thread 0 wrote, or the part of the other writer. One thread reads as ever.
    assert_eq!([fetched(1, 2, 1), fetched(2, 2, 1)], [BYTES * FETCH, BYTES / 2 * FETCH]);
    assert_eq!([fetched(1, 1, 1), fetched(2, 1, 1)], [0, BYTES / 2 * FETCH]);
    // Another read is whole.
    assert_eq!(fetched(2, 2, 2), 0);
}

#[test]
fn columns_are_no_parts_of_rows() {
    let columns = Split::Columns { row: 6, width: 3 };
    assert_eq!(fetched(2, 2, 0, columns), BYTES / 2 * FETCH);
    assert_eq!(fetched(1, 1, 0, columns), 0);
    // What each thread has for itself is read by no other thread.
    assert_eq!(fetched(2, 1, 0, Split::PerThread(300)), 0);
}

/// Thread 0 reads a leaf, whose next value two threads write.
#[test]
fn leaves_are_where_the_step_before_left_them() {
    for kept in [false, true] {
        let mut p = HandPlan::new();
        let (w, next) = (p.bytes(0, 600, BufKind::Param), p.bytes(640, 600, BufKind::Activation));
        let call = Instr { units: 2, time: time(1, 0), ..CALL };
        p.call(&Instr { reads: &[w], ..call });
        p.call(&Instr { writes: &[Operand { split: Split::PerUnit(300), ..next }], ..call });
        if kept {
            p.code.updates.push(Update { leaf: w.buf, from: next });
        }
        let tapes = hand_tapes(&[vec![units(0, 0, 0), units(1, 0, 1)], vec![units(1, 1, 2)]], Vec::new());
        let wanted = if kept { BYTES / 2 * FETCH } else { 0 };
        assert_eq!(modelled_run(&p.plan(2), &tapes), wanted);
    }
}

/// Copies in other caches are made once, and a write in place takes them away.
#[test]
fn copies_stay_until_their_bytes_are_written() {
    let mut p = HandPlan::new();
    let x = Operand { split: Split::PerUnit(300), ..p.bytes(0, 600, BufKind::Activation) };
    let call = Instr { units: 2, time: time(1, 0), ..CALL };
    p.call(&Instr { writes: &[x], ..call });
    for _ in 0..3 {
        p.call(&Instr { reads: &[x], whole: 1, ..call });
    }
    let y = Operand { split: Split::PerUnit(300), ..p.bytes(0, 600, BufKind::Activation) };
    p.call(&Instr { reads: &[x], writes: &[y], pairs: &[(9, 0), (0, 0)], ..call });
    p.call(&Instr { reads: &[y], ..call });
    let all = |t: usize| (0..6).map(|i| units(i, t, t + 1)).collect::<Vec<_>>();
    let run = modelled_run(&p.plan(2), &hand_tapes(&[all(0), all(1)], Vec::new()));
    // Half of x is fetched once; x is taken from the other thread once.
    assert_eq!(run, 2 * (BYTES / 2) * FETCH);
}

/// An instruction whose time does not follow from its bytes does not read them. Only the first 64 reads may be whole.
#[test]
fn some_reads_cost_nothing() {
    let fetched = |time: InstrTime, reads: usize| {
        let mut p = HandPlan::new();
        let x = Operand { split: Split::PerUnit(300), ..p.bytes(0, 600, BufKind::Activation) };
        let none = p.bytes(640, 0, BufKind::Activation);
        let mut all = vec![none; reads];
        all.push(x);
        p.call(&Instr { writes: &[x], units: 2, ..CALL });
        p.call(&Instr { reads: &all, whole: u64::MAX, units: 2, time, ..CALL });
        let thread = |t: usize| vec![units(0, t, t + 1), units(1, t, t + 1)];
        modelled_run(&p.plan(2), &hand_tapes(&[thread(0), thread(1)], Vec::new()))
    };
    assert_eq!(fetched(time(1, 0), 0), BYTES / 2 * FETCH);
    assert_eq!(fetched(time(5, 5), 0), 5);
    assert_eq!([63, 64, 65].map(|n| fetched(time(1, 0), n)), [BYTES / 2 * FETCH, 0, 0]);
}
