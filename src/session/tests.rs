//! What the choices of a session do to programs and to what their plans tell.

use super::*;
use crate::nodes::{Builder, DType, GraphBuf, Init};
use crate::sched::checker::Checked;
use crate::sched::exec::ThreadState;
use std::time::{Duration, Instant};

const F32: DType = DType::F32;

#[test]
fn other_numbers_of_threads_are_refused() {
    let g = Builder::new("g");
    let y = g.input("x", [4], F32).tanh().named("y");
    let g = g.finish([y]).unwrap();
    for n in [0, MAX_THREADS + 1, usize::MAX] {
        let e = Session::new().threads(n).plan(&g).unwrap_err();
        assert!(e.message.contains(&format!("threads is {n}")), "{e}");
        assert!(Session::new().threads(n).compile(&g).is_err());
        assert!(Session::new().threads(n).budgets(&g).is_err());
    }
    assert_eq!(Session::new().threads(MAX_THREADS).compile(&g).unwrap().threads(), 1);
}

/// Sizes beyond the offsets of an arena, of one buffer and of a sum, and sizes beyond an address.
#[test]
fn an_arena_that_is_too_large_is_an_error_of_its_size() {
    for (n, inputs, told) in [
        (
            1 << 50,
            1,
            "a buffer of 1125899906842624 bytes does not fit the arena's offsets; the largest value is input \"x0\", \
             u8[1125899906842624]",
        ),
        (
            1 << 37,
            5,
            "10737418245 lines of memory do not fit the arena's offsets; the largest value is input \"x0\", \
             u8[137438953472]",
        ),
        (usize::MAX / 4, 1, "a tensor of shape [4611686018427387903] does not fit in memory"),
        (usize::MAX, 1, "a tensor of shape [18446744073709551615] does not fit in memory"),
    ] {
        let g = Builder::new("g");
        let leaf = |i: usize| g.input(&format!("x{i}"), [n], DType::U8);
        let first: Vec<_> = (0..inputs).map(|i| leaf(i).slice(&[0], &[1], &[1])).collect();
        let e = g.finish(first).and_then(|g| Session::new().compile(&g).map(|_| ())).unwrap_err();
        assert!(e.message.contains(told) && e.to_string().contains("session/tests.rs:"), "{e}");
    }
}

/// A value that is computed is told by its op.
#[test]
fn an_arena_that_is_too_large_names_the_value_that_is_computed() {
    let g = Builder::new("g");
    let sums = g.input("x", [1], F32).broadcast([1 << 40]).cumsum(0, false, false);
    let g = g.finish([sums.slice(&[5], &[6], &[1]).named("y")]).unwrap();
    let e = Session::new().compile(&g).map(|_| ()).unwrap_err();
    assert!(e.message.contains("; the largest value is broadcast, f32[1099511627776]"), "{e}");
    assert!(e.to_string().contains("session/tests.rs:"), "{e}");
}

/// Two sums of so few numbers that no thread is worth waking. Each is a unit.
pub(super) fn sums() -> GraphBuf {
    let g = Builder::new("g");
    let y = g.input("x", [2, 2200], F32).sum(1).named("y");
    g.finish([y]).unwrap()
}

/// A product of the input `x` and a param.
fn product() -> GraphBuf {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [64, 256], F32), g.param("w", [256, 128], F32, Init::Ones));
    g.finish([x.matmul(w).named("y")]).unwrap()
}

#[test]
fn threads_share_what_is_worth_it_or_what_they_are_told_to() {
    let graph = sums();
    let threads = |session: Session| session.plan(&graph).unwrap().threads;
    assert_eq!([threads(Session::new().share(true)), threads(Session::new().threads(3))], [1, 1]);
    let three = Session::new().threads(3).share(true);
    assert_eq!(threads(three.clone()), 3);
    // Checks while stepping run on one thread.
    assert_eq!([threads(three.clone().poison(true)), threads(three.find_nan(true))], [1, 1]);
}

#[test]
fn ops_stand_alone_where_not_all_passes_run() {
    let g = Builder::new("g");
    let graph = g.finish([g.input("x", [600], F32).exp().sin().cos().named("y")]).unwrap();
    let instructions = |session: Session| session.plan(&graph).unwrap().instructions;
    let alone = instructions(Session::new().optimise(false));
    assert!(instructions(Session::new()) < alone);
    assert_eq!(instructions(Session::new().find_nan(true)), alone);
}

/// Whether all bytes of the buffer called `name` are those that a poisoned step leaves behind.
fn is_dead(p: &Program, name: &str) -> bool {
    let b = p.plan().buffers.iter().find(|b| b.name == name).unwrap();
    p.arena.bytes()[b.offset..b.offset + b.size].iter().all(|&b| b == 0xff)
}

