//! Loops that end early: what does not run costs nothing, loops without a bound, teams, batches, the text form, and
//! what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Vmap};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ir::text;
use arenagrad::tools::passes::ad::prepare::flatten_regions;

const F64: DType = DType::F64;

fn set(p: &mut Program, name: &str, x: f64) {
    p.values_mut::<f64>(name).unwrap().fill(x);
}

fn get(p: &Program, name: &str) -> f64 {
    p.values::<f64>(name).unwrap()[0]
}

/// Newton's method for √a, with at most `bound` iterations.
fn root(bound: usize) -> GraphBuf {
    let g = Builder::new("root");
    let a = g.input("a", [], F64);
    let (y, trips) =
        g.while_loop(&[a], bound, |y| (y[0] * y[0] - a).abs().greater(1e-12), |y| vec![(y[0] + a / y[0]) * 0.5]);
    g.finish([y[0].named("y"), trips.named("trips")]).unwrap()
}

/// A bound of 10¹² costs neither time nor memory if 5 iterations run.
#[test]
fn a_large_bound_costs_nothing() {
    for bound in [0, 1_000_000_000_000] {
        let mut p = Session::new().compile(&root(bound)).unwrap();
        set(&mut p, "a", 4.0);
        p.step().unwrap();
        assert!((get(&p, "y") - 2.0).abs() < 1e-12, "{bound}");
        assert_eq!(p.values::<i64>("trips").unwrap(), [5], "{bound}");
        assert!(p.plan().arena_bytes < 1 << 13, "{bound}: {}", p.plan().arena_bytes);
    }
}

#[test]
fn a_loop_without_a_bound_has_tangents_and_no_gradient() {
    let graph = root(0).jvp(&["y"], &["a"]).unwrap();
    let twice = graph.rename("tangent.a", "along").unwrap().jvp(&["tangent.y"], &["a"]).unwrap();
    let mut p = Session::new().compile(&twice).unwrap();
    set(&mut p, "a", 4.0);
    set(&mut p, "along", 1.0);
    set(&mut p, "tangent.a", 1.0);
    p.step().unwrap();
    assert!((get(&p, "tangent.y") - 0.25).abs() < 1e-9, "{}", get(&p, "tangent.y"));
    assert!((get(&p, "tangent.tangent.y") + 1.0 / 32.0).abs() < 1e-6, "{}", get(&p, "tangent.tangent.y"));
    let e = root(0).grad("y", &GradOptions::wrt(&["a"])).unwrap_err().to_string();
    assert!(e.contains("give while_loop a bound to differentiate backwards") && e.contains("loop_exits.rs:"), "{e}");
}

/// The tangent of a gradient and the gradient of a tangent, of a loop with a bound.
#[test]
fn modes_may_follow_one_another() {
    let forward = root(40).jvp(&["y"], &["a"]).unwrap().grad("tangent.y", &GradOptions::wrt(&["a"])).unwrap();
    let reverse = root(40).grad("y", &GradOptions::wrt(&["a"])).unwrap().jvp(&["grad.a"], &["a"]).unwrap();
    for (graph, result) in [(forward, "grad.a"), (reverse, "tangent.grad.a")] {
        let mut p = Session::new().compile(&graph).unwrap();
        set(&mut p, "a", 4.0);
        set(&mut p, "tangent.a", 1.0);
        p.step().unwrap();
        assert!((get(&p, result) + 1.0 / 32.0).abs() < 1e-6, "{result}: {}", get(&p, result));
    }
}

