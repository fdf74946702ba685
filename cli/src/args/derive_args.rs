//! Options of the commands that print derivatives.
//!
//! Invariant: this module only parses.

use super::SizeArgs;
use clap::Args;
use std::path::PathBuf;

/// Parses the order of a derivative. Graphs grow with the power of the order.
fn order(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (0..=8).contains(n)).ok_or_else(|| format!("order is {text}; it goes from 0 to 8"))
}

/// Options of `jvp`.
#[derive(Args, Debug)]
pub struct JvpArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// Leaves that have tangents, separated by commas [default: all params that are not frozen].
    #[arg(long, value_name = "LEAF", value_delimiter = ',')]
    pub wrt: Vec<String>,
    /// Outputs to differentiate, separated by commas [default: all outputs that are floats].
    #[arg(long = "output", value_name = "NAME", value_delimiter = ',')]
    pub outputs: Vec<String>,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
}

/// Options of `vjp`.
#[derive(Args, Debug)]
pub struct VjpArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// Leaves with respect to which to differentiate, separated by commas [default: all params that are not frozen]. An
    /// inner value is given by its name, or by its number in what `print` prints, as %5.
    #[arg(long, value_name = "LEAF", value_delimiter = ',')]
    pub wrt: Vec<String>,
    /// Outputs to differentiate, separated by commas [default: all outputs that are floats].
    #[arg(long = "output", value_name = "NAME", value_delimiter = ',')]
    pub outputs: Vec<String>,
    /// Give zeros, instead of an error, for leaves that get no gradient.
    #[arg(long)]
    pub zero_missing: bool,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
}

/// Options of `hvp`.
#[derive(Args, Debug)]
pub struct HvpArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// Leaves with respect to which to differentiate, separated by commas [default: all params that are not frozen].
    #[arg(long, value_name = "LEAF", value_delimiter = ',')]
    pub wrt: Vec<String>,
    /// The scalar output to differentiate [default: the only output].
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
}

/// Options of `jacobian`.
#[derive(Args, Debug)]
pub struct JacobianArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// The leaf with respect to which to differentiate [default: the only param that is not frozen; in a graph without
    /// params, the only float leaf].
    #[arg(long, value_name = "LEAF")]
    pub wrt: Option<String>,
    /// The output to differentiate, of at most 4096 elements [default: the only output].
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
}

/// Options of `nth`.
#[derive(Args, Debug)]
pub struct NthArgs {
    /// The graph's text.
    pub file: PathBuf,
    /// Sizes of the text's symbols.
    #[command(flatten)]
    pub sizes: SizeArgs,
    /// The leaf with respect to which to differentiate, a scalar unless --directions is given [default: the only param
    /// that is not frozen; in a graph without params, the only float leaf].
    #[arg(long, value_name = "LEAF")]
    pub wrt: Option<String>,
    /// The output to differentiate [default: the only output].
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// The order of the derivative, from 0 to 8.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = order)]
    pub order: usize,
    /// Differentiate along N directions, which are inputs, instead of N times by a scalar.
    #[arg(long)]
    pub directions: bool,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
}
