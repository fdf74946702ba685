//! The command line, as clap reads it.
//!
//! Invariant: no meaning is given to a flag here; commands do that. For `main`.

use crate::fail::{Run, bad};
use crate::out;
use arenagrad::Precision;
use arenagrad::session::MAX_THREADS;
use bytesize::ByteSize;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Trains small networks on CPUs, and shows the plans of their programs.
#[derive(Parser, Debug)]
#[command(name = "arenagrad", version, propagate_version = true, subcommand_required = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

fn precision(name: &str) -> Result<Precision, String> {
    Precision::named(name).ok_or_else(|| format!("it may be {}", Precision::ALL.map(|p| p.1).join(", ")))
}

/// A number of threads that a program may have: for all commands, and for files.
pub fn threads(text: &str) -> Result<usize, String> {
    let n: Option<u64> = text.parse().ok();
    match n.and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=MAX_THREADS).contains(n)) {
        Some(n) => Ok(n),
        None => Err(format!("threads is {text}; it goes from 1 to {MAX_THREADS}")),
    }
}

/// What clap has to say instead of a command line: help and version are printed as they are, a mistake is one line.
pub fn refused(e: &clap::Error) -> Run {
    let text = e.render().to_string();
    if !e.use_stderr() {
        return out::emit(text);
    }
    if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        out::note(text);
        return Err(bad("a command is missing; see arenagrad --help"));
    }
    let said = text.split("\n\n").take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    let parts: Vec<String> = said.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    Err(bad(parts.join("; ").trim_start_matches("error: ")))
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Train a small convnet on images, or a character model on a text.
    Train(TrainArgs),
    /// Continue a text with a trained character model.
    Sample(SampleArgs),
    /// Print the memory plan of a graph.
    Plan(PlanArgs),
    /// Print a graph in its normal form.
    Print(PrintArgs),
    /// Run passes over a graph and print the result.
    Opt(OptArgs),
    /// Differentiate a graph and print the result.
    Grad(GradArgs),
    /// Evaluate a graph on .npy files.
    Run(RunArgs),
    /// Verify a graph, prove its plan, and compare its gradients with finite differences in f64.
    Check(CheckArgs),
    /// Pack buffers of known life and size into as little memory as can be found.
    Pack(PackArgs),
    /// Time training steps of a few networks.
    Bench(BenchArgs),
    /// Record one step: what each thread does when, as a picture and as a table.
    Trace(TraceArgs),
}