/// Products that a team shares: all threads leave the loop together, and nothing depends on their number.
#[test]
fn teams_leave_a_loop_together() {
    let g = Builder::new("team");
    let (x, w) = (g.input("x", [96, 96], F64), g.input("w", [96, 96], F64));
    let limit = g.input("limit", [], F64);
    let (y, trips) =
        g.while_loop(&[x], 12, |c| (c[0] * c[0]).sum(..).less(limit), |c| vec![(c[0].matmul(w) + x).tanh()]);
    let loss = (y[0] * y[0]).sum(..);
    let g = g.finish([loss.named("loss"), trips.named("trips")]).unwrap();
    let g = g.grad("loss", &GradOptions::wrt(&["w", "x"])).unwrap();
    let run = |session: Session, limit: f64| {
        let mut p = session.compile(&g).unwrap();
        for (name, scale) in [("x", 0.02), ("w", 0.3)] {
            for (i, v) in p.values_mut::<f64>(name).unwrap().iter_mut().enumerate() {
                *v = scale * ((i * 37 % 101) as f64 / 101.0 - 0.3);
            }
        }
        let mut all = Vec::new();
        // One program, with different numbers of iterations in turn.
        for limit in [limit, 0.0, limit] {
            set(&mut p, "limit", limit);
            p.step().unwrap();
            all.push(p.values::<i64>("trips").unwrap()[0] as u64);
            for name in ["grad.w", "grad.x"] {
                all.extend(p.values::<f64>(name).unwrap().iter().map(|x| x.to_bits()));
            }
        }
        all
    };
    let want = run(Session::new().threads(1), 900.0);
    assert!((1..12).contains(&want[0]) && want[1 + 2 * 96 * 96] == 0, "{}", want[0]);
    assert!(run(Session::new().threads(1).poison(true), 900.0) == want, "poison");
    for threads in [2, 3, 7] {
        assert!(run(Session::new().threads(threads), 900.0) == want, "{threads} threads");
    }
}

/// A team that finds its bound exceeded stops as one, and its next step is sound.
#[test]
fn teams_stop_at_the_bound_together() {
    let g = Builder::new("bound");
    let (x, limit) = (g.input("x", [96, 96], F64), g.input("limit", [], F64));
    let (y, trips) = g.while_loop(
        &[x],
        5,
        |c| (c[0] * c[0]).sum(..).less(limit),
        |c| vec![(c[0].matmul(x) * 0.01 + c[0]).tanh() * 1.5],
    );
    let g = g.finish([y[0].named("y"), trips.named("trips")]).unwrap();
    for threads in [1, 2, 3, 7] {
        let mut p = Session::new().threads(threads).compile_traced(&g).unwrap();
        set(&mut p, "x", 0.1);
        for _ in 0..3 {
            set(&mut p, "limit", f64::INFINITY);
            let e = p.step().unwrap_err().to_string();
            assert!(e.contains("still going after 5 iterations") && e.contains("loop_exits.rs:"), "{e}");
            set(&mut p, "limit", 100.0);
            p.step().unwrap();
            assert_eq!(p.values::<i64>("trips").unwrap(), [1]);
        }
        let trace = p.step_traced().unwrap();
        assert_eq!(trace.dropped, 0);
    }
}

/// Values and gradients against the loop written out, in which each iteration is chosen by `select`.
#[test]
fn a_loop_is_its_unrolled_loop() {
    let g = Builder::new("rows");
    let (x, n) = (g.input("x", [3], F64), g.input("n", [], DType::I64));
    let y = g.fori(n, 4, &[x], |i, y| vec![(y[0] * x).sin() + i.cast(F64).broadcast([3]) * 0.1]);
    let (z, trips) = g.while_loop(&[y[0]], 6, |c| c[0].sum(..).less(4.0), |c| vec![c[0] * 1.25 + x * x]);
    let g = g.finish([z[0].sum(..).named("loss"), trips.named("trips")]).unwrap();
    let flat = flatten_regions(&g).unwrap();
    let results = |graph: &GraphBuf, n: i64| {
        let mut p = Session::new().compile(&graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap()).unwrap();
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&[0.5, -0.25, 1.5]);
        p.values_mut::<i64>("n").unwrap()[0] = n;
        p.step().unwrap();
        let trips = p.values::<i64>("trips").unwrap()[0];
        (trips, [&[get(&p, "loss")], p.values::<f64>("grad.x").unwrap()].concat())
    };
    for n in 0..=4 {
        let ((trips, have), (all, want)) = (results(&g, n), results(&flat, n));
        assert!(trips == all && trips > 0, "{n}: {trips} {all}");
        assert!(have.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{n}: {have:?} {want:?}");
    }
}

