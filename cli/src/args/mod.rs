//! The command line: commands, options and their help texts, as clap reads them.
//!
//! Invariant: this module only parses. The files of the commands say what an option does.

mod choice_args;
mod derive_args;
mod export_args;
mod fuzz_args;
mod graph_args;
mod latency_args;
mod pack_args;
mod rank_args;
mod scale_args;
mod weights_args;

pub use choice_args::choice_of;
pub use derive_args::{Draws, HvpArgs, JacobianArgs, JvpArgs, NthArgs, VjpArgs, VmapArgs};
pub use export_args::ExportArgs;
pub use fuzz_args::{GenerateArgs, ReduceArgs};
pub use graph_args::{GraphArgs, SizeArg, SizeArgs};
pub use latency_args::LatencyArgs;
pub use pack_args::PackArgs;
pub use rank_args::{BenchRankArgs, RankArgs};
pub use scale_args::ScaleArgs;
pub use weights_args::{InspectArgs, ReadArgs};

use crate::fail::{Run, fail_bad_input};
use crate::stdout_stderr;
use arenagrad::Precision;
use arenagrad::session::{Convolutions, Keep, MAX_THREADS};
use bytesize::ByteSize;
use choice_args::{convolutions_arg, keep_arg, precision_arg};
use clap::error::ErrorKind;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;

/// Trains neural networks on CPUs, and prints, checks, plans and runs graphs.
#[derive(Parser, Debug)]
#[command(name = "arenagrad", version, propagate_version = true, subcommand_required = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Parses a number of threads, for all commands and for configurations. An error names the bounds.
pub fn threads_arg(text: &str) -> Result<usize, String> {
    let n: Option<u64> = text.parse().ok();
    match n.and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=MAX_THREADS).contains(n)) {
        Some(n) => Ok(n),
        None => Err(format!("threads is {text}; it goes from 1 to {MAX_THREADS}")),
    }
}

/// The command line of this process. A number below 0 is a value, not the name of an option.
pub fn parse_args() -> Result<Cli, clap::Error> {
    let valued = |a: Arg| {
        let takes = a.get_action().takes_values();
        a.allow_negative_numbers(takes)
    };
    let command = Cli::command().mut_subcommands(|c| c.mut_args(valued));
    Cli::from_arg_matches(&command.try_get_matches()?)
}

/// Handles what clap returns instead of a command line: prints help and version as they are, and turns an error into
/// one line.
pub fn handle_args_error(e: &clap::Error) -> Run {
    let text = e.render().to_string();
    if !e.use_stderr() {
        return stdout_stderr::emit_stdout(text);
    }
    if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        stdout_stderr::note_stderr(text);
        return Err(fail_bad_input("a command is missing; see arenagrad --help"));
    }
    let said = text.split("\n\n").take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    let parts: Vec<String> = said.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    Err(fail_bad_input(parts.join("; ").trim_start_matches("error: ")))
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
    /// Print a graph in canonical text form.
    Print(PrintArgs),
    /// Run passes over a graph and print the result.
    Opt(OptArgs),
    /// Differentiate a graph and print the result.
    Grad(GradArgs),
    /// Print a graph with its Jacobian-vector product: inputs tangent.LEAF, outputs tangent.OUTPUT.
    Jvp(JvpArgs),
    /// Print a graph with its vector-Jacobian product: inputs cotangent.OUTPUT, outputs grad.LEAF.
    Vjp(VjpArgs),
    /// Print a graph with its gradient and Hessian-vector product: inputs tangent.LEAF, outputs grad.LEAF,
    /// tangent.grad.LEAF and tangent.LOSS.
    Hvp(HvpArgs),
    /// Print a graph with the Jacobian of an output: output jacobian.LEAF.
    Jacobian(JacobianArgs),
    /// Print a graph with an n-th derivative: output gradN.LEAF; with --directions, inputs dir_0, dir_1 ... and output
    /// tangentN.OUTPUT.
    Nth(NthArgs),
    /// Print a graph for a batch: leaves and outputs with one more axis, for all members at once.
    Vmap(VmapArgs),
    /// Evaluate a graph on .npy files.
    Run(RunArgs),
    /// Compile a graph and write it with its plan and its params as one file, which opens without compiling; or write
    /// its step as C99.
    Export(ExportArgs),
    /// Verify a graph, prove its plan, and compare its gradients with finite differences in f64.
    Check(CheckArgs),
    /// Run two graphs on the same random values of their leaves and compare their outputs: they may differ by as much
    /// as rounding can explain. Exit code 2 if nothing could be compared.
    Compare(CompareArgs),
    /// Draw random graphs, for fuzzing.
    Generate(GenerateArgs),
    /// Make a graph smaller for as long as a check of yours finds it interesting.
    Reduce(ReduceArgs),
    /// List what a file of weights holds (GGUF, safetensors, torch.save): metadata, and the tensors with their types,
    /// shapes and bytes.
    Inspect(InspectArgs),
    /// Place buffers of known lifetime and size in as little memory as possible.
    Pack(PackArgs),
    /// Time whole training steps of a few networks.
    Bench(BenchArgs),
    /// Record what each thread does in one step, as a file for a trace viewer and as a table.
    Trace(TraceArgs),
    /// Tell how a training step would scale over the ranks of mpirun, from its plan and the times of a network's
    /// messages.
    Scale(ScaleArgs),
}

