//! Loops whose number of iterations is known when the step runs: values, derivatives, bounds, threads.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Missing, Var};
use arenagrad::session::{Program, Session};

const F64: DType = DType::F64;

/// wⁿ·x₀ with n iterations, its derivatives with respect to w and x₀, and its second derivative with respect to w.
fn power() -> GraphBuf {
    let g = Builder::new("power");
    let (w, x0) = (g.input("w", [], F64), g.input("x0", [], F64));
    let n = g.input("n", [], DType::I32);
    let zero = g.full(0.0, [], DType::I32);
    let (last, trips) = g.while_loop(&[x0, zero], 8, |c| c[1].less(n), |c| vec![w * c[0], c[1] + 1.0]);
    let g = g.finish([last[0].named("y"), trips.named("trips")]).unwrap();
    let g = g.grad("y", &GradOptions::wrt(&["w", "x0"])).unwrap();
    g.rename("grad.w", "slope").unwrap().grad("slope", &GradOptions::wrt(&["w"])).unwrap()
}

fn set(p: &mut Program, name: &str, x: f64) {
    p.values_mut::<f64>(name).unwrap().fill(x);
}

fn get(p: &Program, name: &str) -> f64 {
    p.values::<f64>(name).unwrap()[0]
}

#[test]
fn a_power_has_its_derivatives_for_each_number_of_iterations() {
    let graph = power();
    for threads in [1, 2, 3, 7] {
        let mut p = Session::new().threads(threads).compile(&graph).unwrap();
        set(&mut p, "w", 1.1);
        set(&mut p, "x0", 1.0);
        // One program, run with different numbers of iterations, keeps nothing of the run before.
        for n in [5, 0, 8, 3, 1, 5] {
            p.values_mut::<i32>("n").unwrap()[0] = n;
            p.step().unwrap();
            let power = |k: i32| 1.1f64.powi(k);
            let (m, near) = (f64::from(n), |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "n = {n}: {a} {b}"));
            near(get(&p, "y"), power(n));
            near(get(&p, "slope"), m * power(n - 1) * f64::from(u8::from(n > 0)));
            near(get(&p, "grad.x0"), power(n));
            near(get(&p, "grad.w"), m * (m - 1.0) * power(n - 2));
            assert_eq!(p.values::<i64>("trips").unwrap(), [i64::from(n)]);
        }
        p.values_mut::<i32>("n").unwrap()[0] = 9;
        let e = p.step().unwrap_err().to_string();
        assert!(e.contains("still going after 8 iterations") && e.contains("while_loop.rs:16"), "{e}");
        p.values_mut::<i32>("n").unwrap()[0] = -4;
        p.step().unwrap();
        assert_eq!(p.values::<i64>("trips").unwrap(), [0]);
    }
}

/// The iteration that does not run would divide by 0.
#[test]
fn iterations_that_do_not_run_add_no_nan() {
    let g = Builder::new("pole");
    let (a, n) = (g.input("a", [2], F64), g.input("n", [], DType::I64));
    let y = g.fori(n, 6, &[a], |i, c| {
        let left = 3.0 - i.cast(F64);
        vec![c[0] * a / left.broadcast([2])]
    });
    let g = g.finish([y[0].sum(..).named("y")]).unwrap().grad("y", &GradOptions::wrt(&["a"])).unwrap();
    let h = g.rename("grad.a", "slope").unwrap().vjp(&["slope"], &["a"], Missing::Zero).unwrap();
    let mut p = Session::new().compile(&h).unwrap();
    p.values_mut::<f64>("a").unwrap().copy_from_slice(&[2.0, -1.0]);
    p.values_mut::<f64>("cotangent.slope").unwrap().fill(1.0);
    p.values_mut::<i64>("n").unwrap()[0] = 3;
    p.step().unwrap();
    // a⁴ / 6
    let near = |name: &str, want: [f64; 2]| {
        let have = p.values::<f64>(name).unwrap();
        assert!(have.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-12), "{name}: {have:?} {want:?}");
    };
    near("slope", [32.0 / 6.0, -4.0 / 6.0]);
    near("grad.a", [8.0, 2.0]);
}

