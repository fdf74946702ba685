//! Stacks of loops that end early: a gradient writes no slice that no iteration makes, wherever the loop stands, and
//! the checker refuses plans that read one.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Loop, Var};
use arenagrad::session::{Program, Session};
use arenagrad::tools::kernels::abi::Split;
use arenagrad::tools::passes::pipeline::run_whole_pipeline;
use arenagrad::tools::sched::checker::check_plan;
use arenagrad::tools::sched::instructions::{BufKind, Instructions, Operand};
use arenagrad::tools::sched::plan::Plan;
use arenagrad::tools::sched::planned_body::{LoopExit, PlannedBody};
use arenagrad::tools::sched::schedule;
use std::sync::Arc;

const F64: DType = DType::F64;
const BOUND: usize = 200;

/// `y' = tanh(w·y) + y/2` for `n` iterations, by a loop that ends early.
type Ends = for<'g> fn(&'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g>;

fn step<'g>(w: Var<'g>, y: Var<'g>) -> Var<'g> {
    (w * y).tanh() + y * 0.5
}

fn by_flag<'g>(g: &'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g> {
    let first = g.full(0.0, [], DType::I64);
    g.while_loop(&[first, y], BOUND, |c| c[0].less(n), |c| vec![c[0] + 1.0, step(w, c[1])]).0[1]
}

fn by_number<'g>(g: &'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g> {
    g.fori(n, BOUND, &[y], |_, c| vec![step(w, c[0])])[0]
}

fn backwards<'g>(g: &'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g> {
    g.fori_with(Loop::default().length(BOUND).reverse(true), n, &[y], |_, c| vec![step(w, c[0])])[0]
}

fn in_stretches<'g>(g: &'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g> {
    let (first, how) = (g.full(0.0, [], DType::I64), Loop::default().length(BOUND).keep_every(10));
    g.while_loop_with(how, &[first, y], |c| c[0].less(n), |c| vec![c[0] + 1.0, step(w, c[1])]).0[1]
}

/// The loop in each of three iterations of another, of other numbers of iterations.
fn in_a_scan<'g>(g: &'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g> {
    let more = g.iota(0, [3], DType::I64);
    g.scan(&[y], &[more], |c, x| (vec![by_flag(g, n + x[0], w, c[0])], Vec::new())).0[0]
}

fn in_two_scans<'g>(g: &'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g> {
    g.scan_with(Loop::default().length(2), &[y], &[], |c, _| (vec![in_a_scan(g, n, w, c[0])], Vec::new())).0[0]
}

/// A loop of `n` iterations in one of `n`.
fn in_another<'g>(g: &'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g> {
    let first = g.full(0.0, [], DType::I64);
    g.while_loop(&[first, y], 20, |c| c[0].less(n), |c| vec![c[0] + 1.0, by_flag(g, c[0] + n, w, c[1])]).0[1]
}

/// Three members of a batch, each with its own number of iterations.
fn in_a_batch<'g>(g: &'g Builder, n: Var<'g>, w: Var<'g>, y: Var<'g>) -> Var<'g> {
    let counts = g.iota(0, [3], DType::I64) + n.broadcast([3]);
    g.vmap(&[counts], |x| vec![by_flag(g, x[0], w, y)])[0].sum(0)
}

const PLACES: &[(&str, Ends)] = &[
    ("by a flag", by_flag),
    ("by a number", by_number),
    ("backwards", backwards),
    ("in stretches", in_stretches),
    ("in a scan", in_a_scan),
    ("in two scans", in_two_scans),
    ("in another", in_another),
    ("in a batch", in_a_batch),
];

fn loss(ends: Ends) -> GraphBuf {
    let g = Builder::new("loss");
    let (n, w, y) = (g.input("n", [], DType::I64), g.input("w", [2], F64), g.input("y", [2], F64));
    g.finish([ends(&g, n, w, y).square().sum(..).named("loss")]).unwrap()
}

fn gradient(ends: Ends) -> GraphBuf {
    loss(ends).grad("loss", &GradOptions::wrt(&["w", "y"])).unwrap()
}

fn plan_of(ends: Ends) -> Plan {
    (*schedule(run_whole_pipeline(&gradient(ends)).unwrap().view(), 1).unwrap().plan).clone()
}

/// The most bytes that an instruction writes that runs no body, in the code and in the bodies of its loops.
fn largest_write(code: &Instructions) -> usize {
    let own = (0..code.len()).filter(|&i| !code.has_body(i)).flat_map(|i| code.writes_of(i)).map(Operand::bytes);
    own.chain(code.loops.iter().map(|l| largest_write(&l.plan.code))).max().unwrap_or(0)
}

#[test]
fn no_instruction_fills_a_stack() {
    for &(place, ends) in PLACES {
        let most = largest_write(&plan_of(ends).code);
        assert!(most < 16 * BOUND, "{place}: an instruction writes {most} bytes");
    }
}

const W: [f64; 2] = [0.9, -0.4];
const Y: [f64; 2] = [0.3, 0.7];

