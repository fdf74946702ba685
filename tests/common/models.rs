//! Models that several tests train or plan.

use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Var};
use arenagrad::nn;

/// 784-128-10 with ReLU and cross-entropy.
pub fn mlp(batch: usize) -> GraphBuf {
    let g = Builder::new("mlp");
    let x = g.input("x", [batch, 784], DType::F32);
    let y = g.input("y", [batch], DType::I32);
    let h = nn::linear(&g, "fc1", x, 128).relu();
    let loss = nn::linear(&g, "fc2", h, 10).cross_entropy_with(y, CrossEntropy::per_row()).mean(..);
    g.finish([loss.named("loss")]).expect("a valid model")
}

/// Two convolutions, two pools, two dense layers on 28×28 images.
pub fn convnet(batch: usize) -> GraphBuf {
    let g = Builder::new("convnet");
    let x = g.input("x", [batch, 1, 28, 28], DType::F32);
    let y = g.input("y", [batch], DType::I32);
    let padded = Conv2d::default().pad([2, 2, 2, 2]);
    let h = nn::conv2d(&g, "conv1", x, 6, [5, 5], padded).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::conv2d(&g, "conv2", h, 16, [5, 5], Conv2d::default()).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = h.reshape([batch, 400]);
    let h = nn::linear(&g, "fc1", h, 120).relu();
    let loss = nn::linear(&g, "fc2", h, 10).cross_entropy_with(y, CrossEntropy::per_row()).mean(..);
    g.finish([loss.named("loss")]).expect("a valid model")
}

/// Pre-norm transformer blocks of width `c` with `heads` heads, on token indices.
pub fn transformer(batch: usize, t: usize, c: usize, heads: usize, blocks: usize, vocab: usize) -> GraphBuf {
    let g = Builder::new("transformer");
    let tokens = g.input("tokens", [batch, t], DType::I32);
    let targets = g.input("targets", [batch * t], DType::I32);
    let mut x = nn::embedding(&g, "wte", tokens, vocab, c, DType::F32);
    for i in 0..blocks {
        let h = nn::layer_norm(&g, &format!("h.{i}.ln_1"), x, 1e-5);
        x = x + attention(&g, &format!("h.{i}.attn"), h, heads);
        let h = nn::layer_norm(&g, &format!("h.{i}.ln_2"), x, 1e-5);
        let h = nn::linear(&g, &format!("h.{i}.mlp.c_fc"), h, 4 * c).gelu_tanh();
        x = x + nn::linear(&g, &format!("h.{i}.mlp.c_proj"), h, c);
    }
    let x = nn::layer_norm(&g, "ln_f", x, 1e-5);
    let logits = nn::linear(&g, "lm_head", x, vocab).reshape([batch * t, vocab]);
    let loss = logits.cross_entropy_with(targets, CrossEntropy::per_row()).mean(..);
    g.finish([loss.named("loss")]).expect("a valid model")
}

/// Causal self-attention from plain ops.
pub fn attention<'g>(g: &'g Builder, name: &str, x: Var<'g>, heads: usize) -> Var<'g> {
    let d = x.dims();
    let (b, t, c) = (d[0], d[1], d[2]);
    let split = |part: &str| {
        let y = nn::linear(g, &format!("{name}.{part}"), x, c);
        y.reshape([b, t, heads, c / heads]).transpose(&[0, 2, 1, 3])
    };
    let (q, k, v) = (split("q"), split("k"), split("v"));
    let scores = q.matmul_t(k, false, true) * (1.0 / ((c / heads) as f64).sqrt());
    let past = g.iota(0, [t, t], DType::I32).greater_equal(g.iota(1, [t, t], DType::I32));
    let masked = past.select(scores, scores.full_like(f64::NEG_INFINITY));
    let y = masked.softmax(-1).matmul(v).transpose(&[0, 2, 1, 3]).reshape([b, t, c]);
    nn::linear(g, &format!("{name}.proj"), y, c)
}
