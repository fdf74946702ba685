//! Options of `export`.
//!
//! Invariant: this module only parses.

use super::choice_args::{convolutions_arg, keep_arg, precision_arg};
use super::{GraphArgs, ReadArgs, threads_arg};
use arenagrad::Precision;
use arenagrad::session::{Convolutions, Keep};
use bytesize::ByteSize;
use clap::Args;
use std::path::PathBuf;

/// Options of `export`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// The graph; or an exported program, whose graph is compiled again with these options and keeps its values.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Safetensors file, file of torch.save, or folder of them, with the values of all params [default: those of the
    /// model; else start values from the seed].
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// How they are read.
    #[command(flatten)]
    pub read: ReadArgs,
    /// The file to write, by convention NAME.agp [default: none; one of --out and --c is needed].
    #[arg(short = 'o', long, value_name = "FILE", required_unless_present = "c")]
    pub out: Option<PathBuf>,
    /// Write the planned step as C99 for small machines instead: this source, which ends in .c, and a header NAME.h
    /// beside it [default: none].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "threads", "max_memory", "precision", "convolutions", "keep"])]
    pub c: Option<PathBuf>,
    /// With --c: what all names in C begin with [default: the name of the source file].
    #[arg(long, requires = "c")]
    pub name: Option<String>,
    /// Seed of the params and states without a value, and of random ops [default: 0]. An exported program has its own.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Most threads that the program runs on.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads_arg)]
    pub threads: usize,
    /// Largest size of the arena, in bytes or like 64MiB [default: no limit]. Values are recomputed to fit.
    #[arg(long, value_name = "SIZE")]
    pub max_memory: Option<ByteSize>,
    /// Precision of matrix products: f32, bf16x3, bf16x2 or bf16; see `plan`.
    #[arg(long, value_parser = precision_arg, value_name = "PRECISION", default_value = "f32")]
    pub precision: Precision,
    /// How convolutions are computed: direct or winograd; see `plan`.
    #[arg(long, value_parser = convolutions_arg, value_name = "WAY", default_value = "direct")]
    pub convolutions: Convolutions,
    /// Type in which values of the forward half are kept for the backward half: f32, bf16 or f16.
    #[arg(long, value_parser = keep_arg, value_name = "TYPE", default_value = "f32")]
    pub keep: Keep,
}
