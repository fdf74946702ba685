//! The workloads of `bench`.
//!
//! Invariant: models, batch sizes and optimisers never change, so that times and losses can be compared with those of
//! other engines. `w9`, the fit of a spaced-repetition scheduler, is the example `fsrs`.

use super::networks::{images, rows, sequences};
use crate::fail::{Run, fail_bad_input};
use arenagrad::error::Result;
use arenagrad::graph::{Builder, DType, GraphBuf, Var};
use arenagrad::optim::{self, Optimiser, Split, train};
use arenagrad::session::Binding;

/// The numbers of an input, without the end. Integers are rounded down.
#[derive(Clone, Copy)]
pub struct Range {
    pub from: f64,
    pub to: f64,
}

/// A training step of a network.
#[derive(Clone, Copy)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// The network and its training, in a line.
    pub doc: &'static str,
    /// The graph of this name, with the output `loss`.
    graph: fn(&str) -> Result<GraphBuf>,
    /// The same on one part of the batch of this many, for ranks under `mpirun`: its batch, and the graph.
    part: Option<(usize, fn(&str, usize) -> Result<GraphBuf>)>,
    optimiser: fn() -> Optimiser,
    /// The range of an element of an input, in synthetic data.
    pub range: fn(&Binding, usize) -> Range,
    /// From a param's name to its name in data files.
    pub alias: fn(&str) -> String,
}

/// A workload of data in small ranges, whose params are called in files as they are.
const fn workload(
    name: &'static str,
    doc: &'static str,
    graph: fn(&str) -> Result<GraphBuf>,
    optimiser: fn() -> Optimiser,
) -> Workload {
    Workload { name, doc, graph, part: None, optimiser, range: small, alias: str::to_string }
}

const WIDTHS_OF_W3: [usize; 4] = [1024, 4096, 4096, 1024];

/// All workloads.
pub const WORKLOADS: [Workload; 16] = [
    workload(
        "w1",
        "MLP 784-128-10, relu, cross entropy, batch 32, SGD",
        |name| of(name, |g| rows::classes(g, 32, &[784, 128, 10])),
        || optim::Sgd::new(0.1).into(),
    ),
    workload(
        "w2",
        "MLP 4-32-32-2, tanh, squared error, batch 1, SGD",
        |name| of(name, |g| rows::values(g, 1, &[4, 32, 32, 2], Var::tanh)),
        || optim::Sgd::new(0.01).into(),
    ),
    Workload {
        part: Some((256, |name, batch| of(name, |g| rows::values(g, batch, &WIDTHS_OF_W3, Var::relu)))),
        ..workload(
            "w3",
            "MLP 1024-4096-4096-1024, relu, squared error, batch 256, Adam",
            |name| of(name, |g| rows::values(g, 256, &WIDTHS_OF_W3, Var::relu)),
            adam,
        )
    },
    workload(
        "w4",
        "LeNet on 28x28 images, cross entropy, batch 64, SGD with momentum",
        |name| of(name, images::lenet),
        momentum,
    ),
    workload(
        "w5",
        "residual network of 16 channels with group norm on 3x32x32 images, batch 32, SGD with momentum",
        |name| of(name, images::group_normed),
        momentum,
    ),
    Workload {
        alias: short_name,
        part: Some((12, |name, batch| of(name, |g| sequences::gpt(g, batch, sequences::char_gpt())))),
        ..workload(
            "w6",
            "GPT, 4 layers of 4 heads, width 128, 12 x 64 of 65 tokens, cross entropy, AdamW with clipping",
            |name| of(name, |g| sequences::gpt(g, 12, sequences::char_gpt())),
            || {
                let opt = optim::AdamW::new(1e-3).betas((0.9, 0.95)).weight_decay(0.1);
                opt.decay_from_rank(2).clip_norm(1.0).into()
            },
        )
    },
    Workload {
        range: |b, _| indices(b, 50_257),
        alias: short_name,
        part: Some((4, |name, batch| of(name, |g| sequences::gpt(g, batch, sequences::gpt2())))),
        ..workload(
            "w7",
            "GPT-2 of 124 million params, 4 x 64 tokens, Adam",
            |name| of(name, |g| sequences::gpt(g, 4, sequences::gpt2())),
            || optim::Adam::new(1e-4).into(),
        )
    },
    Workload {
        alias: short_name,
        ..workload(
            "w8",
            "GRU 32-128 over 256 steps, squared error of the last state, batch 8, SGD",
            |name| of(name, sequences::gru),
            || optim::Sgd::new(0.01).into(),
        )
    },
    Workload {
        range: |b, _| indices(b, 4),
        ..workload(
            "w10",
            "EEGNet-like network of depthwise-separable 1-D convolutions on 22x512 samples, batch 16, Adam",
            |name| of(name, images::eeg),
            adam,
        )
    },
    Workload {
        range: |b, i| targets(b, rows::CARDINALITIES[i % rows::CARDINALITIES.len()]),
        ..workload(
            "w11",
            "tabular network of 12 embeddings and 10 numbers, batch norm, dropout, batch 1024, Adam",
            |name| of(name, rows::tabular),
            adam,
        )
    },
    Workload {
        range: |b, _| indices(b, 100),
        ..workload(
            "w12",
            "ViT of 12 layers, width 192, on 3x64x64 images in patches of 8, batch 16, AdamW with clipping",
            |name| of(name, images::vit),
            || optim::AdamW::new(1e-3).weight_decay(0.05).decay_from_rank(2).clip_norm(1.0).into(),
        )
    },
    Workload {
        range: |b, _| if b.name == "x" { Range { from: 0.0, to: 1.0 } } else { small(b, 0) },
        ..workload(
            "w13",
            "VAE of 4x4 convolutions of stride 2 on 3x32x32 images, 64 latents, batch 32, Adam",
            |name| of(name, images::vae),
            adam,
        )
    },
    Workload {
        range: |b, _| if b.name == "t" { Range { from: 0.0, to: 1.0 } } else { small(b, 0) },
        ..workload(
            "w14",
            "Burgers' equation by an MLP 2-64-64-64-1, tanh, f64, second derivatives, 2048 points, Adam",
            rows::burgers,
            adam,
        )
    },
    Workload {
        range: |b, _| targets(b, rows::TABLE_ROWS),
        ..workload(
            "w15",
            "DLRM of 26 tables of 10000x16, products of pairs, batch 256, SGD",
            |name| of(name, rows::dlrm),
            || optim::Sgd::new(0.1).into(),
        )
    },
    Workload {
        range: |b, _| match b.name.as_str() {
            "slen" | "tlen" => Range { from: 16.0, to: 33.0 },
            _ => indices(b, 1000),
        },
        ..workload(
            "w16",
            "LSTM encoder and decoder of width 128 with attention, 32 steps of 1000 words, batch 32, Adam with clipping",
            |name| of(name, sequences::translator),
            || optim::Adam::new(1e-3).clip_norm(1.0).into(),
        )
    },
    Workload {
        range: |b, _| indices(b, 1000),
        ..workload(
            "resnet18",
            "ResNet-18 on 3x64x64 images, 1000 classes, batch norm, batch 8, SGD",
            |name| of(name, images::resnet18),
            || optim::Sgd::new(0.01).into(),
        )
    },
];

