//! The Python package of arenagrad: classes and functions of the extension module `_arenagrad`. The Python files beside
//! it, in `python/arenagrad`, have the rest: functions made from tables, slow paths of arrays, loops.
//!
//! Invariants: nothing here computes, and no panic leaves the crate. Classes are frozen; what changes is behind a lock
//! that a second thread cannot wait for.

mod build;
mod comm;
mod compile;
mod data;
mod error;
mod events;
mod forward;
mod graph;
mod index;
mod init;
mod kept;
mod latency;
mod location;
mod onnx;
mod ops;
mod optim;
mod plan;
mod program;
mod ranks;
mod sized;
mod slot;
mod tensors;
mod twin;
mod values;
mod var;
mod views;
mod watch;

use pyo3::prelude::*;
use pyo3::wrap_pyfunction;

#[pymodule(gil_used = false)]
fn _arenagrad(m: &Bound<'_, PyModule>) -> PyResult<()> {
    error::quiet_panics();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<build::Build>()?;
    m.add_class::<events::PyEventFile>()?;
    m.add_class::<graph::Graph>()?;
    m.add_class::<graph::Spec>()?;
    m.add_class::<optim::PyOptimiser>()?;
    m.add_class::<optim::PySchedule>()?;
    m.add_class::<plan::Plan>()?;
    m.add_class::<plan::Trace>()?;
    m.add_class::<program::Program>()?;
    m.add_class::<ranks::PyParallel>()?;
    m.add_class::<ranks::PySplit>()?;
    m.add_class::<sized::SizedProgram>()?;
    m.add_class::<tensors::Tensors>()?;
    m.add_class::<values::PyInit>()?;
    m.add_class::<var::Var>()?;
    m.add_class::<watch::_Watch>()?;
    m.add_function(wrap_pyfunction!(compile::_compile, m)?)?;
    m.add_function(wrap_pyfunction!(sized::_compile_sized, m)?)?;
    m.add_function(wrap_pyfunction!(data::_digits, m)?)?;
    m.add_function(wrap_pyfunction!(data::_permutation, m)?)?;
    m.add_function(wrap_pyfunction!(error::panic_for_test, m)?)?;
    m.add_function(wrap_pyfunction!(forward::_forwards, m)?)?;
    m.add_function(wrap_pyfunction!(forward::_layer, m)?)?;
    m.add_function(wrap_pyfunction!(graph::_parse, m)?)?;
    m.add_function(wrap_pyfunction!(graph::train, m)?)?;
    m.add_function(wrap_pyfunction!(init::_init, m)?)?;
    m.add_function(wrap_pyfunction!(onnx::_onnx_read, m)?)?;
    m.add_function(wrap_pyfunction!(onnx::_onnx_write, m)?)?;
    m.add_function(wrap_pyfunction!(ops::_op_table, m)?)?;
    m.add_function(wrap_pyfunction!(optim::_kinds, m)?)?;
    m.add_function(wrap_pyfunction!(program::_forked, m)?)?;
    m.add_function(wrap_pyfunction!(program::_open, m)?)?;
    m.add_function(wrap_pyfunction!(ranks::_train_split, m)?)?;
    m.add_function(wrap_pyfunction!(twin::_twin, m)?)
}