/// Options of `train`.
#[derive(Args, Debug, Default)]
pub struct TrainArgs {
    /// `digits` (a convnet on the built-in 8x8 handwritten digits), `chargpt` (nanoGPT's configuration for CPUs on a
    /// built-in text), or a TOML file (its keys are listed in docs/config.md), which options override.
    pub target: String,
    /// Number of steps of the whole run [default: digits 1000, chargpt 2000].
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Seed of start values, batches and dropout [default: 0].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Number of threads [default: one for each core]. The weights do not depend on it.
    #[arg(long, value_parser = threads_arg, value_name = "N")]
    pub threads: Option<usize>,
    /// Learning rate; the peak, if the schedule varies it [default: digits 0.004, chargpt 0.001].
    #[arg(long, value_name = "RATE")]
    pub lr: Option<f64>,
    /// Folder for weights, metrics, report and checkpoint [default: digits runs/train, chargpt runs/chargpt; with
    /// --resume, the folder of the checkpoint].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write event files of TensorBoard into this folder, too: `tensorboard --logdir DIR` [default: none].
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Continue from a checkpoint: a file, or the folder of a run [default: a new run].
    #[arg(long, value_name = "PATH")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub ranks: RankArgs,
    /// Data to train on [default: the built-in data]: for images, a folder of IDX files under MNIST's names, gzipped or
    /// not; for chargpt, a text file.
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Train this ONNX model on images, from its weights, instead of a new convnet: its first input takes the images,
    /// its first output are the logits. Give it again with --resume [default: none].
    #[arg(long, value_name = "FILE")]
    pub onnx: Option<PathBuf>,
    /// Write a checkpoint every N steps; 0: only at the end and on Ctrl-C [default: 200].
    #[arg(long, value_name = "N")]
    pub checkpoint_every: Option<u64>,
    /// Largest size of the step's arena, in bytes or like 64MiB [default: no limit]. Values are recomputed to fit. The
    /// weights do not depend on it, unless --keep is bf16 or f16.
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<ByteSize>,
    /// Precision of matrix products: f32, bf16x3 (each number as three bf16 terms, as accurate as f32), bf16x2 (as two
    /// terms) or bf16 [default: f32]. Without AMX, bf16x3 and bf16x2 run as f32. Weights and optimiser stay f32.
    #[arg(long, value_parser = precision_arg, value_name = "PRECISION")]
    pub precision: Option<Precision>,
    /// How convolutions are computed: direct, or winograd for 3 × 3 kernels: half the time, twice the error
    /// [default: direct].
    #[arg(long, value_parser = convolutions_arg, value_name = "WAY")]
    pub convolutions: Option<Convolutions>,
    /// Type in which values of the forward half are kept for the backward half: f32, bf16 or f16 [default: f32].
    /// Computing stays f32.
    #[arg(long, value_parser = keep_arg, value_name = "TYPE")]
    pub keep: Option<Keep>,
    /// Record the tenth step (the last, if there are fewer) into this file, for chrome://tracing or ui.perfetto.dev
    /// [default: no record].
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// End at the first op that makes a NaN or an infinity, with an error that names the op, its line and its operands.
    /// For debugging: steps run on one thread and slowly.
    #[arg(long)]
    pub find_nan: bool,
    /// What disturbs steps.
    #[command(flatten)]
    pub latency: LatencyArgs,
    /// Print no progress.
    #[arg(long)]
    pub quiet: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `sample`.
#[derive(Args, Debug)]
pub struct SampleArgs {
    /// The folder of a finished run of `train chargpt`.
    pub run_dir: PathBuf,
    /// Text to continue, in characters that occur in the training text [default: a new line].
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub prompt: String,
    /// Number of characters to write in each sample.
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub tokens: usize,
    /// Number of samples. Sample i, counted from 0, has seed SEED + i.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub samples: usize,
    /// Divisor of the logits: 1 samples from the model's distribution, 0 chooses the likeliest character.
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    pub temperature: f64,
    /// Choose among the K likeliest characters; 0: among all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: usize,
    /// Choose from the smallest set of likeliest characters whose probabilities sum to at least P.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub top_p: f64,
    /// Seed of the first sample.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// File of the weights, weights_ema.safetensors or one of torch.save for instance [default: weights.safetensors of
    /// the run].
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// How they are read.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads_arg)]
    pub threads: usize,
    /// Print one JSON object for each sample.
    #[arg(long)]
    pub json: bool,
}

/// Options of `plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Draw the memory map into this file [default: no map].
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a page with the summary, the memory map and the largest buffers into this file [default: no page].
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the plan with all its buffers as JSON; with --budgets, the budgets.
    #[arg(long)]
    pub json: bool,
    /// Number of threads to plan for.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads_arg)]
    pub threads: usize,
    /// Largest size of the arena, in bytes or like 64MiB [default: no limit]. Values are recomputed to fit.
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<ByteSize>,
    /// Precision of matrix products: f32, bf16x3 (each number as three bf16 terms, as accurate as f32), bf16x2 (as two
    /// terms) or bf16. Without AMX, bf16x3 and bf16x2 run as f32.
    #[arg(long, value_parser = precision_arg, value_name = "PRECISION", default_value = "f32")]
    pub precision: Precision,
    /// How convolutions are computed: direct, or winograd for 3 × 3 kernels: half the time, twice the error.
    #[arg(long, value_parser = convolutions_arg, value_name = "WAY", default_value = "direct")]
    pub convolutions: Convolutions,
    /// Type in which values of the forward half are kept for the backward half: f32, bf16 or f16.
    #[arg(long, value_parser = keep_arg, value_name = "TYPE", default_value = "f32")]
    pub keep: Keep,
    /// Instead of the plan, print the arena sizes that recomputation can reach, and what each recomputes.
    #[arg(long, conflicts_with = "max_memory")]
    pub budgets: bool,
}

