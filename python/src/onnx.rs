//! ONNX models: reading and writing. `arenagrad/onnx.py` makes arrays of the bytes.

use crate::error::{call, refuse};
use crate::graph::Graph;
use crate::program::Program;
use arenagrad::error::Kind;
use arenagrad::graph::DType;
use arenagrad_onnx::{Options, Tensor, Trainable, read_file, write};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// A tensor as Python has it: its name, element type, dimensions and bytes.
type Named<'py> = (String, &'static str, Vec<usize>, Bound<'py, PyBytes>);

/// The graph of a model, its weights, the inputs whose values were given, and what a user should know.
#[pyfunction]
#[pyo3(signature = (path, trainable, sizes, batch, values))]
pub fn _onnx_read<'py>(
    py: Python<'py>,
    path: PathBuf,
    trainable: Option<Vec<String>>,
    sizes: Vec<(String, usize)>,
    batch: Option<usize>,
    values: Vec<(String, String, Vec<usize>, Vec<u8>)>,
) -> PyResult<(Graph, Vec<Named<'py>>, Vec<String>, Vec<String>)> {
    let given = |(name, dtype, dims, bytes): (String, String, Vec<usize>, Vec<u8>)| {
        let Some(dtype) = DType::parse(&dtype) else {
            return Err(refuse(Kind::Data, format!("{name:?} has the unknown dtype {dtype}")));
        };
        Ok((name, call(|| Ok(Tensor::new(dtype, dims, bytes)?))?))
    };
    let values = values.into_iter().map(given).collect::<PyResult<_>>()?;
    let trainable = match trainable {
        None => Trainable::All,
        Some(none) if none.is_empty() => Trainable::None,
        Some(patterns) => Trainable::Only(patterns),
    };
    let options = Options { sizes, batch, values, trainable };
    let import = py.detach(|| call(|| Ok(read_file(&path, &options)?)))?;
    let named = |(name, t): (String, Tensor)| (name, t.dtype.name(), t.dims, PyBytes::new(py, &t.bytes));
    Ok((Graph::new(import.graph), import.weights.into_iter().map(named).collect(), import.values, import.notes))
}

/// The bytes of a model: the graph with the params of the program.
#[pyfunction]
pub fn _onnx_write<'py>(py: Python<'py>, graph: &Graph, program: &Program) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = program.detached(py, |p| Ok(write(graph.buf(), p)?))?;
    Ok(PyBytes::new(py, &bytes))
}
