//! From the bytes of a model to a graph.
//!
//! Nodes are read in order. A value is *known* if it follows from the model alone, or from [`Options::values`]: such
//! values are computed while reading (`fold`), and shapes, axes and sizes come from them. All other values are nodes
//! of the graph.

mod control;
mod cx;
mod fold;
mod inputs;
mod reader;
mod sequences;
mod subgraph;
mod value;

use crate::error::{Error, Result, model};
use crate::proto::ModelProto;
use crate::tensor::Tensor;
use arenagrad::graph::GraphBuf;
use arenagrad::session::Program;
use prost::Message;
use std::path::Path;

pub(crate) use cx::{Cx, Out, describe, one};
pub(crate) use value::computed_in;

/// The oldest version of the default ops that is read.
pub const OLDEST_OPSET: i64 = 6;
/// The newest.
pub const NEWEST_OPSET: i64 = 28;

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 2 << 30;
/// The longest name or string of a model, in bytes.
const LONGEST_STRING: usize = 64 << 10;

/// Which initialisers of floats training changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trainable {
    /// All but numbers of shape `[]` and the statistics of batch norms.
    #[default]
    All,
    /// None: all are frozen params.
    None,
    /// Those whose names match one of these patterns, in which `*` stands for any characters.
    Only(Vec<String>),
}

/// How a model is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The size of each named dimension, such as `("batch", 32)`. A dimension without a name is called `input.axis`,
    /// as in `x.0`.
    pub sizes: Vec<(String, usize)>,
    /// The size of the first axis of inputs where neither the model nor `sizes` gives one.
    pub batch: Option<usize>,
    /// Values of inputs that shapes depend on. Such an input is no input of the graph.
    pub values: Vec<(String, Tensor)>,
    /// Which initialisers training changes.
    pub trainable: Trainable,
}

/// A model that was read.
#[derive(Debug)]
pub struct Import {
    /// The graph: the model's inputs and outputs by their names, a param for each initialiser of floats.
    pub graph: GraphBuf,
    /// The values of the params, by name.
    pub weights: Vec<(String, Tensor)>,
    /// The inputs whose values were given, and which the graph therefore has not.
    pub values: Vec<String>,
    /// What a user should know of this model.
    pub notes: Vec<String>,
}

impl Import {
    /// Writes the weights into the params of `program`, which was compiled from the graph or from one derived of it.
    /// Params that it does not read are skipped.
    ///
    /// # Errors
    /// A param of the program has another type or shape.
    pub fn load(&self, program: &mut Program) -> Result<()> {
        let persistent: Vec<String> = program.persistent().map(|(b, _)| b.name.clone()).collect();
        for (name, t) in self.weights.iter().filter(|(name, _)| persistent.contains(name)) {
            let (b, bytes) = program.persistent_mut(name)?;
            if b.dtype != t.dtype || b.dims[..] != t.dims[..] {
                let is = format!("{}{:?}", t.dtype.name(), t.dims);
                return model(format!("param {name:?} is {}{}; the model has {is}", b.dtype, b.dims));
            }
            bytes.copy_from_slice(&t.bytes);
        }
        Ok(())
    }
}

/// Reads the bytes of a model.
///
/// # Errors
/// See [`Error`]. A model with data in other files is refused: [`read_file`] reads it.
pub fn read(bytes: &[u8], options: &Options) -> Result<Import> {
    reader::import(&decode(bytes)?, options, None)
}

/// Reads the file of a model. Data in other files must be in its folder.
///
/// # Errors
/// See [`Error`].
pub fn read_file(path: impl AsRef<Path>, options: &Options) -> Result<Import> {
    let path = path.as_ref();
    let fail = |e: std::io::Error| Error::Graph(arenagrad::Error::from(e).context(path.display()));
    let found = std::fs::metadata(path).map_err(fail)?;
    if !found.is_file() {
        return model(format!("{}: no regular file", path.display()));
    }
    if found.len() > MOST_BYTES {
        return model(format!("{}: {} bytes; at most 2 GiB are read", path.display(), found.len()));
    }
    let parsed = decode(&std::fs::read(path).map_err(fail)?)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    reader::import(&parsed, options, Some(folder))
}

/// The message, with the checks that need no graph.
fn decode(bytes: &[u8]) -> Result<ModelProto> {
    if bytes.len() as u64 > MOST_BYTES {
        return model(format!("a model of {} bytes; at most 2 GiB are read", bytes.len()));
    }
    let m = ModelProto::decode(bytes).map_err(|e| Error::Model(format!("this is no ONNX model: {e}")))?;
    if m.graph.is_none() {
        return model("this is no ONNX model: it has no graph");
    }
    Ok(m)
}
