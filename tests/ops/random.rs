//! Random tensors: moments, bounds, frequencies, derivatives in parameters, and the same bits however they are run.

use arenagrad::graph::{Builder, DType, GradOptions, Init, Var, grad};
use arenagrad::session::Session;
use arenagrad::tools::ir::text::{parse, print};

const F32: DType = DType::F32;
const F64: DType = DType::F64;
const N: usize = 1_000_000;

/// `N` numbers of one draw, as `f64`.
fn draws(f: impl for<'g> Fn(&'g Builder) -> Var<'g>) -> Vec<f64> {
    let g = Builder::new("draws");
    g.output("y", f(&g).cast(F64));
    let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
    p.init(5).unwrap();
    p.step().unwrap();
    p.values::<f64>("y").unwrap().to_vec()
}

/// Mean and variance, each within 5 standard errors. `kurtosis` is the fourth central moment over the variance's
/// square.
fn moments(name: &str, x: &[f64], mean: f64, variance: f64, kurtosis: f64) {
    let n = x.len() as f64;
    let m = x.iter().sum::<f64>() / n;
    let v = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    assert!((m - mean).abs() <= 5.0 * (variance / n).sqrt(), "{name}: mean {m}, not {mean}");
    let error = variance * ((kurtosis - 1.0).max(1e-12) / n).sqrt();
    assert!((v - variance).abs() <= 5.0 * error + 1e-9, "{name}: variance {v}, not {variance}");
}

#[test]
fn moments_are_those_of_the_distributions() {
    for t in [F32, F64] {
        moments("uniform", &draws(|g| g.uniform([N], t)), 0.5, 1.0 / 12.0, 1.8);
        moments("uniform_between", &draws(|g| g.uniform_between([N], t, -1.0, 3.0)), 1.0, 16.0 / 12.0, 1.8);
        moments("normal", &draws(|g| g.normal([N], t)), 0.0, 1.0, 3.0);
        moments("exponential", &draws(|g| g.exponential([N], t, 2.0)), 0.5, 0.25, 9.0);
        let (gamma, pi) = (0.577_215_664_901_532_9, std::f64::consts::PI);
        let variance = 9.0 * pi * pi / 6.0;
        moments("gumbel", &draws(|g| g.gumbel([N], t, 1.0, 3.0)), 1.0 + 3.0 * gamma, variance, 5.4);
        moments("laplace", &draws(|g| g.laplace([N], t, -1.0, 0.5)), -1.0, 0.5, 6.0);
    }
    moments("bernoulli", &draws(|g| g.bernoulli([N], 0.3)), 0.3, 0.21, 0.37 / 0.21);
    moments("randint", &draws(|g| g.randint([N], DType::I32, -3, 5)), 0.5, 63.0 / 12.0, 1.8);
}

#[test]
fn cauchy_has_its_quartiles() {
    let mut x = draws(|g| g.cauchy([N], F32, 2.0, 3.0));
    assert!(x.iter().all(|x| x.is_finite()));
    x.sort_by(f64::total_cmp);
    // The standard error of a quantile is √(p(1 − p)/n) over the density.
    for (p, want) in [(0.25, -1.0), (0.5, 2.0), (0.75, 5.0)] {
        let z: f64 = (want - 2.0) / 3.0;
        let density = 1.0 / (std::f64::consts::PI * 3.0 * (1.0 + z * z));
        let error = (p * (1.0 - p) / N as f64).sqrt() / density;
        let got = x[(p * N as f64) as usize];
        assert!((got - want).abs() <= 5.0 * error, "quantile {p} is {got}, not {want}");
    }
}

