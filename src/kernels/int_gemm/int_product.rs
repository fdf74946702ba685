//! Blocks of a product of integers: a packed block of B stays in L2 while rows of A are multiplied by it.

use super::int_columns::IntColumnPanels;
use super::int_gemm_desc::IntGemmBlocks;
use super::int_rows::IntRows;
use super::int_tile::{IntEngine, IntTile, TILE_COLS, TILE_ROWS};
use crate::abi::MatrixMut;
use std::ops::Range;

/// A block of a product: rows from `row` on, columns from `col` on, and the sums of them.
pub struct IntBlock<'c> {
    /// The first row of A.
    pub row: usize,
    /// The first column of B.
    pub col: usize,
    /// The sums.
    pub c: MatrixMut<'c, i32>,
}

/// Computes a block of the product of `a` and `b`, which have `a.k` terms. `scratch` has [`IntGemmBlocks::scratch`]
/// elements.
pub fn multiply_int_block(
    engine: IntEngine,
    blocks: &IntGemmBlocks,
    a: &IntRows<'_>,
    b: &impl IntColumnPanels,
    block: IntBlock<'_>,
    scratch: &mut [i32],
) {
    let IntBlock { row, col, mut c } = block;
    let (rows, n, pairs) = (c.rows(), c.cols(), a.k.div_ceil(2));
    if pairs == 0 {
        return (0..rows).for_each(|i| c.row(i).fill(0));
    }
    let (packed_b, packed_a) = scratch.split_at_mut(blocks.packed_b());
    let ((_, width), step) = (engine.size(), blocks.step_a());
    for pc in (0..pairs).step_by(blocks.pairs) {
        let part = pc..pairs.min(pc + blocks.pairs);
        for jc in (0..n).step_by(blocks.cols) {
            let cols = jc..n.min(jc + blocks.cols);
            for (panel, j) in cols.clone().step_by(width).enumerate() {
                let to = &mut packed_b[panel * width * part.len()..];
                b.pack(part.clone(), col + j..col + cols.end.min(j + width), width, to);
            }
            for ic in (0..rows).step_by(blocks.rows) {
                let some = ic..rows.min(ic + blocks.rows);
                a.pack(row + some.start..row + some.end, part.clone(), packed_a, step);
                let packed = IntPacked { a: packed_a, step, b: packed_b, pairs: part.len() };
                packed.multiply(engine, c.part(some, cols.clone()), pc > 0);
            }
        }
    }
}

/// Packed blocks of A and B.
struct IntPacked<'p> {
    a: &'p [i32],
    step: usize,
    b: &'p [i32],
    pairs: usize,
}

impl IntPacked<'_> {
    /// C = A · B, or C + A · B.
    fn multiply(&self, engine: IntEngine, mut c: MatrixMut<'_, i32>, add: bool) {
        let (height, width) = engine.size();
        let (rows, n) = (c.rows(), c.cols());
        let mut sums = [0; TILE_ROWS * TILE_COLS];
        for (panel, j) in (0..n).step_by(width).enumerate() {
            let b = &self.b[panel * width * self.pairs..];
            let cols: Range<usize> = j..n.min(j + width);
            for i in (0..rows).step_by(height) {
                let count = height.min(rows - i);
                let a = &self.a[i * self.step..];
                engine.tile(IntTile { a, step: self.step, rows: count, pairs: self.pairs, b, sums: &mut sums });
                for (r, sums) in sums.chunks_exact(width).take(count).enumerate() {
                    let c = &mut c.row(i + r)[cols.clone()];
                    match add {
                        true => c.iter_mut().zip(sums).for_each(|(c, sum)| *c = c.wrapping_add(*sum)),
                        false => c.copy_from_slice(&sums[..cols.len()]),
                    }
                }
            }
        }
    }
}