/// Options of `print`.
#[derive(Args, Debug)]
pub struct PrintArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Print the source location of each node: loc("net.rs":12), or the line of the text.
    #[arg(long)]
    pub locations: bool,
}

/// Options of `opt`.
#[derive(Args, Debug)]
pub struct OptArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Passes to run, in order, separated by commas [default: the passes that compiling runs].
    #[arg(long, value_name = "PASS", value_delimiter = ',')]
    pub passes: Vec<String>,
    /// Report each pass on standard error: node counts, time, and how often each rule applied.
    #[arg(long)]
    pub trace: bool,
    /// Instead of the graph, print what was fused, and where a rule almost applied and which condition failed.
    #[arg(long)]
    pub report: bool,
    /// Print the source location of each node.
    #[arg(long, conflicts_with = "report")]
    pub locations: bool,
    /// With --report: print the report as JSON.
    #[arg(long, requires = "report")]
    pub json: bool,
}

/// Options of `grad`.
#[derive(Args, Debug)]
pub struct GradArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Leaves with respect to which to differentiate, separated by commas [default: all params that are not frozen]. An
    /// inner value is given by its name or, as %5, by its number in the output of `print`.
    #[arg(long, value_name = "LEAF", value_delimiter = ',')]
    pub wrt: Vec<String>,
    /// The scalar output to differentiate [default: the only output].
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// Give zeros, instead of an error, for leaves that get no gradient.
    #[arg(long)]
    pub zero_missing: bool,
    /// Report on standard error the steps that prepare the graph, how many nodes the gradient has, and how many it
    /// would have after simplification.
    #[arg(long)]
    pub trace: bool,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
}

/// Options of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Values of inputs, params and states, each as NAME=FILE.npy [default: none]. They override --weights. Inputs with
    /// a default may be left out.
    #[arg(long = "in", value_name = "NAME=FILE", num_args = 1..)]
    pub inputs: Vec<String>,
    /// Safetensors file, file of torch.save, or folder of them, with the values of all params [default: start values
    /// from the seed].
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// How they are read.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Folder for the outputs, one NAME.npy each. Characters that do not belong in a file name are written as codes:
    /// %2F for a slash.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Seed of the params without a value, and of random ops [default: 0]. An exported program has its own.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads_arg)]
    pub threads: usize,
}

