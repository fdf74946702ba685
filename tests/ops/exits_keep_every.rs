//! Loops that end early and keep few carries, against those that keep all: bits, faults and bytes. And loops without a
//! bound that draw random numbers.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Loop, Missing, Var};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ir::text;

const F64: DType = DType::F64;

/// How a loop ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// By a condition.
    While,
    /// By a number of iterations.
    Count,
    /// By a number of iterations, from the last one to the first.
    CountDown,
}

/// `y' = tanh(w·y + x·i/8)`, `n` times. `w` and `x` are also read before and behind the loop.
fn recurrent(end: End, length: usize, keep_every: Option<usize>) -> GraphBuf {
    let g = Builder::new("recurrent");
    let (x, w, n) = (g.input("x", [3], F64), g.input("w", [3], F64), g.input("n", [], DType::I64));
    let how = Loop::default().length(length).keep_every(keep_every).reverse(end == End::CountDown).at_once(false);
    let y = last_of(&g, end, how, [x, w, n]);
    let loss = (y * w).square().sum(..) + x.sin().sum(..);
    g.finish([loss.named("loss"), y.named("y")]).unwrap()
}

/// The last `y` of [`recurrent`].
fn last_of<'g>(g: &'g Builder, end: End, how: Loop, [x, w, n]: [Var<'g>; 3]) -> Var<'g> {
    let start = (x * w).sin();
    match end {
        End::While => {
            let first = g.full(0.0, [], DType::I64);
            let drive = |i: Var<'g>| x * (i.cast(F64) * 0.125).broadcast([3]);
            let body = |c: &[Var<'g>]| vec![c[0] + 1.0, (w * c[1] + drive(c[0])).tanh()];
            g.while_loop_with(how, &[first, start], |c| c[0].less(n), body).0[1]
        }
        End::Count | End::CountDown => {
            let drive = |i: Var<'g>| x * (i.cast(F64) * 0.125).broadcast([3]);
            g.fori_with(how, n, &[start], |i, y| vec![(w * y[0] + drive(i)).tanh()])[0]
        }
    }
}

/// The bits of all float outputs, for `n` iterations.
fn bits(p: &mut Program, n: i64, outputs: &[&str]) -> Vec<u64> {
    p.values_mut::<i64>("n").unwrap()[0] = n;
    p.step().unwrap();
    outputs.iter().flat_map(|name| p.values::<f64>(name).unwrap()).map(|x| x.to_bits()).collect()
}

/// A program of `g` with numbers in its float inputs.
fn program(g: &GraphBuf, session: Session) -> Program {
    let mut p = session.compile(g).unwrap();
    for (name, x) in [("x", 0.3), ("w", 0.7), ("tangent.x", -0.4), ("tangent.w", 0.9)] {
        if let Ok(values) = p.values_mut::<f64>(name) {
            values.iter_mut().enumerate().for_each(|(i, v)| *v = x - 0.15 * i as f64);
        }
    }
    p
}

/// Gradients and tangents have the same bits whatever is kept, for any number of iterations and of threads.
#[test]
fn derivatives_have_the_bits_of_a_loop_that_keeps_all() {
    let gradient = |g: &GraphBuf| g.grad("loss", &GradOptions::wrt(&["x", "w"])).unwrap();
    let tangent = |g: &GraphBuf| g.jvp(&["loss"], &["x", "w"]).unwrap();
    for end in [End::While, End::Count, End::CountDown] {
        for length in [1, 2, 7] {
            for keep in 1..=length + 1 {
                let [all, some] = [None, Some(keep)].map(|keep| recurrent(end, length, keep));
                for (of, outputs) in [
                    (&gradient as &dyn Fn(&GraphBuf) -> GraphBuf, &["loss", "y", "grad.x", "grad.w"][..]),
                    (&tangent, &["loss", "y", "tangent.loss"]),
                ] {
                    let mut all = program(&of(&all), Session::new());
                    let some = of(&some);
                    let mut some = [Session::new(), Session::new().threads(3), Session::new().poison(true)]
                        .map(|session| program(&some, session));
                    for n in [length as i64, 0, length as i64 - 1, 1] {
                        let want = bits(&mut all, n, outputs);
                        for p in &mut some {
                            let what = format!("{end:?}, {n} of {length}, every {keep}, {outputs:?}");
                            assert!(bits(p, n, outputs) == want, "{what}");
                        }
                    }
                }
            }
        }
    }
}

/// Errors tell the bound of the whole loop, not that of a stretch.
#[test]
fn faults_tell_the_whole_bound() {
    for keep in [1, 2, 3, 7, 9] {
        for end in [End::While, End::Count] {
            let g = recurrent(end, 7, Some(keep)).grad("loss", &GradOptions::wrt(&["w"])).unwrap();
            for threads in [1, 2] {
                let mut p = program(&g, Session::new().threads(threads));
                for n in [8, 100] {
                    p.values_mut::<i64>("n").unwrap()[0] = n;
                    let e = p.step().unwrap_err().to_string();
                    let want = match end {
                        End::While => "still going after 7 iterations".to_string(),
                        _ => format!("is {n}; it must be in 0..8"),
                    };
                    assert!(e.contains(&want) && e.contains("exits_keep_every.rs:"), "every {keep}: {e}");
                }
                bits(&mut p, 7, &["grad.w"]);
            }
        }
    }
}

/// Memory is that of the kept carries and of one stretch.
#[test]
fn plans_take_the_bytes_of_the_kept_carries_and_of_one_stretch() {
    let bytes = |keep_every: Option<usize>| {
        let g = Builder::new("large");
        let (x, w, n) = (g.input("x", [64, 64], F64), g.input("w", [64, 64], F64), g.input("n", [], DType::I64));
        let how = Loop::default().length(4096).keep_every(keep_every);
        let first = g.full(0.0, [], DType::I64);
        let (y, _) = g.while_loop_with(how, &[first, x], |c| c[0].less(n), |c| vec![c[0] + 1.0, c[1].matmul(w).tanh()]);
        let y = y[1];
        let g = g.finish([y.sum(..).named("loss")]).unwrap();
        let g = g.grad("loss", &GradOptions::wrt(&["w"])).unwrap();
        Session::new().compile(&g).unwrap().plan().arena_bytes
    };
    let (all, some) = (bytes(None), bytes(Some(64)));
    assert!(all > 4096 * 64 * 64 * 8 && 16 * some <= all, "{some} of {all} bytes");
}

/// A leaf that no iteration reads has no gradient, whatever is kept.
#[test]
fn a_leaf_without_a_gradient_has_none_either_way() {
    for keep_every in [None, Some(2)] {
        let g = Builder::new("apart");
        let (x, z, n) = (g.input("x", [], F64), g.input("z", [], F64), g.input("n", [], DType::I64));
        let how = Loop::default().length(6).keep_every(keep_every);
        let first = g.full(0.0, [], DType::I64);
        let (y, _) = g.while_loop_with(how, &[first, x, z], |c| c[0].less(n), |c| vec![c[0] + 1.0, c[1] * x, c[2] * z]);
        let g = g.finish([y[1].named("loss"), y[2].named("other")]).unwrap();
        let wrt = GradOptions::wrt(&["x", "z"]).missing(Missing::Error);
        let e = g.grad("loss", &wrt).unwrap_err().to_string();
        assert!(e.contains("\"z\""), "{keep_every:?}: {e}");
    }
}

/// A body that reads the number that ends its loop sees the whole number in each stretch.
#[test]
fn a_body_may_read_the_number_of_iterations() {
    let text = |keep: &str| {
        format!(
            "region @body(%c: f64[], %k: i64[], %w: f64[]) {{
  %f = cast %k to=f64 : f64[]
  %m = mul %c, %w : f64[]
  %y = add %m, %f : f64[]
  yield %y
}}
graph @counted {{
  %w = input : f64[]
  %k = input : i64[]
  %y = scan %w, %k, %w body=@body carries=1 consts=2 length=9 reverse=false {keep} exit=count
  return y=%y
}}
"
        )
    };
    let of = |keep: &str| {
        let g = text::parse(&text(keep)).unwrap();
        let g = g.grad("y", &GradOptions::wrt(&["w"])).unwrap();
        let mut p = Session::new().compile(&g).unwrap();
        p.values_mut::<f64>("w").unwrap()[0] = 1.25;
        p.values_mut::<i64>("k").unwrap()[0] = 5;
        p.step().unwrap();
        [p.values::<f64>("y").unwrap()[0], p.values::<f64>("grad.w").unwrap()[0]]
    };
    assert_eq!(of("keep_every=4"), of(""));
}

