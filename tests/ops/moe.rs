//! The mixture of experts: against a loop over tokens, gradients against differences, ties, dropped tokens, refusals.

use crate::common::{PLAIN, Tensor, TensorDraws, run};
use arenagrad::graph::{Builder, DType, GraphBuf};
use arenagrad::nn::{self, Moe};
use arenagrad::tools::ir::opdef::Domain;

const F64: DType = DType::F64;
const WIDTH: usize = 4;
const HIDDEN: usize = 5;

/// y and the balance loss of `tokens` tokens.
fn layer(tokens: usize, o: Moe) -> GraphBuf {
    let g = Builder::new("moe");
    let [y, balance] = nn::moe(&g, "m", g.input("x", [tokens, WIDTH], F64), o);
    g.finish([y.named("y"), balance.named("balance")]).unwrap()
}

/// x, and the weights of router, gate, up and down.
fn operands(tokens: usize, experts: usize, seed: u64) -> Vec<Tensor> {
    let mut draw = TensorDraws(seed);
    let dims: [&[usize]; 5] = [
        &[tokens, WIDTH],
        &[experts, WIDTH],
        &[experts, HIDDEN, WIDTH],
        &[experts, HIDDEN, WIDTH],
        &[experts, WIDTH, HIDDEN],
    ];
    dims.map(|d| draw.tensor(F64, d, Domain::Real)).to_vec()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// One expert's result for one token.
fn expert(x: &[f64], e: usize, given: &[Tensor]) -> Vec<f64> {
    let row = |w: usize, i: usize, n: usize, rows: usize| &given[w].data[(e * rows + i) * n..][..n];
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let hidden: Vec<f64> =
        (0..HIDDEN).map(|i| silu(dot(row(2, i, WIDTH, HIDDEN), x)) * dot(row(3, i, WIDTH, HIDDEN), x)).collect();
    (0..WIDTH).map(|i| dot(row(4, i, HIDDEN, WIDTH), &hidden)).collect()
}

/// The definition, one token after another.
fn naive(given: &[Tensor], tokens: usize, o: Moe) -> (Vec<f64>, f64) {
    let x = |t: usize| &given[0].data[t * WIDTH..][..WIDTH];
    let p: Vec<Vec<f64>> = (0..tokens)
        .map(|t| {
            let e = (0..o.experts).map(|e| dot(&given[1].data[e * WIDTH..][..WIDTH], x(t)).exp()).collect::<Vec<_>>();
            let sum: f64 = e.iter().sum();
            e.into_iter().map(|e| e / sum).collect()
        })
        .collect();
    let chosen: Vec<Vec<usize>> = p
        .iter()
        .map(|p| {
            let mut order: Vec<usize> = (0..o.experts).collect();
            order.sort_by(|&a, &b| p[b].partial_cmp(&p[a]).unwrap());
            order.truncate(o.top_k);
            order
        })
        .collect();
    let (mut y, mut load) = (vec![0.0; tokens * WIDTH], vec![0; o.experts]);
    for choice in 0..o.top_k {
        for (t, chosen) in chosen.iter().enumerate() {
            let e = chosen[choice];
            load[e] += 1;
            if o.capacity.is_some_and(|most| load[e] > most) {
                continue;
            }
            let sum: f64 = if o.renormalise { chosen.iter().map(|&e| p[t][e]).sum() } else { 1.0 };
            let out = expert(x(t), e, given);
            y[t * WIDTH..][..WIDTH].iter_mut().zip(out).for_each(|(y, out)| *y += p[t][e] / sum * out);
        }
    }
    let share = |e: usize| load[e] as f64 / (tokens * o.top_k) as f64;
    let mean = |e: usize| p.iter().map(|p| p[e]).sum::<f64>() / tokens as f64;
    (y, o.experts as f64 * (0..o.experts).map(|e| share(e) * mean(e)).sum::<f64>())
}

fn near(what: &str, ours: &[f64], want: &[f64]) {
    assert_eq!(ours.len(), want.len(), "{what}");
    assert!(ours.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12), "{what}: {ours:?}, not {want:?}");
}

#[test]
fn the_layer_is_a_loop_over_tokens() {
    let plain = Moe::new(5, 2, HIDDEN);
    let options =
        [plain, plain.renormalise(false), plain.capacity(4), plain.top_k(1).renormalise(false), plain.top_k(5)];
    for (i, o) in options.into_iter().enumerate() {
        for tokens in [1, 17] {
            let given = operands(tokens, o.experts, 3);
            let outs = run(&layer(tokens, o), &given, PLAIN);
            let (y, balance) = naive(&given, tokens, o);
            near(&format!("options {i}, {tokens} tokens"), &outs[0].data, &y);
            near("balance", &outs[1].data, &[balance]);
        }
    }
}

#[test]
fn ties_go_to_the_first_experts_and_tokens_beyond_the_capacity_are_zeros() {
    let tokens = 5;
    let mut given = operands(tokens, 4, 5);
    // All probabilities are a quarter.
    given[1].data.fill(0.0);
    let outs = run(&layer(tokens, Moe::new(4, 2, HIDDEN)), &given, PLAIN);
    let x = |t: usize| &given[0].data[t * WIDTH..][..WIDTH];
    let mean = |t: usize| -> Vec<f64> {
        let (a, b) = (expert(x(t), 0, &given), expert(x(t), 1, &given));
        a.iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect()
    };
    near("experts 0 and 1", &outs[0].data, &(0..tokens).flat_map(mean).collect::<Vec<_>>());
    near("balance", &outs[1].data, &[1.0]);

    let outs = run(&layer(tokens, Moe::new(4, 2, HIDDEN).capacity(3)), &given, PLAIN);
    near("three tokens", &outs[0].data[..3 * WIDTH], &(0..3).flat_map(mean).collect::<Vec<_>>());
    assert!(outs[0].data[3 * WIDTH..].iter().all(|y| y.to_bits() == 0), "{:?}", outs[0]);
    near("balance counts dropped tokens", &outs[1].data, &[1.0]);
    let outs = run(&layer(tokens, Moe::new(4, 2, HIDDEN).capacity(0)), &given, PLAIN);
    assert!(outs[0].data.iter().all(|y| y.to_bits() == 0), "{:?}", outs[0]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (experts, top_k) in [(4, 0), (4, 5), (0, 0)] {
        let g = Builder::new("moe");
        let [y, _] = nn::moe(&g, "m", g.input("x", [3, 4], F64), Moe::new(experts, top_k, 8));
        let e = g.finish([y.named("y")]).unwrap_err().to_string();
        assert!(e.contains("moe(") && e.contains(&format!("{top_k} of {experts} experts")), "{e}");
        assert!(e.contains("moe.rs"), "{e}");
    }
    // A scalar has no width.
    let g = Builder::new("moe");
    let [y, _] = nn::moe(&g, "m", g.input("x", [], F64), Moe::new(4, 2, 8));
    let e = g.finish([y]).unwrap_err().to_string();
    assert!(e.contains("moe(") && e.contains("for each token of [.., width]"), "{e}");
    // After another error the layer goes on to it.
    let g = Builder::new("moe");
    let bad = g.input("x", [3, 4], F64).reshape([5]);
    let [y, _] = nn::moe(&g, "m", bad, Moe::new(0, 1, 4));
    let e = g.finish([y]).unwrap_err().to_string();
    assert!(e.starts_with("reshape("), "{e}");
}
