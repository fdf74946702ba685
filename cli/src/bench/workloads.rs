//! The networks of `bench`, and their data.
//!
//! Invariant: models, batch sizes, optimisers and the names in data files never change, so that times and losses can be
//! compared with those of other engines.

use crate::fail::{Fail, Run, fail_bad_input};
use crate::safetensors_file;
use arenagrad::error::Result;
use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Var};
use arenagrad::nn;
use arenagrad::optim::{self, Optimiser, train};
use arenagrad::session::{Binding, Program, Role};
use arenagrad::train::Loaded;
use std::path::Path;

/// Largest data file, in bytes.
const FILE_LIMIT: u64 = 1 << 30;
/// Batches of synthetic data.
const BATCHES: usize = 8;

/// A training step of a network.
#[derive(Clone, Copy)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// The network and its training, in a line.
    pub doc: &'static str,
    loss: for<'g> fn(&'g Builder) -> Var<'g>,
    optimiser: fn() -> Optimiser,
    /// From a param's name to its name in data files.
    alias: fn(&str) -> String,
}

/// All workloads.
pub const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "w1",
        doc: "MLP 784-128-10, relu, cross entropy, batch 32, SGD",
        loss: |g| workload_class_loss(g, workload_mlp(g, 32, &[784, 128, 10], Var::relu)),
        optimiser: || optim::Sgd::new(0.1).into(),
        alias: str::to_string,
    },
    Workload {
        name: "w2",
        doc: "MLP 4-32-32-2, tanh, squared error, batch 1, SGD",
        loss: |g| workload_value_loss(g, workload_mlp(g, 1, &[4, 32, 32, 2], Var::tanh)),
        optimiser: || optim::Sgd::new(0.01).into(),
        alias: str::to_string,
    },
    Workload {
        name: "w3",
        doc: "MLP 1024-4096-4096-1024, relu, squared error, batch 256, Adam",
        loss: |g| workload_value_loss(g, workload_mlp(g, 256, &[1024, 4096, 4096, 1024], Var::relu)),
        optimiser: || optim::Adam::new(1e-3).into(),
        alias: str::to_string,
    },
    Workload {
        name: "w4",
        doc: "LeNet on 28x28 images, cross entropy, batch 64, SGD with momentum",
        loss: |g| workload_class_loss(g, workload_lenet(g, 64)),
        optimiser: || optim::Sgd::new(0.01).momentum(0.9).into(),
        alias: str::to_string,
    },
    Workload {
        name: "w6",
        doc: "GPT, 4 layers of 4 heads, width 128, 12 x 64 of 65 tokens, cross entropy, AdamW with clipping",
        loss: |g| {
            let tokens = g.input("x", [12, 64], DType::I32);
            let logits = nn::gpt(g, tokens, DType::F32, char_gpt()).reshape([12 * 64, 65]);
            logits
                .cross_entropy_with(g.input("y", [12, 64], DType::I32).reshape([12 * 64]), CrossEntropy::per_row())
                .mean(..)
        },
        optimiser: || {
            let opt = optim::AdamW::new(1e-3).betas((0.9, 0.95)).weight_decay(0.1);
            opt.decay_from_rank(2).clip_norm(1.0).into()
        },
        alias: workload_short_name,
    },
];

/// The network of `w6`.
fn char_gpt() -> nn::Gpt {
    nn::Gpt::default().vocabulary(65).context(64).layers(4).heads(4).width(128).gelu_tanh(true)
}

/// Shortens nanoGPT's names: `transformer.h.0.attn.c_attn.weight` to `h0.qkv.weight`, `transformer.wte.weight` to
/// `wte`.
fn workload_short_name(name: &str) -> String {
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
    ];
    parts.into_iter().fold(name.to_string(), |n, (long, short)| n.replacen(long, short, 1))
}

/// Linear layers of these widths on input `x`, with `act` between them.
fn workload_mlp<'g>(g: &'g Builder, batch: usize, widths: &[usize], act: fn(Var<'g>) -> Var<'g>) -> Var<'g> {
    let mut h = g.input("x", [batch, widths[0]], DType::F32);
    for (i, &width) in widths.iter().enumerate().skip(1) {
        h = nn::linear(g, &format!("fc{i}"), h, width);
        if i + 1 < widths.len() {
            h = act(h);
        }
    }
    h
}

/// LeNet on 28×28 images: logits of 10 classes.
fn workload_lenet(g: &Builder, batch: usize) -> Var<'_> {
    let x = g.input("x", [batch, 1, 28, 28], DType::F32);
    let padded = Conv2d::default().pad([2, 2, 2, 2]);
    let h = nn::conv2d(g, "conv1", x, 6, [5, 5], padded).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::conv2d(g, "conv2", h, 16, [5, 5], Conv2d::default()).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::linear(g, "fc1", h.reshape([batch, 400]), 120).relu();
    let h = nn::linear(g, "fc2", h, 84).relu();
    nn::linear(g, "fc3", h, 10)
}