#[test]
fn poisoned_steps_fill_dead_bytes_and_watch_the_bytes_behind_buffers() {
    let g = Builder::new("g");
    let h = g.input("x", [16], F32).abs().named("h");
    let graph = g.finish([h.sum(..).named("y")]).unwrap();
    let session = |poison: bool| Session::new().optimise(false).poison(poison);
    let bytes = |poison: bool| session(poison).plan(&graph).unwrap().arena_bytes;
    assert!(bytes(true) > bytes(false), "red zones take room");
    let dead = |poison: bool| {
        let mut p = session(poison).compile(&graph).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(-2.0);
        p.step().unwrap();
        assert_eq!(p.values::<f32>("y").unwrap(), [32.0]);
        is_dead(&p, "h")
    };
    assert_eq!([dead(true), dead(false)], [true, false]);
    // The plan says that `h` ends before the last byte that its kernel writes, or that it ends there.
    let stops = |shorter: usize| {
        let mut ready = compile::graph(graph.view(), &session(true).choices).unwrap();
        let mut plan = (*ready.scheduled.plan).clone();
        let made = plan.code.writes_of(0)[0].buf as usize;
        plan.code.bytes[made] -= shorter;
        ready.scheduled.plan = Checked::unproven(plan);
        let exec = ready.exec(&session(true).choices).unwrap();
        exec.step_poisoned(&mut allocate_arena(exec.bytes()).unwrap(), &ThreadState::default()).is_err()
    };
    assert_eq!([stops(0), stops(4)], [false, true]);
}

/// One size after another, and again: threads, plans and what is checked go along.
#[test]
fn sizes_of_a_program_share_a_team_or_are_poisoned() {
    for (session, poison) in [(Session::new().threads(3).share(true), false), (Session::new().poison(true), true)] {
        let mut all = session.optimise(false).compile_sized("g", |g| {
            let h = g.input("x", [g.symbol("rows"), 2200], F32).abs().named("h");
            g.finish([h.sum(1).named("y")])
        });
        for (rows, x) in [(2, -1.0f32), (5, -2.0), (2, -3.0), (5, -4.0)] {
            let p = all.at(&[("rows", rows)]).unwrap();
            assert_eq!(p.threads(), if poison { 1 } else { 3 });
            // What another size did left the inputs as they were.
            let before = p.values::<f32>("x").unwrap();
            assert!(before.iter().all(|b| [0.0, x + 2.0].contains(b)), "{rows} rows: {:?}", &before[..4]);
            p.values_mut::<f32>("x").unwrap().fill(x);
            p.step().unwrap();
            assert_eq!(p.values::<f32>("y").unwrap(), vec![-2200.0 * x; rows]);
            assert_eq!(is_dead(p, "h"), poison);
        }
    }
}

#[test]
fn methods_run_on_as_many_threads_as_the_widest_needs() {
    let g = Builder::new("g");
    let small = g.finish([g.input("x", [4], F32).tanh().named("y")]).unwrap();
    let large = sums();
    let session = Session::new().threads(3).share(true);
    for graphs in [[("small", &small), ("large", &large)], [("large", &large), ("small", &small)]] {
        let mut p = session.compile_all(&graphs).unwrap();
        let m = p.method("large").unwrap();
        let (x, y) = (p.input_of::<f32>(m, "x").unwrap(), p.output_of::<f32>(m, "y").unwrap());
        p[x].fill(1.0);
        p.run(m).unwrap();
        assert_eq!(p[y], [2200.0; 2]);
        p.values_mut::<f32>("x").unwrap().fill(0.0);
        assert!(p.step_traced().unwrap_err().message.contains("compiled without a trace"));
    }
}

#[test]
fn two_methods_have_two_names() {
    let graph = product();
    let e = Session::new().compile_all(&[("a", &graph), ("b", &graph), ("a", &graph)]).err().unwrap();
    assert_eq!(e.message, "two methods are called \"a\"");
}

#[test]
fn a_plan_tells_the_time_of_its_instructions_and_its_products() {
    let graph = product();
    let mut p = Session::new().compile_traced(&graph).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    let picoseconds: u64 = p.step_traced().unwrap().calls.iter().map(|call| call.modelled).sum();
    let told = p.plan().modelled.as_nanos();
    assert!(picoseconds > 5_000_000 && told.abs_diff(u128::from(picoseconds) / 1000) <= 1, "{told} {picoseconds}");
    assert_eq!(p.plan().products, [1, 0, 0, 0]);
    assert_eq!(Session::new().precision(Precision::Bf16).plan(&graph).unwrap().products, [0, 0, 0, 1]);
}

#[test]
fn the_phases_of_compiling_take_no_longer_than_all_of_it() {
    let (graph, start) = (product(), Instant::now());
    let phases = Session::new().plan(&graph).unwrap().phases;
    let all = start.elapsed();
    assert_eq!(phases[0].0, "passes");
    assert!(phases.iter().map(|p| p.1).sum::<Duration>() <= all, "{phases:?} in {all:?}");
}