#[test]
fn a_root_by_iteration_has_the_derivative_of_the_root() {
    let g = Builder::new("root");
    let a = g.param("a", [], F64, Init::Constant(2.0));
    let (y, trips) =
        g.while_loop(&[a], 60, |y| (y[0] * y[0] - a).abs().greater(1e-12), |y| vec![(y[0] + a / y[0]) * 0.5]);
    let g = g.finish([y[0].named("y"), trips.named("trips")]).unwrap();
    let g = g.grad("y", &GradOptions::default()).unwrap();
    let mut p = Session::new().compile(&g).unwrap();
    p.init(0).unwrap();
    for a in [2.0f64, 1.0, 9.0, 1e-3] {
        let (mut y, mut trips) = (a, 0);
        while (y * y - a).abs() > 1e-12 {
            (y, trips) = ((y + a / y) * 0.5, trips + 1);
        }
        set(&mut p, "a", a);
        p.step().unwrap();
        assert_eq!(p.values::<i64>("trips").unwrap(), [trips], "{a}");
        assert!((get(&p, "y") - y).abs() < 1e-15 * y);
        if trips > 0 {
            assert!((get(&p, "grad.a") - 0.5 / a.sqrt()).abs() < 1e-9 / a.sqrt(), "{a}: {}", get(&p, "grad.a"));
        }
    }
}

/// A while loop in a scan, and a scan in a while loop, against what they compute written out.
#[test]
fn loops_stand_in_one_another() {
    let g = Builder::new("nested");
    let (x, n, w) = (g.input("x", [3], F64), g.input("n", [3], DType::I64), g.input("w", [], F64));
    let (rows, _) = g.scan(&[w], &[x, n], |c, x| (g.fori(x[1], 4, &[c[0]], |_, c| vec![c[0] * x[0] + w]), vec![]));
    let sweep = |c| g.scan(&[c], &[x], |c, x| (vec![c[0] + x[0] * w], vec![])).0;
    let (grown, trips) = g.while_loop(&[w], 40, |c| c[0].less(41.0), |c| sweep(c[0]));
    let loss = rows[0] * grown[0];
    let g = g.finish([rows[0].named("rows"), grown[0].named("grown"), trips.named("trips"), loss.named("loss")]);
    let g = g.unwrap().grad("loss", &GradOptions::wrt(&["w", "x"])).unwrap();
    let (xs, ns, w) = ([0.5, 2.0, -1.5], [2i64, 0, 3], 1.25);
    let value = |xs: [f64; 3], w: f64| {
        let rows = xs.iter().zip(ns).fold(w, |c, (x, n)| (0..n).fold(c, |c, _| c * x + w));
        let (mut grown, mut trips) = (w, 0);
        while grown < 41.0 {
            grown += xs.iter().sum::<f64>() * w;
            trips += 1;
        }
        (rows, grown, trips)
    };
    let mut bits: Option<Vec<u64>> = None;
    for threads in [1, 2, 3, 7] {
        let mut p = Session::new().threads(threads).compile(&g).unwrap();
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&xs);
        p.values_mut::<i64>("n").unwrap().copy_from_slice(&ns);
        set(&mut p, "w", w);
        p.step().unwrap();
        let (rows, grown, trips) = value(xs, w);
        assert_eq!(p.values::<i64>("trips").unwrap(), [trips]);
        assert!((get(&p, "rows") - rows).abs() < 1e-12 && (get(&p, "grown") - grown).abs() < 1e-11);
        let loss = |xs: [f64; 3], w: f64| {
            let (rows, grown, _) = value(xs, w);
            rows * grown
        };
        let h = 1e-6;
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} {b}");
        near(get(&p, "grad.w"), (loss(xs, w + h) - loss(xs, w - h)) / (2.0 * h));
        for i in 0..3 {
            let (mut up, mut down) = (xs, xs);
            (up[i], down[i]) = (up[i] + h, down[i] - h);
            near(p.values::<f64>("grad.x").unwrap()[i], (loss(up, w) - loss(down, w)) / (2.0 * h));
        }
        let all: Vec<u64> = p.values::<f64>("grad.x").unwrap().iter().map(|x| x.to_bits()).collect();
        assert_eq!(*bits.get_or_insert(all.clone()), all, "{threads} threads");
    }
}

