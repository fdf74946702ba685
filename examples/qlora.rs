//! QLoRA: a small GPT is trained on prose, its weights are written as four-bit blocks to a GGUF file, and low-rank
//! corrections adapt it to program text while the blocks stay as they are.
//!
//! The adapted network reads the blocks as bytes. Its products decode them part by part, forwards and backwards, so the
//! frozen weights never exist as `f32`; the plan of the step shows it. Run it with `cargo run --release --example
//! qlora`; it prints losses in nats for each character, and bytes.

use arenagrad::graph::Layout;
use arenagrad::graph::quant::BlockType;
use arenagrad::prelude::*;
use arenagrad::session::Role;
use arenagrad::train::gguf::{self, Gguf, GgufEntry, Meta, TensorType};
use arenagrad::train::{Load, Unmatched, copy_params};
use std::path::Path;

/// The text that the base is trained on.
const PROSE: &str = concat!(include_str!("../docs/memory.md"), include_str!("../docs/architecture.md"));
/// The text that it is adapted to.
const CODE: &str = include_str!("fsrs/main.rs");

/// A multiple of 256, as rows of weights are whole blocks.
const WIDTH: usize = 256;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const CONTEXT: usize = 48;
const BATCH: usize = 8;
/// A line's end, and the printable characters of ASCII.
const CHARACTERS: usize = 96;
/// The rank of the corrections, and their factor.
const RANK: usize = 8;
const SCALE: f64 = 2.0;
const BLOCKS: BlockType = BlockType::Q4K;

/// Whether weights are trained, or read as blocks and corrected.
#[derive(Clone, Copy, PartialEq)]
enum Weights {
    Trained,
    Blocks,
}

/// A linear layer without bias, x·Wᵀ.
fn linear<'g>(g: &'g Builder, weights: Weights, name: &str, x: Var<'g>, outputs: usize) -> Var<'g> {
    if weights == Weights::Trained {
        return nn::linear_no_bias(g, name, x, outputs);
    }
    let inputs = x.dims().last().copied().unwrap_or(0);
    let bytes = BLOCKS.bytes_of(outputs * inputs).unwrap_or(0);
    let blocks = g.input(&format!("{name}.weight"), [bytes], DType::U8);
    let down = g.param(&format!("{name}.lora_A"), [RANK, inputs], DType::F32, Init::Normal(0.02));
    let up = g.param(&format!("{name}.lora_B"), [outputs, RANK], DType::F32, Init::Zeros);
    x.gguf_matmul(blocks, BLOCKS, outputs) + x.matmul_t(down, false, true).matmul_t(up, false, true) * SCALE
}

/// The mean cross entropy of the next characters, in nats.
fn network(weights: Weights) -> Result<GraphBuf> {
    let g = Builder::new("gpt");
    let tokens = g.input("tokens", [BATCH, CONTEXT], DType::I32);
    let places = nn::embedding(&g, "places", g.iota(0, [CONTEXT], DType::I32), CONTEXT, WIDTH, DType::F32);
    let mut x = nn::embedding(&g, "characters", tokens, CHARACTERS, WIDTH, DType::F32) + places;
    for l in 0..LAYERS {
        let layer = |name: &str, x, outputs| linear(&g, weights, &format!("{l}.{name}"), x, outputs);
        let all = layer("qkv", nn::rms_norm(&g, &format!("{l}.attention_norm"), x, 1e-5), 3 * WIDTH);
        let [q, k, v] = [0, 1, 2].map(|i| all.narrow(-1, i * WIDTH, WIDTH));
        let heads = Attention::default().layout(Layout::Bsd).heads(HEADS).causal(true);
        x = x + layer("out", q.attention(k, v, heads), WIDTH);
        let inner = layer("up", nn::rms_norm(&g, &format!("{l}.inner_norm"), x, 1e-5), 4 * WIDTH).gelu();
        x = x + layer("down", inner, WIDTH);
    }
    let logits = linear(&g, weights, "head", nn::rms_norm(&g, "norm", x, 1e-5), CHARACTERS);
    let next = g.input("next", [BATCH * CONTEXT], DType::I32);
    let rows = logits.reshape([BATCH * CONTEXT, CHARACTERS]);
    g.finish([rows.cross_entropy_with(next, CrossEntropy::per_row()).mean(..).named("loss")])
}

/// Windows of a text.
struct Windows {
    characters: Vec<i32>,
    /// The state of a multiplicative congruential generator (Lehmer).
    state: u64,
}

impl Windows {
    fn of(text: &str) -> Windows {
        let character = |c: char| match c {
            '\n' => 0,
            ' '..='~' => c as i32 - ' ' as i32 + 1,
            _ => 1,
        };
        Windows { characters: text.chars().map(character).collect(), state: 11 }
    }

    /// Writes the next batch of windows.
    fn write(&mut self, p: &mut Program) -> Result<()> {
        let (mut tokens, mut next) = (Vec::new(), Vec::new());
        for _ in 0..BATCH {
            self.state = self.state * 48_271 % 2_147_483_647;
            let at = self.state as usize % (self.characters.len() - CONTEXT - 1);
            tokens.extend(&self.characters[at..at + CONTEXT]);
            next.extend(&self.characters[at + 1..at + CONTEXT + 1]);
        }
        p.values_mut::<i32>("tokens")?.copy_from_slice(&tokens);
        p.values_mut::<i32>("next")?.copy_from_slice(&next);
        Ok(())
    }
}