/// A loop in a choice in a loop, and a loop without a bound in one without a bound.
#[test]
fn loops_without_a_bound_stand_in_one_another() {
    let g = Builder::new("nested");
    let n = g.input("n", [], DType::I64);
    let zero = g.full(0.0, [], DType::I64);
    // The sum of 0 + 1 + … + i − 1 for all odd i < n.
    let (all, _) = g.while_loop(
        &[zero, zero],
        0,
        |c| c[0].less(n),
        |c| {
            let odd = (c[0] - (c[0].cast(F64) * 0.5).floor().cast(DType::I64) * 2.0).greater(0.0);
            let sum = g.cond(odd, || g.fori(c[0], 0, &[c[1]], |i, s| vec![s[0] + i]), || vec![c[1]]);
            vec![c[0] + 1.0, sum[0]]
        },
    );
    let g = g.finish([all[1].named("sum")]).unwrap();
    for threads in [1, 3] {
        let mut p = Session::new().threads(threads).compile(&g).unwrap();
        for n in [6i64, 0, -3, 1000] {
            p.values_mut::<i64>("n").unwrap()[0] = n;
            p.step().unwrap();
            let want: i64 = (0..n.max(0)).filter(|i| i % 2 == 1).map(|i| i * (i - 1) / 2).sum();
            assert_eq!(p.values::<i64>("sum").unwrap(), [want], "{n}");
        }
    }
}

#[test]
fn a_count_outside_the_bound_stops_the_step() {
    let g = Builder::new("power");
    let (x, n) = (g.input("x", [], F64), g.input("n", [], DType::I32));
    let y = g.fori(n, 8, &[g.full(1.0, [], F64)], |_, y| vec![y[0] * x]);
    let g = g.finish([y[0].named("y")]).unwrap();
    for threads in [1, 2] {
        let mut p = Session::new().threads(threads).compile(&g).unwrap();
        set(&mut p, "x", 2.0);
        for n in [9, -1] {
            p.values_mut::<i32>("n").unwrap()[0] = n;
            let e = p.step().unwrap_err().to_string();
            assert!(e.contains(&format!("the number of iterations is {n}; it must be in 0..9")), "{e}");
            assert!(e.contains("loop_exits.rs:"), "{e}");
        }
        p.values_mut::<i32>("n").unwrap()[0] = 8;
        p.step().unwrap();
        assert_eq!(get(&p, "y"), 256.0);
    }
}

/// Members of a batch that run different numbers of iterations, and members that run as many.
#[test]
fn members_run_their_own_iterations() {
    let map = root(40).vmap(&Vmap::new(3).leaf("a", 0)).unwrap();
    let g = Builder::new("same");
    let (x, n) = (g.input("x", [], F64), g.input("n", [], DType::I64));
    let y = g.fori(n, 8, &[x], |_, y| vec![y[0] * x]);
    let same = g.finish([y[0].named("y")]).unwrap().vmap(&Vmap::new(3).leaf("x", 0)).unwrap();
    let mut p = Session::new().compile(&map).unwrap();
    p.values_mut::<f64>("a").unwrap().copy_from_slice(&[4.0, 1.0, 100.0]);
    p.step().unwrap();
    assert_eq!(p.values::<i64>("trips").unwrap(), [5, 0, 8]);
    assert!(p.values::<f64>("y").unwrap().iter().zip([2.0, 1.0, 10.0]).all(|(y, w)| (y - w).abs() < 1e-9));
    let mut p = Session::new().compile(&same).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[2.0, 3.0, -1.0]);
    p.values_mut::<i64>("n").unwrap()[0] = 2;
    p.step().unwrap();
    assert_eq!(p.values::<f64>("y").unwrap(), [8.0, 27.0, -1.0]);
}