fn adam() -> Optimiser {
    optim::Adam::new(1e-3).into()
}

fn momentum() -> Optimiser {
    optim::Sgd::new(0.01).momentum(0.9).into()
}

/// Floats in −1..1, integers in 0..10.
fn small(b: &Binding, _: usize) -> Range {
    indices(b, 10)
}

/// Floats in −1..1, integers below `end`.
fn indices(b: &Binding, end: usize) -> Range {
    match b.dtype {
        DType::I32 => Range { from: 0.0, to: end as f64 },
        _ => Range { from: -1.0, to: 1.0 },
    }
}

/// As [`indices`], but floats called `y` are chances.
fn targets(b: &Binding, end: usize) -> Range {
    if b.name == "y" { Range { from: 0.0, to: 1.0 } } else { indices(b, end) }
}

/// The graph of a loss.
fn of(name: &str, loss: impl for<'g> FnOnce(&'g Builder) -> Var<'g>) -> Result<GraphBuf> {
    let g = Builder::new(name);
    let loss = loss(&g).named("loss");
    g.finish([loss])
}

/// Shortens the names of nanoGPT and of PyTorch's GRU: `transformer.h.0.attn.c_attn.weight` to `h0.qkv.weight`,
/// `transformer.wte.weight` to `wte`, `gru.weight_ih_l0` to `w_ih`.
fn short_name(name: &str) -> String {
    let parts = [
        ("transformer.", ""),
        ("wte.weight", "wte"),
        ("wpe.weight", "wpe"),
        ("ln_", "ln"),
        ("attn.c_attn", "qkv"),
        ("attn.c_proj", "proj"),
        ("mlp.c_fc", "fc"),
        ("mlp.c_proj", "fcproj"),
        ("h.", "h"),
        ("gru.weight_ih_l0", "w_ih"),
        ("gru.weight_hh_l0", "w_hh"),
        ("gru.bias_ih_l0", "b_ih"),
        ("gru.bias_hh_l0", "b_hh"),
    ];
    parts.into_iter().fold(name.to_string(), |n, (long, short)| n.replacen(long, short, 1))
}

impl Workload {
    /// The graph of the training step.
    pub fn step(&self) -> Result<GraphBuf> {
        train((self.graph)(self.name)?.view(), "loss", (self.optimiser)())
    }

    /// The training step of a rank with a batch of its own.
    pub fn split(&self) -> Result<Split> {
        optim::train_split(&(self.graph)(self.name)?, "loss", (self.optimiser)())
    }

    /// The training step of one of `ranks` ranks, on its share of the batch.
    pub fn step_of_rank(&self, ranks: usize) -> Run<Split> {
        let divided: Vec<&str> = WORKLOADS.iter().filter(|w| w.part.is_some()).map(|w| w.name).collect();
        let known = || fail_bad_input(format!("{} is not divided over ranks; {} are", self.name, divided.join(", ")));
        let (batch, graph) = self.part.ok_or_else(known)?;
        if !batch.is_multiple_of(ranks) {
            return Err(fail_bad_input(format!(
                "{}: {ranks} ranks have no equal shares of a batch of {batch}",
                self.name
            )));
        }
        Ok(optim::train_split(&graph(self.name, batch / ranks)?, "loss", (self.optimiser)())?)
    }
}

/// The workload called `name`.
pub fn find_workload(name: &str) -> Run<&'static Workload> {
    let known = || {
        let steps = WORKLOADS.iter().map(|w| format!("{} ({})", w.name, w.doc)).collect::<Vec<_>>().join(", ");
        format!("{steps}, and for bench act ({})", super::act::ACT_DOC)
    };
    let found = WORKLOADS.iter().find(|w| w.name == name);
    found.ok_or_else(|| fail_bad_input(format!("no workload is called {name:?}; there are {}", known())))
}