/// Options of `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Largest relative error of a gradient that is accepted.
    #[arg(long, value_name = "X", default_value_t = 1e-6)]
    pub tolerance: f64,
    /// Seed of the leaves' values.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of elements of each leaf that are compared.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub elements: usize,
}

/// Options of `compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// The text of a graph.
    pub first: PathBuf,
    /// The text of a graph with the same leaves, outputs and updates.
    pub second: PathBuf,
    /// Sizes of the texts' symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// Seed of the leaves' values.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of seeds to compare with: SEED, SEED + 1 ...
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub seeds: u64,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads_arg)]
    pub threads: usize,
    /// Print one JSON object for each seed.
    #[arg(long)]
    pub json: bool,
}

/// Options of `trace`.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// A workload of `bench` (w1 to w8, w10 to w16, resnet18), or a file with a graph's text.
    pub target: String,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// The file to write, for chrome://tracing or ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads_arg)]
    pub threads: usize,
    /// Precision of matrix products: f32, bf16x3 (each number as three bf16 terms, as accurate as f32), bf16x2 (as two
    /// terms) or bf16. Without AMX, bf16x3 and bf16x2 run as f32.
    #[arg(long, value_parser = precision_arg, value_name = "PRECISION", default_value = "f32")]
    pub precision: Precision,
    /// How convolutions are computed: direct, or winograd for 3 × 3 kernels: half the time, twice the error.
    #[arg(long, value_parser = convolutions_arg, value_name = "WAY", default_value = "direct")]
    pub convolutions: Convolutions,
    /// Type in which values of the forward half are kept for the backward half: f32, bf16 or f16.
    #[arg(long, value_parser = keep_arg, value_name = "TYPE", default_value = "f32")]
    pub keep: Keep,
    /// Folder with WORKLOAD.safetensors, as for `bench` [default: synthetic data].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Options of `bench`.
#[derive(Args, Debug, Default)]
pub struct BenchArgs {
    /// Workloads to time, separated by commas: w1 (MLP 784-128-10), w2 (MLP 4-32-32-2), w3 (MLP 1024-4096-4096-1024),
    /// w4 (LeNet), w5 (residual network), w6 (character GPT), w7 (GPT-2), w8 (GRU), w10 (EEGNet-like network), w11
    /// (tabular network), w12 (ViT), w13 (VAE), w14 (Burgers' equation in f64), w15 (DLRM), w16 (LSTMs with attention),
    /// resnet18, act (a policy MLP 4-64-64-2 acts on one observation, in a program of its own and in one that also
    /// learns; at least 20,000 acts of each). A wrong name tells the sizes. Under mpirun, the ranks divide the batch of
    /// w3, w6 or w7.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "w1,w2")]
    pub workloads: Vec<String>,
    /// Number of threads.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads_arg)]
    pub threads: usize,
    /// Seconds for which each workload is timed.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub seconds: f64,
    /// Precision of matrix products: f32, bf16x3 (each number as three bf16 terms, as accurate as f32), bf16x2 (as two
    /// terms) or bf16. Without AMX, bf16x3 and bf16x2 run as f32.
    #[arg(long, value_parser = precision_arg, value_name = "PRECISION", default_value = "f32")]
    pub precision: Precision,
    /// How convolutions are computed: direct, or winograd for 3 × 3 kernels: half the time, twice the error.
    #[arg(long, value_parser = convolutions_arg, value_name = "WAY", default_value = "direct")]
    pub convolutions: Convolutions,
    /// Type in which values of the forward half are kept for the backward half: f32, bf16 or f16.
    #[arg(long, value_parser = keep_arg, value_name = "TYPE", default_value = "f32")]
    pub keep: Keep,
    /// Folder with WORKLOAD.safetensors for each workload (params under `p.PARAM`, batches under the names of the
    /// inputs) [default: synthetic data].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// After the timed steps, record one more into this file, for chrome://tracing or ui.perfetto.dev [default: no
    /// record]. --workloads must name a single workload.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// What disturbs steps.
    #[command(flatten)]
    pub latency: LatencyArgs,
    #[command(flatten)]
    pub ranks: BenchRankArgs,
    /// Print one JSON object for each workload.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests;