#[test]
fn a_wrong_condition_bound_or_carry_is_refused() {
    let refused = |f: &dyn Fn(&Builder, Var<'_>)| {
        let g = Builder::new("bad");
        f(&g, g.input("x", [2], DType::F32));
        g.finish([]).unwrap_err().to_string()
    };
    let e = refused(&|g, x| drop(g.while_loop(&[x], 3, |c| c[0].greater(0.0), |c| c.to_vec())));
    assert!(
        e.contains("while_loop: the condition is bool[2]; it must be bool[]") && e.contains("while_loop.rs:"),
        "{e}"
    );
    let e = refused(&|g, x| drop(g.while_loop(&[x], 3, |c| c[0].sum(..), |c| c.to_vec())));
    assert!(e.contains("the condition is f32[]"), "{e}");
    let e = refused(&|g, x| drop(g.while_loop(&[x], usize::MAX, |c| c[0].sum(..).less(0.0), |c| c.to_vec())));
    assert!(e.contains("while_loop: length is 18446744073709551615; it must be at most 9223372036854775807"), "{e}");
    let e = refused(&|g, x| drop(g.while_loop(&[x], 3, |c| c[0].sum(..).less(0.0), |c| vec![c[0].sum(..)])));
    assert!(e.contains("carry 0 enters the body as f32[2] and leaves it as f32[]"), "{e}");
    let e = refused(&|g, x| drop(g.while_loop(&[x], 3, |_| x.sum(..).less(0.0), |_| vec![])));
    assert!(e.contains("1 carries enter the body and 0 leave it"), "{e}");
    let e = refused(&|g, x| drop(g.fori(x, 3, &[x], |_, c| c.to_vec())));
    assert!(e.contains("fori: the number of iterations is f32[2]; it must be i32[] or i64[]"), "{e}");
}

#[test]
fn a_number_of_iterations_is_one_integer() {
    let refused = |f: &dyn Fn(&Builder, Var<'_>)| {
        let g = Builder::new("bad");
        f(&g, g.input("x", [2], DType::F32));
        g.finish([]).unwrap_err().to_string()
    };
    let e = refused(&|g, x| drop(g.fori(x.sum(..), 3, &[x], |_, c| c.to_vec())));
    assert!(e.contains("fori: the number of iterations is f32[]; it must be i32[] or i64[]"), "{e}");
    let e = refused(&|g, x| drop(g.fori(x.cast(DType::I32), 3, &[x], |_, c| c.to_vec())));
    assert!(e.contains("fori: the number of iterations is i32[2]; it must be i32[] or i64[]"), "{e}");
}

/// The random keys of iterations 0, 1 and 2 of a loop, in one number each.
fn keys(bound: usize) -> Vec<f64> {
    let g = Builder::new("keys");
    let (start, first) = (g.full(0.0, [4], F64), g.full(0.0, [], F64));
    let (last, _) =
        g.while_loop(&[start, first], bound, |c| c[1].less(3.0), |c| vec![c[0] * 3.0 + g.rng().cast(F64), c[1] + 1.0]);
    let mut p = Session::new().compile(&g.finish([last[0].named("keys")]).unwrap()).unwrap();
    p.init(5).unwrap();
    p.step().unwrap();
    p.values::<f64>("keys").unwrap().to_vec()
}

#[test]
fn iterations_have_the_same_random_keys_with_a_bound_and_without() {
    assert_eq!(keys(0), keys(3));
    assert_eq!(keys(4), keys(3));
}