fn run(p: &mut Program, n: i64, w: [f64; 2], y: [f64; 2], names: &[&str]) -> Vec<f64> {
    p.values_mut::<i64>("n").unwrap()[0] = n;
    p.values_mut::<f64>("w").unwrap().copy_from_slice(&w);
    p.values_mut::<f64>("y").unwrap().copy_from_slice(&y);
    p.step().unwrap();
    names.iter().flat_map(|name| p.values::<f64>(name).unwrap().to_vec()).collect()
}

/// One program runs with more iterations and then with fewer: nothing of the longer run is read.
#[test]
fn gradients_are_those_of_the_iterations_that_ran() {
    for &(place, ends) in PLACES {
        let (graph, mut value) = (gradient(ends), Session::new().compile(&loss(ends)).unwrap());
        let sessions = [Session::new(), Session::new().threads(3), Session::new().poison(true)];
        let mut programs = sessions.map(|s| s.compile(&graph).unwrap());
        for n in [4, 7, 1, 0, 5] {
            let mut found = programs.iter_mut().map(|p| run(p, n, W, Y, &["grad.w", "grad.y"]));
            let first = found.next().unwrap();
            assert!(found.all(|other| other == first), "{place}, {n} iterations: other bits");
            for (k, got) in first.iter().enumerate() {
                let mut at = |h: f64| {
                    let (mut w, mut y) = (W, Y);
                    *w.iter_mut().chain(&mut y).nth(k).unwrap() += h;
                    run(&mut value, n, w, y, &["loss"])[0]
                };
                let slope = (8.0 * (at(1e-3) - at(-1e-3)) - (at(2e-3) - at(-2e-3))) / 12e-3;
                assert!((got - slope).abs() < 1e-8 * slope.abs().max(1.0), "{place}, {n}: {got} {slope}");
            }
        }
    }
}

/// The first loop of `code` that `picks`.
fn loop_of(code: &Instructions, picks: impl Fn(&PlannedBody) -> bool) -> usize {
    (0..code.len()).find(|&i| code.bodies_of(i).iter().any(|l| picks(l))).unwrap()
}

fn counted(l: &PlannedBody) -> bool {
    matches!(l.exit, Some(LoopExit::Count(_)))
}

fn refusal(plan: Plan) -> String {
    check_plan(plan).err().map_or_else(String::new, |e| e.message)
}

#[test]
fn a_partial_stack_has_no_other_reader() {
    let right = plan_of(by_flag);
    assert_eq!(refusal(right.clone()), "");
    let code = &right.code;
    let (ends, adjoint) = (loop_of(code, |l| !l.partial.is_empty()), loop_of(code, counted));
    let partial = code.bodies_of(ends)[0].partial[0];
    let stack = code.writes_of(ends)[partial.write];
    // By another number of iterations, although it is as large.
    let mut p = right.clone();
    let Some(LoopExit::Count(k)) = code.bodies_of(adjoint)[0].exit else { panic!() };
    let n = (0..code.bytes.len()).find(|&b| code.kind[b] == BufKind::Input && code.bytes[b] == 8).unwrap();
    p.code.reads[code.reads_at[adjoint] as usize + k] = Operand { buf: n as u32, off: 0, ..code.reads_of(adjoint)[k] };
    assert!(refusal(p).contains("is read that no iteration made"));
    // All iterations.
    let mut p = right.clone();
    let at = code.body_range(adjoint).start;
    let all = PlannedBody { exit: None, ..(*p.code.loops[at]).clone() };
    p.code.loops[at] = Arc::new(all);
    assert!(refusal(p).contains("is read that no iteration made"));
    // As a whole, by the caller.
    let mut p = right.clone();
    p.code.outputs.push(Operand::of_bytes(stack.buf, 0, stack.bytes(), Split::Whole));
    let why = refusal(p);
    assert!(why.contains("are left that no iteration made") || why.contains("is not there at the end"), "{why}");
    // The loop does not say that it is partial.
    let mut p = right.clone();
    let at = code.body_range(ends).start;
    let silent = PlannedBody { partial: Vec::new(), ..(*p.code.loops[at]).clone() };
    p.code.loops[at] = Arc::new(silent);
    assert!(refusal(p).contains("has a write without contents before it"));
}

/// What a loop hands on of the stacks of a loop in it, and its adjoint takes.
#[test]
fn a_slice_of_a_partial_stack_is_read_by_its_number_of_iterations() {
    let right = plan_of(in_a_scan);
    assert_eq!(refusal(right.clone()), "");
    let code = &right.code;
    let inner =
        |l: &PlannedBody, kind: BufKind| l.plan.code.partial.iter().any(|p| l.plan.code.kind[p.buf as usize] == kind);
    let (forward, adjoint) = (loop_of(code, |l| inner(l, BufKind::State)), loop_of(code, |l| inner(l, BufKind::Input)));
    let body = |i: usize| (*code.bodies_of(i)[0].plan).clone();
    // The loop's body must say what it leaves.
    let mut p = body(forward);
    p.code.partial.clear();
    assert!(refusal(p).contains("are left that no iteration made"));
    // The adjoint's body reads its slice by another number than the one that bounds it.
    let mut p = body(adjoint);
    p.code.partial.iter_mut().for_each(|slice| slice.trips = slice.buf);
    assert!(refusal(p).contains("is read that no iteration made"));
}