#[test]
fn truncated_normals_stay_inside_and_have_their_means() {
    // (φ(lo) − φ(hi)) / (Φ(hi) − Φ(lo)), with 20 digits; and 1 + (lo·φ(lo) − hi·φ(hi)) / (…) − mean².
    for (lo, hi, mean, deviation) in [
        (-1.0, 2.0, 0.229_637_179_091, 0.720_946),
        (-1.0, 0.0, -0.459_862_229_286, 0.282_227),
        (0.0, 1.5, 0.621_950_977_774, 0.405_834),
        (5.0, 6.0, 5.183_147_090_477, 0.171_617),
        (-f64::INFINITY, -3.0, -3.283_098_654_930, 0.265_630),
    ] {
        for t in [F32, F64] {
            let x = draws(|g| g.truncated_normal([N], t, lo, hi));
            assert!(x.iter().all(|x| *x >= lo && *x <= hi), "outside {lo}..{hi}");
            let m = x.iter().sum::<f64>() / N as f64;
            let off = 5.0 * deviation / (N as f64).sqrt();
            assert!((m - mean).abs() <= off, "{lo}..{hi}: mean {m}, not {mean} to {off}");
        }
    }
}

#[test]
fn bounds_and_certain_outcomes() {
    let x = draws(|g| g.randint([N], DType::I64, 10, 13));
    assert!([10.0, 11.0, 12.0].iter().all(|k| x.contains(k)) && x.iter().all(|x| (10.0..13.0).contains(x)));
    assert!(draws(|g| g.bernoulli([N], 0.0)).iter().all(|x| *x == 0.0));
    assert!(draws(|g| g.bernoulli([N], 1.0)).iter().all(|x| *x == 1.0));
    let p = draws(|g| g.full(0.25, [N], F32).bernoulli());
    moments("a tensor of probabilities", &p, 0.25, 0.1875, 7.0 / 3.0);
    let mut order = draws(|g| g.permutation(1000));
    assert_ne!(order[..4], [0.0, 1.0, 2.0, 3.0]);
    order.sort_by(f64::total_cmp);
    assert!(order.iter().enumerate().all(|(i, x)| *x == i as f64));
    let why = |f: &dyn Fn(&Builder)| {
        let g = Builder::new("bad");
        f(&g);
        g.finish([]).err().unwrap().to_string()
    };
    let randint = |low: i64, high: i64| why(&move |g| _ = g.randint([2], DType::I32, low, high));
    assert!(randint(3, 3).contains("no whole number is in 3..3"));
    assert!(randint(0, 1 << 40).contains("leaves the range of i32"));
    assert!(why(&|g| _ = g.bernoulli([2], 1.5)).contains("p is 1.5"));
    assert!(why(&|g| _ = g.truncated_normal([2], F32, 1.0, 1.0)).contains("lo 1 is not below hi 1"));
    for (t, lo, hi) in [(F32, 15.0, f64::INFINITY), (F32, -30.0, -15.0), (F64, 38.0, 39.0), (F32, 5.0, 5.0 + 1e-40)] {
        let e = why(&move |g| _ = g.truncated_normal([2], t, lo, hi));
        assert!(e.contains("too little probability") || e.contains("not below"), "{lo} {hi}: {e}");
    }
    let far = draws(|g| g.truncated_normal([N], F32, 10.0, f64::INFINITY));
    assert!((far.iter().sum::<f64>() / N as f64 - 10.098_093).abs() < 1e-3);
    assert!(why(&|g| _ = g.uniform([2], DType::I32)).contains("no draws of i32"));
}

/// χ² of 3 degrees of freedom is above 30 with a probability of 1.4e-6.
#[test]
fn categories_have_their_frequencies() {
    let weights = [0.1f64, 0.2, 0.0, 0.3, 0.4];
    let x = draws(|g| {
        let row = weights.map(|w| w.ln() + 2.0);
        let bytes: Vec<u8> = row.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
        let logits = g.constant_bytes(&bytes, [1, 5], F32).broadcast([N / 5, 5]);
        logits.categorical(-1, DType::I32)
    });
    let n = x.len() as f64;
    let chi: f64 = (0..5)
        .map(|k| {
            let (seen, expected) = (x.iter().filter(|x| **x == f64::from(k)).count() as f64, weights[k as usize] * n);
            assert!(expected > 0.0 || seen == 0.0, "category {k} has probability 0");
            if expected > 0.0 { (seen - expected).powi(2) / expected } else { 0.0 }
        })
        .sum();
    assert!(chi < 30.0, "{chi}");
}