/// Flags of `train`.
#[derive(Args, Debug, Default)]
pub struct TrainArgs {
    /// `digits` (a convnet on the 8x8 handwritten digits that are built in), `chargpt` (nanoGPT's configuration for
    /// CPUs, on a text that is built in), or a TOML file.
    pub target: String,
    /// Number of steps.
    #[arg(long)]
    pub steps: Option<u64>,
    /// Seed of weights, batches and dropout.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Threads that steps run on; the weights do not depend on it.
    #[arg(long, value_parser = threads)]
    pub threads: Option<usize>,
    /// Learning rate (the peak, for schedules that have one).
    #[arg(long)]
    pub lr: Option<f64>,
    /// Folder for weights, metrics, report and checkpoint.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Continue from this checkpoint (a file, or a folder that `--out` named).
    #[arg(long)]
    pub resume: Option<PathBuf>,
    /// What to train on instead: a folder with IDX files under MNIST's names, plain or gzipped; for chargpt, a text.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Write a checkpoint every N steps; 0: only at the end and on Ctrl-C.
    #[arg(long)]
    pub checkpoint_every: Option<u64>,
    /// Most bytes that the step's arena may have (64MiB, say): values are computed again to fit. The weights do not
    /// depend on it.
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<ByteSize>,
    /// How matrix products are computed: f32, bf16x3 (each number as three bf16 terms: as near as f32), bf16x2 (as two;
    /// without AMX, both are computed as f32) or bf16. Weights and optimiser stay f32.
    #[arg(long, value_parser = precision, value_name = "PRECISION")]
    pub precision: Option<Precision>,
    /// Record one step, the tenth or the last, into this file, for chrome://tracing or ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print nothing while training.
    #[arg(long)]
    pub quiet: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `sample`.
#[derive(Args, Debug)]
pub struct SampleArgs {
    /// The folder of a finished run of `train chargpt`.
    pub run_dir: PathBuf,
    /// What to continue, by characters of the text that was trained on; without it, a new line.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub prompt: String,
    /// Characters to write.
    #[arg(long, default_value_t = 500)]
    pub tokens: usize,
    /// Samples to write, with consecutive seeds.
    #[arg(long, default_value_t = 1)]
    pub samples: usize,
    /// What logits are divided by: 1 is plain sampling, 0 takes the likeliest character.
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Choose among the N likeliest characters; 0: all.
    #[arg(long, default_value_t = 0)]
    pub top_k: usize,
    /// Choose among the fewest likeliest characters whose probabilities reach this sum.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub top_p: f64,
    /// Seed.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Weights to use instead of the run's last (weights_ema.safetensors, say).
    #[arg(long)]
    pub weights: Option<PathBuf>,
    /// Threads.
    #[arg(long, default_value = "1", value_parser = threads)]
    pub threads: usize,
    /// Print one JSON object a sample.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Draw the plan into this file.
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// Write a page with the figures, the picture and the largest buffers.
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// Print the plan with all its buffers as JSON; with `--budgets`, the budgets.
    #[arg(long)]
    pub json: bool,
    /// Threads to plan for.
    #[arg(long, default_value = "1", value_parser = threads)]
    pub threads: usize,
    /// Most bytes that the arena may have (64MiB, say): values are computed again to fit.
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<ByteSize>,
    /// How matrix products are computed: f32, bf16x3 (each number as three bf16 terms: as near as f32), bf16x2 (as two;
    /// without AMX, both are computed as f32) or bf16.
    #[arg(long, value_parser = precision, value_name = "PRECISION", default_value = "f32")]
    pub precision: Precision,
    /// In place of the plan, print the budgets that make a difference, with what each computes again.
    #[arg(long, conflicts_with = "max_memory")]
    pub budgets: bool,
}

/// Flags of `print`.
#[derive(Args, Debug)]
pub struct PrintArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Say with each node where it was asked for: loc("net.rs":12), or the line of the text.
    #[arg(long)]
    pub locations: bool,
}

/// Flags of `opt`.
#[derive(Args, Debug)]
pub struct OptArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Passes, in order; without it, those that every program goes through.
    #[arg(long, value_delimiter = ',')]
    pub passes: Vec<String>,
    /// Report each pass and its rule hits on standard error.
    #[arg(long)]
    pub trace: bool,
    /// In place of the graph, print what fusion did and what it just missed.
    #[arg(long)]
    pub report: bool,
    /// Say with each node where it was asked for.
    #[arg(long, conflicts_with = "report")]
    pub locations: bool,
    /// The report as JSON.
    #[arg(long, requires = "report")]
    pub json: bool,
}

/// Flags of `grad`.
#[derive(Args, Debug)]
pub struct GradArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Leaves to differentiate by; without it, all params that are not frozen.
    #[arg(long, value_delimiter = ',')]
    pub wrt: Vec<String>,
    /// The scalar output to differentiate; without it, the only output.
    #[arg(long)]
    pub output: Option<String>,
    /// Give zeros to leaves that get no gradient, instead of an error.
    #[arg(long)]
    pub zero_missing: bool,
    /// Report node counts, and what simplification would do, on standard error.
    #[arg(long)]
    pub trace: bool,
    /// Say with each node where it was asked for.
    #[arg(long)]
    pub locations: bool,
}

