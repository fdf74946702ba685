//! Teams: the end of steps, faults and panics, barriers, threads that are late.

#![cfg(not(loom))]

use super::*;
use crate::kernels::abi::{Args, Kernel, Split};
use crate::nodes::{Builder, DType, GraphBuf, Loop};
use crate::sched::instructions::{BufKind, Instr, Operand};
use crate::sched::modelled_time::InstrTime;
use crate::sched::schedule;
use crate::sched::share::share_tapes_above;
use crate::sched::tests::bomb::Bomb;
use crate::sched::tests::hand::{CALL, HandPlan};
use std::time::Duration;

/// A call of `kernel` that has a unit and a byte for each of `threads` threads.
fn one_call(kernel: Kernel, threads: usize) -> (Exec, TensorArena) {
    let mut p = HandPlan::new();
    let y = Operand { split: Split::PerUnit(1), ..p.bytes(0, threads, BufKind::Output) };
    p.call(&Instr {
        kernel,
        writes: &[y],
        units: threads,
        time: InstrTime { total: 1, ..InstrTime::default() },
        ..CALL
    });
    let plan = p.plan(threads);
    let exec = Exec::new(&plan, share_tapes_above(&plan, 1)).unwrap();
    assert_eq!(exec.threads(), threads);
    (exec, TensorArena::new(threads).unwrap())
}

fn mark(args: &mut Args<'_>) {
    args.write::<u8>(0).fill(1);
}

/// As [`mark`], later on each further thread.
fn mark_late(args: &mut Args<'_>) {
    std::thread::sleep(Duration::from_millis(2 * args.units().start as u64));
    mark(args);
}

fn fail_twice(args: &mut Args<'_>) {
    args.fault(0);
    panic!("after a fault");
}

/// The first step of a team, too.
#[test]
fn a_step_ends_when_the_last_thread_has_run_its_part() {
    let (exec, mut arena) = one_call(mark_late, 4);
    let mut team = Team::new(4).unwrap();
    for _ in 0..2 {
        arena.bytes_mut().fill(0);
        team.step(&exec, &mut arena).unwrap();
        assert_eq!(arena.bytes()[..4], [1u8; 4]);
    }
}

#[test]
fn a_team_runs_programs_for_fewer_threads() {
    assert_eq!([0, 1, 3].map(|threads| Team::new(threads).unwrap().threads()), [1, 1, 3]);
    for (threads, used) in [(1, 1), (2, 1), (3, 1), (3, 2), (3, 3)] {
        let (exec, mut arena) = one_call(mark, used);
        let mut team = Team::new(threads).unwrap();
        for _ in 0..3 {
            arena.bytes_mut().fill(0);
            team.step(&exec, &mut arena).unwrap();
            assert_eq!(arena.bytes()[..used], [1u8; 3][..used], "{used} of {threads} threads");
        }
        let mut tracks: Vec<Track> = (0..used).map(|t| Track::new(exec.track_events(t))).collect();
        team.step_traced(&exec, &mut arena, &mut tracks).unwrap();
        let told: Vec<(usize, u64)> = tracks.iter().map(|t| (t.events().len(), t.dropped())).collect();
        assert_eq!(told, vec![(1, 0); used], "{used} of {threads} threads");
    }
}

/// The thread that has unit `WHO` panics, with a payload whose drop panics. The others write their bytes later.
fn explode<const WHO: usize>(args: &mut Args<'_>) {
    if args.units().contains(&WHO) {
        std::panic::resume_unwind(Box::new(Bomb { left: 2 }));
    }
    mark_late(args);
}

/// The step ends, behind the parts of all threads, and the next one is whole.
#[test]
fn a_panic_whose_payload_panics_ends_the_step_like_any_other() {
    for (threads, who, kernel) in [
        (1, 0, explode::<0> as Kernel),
        (2, 0, explode::<0>),
        (2, 1, explode::<1>),
        (3, 0, explode::<0>),
        (3, 1, explode::<1>),
        (3, 2, explode::<2>),
    ] {
        let (exec, mut arena) = one_call(kernel, threads);
        let mut team = Team::new(threads).unwrap();
        let mut tracks = vec![Track::new(1); threads];
        let stop = Stop { instr: 0, bad: None, iteration: None, changed: false };
        for traced in [false, true] {
            arena.bytes_mut().fill(0);
            let done = match traced {
                false => team.step(&exec, &mut arena),
                true => team.step_traced(&exec, &mut arena, &mut tracks),
            };
            assert_eq!(done, Err(stop), "thread {who} of {threads}");
            let written: Vec<u8> = (0..threads).map(|t| u8::from(t != who)).collect();
            assert_eq!(arena.bytes()[..threads], written, "thread {who} of {threads}");
        }
        let (exec, mut arena) = one_call(mark, threads);
        team.step(&exec, &mut arena).unwrap();
        assert_eq!(arena.bytes()[..threads], [1u8; 3][..threads]);
    }
}

