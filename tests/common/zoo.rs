//! Training programs of well-known models, from the library's own ops, at any size: full sizes are planned and never
//! run, small ones are run.

use super::models;

use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Init, Var};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use models::attention;

const F32: DType = DType::F32;

/// A model by name: its training program, at full size and at a size that runs in no time.
pub struct Model {
    pub name: &'static str,
    pub full: fn() -> GraphBuf,
    pub small: fn() -> GraphBuf,
}

/// All models.
pub const ZOO: &[Model] = &[
    Model { name: "mlp10-b256", full: || step(mlp(256, 784, 512, 9)), small: || step(mlp(5, 12, 7, 3)) },
    Model { name: "mlp10-b32", full: || step(mlp(32, 784, 512, 9)), small: || step(mlp(2, 6, 33, 4)) },
    Model { name: "lenet-b128", full: || step(lenet(128)), small: || step(lenet(2)) },
    Model {
        name: "gpt12-b4-t256",
        full: || step(gpt(4, 256, 768, 12, 12, 16_384)),
        small: || step(gpt(2, 5, 8, 2, 2, 11)),
    },
    Model {
        name: "gpt12-b1-t64",
        full: || step(gpt(1, 64, 768, 12, 12, 16_384)),
        small: || step(gpt(1, 3, 12, 3, 3, 40)),
    },
    Model { name: "unet3-b4", full: || step(unet(4, 128, 32, 3)), small: || step(unet(1, 8, 2, 2)) },
    Model { name: "resnet18-b8", full: || step(resnet(8, 224, 64)), small: || step(resnet(2, 32, 2)) },
    Model { name: "resnet18-b1", full: || step(resnet(1, 224, 64)), small: || step(resnet(1, 32, 3)) },
    Model { name: "scan512-b32", full: || step(looped(512, 32, 128, 256)), small: || step(looped(6, 2, 3, 5)) },
    Model { name: "rnn512-b32", full: || step(rnn(512, 32, 128, 256)), small: || step(rnn(6, 2, 3, 5)) },
];

/// The training program of `g` by plain gradient descent, so that what lies in memory beside activations and gradients
/// is params alone.
pub fn step(g: GraphBuf) -> GraphBuf {
    train(&g, "loss", optim::Sgd::new(1e-3)).expect("a training program")
}

fn classes<'g>(g: &'g Builder, logits: Var<'g>) -> Var<'g> {
    let labels = g.input("labels", [logits.dims()[0]], DType::I32);
    logits.cross_entropy_with(labels, CrossEntropy::per_row()).mean(..)
}

/// `inputs`-`width`×`hidden`-10 with ReLU.
pub fn mlp(batch: usize, inputs: usize, width: usize, hidden: usize) -> GraphBuf {
    let g = Builder::new("mlp");
    let mut h = g.input("x", [batch, inputs], F32);
    for i in 0..hidden {
        h = nn::linear(&g, &format!("fc{i}"), h, width).relu();
    }
    let loss = classes(&g, nn::linear(&g, "head", h, 10));
    g.output("loss", loss);
    g.finish([]).expect("a valid model")
}

/// LeNet-5 on 28×28 images.
pub fn lenet(batch: usize) -> GraphBuf {
    let g = Builder::new("lenet");
    let x = g.input("x", [batch, 1, 28, 28], F32);
    let padded = Conv2d::default().pad([2; 4]);
    let h = nn::conv2d(&g, "conv1", x, 6, [5, 5], padded).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::conv2d(&g, "conv2", h, 16, [5, 5], Conv2d::default()).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::linear(&g, "fc1", h.reshape([batch, 400]), 120).relu();
    let h = nn::linear(&g, "fc2", h, 84).relu();
    let loss = classes(&g, nn::linear(&g, "fc3", h, 10));
    g.output("loss", loss);
    g.finish([]).expect("a valid model")
}

/// Pre-norm transformer blocks of width `c`, with causal attention from plain ops.
pub fn gpt(batch: usize, t: usize, c: usize, heads: usize, blocks: usize, vocab: usize) -> GraphBuf {
    let g = Builder::new("gpt");
    let tokens = g.input("tokens", [batch, t], DType::I32);
    let mut x = nn::embedding(&g, "wte", tokens, vocab, c, F32) + g.param("wpe", [t, c], F32, Init::Normal(0.02));
    for i in 0..blocks {
        let h = nn::layer_norm(&g, &format!("h.{i}.ln_1"), x, 1e-5);
        x = x + attention(&g, &format!("h.{i}.attn"), h, heads);
        let h = nn::layer_norm(&g, &format!("h.{i}.ln_2"), x, 1e-5);
        let h = nn::linear(&g, &format!("h.{i}.c_fc"), h, 4 * c).gelu_tanh();
        x = x + nn::linear(&g, &format!("h.{i}.c_proj"), h, c);
    }
    let x = nn::layer_norm(&g, "ln_f", x, 1e-5);
    let loss = classes(&g, nn::linear_no_bias(&g, "head", x, vocab).reshape([batch * t, vocab]));
    g.output("loss", loss);
    g.finish([]).expect("a valid model")
}

/// Convolution without bias.
pub fn conv<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, kernel: usize, stride: usize) -> Var<'g> {
    let inputs = x.dims()[1];
    let init = Init::Normal((2.0 / (inputs * kernel * kernel) as f64).sqrt());
    let w = g.param(&format!("{name}.weight"), [outputs, inputs, kernel, kernel], F32, init);
    x.conv2d(w, Conv2d::default().stride([stride; 2]).pad([kernel / 2; 4]))
}

