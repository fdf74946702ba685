//! The built-in digits, and the order of shuffled epochs.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

const DIGITS: &[u8] = include_bytes!("../../data/digits.csv.gz");

/// The digits: gzipped CSV, 64 pixels from 0 to 16 and the digit in each line.
#[pyfunction]
pub fn _digits(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, DIGITS)
}

/// The numbers 0 … n − 1 in the order that seed and epoch give.
#[pyfunction]
pub fn _permutation(seed: u64, epoch: u64, n: usize) -> Vec<u32> {
    let mut order = vec![0; n];
    arenagrad::train::permutation(seed, epoch, &mut order);
    order
}
