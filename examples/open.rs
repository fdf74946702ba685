//! Opens programs that were exported, and prints how long that takes beside compiling them, and what memory it takes: a
//! training step of an MLP 784-128-10, and GPT-2 with its 124 million params, which opening does not read.
//!
//! Run it with `cargo run --release --example open`. It writes 500 MB to the folder for temporary files, and removes
//! them.

use arenagrad::prelude::*;
use std::path::Path;
use std::time::{Duration, Instant};

/// The training step of an MLP 784-128-10 on 32 images.
pub fn digits() -> Result<GraphBuf> {
    let g = Builder::new("digits");
    let h = nn::linear(&g, "fc1", g.input("x", [32, 784], DType::F32), 128).relu();
    let loss = nn::linear(&g, "fc2", h, 10).cross_entropy(g.input("y", [32], DType::I32));
    train(&g.finish([loss.named("loss")])?, "loss", optim::Sgd::new(0.1))
}

/// A GPT of `layers` layers of width `width`, for 64 tokens of `vocabulary`.
pub fn gpt(vocabulary: usize, layers: usize, width: usize) -> Result<GraphBuf> {
    let g = Builder::new("gpt");
    let net = nn::Gpt::default().vocabulary(vocabulary).context(1024).layers(layers).heads(width / 64).width(width);
    let logits = nn::gpt(&g, g.input("x", [1, 64], DType::I32), DType::F32, net.gelu_tanh(true));
    g.finish([logits.named("logits")])
}

/// What was seen of a program.
pub struct Opening {
    /// Bytes of params and states.
    pub values: usize,
    /// The time of compiling.
    pub compiled: Duration,
    /// The least and the median time of opening.
    pub opened: [Duration; 2],
    /// Growth of the resident set when the file is opened, and when all its pages are brought in.
    pub grown: [Option<usize>; 2],
}

/// The resident set of this process in bytes, if the system tells.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * 1024)
}

/// Compiles `graph`, exports it with random params to `path`, and opens the file `times` times.
pub fn open(graph: &GraphBuf, path: &Path, times: usize) -> Result<Opening> {
    let start = Instant::now();
    let mut program = Session::new().compile(graph)?;
    let compiled = start.elapsed();
    program.init(0)?;
    program.export(path)?;
    let values = program.persistent().map(|(_, bytes)| bytes.len()).sum();
    drop(program);
    let before = resident();
    let mut program = Program::open(path)?;
    let after = resident();
    program.prefault();
    let grown = [after, resident()].map(|now| Some(now?.saturating_sub(before?)));
    drop(program);
    let mut opened = Vec::new();
    for _ in 0..times.max(1) {
        let start = Instant::now();
        let program = Program::open(path)?;
        opened.push(start.elapsed());
        drop(program);
    }
    opened.sort_unstable();
    Ok(Opening { values, compiled, opened: [opened[0], opened[opened.len() / 2]], grown })
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("arenagrad-open-{}.agp", std::process::id()));
    for (name, graph, times) in [("MLP 784-128-10, trains", digits()?, 500), ("GPT-2", gpt(50257, 12, 768)?, 50)] {
        let seen = open(&graph, &path, times);
        std::fs::remove_file(&path)?;
        let Opening { values, compiled, opened: [least, median], grown } = seen?;
        let [at_once, whole] =
            grown.map(|g| g.map_or("unknown".to_string(), |b| format!("{:.1} MiB", b as f64 / 1048576.0)));
        println!(
            "{name}: {:.1} MB of params, compiled in {compiled:.1?}; opened in {least:.1?} (median {median:.1?}), memory \
             grew by {at_once}, with all pages by {whole}",
            values as f64 / 1e6
        );
    }
    Ok(())
}