/// The mean loss of eight batches of a text, always the same.
fn loss_on(p: &mut Program, text: &str) -> Result<f32> {
    let (mut windows, mut sum) = (Windows::of(text), 0.0);
    for _ in 0..8 {
        windows.write(p)?;
        p.step()?;
        sum += p.values::<f32>("loss")?[0];
    }
    Ok(sum / 8.0)
}

fn train_on(p: &mut Program, text: &str, steps: usize) -> Result<()> {
    let mut windows = Windows { state: 23, ..Windows::of(text) };
    for _ in 0..steps {
        windows.write(p)?;
        p.step()?;
    }
    Ok(())
}

/// Writes the params of `p`: matrices of linear layers as blocks, all others as they are.
fn write_blocks(p: &Program, path: &Path) -> Result<()> {
    let mut tensors = Vec::new();
    for (b, bytes) in p.persistent().filter(|(b, _)| b.role == Role::Param) {
        let inside = ["qkv", "out", "up", "down", "head"].iter().any(|name| b.name.contains(name));
        let (kind, bytes) = match inside {
            true => (TensorType::Blocks(BLOCKS), gguf::encode(BLOCKS, p.values::<f32>(&b.name)?)?),
            false => (TensorType::Plain(b.dtype), bytes.to_vec()),
        };
        tensors.push((b.name.clone(), kind, b.dims.to_vec(), bytes));
    }
    let entries: Vec<GgufEntry<'_>> =
        tensors.iter().map(|(name, kind, dims, bytes)| GgufEntry::new(name, *kind, dims, bytes)).collect();
    let metadata = [
        ("general.architecture".to_string(), Meta::String("small-gpt".into())),
        ("small-gpt.block_count".to_string(), Meta::U32(LAYERS as u32)),
        ("small-gpt.embedding_length".to_string(), Meta::U32(WIDTH as u32)),
    ];
    gguf::save(path, &metadata, &entries)
}

/// What the run measured.
pub struct Report {
    /// Losses of the base on prose and on code, with weights in `f32`.
    pub base: [f32; 2],
    /// Loss on code with weights in blocks, before and after adaptation.
    pub adapted: [f32; 2],
    /// Bytes of the weights of linear layers: in `f32`, and in blocks.
    pub bytes: [usize; 2],
    /// Bytes of the corrections.
    pub corrections: usize,
    /// Buffers of the adaptation's plan that hold a matrix of the base in `f32`.
    pub decoded: usize,
}

/// Trains a base for `steps[0]` steps, and adapts it for `steps[1]`. The file goes to `path`.
pub fn run(path: &Path, steps: [usize; 2]) -> Result<Report> {
    let graph = network(Weights::Trained)?;
    let mut base = Session::new().compile(&train(&graph, "loss", optim::AdamW::new(1e-3))?)?;
    base.init(1)?;
    train_on(&mut base, PROSE, steps[0])?;
    let mut measured = Session::new().compile(&graph)?;
    copy_params(&base, &mut measured)?;
    let of_base = [loss_on(&mut measured, PROSE)?, loss_on(&mut measured, CODE)?];
    write_blocks(&base, path)?;
    drop((base, measured));

    let (file, graph) = (Gguf::open(path)?, network(Weights::Blocks)?);
    // Embeddings and norms are frozen too: the corrections alone are trained.
    let optimiser = optim::AdamW::new(2e-3).freeze("*norm.weight").freeze("characters.weight").freeze("places.weight");
    let mut adapted = Session::new().compile(&train(&graph, "loss", optimiser)?)?;
    adapted.init(2)?;
    // The file has all but the corrections.
    let some = Load::default().missing(Unmatched::Allow);
    let report = adapted.load_gguf(&file, some)?;
    assert!(report.missing.iter().all(|name| name.contains(".lora_")), "{report:?}");
    let mut measured = Session::new().compile(&graph)?;
    let _same = measured.load_gguf(&file, some)?;
    copy_params(&adapted, &mut measured)?;
    let before = loss_on(&mut measured, CODE)?;
    train_on(&mut adapted, CODE, steps[1])?;
    copy_params(&adapted, &mut measured)?;
    let after = loss_on(&mut measured, CODE)?;

    let matrices = || file.tensors().iter().filter(|t| matches!(t.kind, TensorType::Blocks(_)));
    let single = |dims: &[usize]| 4 * dims.iter().product::<usize>();
    let is_decoded = |size: usize| matrices().any(|t| size == single(&t.dims));
    let decoded = adapted.plan().buffers.iter().filter(|b| b.op == "gguf_dequant" && is_decoded(b.size)).count();
    let corrections = adapted.persistent().filter(|(b, _)| b.name.contains(".lora_")).map(|(b, _)| b.bytes).sum();
    let bytes = [matrices().map(|t| single(&t.dims)).sum(), matrices().map(|t| t.bytes).sum()];
    Ok(Report { base: of_base, adapted: [before, after], bytes, corrections, decoded })
}

#[allow(dead_code)] // Tests use this file as a module.
fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("qlora-{}.gguf", std::process::id()));
    let r = run(&path, [300, 200])?;
    std::fs::remove_file(&path)?;
    println!("base in f32:     loss {:.3} on prose, {:.3} on code", r.base[0], r.base[1]);
    println!("base in blocks:  loss {:.3} on code", r.adapted[0]);
    println!("with corrections: loss {:.3} on code", r.adapted[1]);
    println!("weights: {} bytes in f32, {} in blocks, {} of corrections", r.bytes[0], r.bytes[1], r.corrections);
    println!("buffers of the plan with a matrix in f32: {}", r.decoded);
    Ok(())
}
