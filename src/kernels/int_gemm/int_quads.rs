//! Products of matrices where one instruction adds the products of four bytes (AVX-512 VNNI).
//!
//! A is read as unsigned bytes a, B as signed bytes b, whatever their codes are; z and w are their zeros as such bytes.
//! Σ (a − z)(b − w) = Σ ab − z·Σ b − w·(Σ a − k·z). The sums of b are a row of the product, whose a are ones.
//!
//! Invariant: results are exact modulo 2³². Pair `p` of `int_rows` and `int_columns` is a quad here; terms beyond the
//! last one are 0 on both sides.

use super::int_columns::IntColumns;
use super::int_gemm_desc::IntGemmBlocks;
use super::int_product::IntBlock;
use super::int_rows::IntRows;
use super::int_tile::{IntEngine, IntTile, TILE_COLS, TILE_ROWS};
use crate::abi::MatrixMut;
use crate::simd;
use std::ops::Range;

/// Terms of a quad.
const TERMS: usize = 4;
/// Four ones.
const ONES: i32 = 0x0101_0101;
/// Quads that are packed together.
const TOGETHER: usize = 16;

/// Up to four bytes as one word, each xored with `flip`; missing bytes are 0.
#[inline(always)]
fn quad_of(bytes: &[u8], flip: u8) -> i32 {
    let mut quad = [0; TERMS];
    for (to, byte) in quad.iter_mut().zip(bytes) {
        *to = byte ^ flip;
    }
    i32::from_le_bytes(quad)
}

simd! {
    /// Packs adjacent terms into every `step`th element.
    fn pack_adjacent_quads(flip: u8, terms: &[u8], step: usize, to: &mut [i32]) {
        let (quads, rest) = terms.as_chunks::<TERMS>();
        if step == 1 {
            for (to, quad) in to.iter_mut().zip(quads) {
                *to = quad_of(quad, flip);
            }
        } else {
            for (to, quad) in to.iter_mut().step_by(step).zip(quads) {
                *to = quad_of(quad, flip);
            }
        }
        if !rest.is_empty() {
            to[quads.len() * step] = quad_of(rest, flip);
        }
    }
}

simd! {
    /// Packs quads of lines, `line` bytes apart, of which there are `terms`: quad `q` of byte `i` of the lines goes to
    /// `to[q * quad_step + i * step]`.
    fn pack_quads_of_lines(
        flip: u8, data: &[u8], line: usize, terms: usize, count: usize, quad_step: usize, step: usize, to: &mut [i32],
    ) {
        for q in 0..terms.div_ceil(TERMS) {
            let (at, to) = (TERMS * q, &mut to[q * quad_step..]);
            if at + TERMS > terms {
                for i in 0..count {
                    let mut bytes = [0; TERMS];
                    for t in at..terms {
                        bytes[t - at] = data[t * line + i];
                    }
                    to[i * step] = quad_of(&bytes[..terms - at], flip);
                }
                continue;
            }
            let (a, b) = (&data[at * line..][..count], &data[(at + 1) * line..][..count]);
            let (c, d) = (&data[(at + 2) * line..][..count], &data[(at + 3) * line..][..count]);
            let mut done = 0;
            if step == 1 {
                let lines = a.as_chunks::<TOGETHER>().0.iter().zip(b.as_chunks::<TOGETHER>().0);
                let lines = lines.zip(c.as_chunks::<TOGETHER>().0.iter().zip(d.as_chunks::<TOGETHER>().0));
                for (to, ((a, b), (c, d))) in to[..count].as_chunks_mut::<TOGETHER>().0.iter_mut().zip(lines) {
                    for i in 0..TOGETHER {
                        to[i] = quad_of(&[a[i], b[i], c[i], d[i]], flip);
                    }
                }
                done = count / TOGETHER * TOGETHER;
            }
            for i in done..count {
                to[i * step] = quad_of(&[a[i], b[i], c[i], d[i]], flip);
            }
        }
    }
}

/// Packs terms of rows of A, one row after the other, `step` apart.
fn pack_quad_rows(a: &IntRows<'_>, rows: Range<usize>, terms: Range<usize>, to: &mut [i32], step: usize) {
    let flip = a.codes.unsigned_flip();
    if a.col == 1 {
        for (row, to) in rows.zip(to.chunks_mut(step)) {
            pack_adjacent_quads(flip, &a.data[row * a.row..][terms.clone()], 1, to);
        }
    } else {
        let data = &a.data[terms.start * a.col + rows.start * a.row..];
        pack_quads_of_lines(flip, data, a.col, terms.len(), rows.len(), 1, step, to);
    }
}

/// Packs terms of columns of B as a panel of `width` columns.
fn pack_quad_panel(b: &IntColumns<'_>, cols: Range<usize>, terms: Range<usize>, to: &mut [i32], width: usize) {
    let flip = b.codes.unsigned_flip() ^ 0x80;
    if cols.len() < width {
        to.fill(0);
    }
    if b.col == 1 {
        let data = &b.data[terms.start * b.row + cols.start..];
        return pack_quads_of_lines(flip, data, b.row, terms.len(), cols.len(), width, 1, to);
    }
    for (j, col) in cols.enumerate() {
        pack_adjacent_quads(flip, &b.data[col * b.col..][terms.clone()], width, &mut to[j..]);
    }
}

simd! {
    /// Σ of the unsigned bytes of some quads.
    fn sum_quad_bytes(quads: &[i32]) -> i32 {
        let mut sum = 0i32;
        for quad in quads {
            sum = sum.wrapping_add((quad & 255) + (quad >> 8 & 255) + (quad >> 16 & 255) + (quad >> 24 & 255));
        }
        sum
    }
}