/// The derivative of the mean with respect to a parameter, with the noise held fixed.
#[test]
fn draws_are_differentiable_in_their_parameters() {
    let g = Builder::new("g");
    let (loc, scale) = (g.param("loc", [], F64, Init::Zeros), g.param("scale", [], F64, Init::Ones));
    let all = [
        g.gumbel([500], F64, loc, scale),
        g.laplace([500], F64, loc, scale),
        g.cauchy([500], F64, loc, scale),
        g.uniform_between([500], F64, loc, scale),
        g.exponential([500], F64, scale),
    ];
    let sums = all.map(|x| x.sum(..));
    let loss = sums.into_iter().reduce(|a, b| a + b).unwrap().named("loss");
    let graph = g.finish([loss]).unwrap();
    let back = grad(&graph, "loss", &GradOptions::wrt(&["loc", "scale"])).unwrap();
    let mut p = Session::new().compile(&back).unwrap();
    p.init(3).unwrap();
    let (loc, scale) = (p.param::<f64>("loc").unwrap(), p.param::<f64>("scale").unwrap());
    let mut at = |l: f64, s: f64| {
        // The same noise each time: the same seed, the first step.
        p.init(3).unwrap();
        p.write(loc, &[l]).unwrap();
        p.write(scale, &[s]).unwrap();
        p.step().unwrap();
        ["loss", "grad.loc", "grad.scale"].map(|name| p.values::<f64>(name).unwrap()[0])
    };
    let [_, by_loc, by_scale] = at(0.3, 1.7);
    let slope = |up: f64, down: f64| (up - down) / 2e-5;
    let want = slope(at(0.3 + 1e-5, 1.7)[0], at(0.3 - 1e-5, 1.7)[0]);
    assert!((by_loc - want).abs() <= 1e-6 * want.abs().max(1.0), "by loc {by_loc}, not {want}");
    let want = slope(at(0.3, 1.7 + 1e-5)[0], at(0.3, 1.7 - 1e-5)[0]);
    assert!((by_scale - want).abs() <= 1e-6 * want.abs().max(1.0), "by scale {by_scale}, not {want}");
}

#[test]
fn each_draw_has_its_own_stream_and_the_same_bits_for_any_threads() {
    let g = Builder::new("g");
    let (a, b) = (g.uniform([9000], F32), g.uniform([9000], F32));
    g.output("difference", a - b);
    g.output("whole", g.randint([9000], DType::I32, 0, 1000));
    g.output("gumbel", g.gumbel([9000], F32, 0.0, 1.0));
    g.output("truncated", g.truncated_normal([9000], F32, -1.0, 2.0));
    g.output("order", g.permutation(3000));
    let graph = g.finish([]).unwrap();
    let steps = |threads: usize| {
        let mut p = Session::new().threads(threads).share(true).compile(&graph).unwrap();
        p.init(11).unwrap();
        let mut all = Vec::new();
        for _ in 0..3 {
            p.step().unwrap();
            for name in ["difference", "gumbel", "truncated"] {
                all.extend(p.values::<f32>(name).unwrap().iter().map(|x| x.to_bits()));
            }
            for name in ["whole", "order"] {
                all.extend(p.values::<i32>(name).unwrap().iter().map(|x| *x as u32));
            }
        }
        all
    };
    let one = steps(1);
    for threads in [2, 3, 16] {
        assert!(steps(threads) == one, "{threads} threads");
    }
    let len = one.len() / 3;
    assert!(one[..len] != one[len..2 * len], "each step draws anew");
    assert!(one[..9000].iter().filter(|x| f32::from_bits(**x) == 0.0).count() < 10, "two draws differ");
}

