//! Numbers of the caller in checkpoints.

use arenagrad::train::Entry;
use pyo3::prelude::*;

/// What names of a checkpoint's numbers begin with.
pub const KEPT: &str = "train.kept.";

/// A number of a checkpoint: its name there, and its bytes.
pub fn kept_number(name: &Bound<'_, PyAny>, x: &Bound<'_, PyAny>) -> PyResult<(String, [u8; 8])> {
    Ok((format!("{KEPT}{}", name.extract::<String>()?), x.extract::<f64>()?.to_le_bytes()))
}

/// A number of a checkpoint.
pub fn kept_entry<'a>(name: &'a str, bytes: &'a [u8]) -> Entry<'a> {
    Entry::new(name, arenagrad::graph::DType::F64, &[1], bytes)
}
