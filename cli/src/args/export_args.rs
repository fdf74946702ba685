//! Options of the command `export`.
//!
//! Invariant: this module only parses.

use super::{GraphArgs, ReadArgs};
use clap::Args;
use std::path::PathBuf;

/// Options of `export`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// The graph: a training step, or inference.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// The source file to write, which ends in .c; the header goes beside it, as NAME.h.
    #[arg(long, value_name = "FILE")]
    pub c: PathBuf,
    /// What all names in C begin with [default: the name of the source file].
    #[arg(long)]
    pub name: Option<String>,
    /// Safetensors file, file of torch.save, or folder of them, with the values of all params [default: start values
    /// from the seed].
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// How they are read.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Seed of the params without a value.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}
