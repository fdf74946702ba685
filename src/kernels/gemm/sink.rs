//! The consumer of a product that is not stored.

use super::gemm_float::GemmFloat;
use super::prefetch::PrefetchQueue;
use crate::abi::MatrixMut;
use std::marker::PhantomData;
use std::ops::Range;

/// A consumer of a product's blocks. Rows count from the first row that the call computes.
pub trait TileSink<T> {
    /// Fills `lines` with what consuming the elements of `rows` and `cols` will read; it is prefetched while they or
    /// those before them are computed. An empty `lines` prefetches nothing.
    fn prefetch(&self, rows: Range<usize>, cols: Range<usize>, lines: &mut PrefetchQueue);
    /// Consumes the finished block that begins at row `row` and column `col`.
    fn consume(&mut self, row: usize, col: usize, tile: MatrixMut<'_, T>);
}

/// A sink of `T` as a sink of another name for the same type, as generic code needs it.
pub struct RecastSink<'t, T, K>(&'t mut K, PhantomData<T>);

impl<'t, T, K: TileSink<T>> RecastSink<'t, T, K> {
    /// The adapter of `to`.
    pub fn new(to: &'t mut K) -> Self {
        RecastSink(to, PhantomData)
    }
}

impl<T: GemmFloat, U: GemmFloat, K: TileSink<T>> TileSink<U> for RecastSink<'_, T, K> {
    fn prefetch(&self, rows: Range<usize>, cols: Range<usize>, lines: &mut PrefetchQueue) {
        self.0.prefetch(rows, cols, lines);
    }
    fn consume(&mut self, row: usize, col: usize, tile: MatrixMut<'_, U>) {
        self.0.consume(row, col, tile.cast());
    }
}