const LOOP: &str = "region @body(%on: bool[], %c: f64[], %k: i64[]) {
  %x = mul %c, %c : f64[]
  %f = full value=100 : f64[]
  %go = lt %x, %f : bool[]
  yield %go, %x ROWS
}
graph @squares {
  %c = input : f64[]
  %k = input : i64[]
  %t = full value=1 : bool[]
  %e, %y RESULT = scan %t, %c, %k body=@body carries=2 consts=1 length=LENGTH reverse=REVERSE EXIT
  return y=%y MORE
}
";

fn squares(exit: &str, length: usize, reverse: bool, rows: bool) -> String {
    let (row, more, result) = if rows { (", %x", ", rows=%r", ", %r") } else { ("", "", "") };
    let text = LOOP.replace("EXIT", exit).replace("LENGTH", &length.to_string());
    text.replace("REVERSE", &reverse.to_string()).replace("ROWS", row).replace("MORE", more).replace(" RESULT", result)
}

/// Slices that no iteration made are zeros, also in the second run.
#[test]
fn rows_that_did_not_run_are_zeros() {
    let graph = text::parse(&squares("exit=flag", 6, false, true)).unwrap();
    assert_eq!(text::parse(&graph.to_string()).unwrap(), graph);
    let mut p = Session::new().compile(&graph).unwrap();
    for (c, rows) in [(2.0, [4.0, 16.0, 256.0, 0.0, 0.0, 0.0]), (11.0, [121.0, 0.0, 0.0, 0.0, 0.0, 0.0])] {
        set(&mut p, "c", c);
        p.step().unwrap();
        assert_eq!(p.values::<f64>("rows").unwrap(), rows);
    }
    set(&mut p, "c", 1.0);
    assert!(p.step().unwrap_err().to_string().contains("still going after 6 iterations"));
}

#[test]
fn a_wrong_exit_is_refused() {
    let refused = |text: String| text::parse(&text).unwrap_err().to_string();
    let e = refused(squares("exit=flag", 6, true, false));
    assert!(e.contains("a loop that a carry ends cannot run backwards"), "{e}");
    let e = refused(
        squares("at_once=true exit=count", 6, false, false).replace("carries=2 consts=1", "carries=0 consts=3"),
    );
    assert!(e.contains("carries") || e.contains("constant 0 is bool[]"), "{e}");
    let e = refused(squares("exit=count bound=2", 6, false, false));
    assert!(e.contains("only a loop with a length that a carry ends has it"), "{e}");
    let e = refused(squares("bound=2", 6, false, false));
    assert!(e.contains("only a loop that a carry ends has a bound"), "{e}");
    let e = refused(squares("keep_every=2 exit=flag", 0, false, false));
    assert!(e.contains("a loop without a bound has no gradient, so it has no keep_every"), "{e}");
    let e = refused(squares("exit=flag", 0, false, true));
    assert!(e.contains("a loop without a bound has neither stacked inputs nor stacked results"), "{e}");
    let e = refused(squares("exit=count", 0, false, false));
    assert!(e.contains("a loop that counts its iterations needs a length of at least 1"), "{e}");
    let e = refused(squares("exit=flag", 6, false, false).replace("bool[]", "i32[]"));
    assert!(e.contains("i32[]"), "{e}");
    let e = refused(squares("exit=count", 6, false, false).replace("i64[]", "i32[]"));
    assert!(e.contains("constant 0 is i32[]; it ends the loop, so it must be i64[]"), "{e}");
    let e = refused(squares("exit=count", 6, false, false).replace("carries=2 consts=1", "carries=3 consts=0"));
    assert!(e.contains("yields 2 values") || e.contains("there is no constant 0"), "{e}");
}
