//! Where the sums of a product by bf16 units go: into C or to a sink.

use super::packed::SIDE;
use crate::kernels::abi::MatrixMut;
use crate::kernels::gemm::epilogue::Epilogue;
use crate::kernels::gemm::prefetch::PrefetchQueue;
use crate::kernels::gemm::sink::TileSink;
use std::ops::Range;

/// Where sums go when they are whole. Rows and columns are counted from the first that are computed.
pub trait Output {
    /// What some sums begin from, where the product accumulates.
    fn old(&mut self, rows: Range<usize>, cols: Range<usize>) -> Option<MatrixMut<'_, f32>>;
    /// Gets a tile of sums, in rows of [`SIDE`].
    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>);
    /// Hears that all tiles of a block have been there.
    fn block(&mut self, rows: Range<usize>, cols: Range<usize>);
}

/// Some rows and columns of C, and what is done to them at last.
pub struct IntoMatrix<'a, 'e> {
    /// That part of C.
    pub c: MatrixMut<'a, f32>,
    /// What is done to it.
    pub end: &'e Epilogue<'e, f32>,
}

impl Output for IntoMatrix<'_, '_> {
    fn old(&mut self, rows: Range<usize>, cols: Range<usize>) -> Option<MatrixMut<'_, f32>> {
        Some(self.c.part(rows, cols))
    }

    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>) {
        let bias = self.end.bias.map_or(&[][..], |bias| &bias[cols.clone()]);
        leave(tile, &mut self.c.part(rows, cols), bias);
    }

    fn block(&mut self, rows: Range<usize>, cols: Range<usize>) {
        let at = (rows.start, cols.start);
        self.end.activate(self.c.part(rows, cols), at);
    }
}

/// The sink of the tiles of a product of this many rows and columns.
pub struct IntoSink<'t, K> {
    /// Who.
    pub to: &'t mut K,
    /// Rows and columns of all tiles.
    pub size: (usize, usize),
}

impl<K: TileSink<f32>> Output for IntoSink<'_, K> {
    fn old(&mut self, _: Range<usize>, _: Range<usize>) -> Option<MatrixMut<'_, f32>> {
        None
    }

    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>) {
        // The next tile of the row comes next, but at the end of a block.
        let mut lines = PrefetchQueue::default();
        if cols.end < self.size.1 {
            self.to.prefetch(rows.clone(), cols.end..(cols.end + SIDE).min(self.size.1), &mut lines);
        }
        if let Some(lines) = lines.any() {
            lines.spread(1, 1);
            lines.visit();
        }
        let mut tile = MatrixMut::new(tile, SIDE, SIDE);
        self.to.consume(rows.start, cols.start, tile.part(0..rows.len(), 0..cols.len()));
    }

    fn block(&mut self, _: Range<usize>, _: Range<usize>) {}
}

/// Copies a row of a tile. One of constant length is a few moves, any other a call.
#[inline(always)]
pub fn copy(from: &[f32], to: &mut [f32]) {
    match (from.first_chunk::<SIDE>(), to.first_chunk_mut::<SIDE>()) {
        (Some(from), Some(to)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

crate::simd! {
    /// Copies a tile's rows of sums, with the bias if there is one, to a tile of C.
    fn leave(tile: &[f32], c: &mut MatrixMut<'_, f32>, bias: &[f32]) {
        let lines = tile.as_chunks::<SIDE>().0.iter().take(c.rows()).enumerate();
        if let (SIDE, Some(bias)) = (c.cols(), bias.first_chunk::<SIDE>()) {
            for (i, sums) in lines {
                if let Some(c) = c.row(i).first_chunk_mut::<SIDE>() {
                    c.iter_mut().zip(sums).zip(bias).for_each(|((c, sum), bias)| *c = *sum + *bias);
                }
            }
            return;
        }
        for (i, sums) in lines {
            let c = c.row(i);
            copy(&sums[..c.len()], c);
            c.iter_mut().zip(bias).for_each(|(c, bias)| *c += *bias);
        }
    }
}
