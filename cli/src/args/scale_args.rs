//! Options of `scale`, with its numbers of ranks.
//!
//! Invariant: this module only parses.

use super::choice_args::{convolutions_arg, keep_arg, precision_arg};
use super::{SizeArgs, threads_arg};
use arenagrad::Precision;
use arenagrad::session::{Convolutions, Keep};
use clap::Args;
use std::path::PathBuf;

/// Most ranks of a table.
pub const MAX_RANKS: usize = 1 << 16;

/// Options of `scale`.
#[derive(Args, Debug)]
pub struct ScaleArgs {
    /// A workload of `bench` (w1 to w8, w10 to w16, resnet18), or a file with the text of a training step.
    pub target: String,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// A network: a TOML file, of which mpi/networks has some. Given several times, networks are compared.
    #[arg(long, value_name = "FILE", required = true)]
    pub network: Vec<PathBuf>,
    /// Numbers of ranks: A..B (A, its doubles and B), or some, as 2,4,6. They go from 1 to 65536.
    #[arg(long, value_name = "RANKS", value_parser = ranks_arg, default_value = "2..1000")]
    pub ranks: RankCounts,
    /// Divide this symbol, the batch, among the ranks (strong scaling); --size tells how much all have together
    /// [default: each rank has the batch of the graph (weak scaling)]. A range leaves out the numbers of ranks that do
    /// not divide it.
    #[arg(long, value_name = "SYMBOL")]
    pub divide: Option<String>,
    /// Milliseconds that the step was measured to take in one process [default: the time by the table of costs, which
    /// is of one reference machine]. With --divide, times of smaller batches keep their ratio to it.
    #[arg(long, value_name = "MS")]
    pub step_ms: Option<f64>,
    /// Exchange gradients behind their computation, not beside it. Beside it, a bucket's messages begin when the step
    /// has its gradients, or has written its params if a text is given.
    #[arg(long)]
    pub no_overlap: bool,
    /// Number of threads of each rank.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads_arg)]
    pub threads: usize,
    /// Precision of matrix products: f32, bf16x3 (each number as three bf16 terms, as accurate as f32), bf16x2 (as two
    /// terms) or bf16. Without AMX, bf16x3 and bf16x2 run as f32.
    #[arg(long, value_parser = precision_arg, value_name = "PRECISION", default_value = "f32")]
    pub precision: Precision,
    /// How convolutions are computed: direct or winograd; see `plan`.
    #[arg(long, value_parser = convolutions_arg, value_name = "WAY", default_value = "direct")]
    pub convolutions: Convolutions,
    /// Type in which values of the forward half are kept for the backward half: f32, bf16 or f16.
    #[arg(long, value_parser = keep_arg, value_name = "TYPE", default_value = "f32")]
    pub keep: Keep,
    /// Draw the efficiency of each network by ranks into this file [default: no chart].
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print the table as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Numbers of ranks: a range, or a list.
#[derive(Clone, Debug, PartialEq)]
pub enum RankCounts {
    /// The first and the last.
    Range(usize, usize),
    /// In the order in which they are given.
    List(Vec<usize>),
}

impl RankCounts {
    /// The numbers of a table: of a range the first, its doubles, and the last.
    pub fn shown(&self) -> Vec<usize> {
        match self {
            RankCounts::Range(first, last) => {
                let doubles = std::iter::successors(Some(*first), |n| n.checked_mul(2));
                doubles.take_while(|n| n < last).chain([*last]).collect()
            }
            RankCounts::List(list) => list.clone(),
        }
    }

    /// The first and the last number of a range.
    pub fn bounds(&self) -> Option<(usize, usize)> {
        match self {
            RankCounts::Range(first, last) => Some((*first, *last)),
            RankCounts::List(_) => None,
        }
    }
}

/// Parses `2..1000`, or `2,4,6`.
fn ranks_arg(text: &str) -> Result<RankCounts, String> {
    let number = |part: &str| match part.parse() {
        Ok(n @ 1..=MAX_RANKS) => Ok(n),
        _ => Err(format!("{part:?} is no number of ranks; they go from 1 to {MAX_RANKS}")),
    };
    let Some((first, last)) = text.split_once("..") else {
        return text.split(',').map(number).collect::<Result<_, _>>().map(RankCounts::List);
    };
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(format!("the range ends with {last}, before {first}"));
    }
    Ok(RankCounts::Range(first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_a_range_or_a_list() {
        let shown = |text: &str| ranks_arg(text).unwrap().shown();
        assert_eq!(shown("2..1000"), [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]);
        assert_eq!(shown("3..12"), [3, 6, 12]);
        assert_eq!(shown("7..7"), [7]);
        assert_eq!(shown("4,2,6"), [4, 2, 6]);
        for bad in ["0", "0..4", "9..2", "2..", "..", "", "2,,3", "2..65537", "-1", "2...4", "x"] {
            assert!(ranks_arg(bad).is_err(), "{bad}");
        }
    }
}
