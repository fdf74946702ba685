//! Options of the commands of the fuzzing kit.
//!
//! Invariant: this module only parses.

use super::SizeArgs;
use arenagrad::graph::DType;
use clap::Args;
use std::path::PathBuf;

/// Parses the name of an element type.
fn fuzz_dtype_arg(name: &str) -> Result<DType, String> {
    DType::parse(name)
        .ok_or_else(|| format!("it may be {}", DType::ALL.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ")))
}

/// Parses the seconds that a check may take.
fn fuzz_seconds_arg(text: &str) -> Result<f64, String> {
    let limits = 0.001..=86_400.0;
    text.parse().ok().filter(|s| limits.contains(s)).ok_or_else(|| format!("{text} is not from 0.001 to 86400"))
}

/// Options of `generate`.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// Seed of the graph; graph i of several has the seed N + i.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Largest number of drawn nodes. Leaves, regions, and nodes that make operands fit are not counted.
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: u32,
    /// Ops with weights: `tanh,matmul=8` draws these two, `*,scan=0` all but loops [default: all ops, equally often].
    #[arg(long, value_name = "LIST")]
    pub ops: Option<String>,
    /// Element types that values may have, separated by commas [default: all].
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = fuzz_dtype_arg)]
    pub dtypes: Vec<DType>,
    /// Operands are taken from this many of the latest values: 1 gives chains, large numbers give bushy graphs.
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub depth: u32,
    /// Draw loops, calls and custom functions, too.
    #[arg(long)]
    pub regions: bool,
    /// Number of graphs. For more than one, --out is needed.
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub count: u64,
    /// Folder for the graphs, each a file drawn-SEED.ir [default: the graph is printed].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Options of `reduce`.
#[derive(Args, Debug)]
#[command(after_help = "\
CMD is run by sh, with the path of a candidate in the place of each {}, or at its end if there is no {}. Exit code 0
means that the candidate is still interesting: the failure is there. Any other code, a signal, and a check that takes
longer than --timeout mean that it is not. C-Reduce, llvm-reduce and halfempty use the same exit codes. For a program that
fails: --check '! program'. For one that crashes: --check 'program {} 2>&1 | grep -q \"out of range\"'.")]
pub struct ReduceArgs {
    /// The graph's text. It must be interesting itself.
    pub file: PathBuf,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// The command that exits with 0 if a candidate is interesting.
    #[arg(long, value_name = "CMD")]
    pub check: String,
    /// File for the smallest graph so far, replaced as a whole each time [default: it is printed at the end].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Largest number of candidates to check.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_checks: usize,
    /// Seconds that a check may take; then it is killed with all processes that it started.
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = fuzz_seconds_arg)]
    pub timeout: f64,
    /// Print no progress.
    #[arg(long)]
    pub quiet: bool,
}