/// The middle of the distribution is its location. A draw of it is rare, so an input stands for the draws.
#[test]
fn a_laplace_distribution_has_a_middle() {
    let g = Builder::new("laplace");
    g.output("y", g.laplace([3], F32, 1.0, 2.0));
    let text = print(g.finish([]).unwrap().view());
    let line = text.lines().find(|l| l.contains(" = rng_uniform ")).unwrap();
    let (u, _) = line.trim().split_once(" = ").unwrap();
    let text = text.replace(line, &format!("  {u} = input : f32[3]"));
    let text = text.replace(&format!("{u} "), "%u ").replace(&format!("{u},"), "%u,");
    let mut p = Session::new().compile(&parse(&text).unwrap()).unwrap();
    p.init(1).unwrap();
    p.values_mut::<f32>("u").unwrap().copy_from_slice(&[0.25, 0.5, 0.75]);
    p.step().unwrap();
    let (y, far) = (p.values::<f32>("y").unwrap(), 2.0 * std::f32::consts::LN_2);
    assert!(y.iter().zip([1.0 - far, 1.0, 1.0 + far]).all(|(y, want)| (y - want).abs() < 1e-6), "{y:?}");
}

/// The numbers of a draw where its uniform numbers, of type `dtype`, are `u`.
fn drawn_from(dtype: DType, u: &[f64], f: impl for<'g> Fn(&'g Builder) -> Var<'g>) -> Vec<f64> {
    let g = Builder::new("draw");
    g.output("y", f(&g).cast(F64));
    let text = print(g.finish([]).unwrap().view());
    let line = text.lines().find(|l| l.contains(" = rng_uniform ")).unwrap();
    let (drawn, _) = line.trim().split_once(" = ").unwrap();
    let text = text.replace(line, &format!("  {drawn} = input : {dtype}[{}]", u.len()));
    let text = text.replace(&format!("{drawn} "), "%u ").replace(&format!("{drawn},"), "%u,");
    let mut p = Session::new().compile(&parse(&text).unwrap()).unwrap();
    p.init(1).unwrap();
    match dtype {
        F32 => p.values_mut::<f32>("u").unwrap().iter_mut().zip(u).for_each(|(x, u)| *x = *u as f32),
        _ => p.values_mut::<f64>("u").unwrap().copy_from_slice(u),
    }
    p.step().unwrap();
    p.values::<f64>("y").unwrap().to_vec()
}

fn all_near(have: &[f64], want: &[f64]) {
    assert_eq!(have.len(), want.len());
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-11 * b.abs().max(1.0);
    assert!(have.iter().zip(want).all(near), "{have:?}, not {want:?}");
}

#[test]
fn draws_are_their_functions_of_uniform_numbers() {
    let u = [0.25, 0.5, 0.75];
    all_near(&drawn_from(F64, &u, |g| g.uniform_between([3], F64, -1.0, 3.0)), &[0.0, 1.0, 2.0]);
    all_near(&drawn_from(F64, &u, |g| g.exponential([3], F64, 2.0)), &u.map(|u| -(1.0 - u).ln() / 2.0));
    all_near(&drawn_from(F64, &u, |g| g.gumbel([3], F64, 1.0, 3.0)), &u.map(|u| 1.0 - 3.0 * (-(1.0 - u).ln()).ln()));
    let ln2 = std::f64::consts::LN_2;
    all_near(&drawn_from(F64, &u, |g| g.laplace([3], F64, -1.0, 0.5)), &[-1.0 - 0.5 * ln2, -1.0, -1.0 + 0.5 * ln2]);
    all_near(&drawn_from(F64, &u, |g| g.cauchy([3], F64, 2.0, 3.0)), &[-1.0, 2.0, 5.0]);
    assert_eq!(drawn_from(F64, &[0.75, 0.25, 0.5], |g| g.permutation(3)), [1.0, 2.0, 0.0]);
}

/// The quartiles of the normal distribution between two bounds, by its inverse.
#[test]
fn truncated_normals_have_their_quartiles() {
    let (low, high) = (-f64::INFINITY, f64::INFINITY);
    for (lo, hi, want) in [
        (low, high, [-0.674_489_750_196_081_7, 0.0, 0.674_489_750_196_081_7]),
        (-1.0, 2.0, [-0.349_641_429_292_465_44, 0.171_163_918_017_824_8, 0.747_440_723_964_059_3]),
        (1.0, high, [1.754_600_727_377_461_3, 1.409_608_709_293_454_4, 1.180_043_583_895_832_5]),
        (low, -1.0, [-1.754_600_727_377_461_3, -1.409_608_709_293_454_4, -1.180_043_583_895_832_5]),
    ] {
        all_near(&drawn_from(F64, &[0.25, 0.5, 0.75], |g| g.truncated_normal([3], F64, lo, hi)), &want);
    }
}