/// The sum of `n` draws, each of another number, in a loop with this bound.
fn walk(bound: usize) -> GraphBuf {
    let g = Builder::new("walk");
    let (x, n) = (g.input("x", [4], F64), g.input("n", [], DType::I64));
    let first = g.full(0.0, [], DType::I64);
    let (y, trips) =
        g.while_loop(&[first, x], bound, |c| c[0].less(n), |c| vec![c[0] + 1.0, c[1] * x + g.uniform([4], F64)]);
    g.finish([y[1].named("y"), trips.named("trips")]).unwrap()
}

/// Without a bound, a body draws what it draws with one: other numbers in each iteration.
#[test]
fn loops_without_a_bound_draw_numbers() {
    let run = |g: &GraphBuf, threads: usize, outputs: &[&str]| {
        let mut p = Session::new().threads(threads).compile(g).unwrap();
        p.init(3).unwrap();
        for name in ["x", "tangent.x"] {
            if let Ok(x) = p.values_mut::<f64>(name) {
                x.copy_from_slice(&[0.5, 1.0, -1.0, 0.25]);
            }
        }
        [5, 0, 1, 40].map(|n| bits(&mut p, n, outputs))
    };
    let want = run(&walk(64), 1, &["y"]);
    assert!(want[0] != want[3] && want[0] != want[2]);
    for threads in [1, 3] {
        assert!(run(&walk(0), threads, &["y"]) == want);
    }
    let tangent = |bound| walk(bound).jvp(&["y"], &["x"]).unwrap();
    assert!(run(&tangent(0), 1, &["y", "tangent.y"]) == run(&tangent(64), 1, &["y", "tangent.y"]));
    // Two iterations of one loop draw different numbers.
    let g = Builder::new("twice");
    let n = g.input("n", [], DType::I64);
    let zeros = g.full(0.0, [8], F64);
    let first = g.full(0.0, [], DType::I64);
    let (y, _) =
        g.while_loop(&[first, zeros, zeros], 0, |c| c[0].less(n), |c| vec![c[0] + 1.0, c[2], g.uniform([8], F64)]);
    let g = g.finish([y[1].named("before"), y[2].named("last")]).unwrap();
    let mut p = Session::new().compile(&g).unwrap();
    p.init(3).unwrap();
    let drawn = bits(&mut p, 2, &["before", "last"]);
    assert!((0..8).all(|i| drawn[i] != drawn[8 + i]), "{drawn:?}");
}

#[test]
fn wrong_options_are_refused() {
    let refused = |how: Loop| {
        let g = Builder::new("wrong");
        let x = g.input("x", [], F64);
        let (y, _) = g.while_loop_with(how, &[x], |c| c[0].less(3.0), |c| vec![c[0] + 1.0]);
        g.finish([y[0].named("y")]).unwrap_err().to_string()
    };
    let e = refused(Loop::default().length(4).reverse(true));
    assert!(e.contains("a loop that a carry ends cannot run backwards"), "{e}");
    let e = refused(Loop::default().length(4).at_once(true));
    assert!(e.contains("the iterations cannot run at once") || e.contains("at_once would run all"), "{e}");
    let e = refused(Loop::default().keep_every(4));
    assert!(e.contains("a loop without a bound has no gradient, so it has no keep_every"), "{e}");
    let e = refused(Loop::default().length(4).keep_every(0));
    assert!(e.contains("keep_every is 0; it must be at least 1"), "{e}");
}
