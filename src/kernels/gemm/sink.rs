//! Sinks: what consumes the tiles of a product that is not stored.

use super::float::GemmFloat;
use super::prefetch::PrefetchQueue;
use crate::kernels::abi::MatrixMut;
use std::marker::PhantomData;
use std::ops::Range;

/// What takes a product, tile by tile. Rows are counted from the first that the call computes.
pub trait TileSink<T> {
    /// Is told which tile comes after the one that is about to be computed, and says what to fetch meanwhile, if
    /// anything.
    fn prefetch(&self, rows: Range<usize>, cols: Range<usize>, lines: &mut PrefetchQueue);
    /// Takes a tile, from a row and a column on.
    fn consume(&mut self, row: usize, col: usize, tile: MatrixMut<'_, T>);
}

/// A sink of numbers that are of type `T`, under another name.
pub struct Recast<'t, T, K>(&'t mut K, PhantomData<T>);

impl<'t, T, K: TileSink<T>> Recast<'t, T, K> {
    /// The sink.
    pub fn new(to: &'t mut K) -> Self {
        Recast(to, PhantomData)
    }
}

impl<T: GemmFloat, U: GemmFloat, K: TileSink<T>> TileSink<U> for Recast<'_, T, K> {
    fn prefetch(&self, rows: Range<usize>, cols: Range<usize>, lines: &mut PrefetchQueue) {
        self.0.prefetch(rows, cols, lines);
    }
    fn consume(&mut self, row: usize, col: usize, tile: MatrixMut<'_, U>) {
        self.0.consume(row, col, tile.cast());
    }
}
