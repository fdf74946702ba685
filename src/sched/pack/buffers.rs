//! The input of packing: a lifetime and a size for each buffer.
//!
//! Invariant: the three columns have the same length. [`Buffers::valid`] tests it.

use crate::error::{Error, Kind, Result};

/// Lifetimes and sizes, by buffer, in any unit of time and of memory.
///
/// A buffer is alive in the half-open range `first..end`. A buffer without moments or of size 0 is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// First moment of each lifetime.
    pub first: Vec<u64>,
    /// One past the last moment of each lifetime.
    pub end: Vec<u64>,
    /// Sizes.
    pub size: Vec<u64>,
}

impl Buffers {
    /// From (first, end, size) rows.
    pub fn from_rows(rows: impl IntoIterator<Item = (u64, u64, u64)>) -> Buffers {
        let mut v = Buffers::default();
        rows.into_iter().for_each(|(first, end, size)| v.push(first, end, size));
        v
    }

    /// Adds a buffer.
    pub fn push(&mut self, first: u64, end: u64, size: u64) {
        self.first.push(first);
        self.end.push(end);
        self.size.push(size);
    }

    /// Number of buffers.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// True if there is no buffer.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// True if buffer `i` is not empty.
    pub fn takes(&self, i: usize) -> bool {
        self.size[i] > 0 && self.first[i] < self.end[i]
    }

    /// An error unless the columns have the same length.
    pub fn valid(&self) -> Result<()> {
        let (n, ends, sizes) = (self.first.len(), self.end.len(), self.size.len());
        match n == ends && n == sizes {
            true => Ok(()),
            false => Err(Error::new(Kind::Plan, format!("{n} starts, {ends} ends and {sizes} sizes"))),
        }
    }
}
