//! The destination of the sums of a bf16 engine: C or a sink.

use super::packed::SIDE;
use crate::abi::MatrixMut;
use crate::gemm::epilogue::GemmEpilogue;
use crate::gemm::prefetch::PrefetchQueue;
use crate::gemm::sink::TileSink;
use std::ops::Range;

/// The destination of complete sums. Rows and columns count from the first ones that are computed.
pub trait Bf16Output {
    /// The old elements of C that sums start from, if the product accumulates.
    fn old(&mut self, rows: Range<usize>, cols: Range<usize>) -> Option<MatrixMut<'_, f32>>;
    /// Receives a tile of sums, in rows of [`SIDE`].
    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>);
    /// Runs after all tiles of a block were received.
    fn block(&mut self, rows: Range<usize>, cols: Range<usize>);
}

/// A block of C and its epilogue.
pub struct Bf16IntoMatrix<'a, 'e> {
    /// The block.
    pub c: MatrixMut<'a, f32>,
    /// The epilogue.
    pub end: &'e GemmEpilogue<'e, f32>,
}

impl Bf16Output for Bf16IntoMatrix<'_, '_> {
    fn old(&mut self, rows: Range<usize>, cols: Range<usize>) -> Option<MatrixMut<'_, f32>> {
        Some(self.c.part(rows, cols))
    }

    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>) {
        let bias = self.end.bias.map_or(&[][..], |bias| &bias[cols.clone()]);
        store_bf16_output_tile(tile, &mut self.c.part(rows, cols), bias);
    }

    fn block(&mut self, rows: Range<usize>, cols: Range<usize>) {
        let at = (rows.start, cols.start);
        self.end.activate(self.c.part(rows, cols), at);
    }
}

/// A sink that consumes the tiles.
pub struct Bf16IntoSink<'t, K> {
    /// The sink.
    pub to: &'t mut K,
    /// Rows and columns of the product.
    pub size: (usize, usize),
}

impl<K: TileSink<f32>> Bf16Output for Bf16IntoSink<'_, K> {
    fn old(&mut self, _: Range<usize>, _: Range<usize>) -> Option<MatrixMut<'_, f32>> {
        None
    }

    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>) {
        // Prefetches for the tile to the right, which comes next except at the end of a block.
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

/// Copies a row of a tile. A copy of constant length is a few moves, any other one a call.
#[inline(always)]
pub fn copy_tile_row(from: &[f32], to: &mut [f32]) {
    match (from.first_chunk::<SIDE>(), to.first_chunk_mut::<SIDE>()) {
        (Some(from), Some(to)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

crate::simd! {
    /// Copies a tile of sums to a tile of C and adds the bias, unless that is empty.
    fn store_bf16_output_tile(tile: &[f32], c: &mut MatrixMut<'_, f32>, bias: &[f32]) {
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
            copy_tile_row(&sums[..c.len()], c);
            c.iter_mut().zip(bias).for_each(|(c, bias)| *c += *bias);
        }
    }
}