/// The mean cross entropy of logits and the classes in input `y`.
fn workload_class_loss<'g>(g: &'g Builder, logits: Var<'g>) -> Var<'g> {
    logits.cross_entropy_with(g.input("y", [logits.dims()[0]], DType::I32), CrossEntropy::per_row()).mean(..)
}

/// The mean squared error of `out` and input `y`.
fn workload_value_loss<'g>(g: &'g Builder, out: Var<'g>) -> Var<'g> {
    out.mse(g.input("y", out.dims(), DType::F32))
}

impl Workload {
    /// The graph of the training step.
    pub fn step(&self) -> Result<GraphBuf> {
        let g = Builder::new(self.name);
        let loss = (self.loss)(&g);
        train(g.finish([loss.named("loss")])?.view(), "loss", (self.optimiser)())
    }

    /// The learning rate.
    pub fn lr(&self) -> f64 {
        (self.optimiser)().lr
    }
}

/// Batches, as the bytes of the inputs `x` and `y`.
pub struct WorkloadPool {
    /// Number of batches.
    pub batches: usize,
    /// `x` of all batches, one after another.
    pub x: Vec<u8>,
    /// `y` of all batches, one after another.
    pub y: Vec<u8>,
}

/// The input called `name`.
fn workload_input(inputs: &[Binding], name: &str) -> Run<Binding> {
    let found = inputs.iter().find(|b| b.role == Role::Input && b.name == name);
    found.cloned().ok_or_else(|| fail_bad_input(format!("the workload has no input {name:?}")))
}

impl WorkloadPool {
    /// Synthetic batches: floats in [-1, 1], integers in 0..10.
    pub fn synthetic(inputs: &[Binding]) -> Run<WorkloadPool> {
        let data = |b: Binding| -> Vec<u8> {
            let n = BATCHES * b.dims.numel();
            match b.dtype {
                DType::I32 => (0..n).flat_map(|i| ((i * 7 % 10) as i32).to_le_bytes()).collect(),
                _ => (0..n).flat_map(|i| (i as f32 * 0.7).sin().to_le_bytes()).collect(),
            }
        };
        Ok(WorkloadPool {
            batches: BATCHES,
            x: data(workload_input(inputs, "x")?),
            y: data(workload_input(inputs, "y")?),
        })
    }

    /// The batches in a file: tensors `x` and `y`, with a leading axis over batches.
    pub fn load(inputs: &[Binding], file: &Loaded, path: &Path) -> Run<WorkloadPool> {
        let batches = file.find("x").and_then(|e| e.dims.first().copied()).unwrap_or(0);
        if batches == 0 {
            return Err(fail_bad_input(format!("{}: x holds no batch", path.display())));
        }
        let read = |name: &str| -> Run<Vec<u8>> {
            let b = workload_input(inputs, name)?;
            let dims: Vec<usize> = std::iter::once(batches).chain(b.dims.iter().copied()).collect();
            let e = file.expect(name, b.dtype, &dims).map_err(|e| Fail::from(e.context(path.display())))?;
            if b.dtype == DType::F32 {
                finite_workload_data(path, name, e.bytes)?;
            }
            Ok(e.bytes.to_vec())
        };
        Ok(WorkloadPool { batches, x: read("x")?, y: read("y")? })
    }
}

/// Reads the data file of a workload.
pub fn open_workload_data(path: &Path) -> Run<Loaded> {
    safetensors_file::open_safetensors_file(path, FILE_LIMIT)
}

/// Gives each param the value called `p.<name>` in `file`. Fails on a value that is not finite.
pub fn load_workload_params(w: &Workload, program: &mut Program, file: &Loaded, path: &Path) -> Run {
    let params: Vec<Binding> = program.bindings().iter().filter(|b| b.role == Role::Param).cloned().collect();
    for b in &params {
        let e = file.expect(&format!("p.{}", (w.alias)(&b.name)), b.dtype, &b.dims);
        let e = e.map_err(|e| Fail::from(e.context(path.display())))?;
        finite_workload_data(path, e.name, e.bytes)?;
        program.persistent_mut(&b.name)?.1.copy_from_slice(e.bytes);
    }
    Ok(())
}

/// Fails if an element of these f32 bytes is not finite.
fn finite_workload_data(path: &Path, name: &str, bytes: &[u8]) -> Run {
    match bytes.as_chunks::<4>().0.iter().position(|b| !f32::from_le_bytes(*b).is_finite()) {
        Some(i) => Err(fail_bad_input(format!("{}: element {i} of {name:?} is not finite", path.display()))),
        None => Ok(()),
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