/// Batch normalisation by the batch's own statistics, from plain ops.
fn batch_norm<'g>(g: &'g Builder, name: &str, x: Var<'g>) -> Var<'g> {
    let c = x.dims()[1];
    let weight = g.param(&format!("{name}.weight"), [c], F32, Init::Ones).reshape([c, 1, 1]);
    let bias = g.param(&format!("{name}.bias"), [c], F32, Init::Zeros).reshape([c, 1, 1]);
    let n = (x.numel() / c.max(1)) as f64;
    let sum = |v: Var<'g>| v.sum([0, 2, 3]).reshape([c, 1, 1]);
    let centred = x - sum(x) * (1.0 / n);
    let inverse = (sum(centred * centred) * (1.0 / n) + 1e-5).rsqrt();
    centred * inverse * weight + bias
}

/// Convolution and batch normalisation.
pub fn block<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, kernel: usize, stride: usize) -> Var<'g> {
    batch_norm(g, &format!("{name}.bn"), conv(g, &format!("{name}.conv"), x, outputs, kernel, stride))
}

/// Every pixel as a square of four: broadcast and reshape.
fn upsample(x: Var<'_>) -> Var<'_> {
    let d = x.dims();
    let (n, c, h, w) = (d[0], d[1], d[2], d[3]);
    x.reshape([n, c, h, 1, w, 1]).broadcast([n, c, h, 2, w, 2]).reshape([n, c, 2 * h, 2 * w])
}

/// A U-Net with `levels` levels on one-channel images of `side`², a label for each pixel.
pub fn unet(batch: usize, side: usize, base: usize, levels: usize) -> GraphBuf {
    let g = Builder::new("unet");
    let mut h = g.input("x", [batch, 1, side, side], F32);
    let twice = |name: String, x, c| {
        let h = block(&g, &format!("{name}.a"), x, c, 3, 1).relu();
        block(&g, &format!("{name}.b"), h, c, 3, 1).relu()
    };
    let mut skips = Vec::new();
    for level in 0..levels {
        let skip = twice(format!("down{level}"), h, base << level);
        skips.push(skip);
        h = skip.max_pool2d(Pool2d::new([2, 2]));
    }
    h = twice("bottom".to_string(), h, base << levels);
    for (level, skip) in skips.into_iter().enumerate().rev() {
        let up = block(&g, &format!("up{level}.up"), upsample(h), base << level, 3, 1);
        h = twice(format!("up{level}"), skip.concat(&[up], 1), base << level);
    }
    let target = g.input("target", [batch, 1, side, side], F32);
    let loss = nn::conv2d(&g, "head", h, 1, [1, 1], Conv2d::default()).bce_with_logits(target);
    g.output("loss", loss);
    g.finish([]).expect("a valid model")
}

/// ResNet-18 of first width `width` on images of `side`².
pub fn resnet(batch: usize, side: usize, width: usize) -> GraphBuf {
    let g = Builder::new("resnet");
    let x = g.input("x", [batch, 3, side, side], F32);
    let pool = Pool2d::new([3, 3]).stride([2; 2]).pad([1; 4]);
    let mut h = block(&g, "stem", x, width, 7, 2).relu().max_pool2d(pool);
    for i in 0..8 {
        let (outputs, stride) = (width << (i / 2), if i > 0 && i % 2 == 0 { 2 } else { 1 });
        let y = block(&g, &format!("block{i}.a"), h, outputs, 3, stride).relu();
        let y = block(&g, &format!("block{i}.b"), y, outputs, 3, 1);
        let skip = if stride == 2 { block(&g, &format!("block{i}.skip"), h, outputs, 1, 2) } else { h };
        h = (y + skip).relu();
    }
    let loss = classes(&g, nn::linear(&g, "head", h.mean([2, 3]), 10));
    g.output("loss", loss);
    g.finish([]).expect("a valid model")
}

/// An Elman network unrolled over `steps` steps, with one output at the end.
pub fn rnn(steps: usize, batch: usize, inputs: usize, hidden: usize) -> GraphBuf {
    let g = Builder::new("rnn");
    let xs = g.input("xs", [steps, batch, inputs], F32);
    let wx = g.param("wx", [inputs, hidden], F32, Init::Normal(0.05));
    let wh = g.param("wh", [hidden, hidden], F32, Init::Normal(0.05));
    let b = g.param("b", [hidden], F32, Init::Zeros);
    let mut h = g.full(0.0, [batch, hidden], F32);
    for t in 0..steps {
        let x = xs.slice(&[t, 0, 0], &[t + 1, batch, inputs], &[1, 1, 1]).reshape([batch, inputs]);
        h = (x.matmul(wx) + h.matmul(wh) + b).tanh();
    }
    let loss = classes(&g, nn::linear(&g, "head", h, 10));
    g.output("loss", loss);
    g.finish([]).expect("a valid model")
}

/// The same recurrence as a loop.
pub fn looped(steps: usize, batch: usize, inputs: usize, hidden: usize) -> GraphBuf {
    let g = Builder::new("looped");
    let xs = g.input("xs", [steps, batch, inputs], F32);
    let wx = g.param("wx", [inputs, hidden], F32, Init::Normal(0.05));
    let wh = g.param("wh", [hidden, hidden], F32, Init::Normal(0.05));
    let b = g.param("b", [hidden], F32, Init::Zeros);
    let start = g.full(0.0, [batch, hidden], F32);
    let (h, _) = g.scan(&[start], &[xs], |h, x| (vec![(x[0].matmul(wx) + h[0].matmul(wh) + b).tanh()], vec![]));
    let loss = classes(&g, nn::linear(&g, "head", h[0], 10));
    g.output("loss", loss);
    g.finish([]).expect("a valid model")
}
