//! Clipping of gradients at the ends of number ranges, against loops in f64. `tests/ops/torch.rs` has torch's numbers.

use arenagrad::error::{Kind, Location};
use arenagrad::graph::{Builder, DType, Init};
use arenagrad::optim::{Optimiser, Sgd, train};
use arenagrad::session::Session;

/// −1 times what SGD at rate 1 subtracts from two params with the gradients `a` and `b`.
fn clipped(opt: Optimiser<Sgd>, a: &[f32], b: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let g = Builder::new("clip");
    let term = |name: &str, n: usize| {
        let p = g.param(name, [n], DType::F32, Init::Zeros);
        (p * g.input(&format!("grad.{name}"), [n], DType::F32)).sum(..)
    };
    let graph = g.finish([(term("a", a.len()) + term("b", b.len())).named("loss")]).unwrap();
    let mut p = Session::new().compile(&train(&graph, "loss", opt).unwrap()).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("grad.a").unwrap().copy_from_slice(a);
    p.values_mut::<f32>("grad.b").unwrap().copy_from_slice(b);
    p.step().unwrap();
    let moved = |name: &str| p.values::<f32>(name).unwrap().iter().map(|x| -x).collect();
    (moved("a"), moved("b"))
}

/// min(1, max / (‖g‖ + 1e-6)) in f64.
fn scale(g: impl Iterator<Item = f32>, p: f64, max: f64) -> f64 {
    let sizes: Vec<f64> = g.map(|x| f64::from(x).abs()).collect();
    let most = sizes.iter().fold(0.0, |m: f64, x| m.max(*x));
    let norm = match p {
        f64::INFINITY => most,
        _ if most == 0.0 => 0.0,
        _ => most * sizes.iter().map(|x| (x / most).powf(p)).sum::<f64>().powf(1.0 / p),
    };
    (max / (norm + 1e-6)).min(1.0)
}

fn near(got: &[f32], given: &[f32], scale: f64, what: &str) {
    assert_eq!(got.len(), given.len(), "{what}");
    for (got, given) in got.iter().zip(given) {
        let want = f64::from(*given) * scale;
        assert!((f64::from(*got) - want).abs() <= 1e-6 * want.abs(), "{what}: {got}, not {want}");
    }
}

#[test]
fn norms_are_right_at_the_ends_of_the_range() {
    let gradients: [(&[f32], &[f32]); 7] = [
        (&[3.0, -4.0, 0.5], &[1.0, -0.25]),
        (&[3.0, -4.0, 0.5], &[12.0]),
        // The powers of these overflow and underflow.
        (&[1e30, -2e30, 1e25], &[3e30, 0.0]),
        (&[1e-30, 2e-30, 0.0], &[-1e-30, 1e-35]),
        (&[0.0, 0.0, 0.0], &[0.0, 0.0]),
        (&[1e-3, 1e-3, 1e-3], &[1e-3, -1e-3]),
        (&[7.0, 0.0, -0.0], &[]),
    ];
    for p in [0.5, 1.0, 1.5, 2.0, 3.0, 40.0, f64::INFINITY] {
        for (a, b) in gradients {
            for max in [0.01, 2.0] {
                let what = format!("p = {p}, max = {max}, {a:?}, {b:?}");
                let opt = || Sgd::new(1.0).clip_norm(max).norm_type(p);
                let (x, y) = clipped(opt(), a, b);
                let all = scale(a.iter().chain(b).copied(), p, max);
                near(&x, a, all, &what);
                near(&y, b, all, &what);
                let (x, y) = clipped(opt().clip_each(true), a, b);
                near(&x, a, scale(a.iter().copied(), p, max), &what);
                near(&y, b, scale(b.iter().copied(), p, max), &what);
            }
        }
    }
}

#[test]
fn values_are_clamped_before_norms() {
    let (a, b) = clipped(Sgd::new(1.0).clip_value(0.5), &[3.0, -4.0, 0.25], &[f32::MAX, -0.5]);
    assert_eq!((a, b), (vec![0.5, -0.5, 0.25], vec![0.5, -0.5]));
    let (a, _) = clipped(Sgd::new(1.0).clip_value(0.5).clip_norm(0.5).norm_type(1.0), &[3.0, -4.0, 0.0], &[0.0]);
    near(&a, &[0.5, -0.5, 0.0], 0.5 / (1.0 + 1e-6), "norm of clamped values");
    // A gradient that is no number stays none.
    let (a, _) = clipped(Sgd::new(1.0).clip_value(0.5), &[f32::NAN, 1.0, 0.0], &[0.0]);
    assert!(a[0].is_nan() && a[1] == 0.5);
}

#[test]
fn a_norm_that_is_an_output_is_that_before_clipping() {
    let g = Builder::new("norm");
    let w = g.param("w", [2], DType::F32, Init::Zeros);
    let graph = g.finish([(w * g.constant(&[3.0, 4.0], [2])).sum(..).named("loss")]).unwrap();
    let opt = Sgd::new(1.0).clip_value(0.1).clip_norm(0.1).norm_type(1.0).clip_each(true).grad_norm(true);
    let mut p = Session::new().compile(&train(&graph, "loss", opt).unwrap()).unwrap();
    p.init(0).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("grad_norm").unwrap(), [5.0]);
}

