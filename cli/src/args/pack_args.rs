//! Options of the command `pack`.
//!
//! Invariant: this module only parses.

use clap::Args;
use std::path::PathBuf;

/// Options of `pack`.
#[derive(Args, Debug)]
pub struct PackArgs {
    /// A CSV file in MiniMalloc's format: columns id, lower, upper (one past the last moment) and size.
    #[arg(required_unless_present = "make", conflicts_with = "make")]
    pub file: Option<PathBuf>,
    /// Pack about N synthetic buffers instead of a file: training:N:SEED (a training step of a chain of layers),
    /// unrolled:N (a recurrent cell unrolled over time), power:N:SEED (lifetimes and sizes from power laws) or
    /// perfect:N:SEED (the best packing has no gaps, and height 1048576) [default: the file].
    #[arg(long, value_name = "KIND:N:SEED")]
    pub make: Option<String>,
    /// Accept any packing of at most this height, in the unit of the sizes [default: look for the lowest].
    #[arg(long, value_name = "HEIGHT")]
    pub capacity: Option<u64>,
    /// Write the CSV with an added column offset to this file, even if the packing exceeds the capacity [default: no
    /// file].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Largest number of search nodes of branch and bound [default: 1000000].
    #[arg(long, value_name = "N")]
    pub nodes: Option<u64>,
    /// Print the results as JSON.
    #[arg(long)]
    pub json: bool,
}