/// Flags of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Values of inputs, params and states: NAME=FILE.npy. Those of params go before those of `--weights`.
    #[arg(long = "in", value_name = "NAME=FILE", num_args = 1..)]
    pub inputs: Vec<String>,
    /// Values of params: a safetensors file.
    #[arg(long)]
    pub weights: Option<PathBuf>,
    /// Folder for the outputs, one NAME.npy each; what no file name should have stands as its bytes, %2F for /.
    #[arg(long)]
    pub out: PathBuf,
    /// Seed of params that get no value, and of random ops.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Threads.
    #[arg(long, default_value = "1", value_parser = threads)]
    pub threads: usize,
}

/// Flags of `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Largest relative error of a gradient.
    #[arg(long, default_value_t = 1e-6)]
    pub tolerance: f64,
    /// Seed of the values.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Elements of each leaf to check.
    #[arg(long, default_value_t = 16)]
    pub elements: usize,
}

/// Flags of `pack`.
#[derive(Args, Debug)]
pub struct PackArgs {
    /// A CSV with the columns id, lower, upper (one past the last moment) and size, as MiniMalloc reads it.
    #[arg(required_unless_present = "make", conflicts_with = "make")]
    pub file: Option<PathBuf>,
    /// Pack made-up buffers instead: training:N:SEED, unrolled:N, power:N:SEED or perfect:N:SEED (whose best height is
    /// 1048576).
    #[arg(long)]
    pub make: Option<String>,
    /// Look for a packing of this height or less; without it, for the lowest.
    #[arg(long)]
    pub capacity: Option<u64>,
    /// Write the rows with their offsets to this file, also if the capacity was not reached.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Nodes of branch and bound; without it, the packer's own budget.
    #[arg(long)]
    pub nodes: Option<u64>,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `trace`.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// A workload of `bench` (w1, w2, w3, w4, w6), or a file with a graph's text.
    pub target: String,
    /// The file to write, for chrome://tracing or ui.perfetto.dev.
    #[arg(long)]
    pub out: PathBuf,
    /// Threads.
    #[arg(long, default_value = "1", value_parser = threads)]
    pub threads: usize,
    /// How matrix products are computed: f32, bf16x3 (each number as three bf16 terms: as near as f32), bf16x2 (as two;
    /// without AMX, both are computed as f32) or bf16.
    #[arg(long, value_parser = precision, value_name = "PRECISION", default_value = "f32")]
    pub precision: Precision,
    /// Folder with NAME.safetensors for the workload, as `bench` takes it.
    #[arg(long)]
    pub data: Option<PathBuf>,
}

/// Flags of `bench`.
#[derive(Args, Debug, Default)]
pub struct BenchArgs {
    /// Workloads: w1 (MLP 784-128-10, batch 32, SGD), w2 (MLP 4-32-32-2 tanh, batch 1, SGD), w3 (MLP
    /// 1024-4096-4096-1024, batch 256, Adam), w4 (LeNet, batch 64, SGD with momentum), w6
    /// (character GPT, 4 layers, 12 x 64 tokens, AdamW).
    #[arg(long, value_delimiter = ',', default_value = "w1,w2")]
    pub workloads: Vec<String>,
    /// Threads.
    #[arg(long, default_value = "1", value_parser = threads)]
    pub threads: usize,
    /// Seconds that each workload is timed for.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// How matrix products are computed: f32, bf16x3 (each number as three bf16 terms: as near as f32), bf16x2 (as two;
    /// without AMX, both are computed as f32) or bf16.
    #[arg(long, value_parser = precision, value_name = "PRECISION", default_value = "f32")]
    pub precision: Precision,
    /// Folder with NAME.safetensors for each workload (`p.` params, `x`, `y`); without it, seeded random data.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Record one more step, of the one workload, into this file, for chrome://tracing or ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print one JSON object a workload.
    #[arg(long)]
    pub json: bool,
}
