//! Draws of tokens from logits: the tokens of the sampler on the host, streams, loops, faults, refusals.

use crate::common::{PLAIN, Tensor, run, try_run_once};
use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GraphBuf, Loop};
use arenagrad::session::Session;
use arenagrad::train::{Sampler, Sampling, sampling};

fn tokens(rows: usize, n: usize, how: Sampling) -> GraphBuf {
    let g = Builder::new("draw");
    let (logits, key) = (g.input("logits", [rows, n], DType::F32), g.input("key", [4], DType::U32));
    g.finish([logits.sample_with_key(how, key, 0).named("token")]).unwrap()
}

fn given(rows: usize, logits: &[f64], seed: u64) -> [Tensor; 2] {
    let dims = vec![rows, logits.len() / rows.max(1)];
    let key = vec![(seed as u32).into(), ((seed >> 32) as u32).into(), 0.0, 0.0];
    [Tensor { dtype: DType::F32, dims, data: logits.to_vec() }, Tensor { dtype: DType::U32, dims: vec![4], data: key }]
}

/// Logits with ties and −∞.
fn logits(rows: usize, n: usize) -> Vec<f64> {
    let one = |i: usize| match i % 7 {
        3 => f64::NEG_INFINITY,
        _ => f64::from(((i * 7919) % 23) as f32 * 0.25),
    };
    (0..rows * n).map(one).collect()
}

#[test]
fn the_graph_and_the_host_choose_the_same_tokens() {
    let plain = Sampling::default();
    let all = [
        plain,
        plain.temperature(0.5),
        plain.temperature(0.0),
        plain.top_k(1),
        Sampling::default().top_k(5).top_p(0.6).temperature(1.3),
        plain.top_p(0.3),
        plain.top_k(1000),
    ];
    let (rows, n, seed) = (600, 31, 0x1234_5678_9abc_def0);
    let x = logits(rows, n);
    let mut different = 0;
    for how in all {
        let got = &run(&tokens(rows, n, how), &given(rows, &x, seed), PLAIN)[0].data;
        let mut sampler = Sampler::new(how).unwrap();
        // The host's number i is the first of two that a block of random bits gives.
        for i in 0..rows / 2 {
            let row: Vec<f32> = x[2 * i * n..][..n].iter().map(|x| *x as f32).collect();
            let want = sampler.pick(&row, sampling::uniform(seed, i as u64)).unwrap();
            assert_eq!(got[2 * i], want as f64, "{how:?}, row {i}");
            different += usize::from(want != sampler.pick(&row, 0.0).unwrap());
        }
    }
    assert!(different > 500, "draws that differ from the likeliest: {different}");
}

#[test]
fn rows_are_independent_and_follow_the_softmax() {
    let (rows, n) = (20_000, 3);
    let weights = [0.5f64, 0.3, 0.2];
    let mut x: Vec<f64> = (0..rows * n).map(|i| f64::from(weights[i % n].ln() as f32)).collect();
    let graph = tokens(rows, n, Sampling::default());
    let first = run(&graph, &given(rows, &x, 5), PLAIN)[0].data.clone();
    for (t, w) in weights.iter().enumerate() {
        let share = first.iter().filter(|&&x| x == t as f64).count() as f64 / rows as f64;
        assert!((share - w).abs() < 0.015, "token {t}: {share}");
    }
    // Another row 7 leaves all others as they are.
    x[7 * n..8 * n].copy_from_slice(&[f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0]);
    let second = run(&graph, &given(rows, &x, 5), PLAIN)[0].data.clone();
    assert!(second[7] == 2.0 && (0..rows).all(|r| r == 7 || first[r] == second[r]));
}

#[test]
fn streams_iterations_and_steps_draw_anew_and_a_seed_draws_again() {
    let g = Builder::new("draws");
    let x = g.full(0.0, [16, 50], DType::F32);
    let [a, b] = [x, x].map(|x| x.sample(Sampling::default()));
    let (_, ys) = g.scan_with(Loop::default().length(4), &[g.full(0.0, [], DType::F32)], &[], |c, _| {
        (vec![c[0]], vec![x.sample(Sampling::default())])
    });
    let mut p = Session::new().compile(&g.finish([a.named("a"), b.named("b"), ys[0].named("loop")]).unwrap()).unwrap();
    let mut draws = |seed: u64| {
        p.init(seed).unwrap();
        let mut all = Vec::new();
        for _ in 0..2 {
            p.step().unwrap();
            all.extend(["a", "b"].map(|name| p.values::<i32>(name).unwrap().to_vec()));
            all.extend(p.values::<i32>("loop").unwrap().chunks(16).map(<[i32]>::to_vec));
        }
        all
    };
    let first = draws(3);
    assert_eq!(first.len(), 12);
    for (i, draw) in first.iter().enumerate() {
        assert!(!first[..i].contains(draw), "draw {i} is that of another op, iteration or step");
    }
    assert_eq!(first, draws(3));
    assert_ne!(first, draws(4));
}

#[test]
fn a_row_without_a_token_ends_the_step_and_is_named() {
    let low = f64::NEG_INFINITY;
    let graph = tokens(3, 2, Sampling::default());
    let fault = |x: &[f64]| {
        let e = try_run_once(&graph, &given(3, x, 0), PLAIN).unwrap_err();
        assert_eq!(e.kind, Kind::Data, "{e}");
        e.to_string()
    };
    let text = fault(&[0.0, 1.0, low, 0.0, f64::NAN, 1.0]);
    assert!(text.contains("sample") && text.contains("logit 0 of row 2 is NaN or +∞"), "{text}");
    assert!(fault(&[0.0, 1.0, 0.0, f64::INFINITY, 0.0, 0.0]).contains("logit 1 of row 1"));
    assert!(fault(&[0.0, 1.0, low, low, 0.0, 0.0]).contains("no logit of row 1 is above −∞"));
}

#[test]
fn settings_out_of_range_are_refused() {
    let plain = Sampling::default();
    let bad = [
        (plain.temperature(-1.0), "temperature is -1"),
        (plain.temperature(f64::NAN), "temperature is NaN"),
        (plain.top_p(0.0), "top_p is 0"),
        (plain.top_p(1.5), "top_p is 1.5"),
    ];
    for (how, why) in bad {
        let g = Builder::new("draw");
        let e = g.finish([g.input("x", [2, 3], DType::F32).sample(how).named("t")]).unwrap_err().to_string();
        assert!(e.contains("sample") && e.contains(why) && e.contains("sample.rs"), "{e}");
    }
    let g = Builder::new("draw");
    let e = g.finish([g.input("x", [2, 0], DType::F32).sample(plain).named("t")]).unwrap_err().to_string();
    assert!(e.contains("no token"), "{e}");
}