/// A draw of 0 counts as half of the smallest other draw: 2⁻²⁵ or 2⁻⁵⁴. So 1 − 2·|v| is 2⁻²⁴ or 2⁻⁵³.
#[test]
fn a_draw_of_0_is_half_of_the_smallest_draw() {
    let ln2 = std::f64::consts::LN_2;
    let single = drawn_from(F32, &[0.0], |g| g.laplace([1], F32, 1.0, 2.0))[0];
    assert!((single - (1.0 - 48.0 * ln2)).abs() < 1e-4, "{single}");
    all_near(&drawn_from(F64, &[0.0], |g| g.laplace([1], F64, 1.0, 2.0)), &[1.0 - 106.0 * ln2]);
}

/// The probability above a bound must be at least 2²⁵ (f32) or 2⁵⁴ (f64) times the least normal number: up to
/// 11.6037 and 36.5278.
#[test]
fn bounds_of_a_normal_distribution_may_not_be_too_far_out() {
    let built = |t: DType, lo: f64, hi: f64| {
        let g = Builder::new("bounds");
        g.output("y", g.truncated_normal([2], t, lo, hi));
        g.finish([]).map(|_| ()).map_err(|e| e.to_string())
    };
    let high = f64::INFINITY;
    for (t, lo, hi) in [(F32, 11.59, high), (F32, -high, -11.59), (F64, 36.52, high), (F64, -high, -36.52)] {
        assert_eq!(built(t, lo, hi), Ok(()), "{t} {lo} {hi}");
    }
    let narrow = (F32, 11.0, 11.000_000_000_000_002);
    for (t, lo, hi) in [(F32, 11.61, high), (F32, -high, -11.61), (F64, 36.54, high), (F64, -high, -36.54), narrow] {
        assert!(built(t, lo, hi).unwrap_err().contains("too little probability"), "{t} {lo} {hi}");
    }
    for (lo, hi) in [(f64::NAN, 1.0), (-1.0, f64::NAN), (2.0, 2.0), (high, high)] {
        let e = built(F64, lo, hi).unwrap_err();
        assert!(e.contains(&format!("truncated_normal: lo {lo} is not below hi {hi}")), "{e}");
    }
}

/// A row without a category to draw ends the step, as one of `sample` does; any axis may hold the categories.
#[test]
fn a_row_without_a_category_is_named() {
    let run = |axis: i64, logits: [f64; 4]| {
        let g = Builder::new("draw");
        let drawn = g.input("x", [2, 2], F64).categorical(axis, DType::I64).named("drawn");
        let mut p = Session::new().compile(&g.finish([drawn]).unwrap()).unwrap();
        p.init(1).unwrap();
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&logits);
        p.step().map(|_| p.values::<i64>("drawn").unwrap().to_vec()).map_err(|e| e.to_string())
    };
    let never = f64::NEG_INFINITY;
    assert_eq!(run(1, [never, 0.0, 1.0, never]), Ok(vec![1, 0]));
    assert_eq!(run(0, [never, 1.0, 0.0, never]), Ok(vec![1, 0]));
    assert!(run(1, [0.0, 1.0, f64::NAN, 0.0]).unwrap_err().contains("logit 0 of row 1 is NaN or +∞"));
    assert!(run(0, [0.0, never, 1.0, never]).unwrap_err().contains("no logit of row 1 is above −∞"));
    let g = Builder::new("draw");
    _ = g.input("x", [2, 2], F64).categorical(1, DType::F32);
    assert!(g.finish([]).unwrap_err().to_string().contains("positions are i32 or i64, not f32"));
}
