//! Options of the commands that print derivatives and graphs for a batch.
//!
//! Invariant: this module only parses.

use super::GraphArgs;
use clap::Args;

/// Parses the order of a derivative. Graphs grow with the power of the order.
fn derive_order_arg(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (0..=8).contains(n)).ok_or_else(|| format!("order is {text}; it goes from 0 to 8"))
}

/// Options of `jvp`.
#[derive(Args, Debug)]
pub struct JvpArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
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
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Leaves with respect to which to differentiate, separated by commas [default: all params that are not frozen]. An
    /// inner value is given by its name or, as %5, by its number in the output of `print`.
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
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
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
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// The leaf with respect to which to differentiate [default: the only param that is not frozen; in a graph without
    /// params, the only float leaf].
    #[arg(long, value_name = "LEAF")]
    pub wrt: Option<String>,
    /// The output to differentiate [default: the only output].
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
}

/// Options of `nth`.
#[derive(Args, Debug)]
pub struct NthArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// The leaf with respect to which to differentiate, a scalar unless --directions is given [default: the only param
    /// that is not frozen; in a graph without params, the only float leaf].
    #[arg(long, value_name = "LEAF")]
    pub wrt: Option<String>,
    /// The output to differentiate [default: the only output].
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// The order of the derivative, from 0 to 8.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = derive_order_arg)]
    pub order: usize,
    /// Differentiate once along each of N directions, which are inputs, instead of N times with respect to a scalar. N
    /// is the number that --order gives.
    #[arg(long)]
    pub directions: bool,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
}

/// A leaf or an output, and the position of the batch's axis in its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapped {
    pub name: String,
    pub axis: i64,
}

/// Parses `NAME` or `NAME@AXIS`.
fn mapped_derive_arg(text: &str) -> Result<Mapped, String> {
    let whole = || Mapped { name: text.to_string(), axis: 0 };
    let Some((name, axis)) = text.rsplit_once('@') else { return Ok(whole()) };
    let axis = axis.parse().map_err(|_| format!("{text:?} is not NAME or NAME@AXIS: {axis:?} is no axis"))?;
    Ok(Mapped { name: name.to_string(), axis })
}

/// What members of a batch draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Draws {
    /// All members draw the same numbers.
    Same,
    /// Each member draws numbers of its own.
    Different,
}

/// Options of `vmap`.
#[derive(Args, Debug)]
pub struct VmapArgs {
    /// The graph.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// The number of members.
    #[arg(long, value_name = "N")]
    pub members: usize,
    /// Leaves that differ between members, separated by commas. NAME has the batch's axis first; NAME@AXIS has it at
    /// that position.
    #[arg(long = "leaf", value_name = "LEAF[@AXIS]", value_delimiter = ',', value_parser = mapped_derive_arg, required = true)]
    pub leaves: Vec<Mapped>,
    /// Where outputs have the batch's axis, separated by commas: NAME or NAME@AXIS, as for --leaf [default: first, in
    /// each output that differs between members].
    #[arg(long = "output", value_name = "NAME[@AXIS]", value_delimiter = ',', value_parser = mapped_derive_arg)]
    pub outputs: Vec<Mapped>,
    /// What members draw [default: a random op is an error].
    #[arg(long, value_enum)]
    pub draws: Option<Draws>,
    /// Print the source location of each node.
    #[arg(long)]
    pub locations: bool,
    /// Instead of the graph, print the ops that run one member after another, with their source locations.
    #[arg(long, conflicts_with = "locations")]
    pub report: bool,
}
