//! Readers of data files: `.npy`, IDX and (feature `csv`) tables of numbers.
//!
//! Invariant: a file is hostile until proven good. The memory that a reader takes follows from the bytes that it has
//! read, never from a number in the file. Errors name the file, and the byte or the line.

#[cfg(feature = "csv")]
mod csv;
mod idx;
mod npy;

#[cfg(feature = "csv")]
pub use self::csv::{CsvFormat, CsvRows, Table, read_csv};
pub use idx::{Idx, read_idx};
pub use npy::{encode_npy, parse_npy, read_npy, read_npy_within, write_npy};

use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::session::Elem;
use crate::train::file_kinds::open_regular;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A tensor from a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Array {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: Vec<usize>,
    /// Elements, little-endian and row-major.
    pub bytes: Vec<u8>,
}

impl Array {
    /// The elements, row-major. Fails with [`Kind::Data`] if they are not of type `T`.
    pub fn values<T: Elem>(&self) -> Result<Vec<T>> {
        if !T::holds(self.dtype) {
            let text = format!("the array is {}{:?}; it is asked for as {}", self.dtype, self.dims, T::NAME);
            return Err(bad_data(text));
        }
        if !self.bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(bad_data(format!("{} bytes are no whole elements of {}", self.bytes.len(), T::NAME)));
        }
        Ok(bytemuck::pod_collect_to_vec(&self.bytes))
    }
}

/// An error of kind [`Kind::Data`].
fn bad_data(message: impl Into<String>) -> Error {
    Error::new(Kind::Data, message)
}

/// As [`open_regular`]; errors name the file.
fn open_data(path: &Path) -> Result<(File, u64)> {
    open_regular(path).map_err(|e| e.context(path.display()))
}

/// Reads the regular file `path`. Fails if it is longer than `limit` bytes.
fn read_within_limit(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = open_data(path)?.0;
    let mut bytes = Vec::new();
    // Counted while reading: a file may grow, and those of the system have bytes, but no length.
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| Error::from(e).context(path.display()))?;
    if bytes.len() as u64 > limit {
        return Err(bad_data(format!("{}: more than {limit} bytes", path.display())));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