/// The panic is told, not the bad value before it. The next step is whole.
#[test]
fn a_kernel_that_panics_behind_a_bad_value_has_panicked() {
    for threads in [1, 2] {
        let (exec, mut arena) = one_call(fail_twice, threads);
        let mut team = Team::new(threads).unwrap();
        let mut tracks = vec![Track::new(1); threads];
        let stop = Stop { instr: 0, bad: None, iteration: None, changed: false };
        for _ in 0..2 {
            assert_eq!(team.step(&exec, &mut arena), Err(stop));
            assert_eq!(team.step_traced(&exec, &mut arena, &mut tracks), Err(stop));
        }
        let (exec, mut arena) = one_call(mark, threads);
        team.step_traced(&exec, &mut arena, &mut tracks).unwrap();
        assert_eq!(arena.bytes()[..threads], [1u8; 2][..threads]);
        assert!(tracks.iter().all(|track| track.events().len() == 1), "{tracks:?}");
    }
}

fn first_of_two(shared: &TeamShared) -> TeamThread<'_> {
    let arena = ArenaPtr::new(&mut []);
    TeamThread { shared, arena, thread: 0, threads: 2, barriers: 0, owns: true, helps: false }
}

#[test]
fn a_thread_runs_nothing_behind_the_instruction_at_fault() {
    let team = Team::new(2).unwrap();
    team.shared.gate.stop(5);
    let mut thread = first_of_two(&team.shared);
    assert_eq!([5, 6].map(|time| thread.goes_on(time)), [true, false]);
    assert_eq!(thread.barrier(6), Meeting::Stopped);
}

#[test]
fn a_thread_waits_for_the_others_at_each_barrier() {
    let team = Team::new(2).unwrap();
    let (shared, passed) = (&*team.shared, AtomicUsize::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut thread = first_of_two(shared);
            for _ in 0..2 {
                assert_eq!(thread.barrier(3), Meeting::Open);
                passed.fetch_add(1, Ordering::Relaxed);
            }
        });
        for arrivals in 0..2 {
            std::thread::sleep(Duration::from_millis(2));
            assert!(passed.load(Ordering::Relaxed) <= arrivals);
            shared.gate.arrive();
        }
    });
    assert_eq!(passed.into_inner(), 2);
}

#[test]
fn the_threads_of_a_team_end_with_it() {
    let team = Team::new(3).unwrap();
    let shared = Arc::downgrade(&team.shared);
    drop(team);
    assert_eq!(shared.strong_count(), 0);
}

/// A loop that all threads run, with products before and behind it, a loop in it, and a branch.
fn looping() -> GraphBuf {
    let g = Builder::new("loop");
    let (x, h0) = (g.input("x", [5, 256, 64], DType::F32), g.input("h0", [256, 64], DType::F32));
    let w = g.input("w", [64, 64], DType::F32).exp();
    let (h, y) = g.scan(&[h0.matmul(w)], &[x], |h, x| {
        let twice = Loop::default().length(2);
        let (h, _) = g.scan_with(twice, &[h[0]], &[], |h, _| (vec![(h[0].matmul(w) + x[0]).tanh()], vec![]));
        (vec![h[0]], vec![h[0].sum([1]) + 1.0])
    });
    g.finish([h[0].matmul(w), y[0].exp(), w]).unwrap()
}

/// The bytes of the arena after two steps of `exec`, whose inputs begin as the same bytes.
fn arena_after(exec: &Exec, team: &mut Team) -> Vec<u8> {
    let mut arena = TensorArena::new(exec.bytes()).unwrap();
    arena.bytes_mut().as_chunks_mut::<4>().0.iter_mut().enumerate().for_each(|(i, x)| {
        *x = ((i as f32 * 0.7).sin() * 0.1).to_ne_bytes();
    });
    for _ in 0..2 {
        team.step(exec, &mut arena).unwrap();
    }
    arena.bytes().to_vec()
}

/// The other threads never run. The caller's thread runs their parts, and the bits are those of a whole team.
#[test]
fn a_step_ends_without_threads_that_never_come() {
    for threads in [2, 3] {
        let plan = schedule(looping().view(), threads).unwrap().plan;
        let exec = Exec::new(&plan, share_tapes_above(&plan, 1)).unwrap();
        assert_eq!((exec.threads(), exec.moves_parts), (threads, true));
        let mut alone = Team { shared: Arc::new(TeamShared::new(threads)), workers: Vec::new() };
        assert!(arena_after(&exec, &mut alone) == arena_after(&exec, &mut Team::new(threads).unwrap()));
    }
}

/// What a flag ends needs all threads to look at the flag.
#[test]
fn parts_of_loops_that_data_ends_stay_on_their_threads() {
    let g = Builder::new("until");
    let (x, most) = (g.input("x", [64, 64], DType::F32), g.input("most", [], DType::F32));
    let (y, _) = g.while_loop(&[x], 9, |c| c[0].sum(..).less(most), |c| vec![c[0].matmul(c[0])]);
    let graph = g.finish([y[0]]).unwrap();
    let plan = schedule(graph.view(), 2).unwrap().plan;
    assert!(!Exec::new(&plan, share_tapes_above(&plan, 1)).unwrap().moves_parts);
    assert!(Exec::new(&plan, share_tapes_above(&plan, u64::MAX)).unwrap().moves_parts);
}