simd! {
    /// Writes a row of C, or adds to it: the sums without `of_cols` and w·`of_row`, where w is `zero` and the zero of
    /// the column, if there is one.
    fn store_quad_row(c: &mut [i32], sums: &[i32], of_cols: &[i32], of_row: i32, zero: i32, zeros: &[i8], add: bool) {
        let less = zero.wrapping_mul(of_row);
        for ((c, sum), of_col) in c.iter_mut().zip(sums).zip(of_cols) {
            let sum = sum.wrapping_sub(*of_col).wrapping_sub(less);
            *c = if add { c.wrapping_add(sum) } else { sum };
        }
        for (c, zero) in c.iter_mut().zip(zeros) {
            *c = c.wrapping_sub(i32::from(*zero).wrapping_mul(of_row));
        }
    }
}

/// Computes a block of the product of `a` and `b`, which have `a.k` terms. `engine` is that of quads; `scratch` has
/// [`IntGemmBlocks::scratch`] elements.
pub fn multiply_quad_block(
    engine: IntEngine,
    blocks: &IntGemmBlocks,
    a: &IntRows<'_>,
    b: &IntColumns<'_>,
    block: IntBlock<'_>,
    scratch: &mut [i32],
) {
    let IntBlock { row, col, mut c } = block;
    let (rows, n) = (c.rows(), c.cols());
    if a.k == 0 {
        return (0..rows).for_each(|i| c.row(i).fill(0));
    }
    let (packed_b, scratch) = scratch.split_at_mut(blocks.packed_b());
    let (packed_a, scratch) = scratch.split_at_mut(blocks.rows * blocks.step_a());
    let (ones, of_cols) = scratch.split_at_mut(blocks.step_a());
    ones.fill(ONES);
    let mut sums = [0; TILE_ROWS * TILE_COLS];
    let ((_, width), step, depth) = (engine.size(), blocks.step_a(), TERMS * blocks.pairs);
    for pc in (0..a.k).step_by(depth) {
        let terms = pc..a.k.min(pc + depth);
        let quads = terms.len().div_ceil(TERMS);
        for jc in (0..n).step_by(blocks.cols) {
            let cols = jc..n.min(jc + blocks.cols);
            for (panel, j) in cols.clone().step_by(width).enumerate() {
                let to = &mut packed_b[panel * width * quads..][..width * quads];
                pack_quad_panel(b, col + j..col + cols.end.min(j + width), terms.clone(), to, width);
                engine.tile(IntTile { a: ones, step, rows: 1, pairs: quads, b: to, sums: &mut sums });
                let zero = a.codes.unsigned_zero();
                for (to, sum) in of_cols[panel * width..].iter_mut().zip(&sums[..width]) {
                    *to = zero.wrapping_mul(*sum);
                }
            }
            let zeros = b.zeros.get(col + jc..col + cols.end).unwrap_or_default();
            for ic in (0..rows).step_by(blocks.rows) {
                let some = ic..rows.min(ic + blocks.rows);
                pack_quad_rows(a, row + some.start..row + some.end, terms.clone(), packed_a, step);
                let packed = QuadPacked {
                    a: packed_a,
                    a_zero: (terms.len() as i32).wrapping_mul(a.codes.unsigned_zero()),
                    step,
                    b: packed_b,
                    b_zero: b.codes.unsigned_zero() - 128,
                    quads,
                    of_cols,
                    zeros,
                };
                packed.multiply(engine, c.part(some, cols.clone()), pc > 0, &mut sums);
            }
        }
    }
}

/// Packed blocks of A and B.
struct QuadPacked<'p> {
    a: &'p [i32],
    /// The zero of A times the number of terms.
    a_zero: i32,
    step: usize,
    b: &'p [i32],
    b_zero: i32,
    quads: usize,
    /// z·Σ b of each column.
    of_cols: &'p [i32],
    /// Zeros of the columns beside `b_zero`, if there are any.
    zeros: &'p [i8],
}

impl QuadPacked<'_> {
    /// C = A · B, or C + A · B.
    fn multiply(
        &self,
        engine: IntEngine,
        mut c: MatrixMut<'_, i32>,
        add: bool,
        sums: &mut [i32; TILE_ROWS * TILE_COLS],
    ) {
        let ((height, width), (rows, n)) = (engine.size(), (c.rows(), c.cols()));
        let mut of_rows = [0; TILE_ROWS];
        for i in (0..rows).step_by(height) {
            let (count, a) = (height.min(rows - i), &self.a[i * self.step..]);
            if self.b_zero != 0 || !self.zeros.is_empty() {
                for (sum, a) in of_rows.iter_mut().zip(a.chunks(self.step)).take(count) {
                    *sum = sum_quad_bytes(&a[..self.quads]).wrapping_sub(self.a_zero);
                }
            }
            for (panel, j) in (0..n).step_by(width).enumerate() {
                let (cols, b) = (j..n.min(j + width), &self.b[panel * width * self.quads..]);
                engine.tile(IntTile { a, step: self.step, rows: count, pairs: self.quads, b, sums });
                let zeros = self.zeros.get(cols.clone()).unwrap_or_default();
                for (r, sums) in sums.chunks_exact(width).take(count).enumerate() {
                    let c = &mut c.row(i + r)[cols.clone()];
                    store_quad_row(c, sums, &self.of_cols[j..], of_rows[r], self.b_zero, zeros, add);
                }
            }
        }
    }
}