#[test]
fn params_of_two_types_are_clipped_together() {
    let (a, b) = ([3.0f32, -4.0], [12.0, 1e-3]);
    let moved = |opt: Optimiser<Sgd>, a: [f32; 2], b: [f64; 2]| {
        let g = Builder::new("mixed");
        let p = g.param("a", [2], DType::F32, Init::Zeros) * g.input("grad.a", [2], DType::F32);
        let q = g.param("b", [2], DType::F64, Init::Zeros) * g.input("grad.b", [2], DType::F64);
        let graph = g.finish([(p.sum(..).cast(DType::F64) + q.sum(..)).named("loss")]).unwrap();
        let mut p = Session::new().compile(&train(&graph, "loss", opt.grad_norm(true)).unwrap()).unwrap();
        p.init(0).unwrap();
        p.values_mut::<f32>("grad.a").unwrap().copy_from_slice(&a);
        p.values_mut::<f64>("grad.b").unwrap().copy_from_slice(&b);
        p.step().unwrap();
        let norm = f64::from(p.values::<f32>("grad_norm").unwrap()[0]);
        (norm, p.values::<f32>("a").unwrap().to_vec(), p.values::<f64>("b").unwrap().to_vec())
    };
    for (p, each) in [2.0, 1.0, 3.0, f64::INFINITY].into_iter().flat_map(|p| [(p, false), (p, true)]) {
        let opt = Sgd::new(1.0).clip_norm(1.0).norm_type(p).clip_each(each);
        let (norm, x, y) = moved(opt, a, b);
        assert!((norm - (25f64 + 144.0 + 1e-6).sqrt()).abs() < 1e-5, "{norm}");
        let power = |s: &[f64]| match p {
            f64::INFINITY => s.iter().fold(0.0, |m: f64, x| m.max(x.abs())),
            _ => s.iter().map(|x| x.abs().powf(p)).sum::<f64>().powf(1.0 / p),
        };
        let scale = |s: &[f64]| (1.0 / (power(s) + 1e-6)).min(1.0);
        let all = scale(&[3.0, 4.0, 12.0, 1e-3]);
        let (of_a, of_b) = if each { (scale(&[3.0, 4.0]), scale(&b)) } else { (all, all) };
        for i in 0..2 {
            let (want, got) = (-f64::from(a[i]) * of_a, f64::from(x[i]));
            assert!((got - want).abs() < 1e-6 * want.abs(), "p = {p}, each {each}: {got}, not {want}");
            let want = -b[i] * of_b;
            assert!((y[i] - want).abs() < 1e-12 * want.abs(), "p = {p}, each {each}: {}, not {want}", y[i]);
        }
    }
    // Gradients beyond the range of the other type.
    for p in [2.0, 1.0] {
        let (_, x, y) = moved(Sgd::new(1.0).clip_norm(1.0).norm_type(p), [3.0, -4.0], [1e300, 0.0]);
        assert!(x.iter().all(|x| x.abs() == 0.0) && (y[0] + 1.0).abs() < 1e-12 && y[1] == 0.0, "{x:?} {y:?}");
        let (norm, x, y) = moved(Sgd::new(1.0).clip_norm(1.0).norm_type(p), [0.0, -0.0], [1e-300, 0.0]);
        assert!(x == [0.0; 2] && y[0] == -1e-300 && norm == 0.0, "{norm} {x:?} {y:?}");
    }
}

#[test]
fn a_norm_is_called_what_it_is() {
    let g = Builder::new("names");
    let [a, b] = ["a", "b"].map(|name| g.param(name, [2], DType::F32, Init::Ones));
    let graph = g.finish([(a * b).sum(..).named("loss")]).unwrap();
    let names = |opt: Optimiser<Sgd>| {
        let text = train(&graph, "loss", opt).unwrap().to_string();
        // The norms of two params share a name, so it stands behind their numbers.
        [text.contains("%grad_norm = "), text.contains("clip_norm")]
    };
    let clip = || Sgd::new(1.0).clip_norm(1.0);
    assert_eq!(names(clip()), [false, true]);
    // The output is the norm by which gradients are clipped.
    assert_eq!(names(clip().grad_norm(true)), [true, false]);
    assert_eq!(names(clip().norm_type(1.0).grad_norm(true)), [true, true]);
    assert_eq!(names(clip().clip_each(true).grad_norm(true)), [true, true]);
    assert_eq!(names(clip().clip_value(1.0).grad_norm(true)), [true, true]);
}

#[test]
fn a_leaf_with_a_name_of_the_step_is_refused() {
    for name in ["lr", "opt.step", "opt.mine"] {
        let g = Builder::new("taken");
        let w = g.param("w", [2], DType::F32, Init::Ones);
        let x = g.input(name, [2], DType::F32);
        let graph = g.finish([(w * x).sum(..).named("loss")]).unwrap();
        let e = train(&graph, "loss", Sgd::new(0.1)).unwrap_err();
        let want = format!("the graph has a leaf called {name:?}, a name that a training step adds: rename it, or");
        assert!(e.kind == Kind::Name && e.message.starts_with(&want), "{e:?}");
        assert!(matches!(&e.location, Location::Source(file, _) if file == file!()), "{e:?}");
    }
    // A training step is no graph of a loss.
    let g = Builder::new("twice");
    let w = g.param("w", [2], DType::F32, Init::Ones);
    let step = train(&g.finish([(w * w).sum(..).named("loss")]).unwrap(), "loss", Sgd::new(0.1)).unwrap();
    let e = train(&step, "loss", Sgd::new(0.1)).unwrap_err();
    assert!(e.message.ends_with("train the graph of the loss") && !e.message.contains("reuse"), "{e}");
}
