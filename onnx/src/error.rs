//! What can be wrong with a model.

use arenagrad::error::Kind;
use std::fmt;

/// Why a model is not read or written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file is no ONNX model, or breaks a rule of the format.
    Model(String),
    /// The model is sound, but uses what this crate has no rule for.
    Unsupported {
        /// The op, with its domain unless that is the default one.
        op: String,
        /// The version of the op's domain that the model asks for.
        opset: i64,
        /// The node, by its name or by its first output.
        node: String,
        /// What there is no rule for.
        why: String,
    },
    /// A shape depends on the values of inputs: give them as [`Options::values`](crate::Options::values).
    Values {
        /// The inputs, by name.
        inputs: Vec<String>,
        /// What depends on them.
        what: String,
    },
    /// An error of the library: a wrong shape, a name that is used twice.
    Graph(arenagrad::Error),
}

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Model(why) => write!(f, "{why}"),
            Error::Unsupported { op, opset, node, why } => write!(f, "{op} of opset {opset} (node {node:?}): {why}"),
            Error::Values { inputs, what } => {
                write!(f, "{what} depends on the values of {}; give them", quoted(inputs.iter().map(String::as_str)))
            }
            Error::Graph(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<arenagrad::Error> for Error {
    fn from(e: arenagrad::Error) -> Error {
        Error::Graph(e)
    }
}

impl From<Error> for arenagrad::Error {
    fn from(e: Error) -> arenagrad::Error {
        let kind = match &e {
            Error::Graph(e) => return e.clone(),
            Error::Model(_) => Kind::Syntax,
            Error::Unsupported { .. } | Error::Values { .. } => Kind::Shape,
        };
        arenagrad::Error::new(kind, e.to_string())
    }
}

/// The most names that a message lists.
const MOST_LISTED: usize = 8;

/// Names in quotes, separated by commas; of many, the first eight.
pub fn quoted<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names = names.into_iter();
    let mut list: Vec<String> = names.by_ref().take(MOST_LISTED).map(|n| format!("{n:?}")).collect();
    let more = names.count();
    if more > 0 {
        list.push(format!("{more} more"));
    }
    list.join(", ")
}

/// An error of the format.
pub fn model<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Model(why.into()))
}
