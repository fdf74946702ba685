//! Products with a matrix B that is decoded part by part while it is packed: weights that are stored as codes.
//!
//! A [`PanelDecoder`] writes some rows and columns of B as numbers. They go to the micro-panels of the general product,
//! so the numbers of all of B never exist at once.
//!
//! Invariant: an element of C is the chain of [`register_tile`](super::register_tile) over the numbers that the decoder
//! gives, from 0. So it has the bits of the general product of A with the decoded matrix, whatever the units and the
//! blocks are.

use super::blocked::{self, BlockedMicroPanels, BlockedProductSums, BlockedRows, BlockedTiles};
use super::blocked_plan::BlockedPlan;
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::gemm_kernel::{Corner, rows_of_units};
use super::gemm_units::gemm_unit_share;
use super::operands::View;
use super::pack_block::{Block, pack_block};
use super::tuning::{
    BLOCK_B, DECODED_FEW_ROWS, DECODED_FEW_ROWS_BLOCK, DECODED_FEW_ROWS_DEPTH, DIVIDED_COLS, MICRO_PANELS, PAD,
    UNIT_COLS,
};
use crate::abi::{Args, MatrixMut, Split};
use crate::simd::Token;
use std::ops::Range;

/// A matrix B, `[k, n]`, whose elements are decoded when a product needs them.
pub trait PanelDecoder<T> {
    /// Rows that are decoded together. Parts begin at multiples of it.
    fn depth(&self) -> usize;

    /// Writes rows `rows` and columns `cols` of B: the element of row `rows.start + p` and column `cols.start + j` goes
    /// to `to[p * step + j]`. There are at most [`depth`](PanelDecoder::depth) rows.
    fn decode(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [T], step: usize);
}

/// The transpose of a matrix that is decoded. The decoder is asked for up to sixteen rows from anywhere on, whatever
/// its depth is.
#[derive(Clone, Copy, Debug)]
pub struct TransposedDecoder<D>(pub D);

/// Rows and columns that are transposed at once.
const SQUARE: usize = 16;

impl<D> TransposedDecoder<D> {
    /// The [`PanelDecoder::depth`] of all of them.
    pub const DEPTH: usize = SQUARE;
}

impl<T: GemmFloat, D: PanelDecoder<T>> PanelDecoder<T> for TransposedDecoder<D> {
    fn depth(&self) -> usize {
        SQUARE
    }

    fn decode(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [T], step: usize) {
        let mut square = [T::ZERO; SQUARE * SQUARE];
        for j in cols.clone().step_by(SQUARE) {
            let part = j..cols.end.min(j + SQUARE);
            self.0.decode(part.clone(), rows.clone(), &mut square, SQUARE);
            let to = &mut to[j - cols.start..];
            T::transpose(Token::current(), &square, SQUARE, to, step, rows.len(), part.len());
        }
    }
}

/// The plan of a product with a decoded B.
struct DecodedPlan {
    /// Blocks. B is always packed.
    blocked: BlockedPlan,
    /// Whether C has few rows: B is then read as it was decoded, row by row, from L1.
    few: bool,
    /// Rows that are decoded together.
    depth: usize,
}

impl DecodedPlan {
    fn new<T: GemmFloat>(g: &Gemm, depth: usize) -> DecodedPlan {
        let (plan, depth) = (BlockedPlan::new::<T>(g), depth.max(1));
        let few = g.m <= DECODED_FEW_ROWS;
        let (kc, block) = if few { (DECODED_FEW_ROWS_DEPTH, DECODED_FEW_ROWS_BLOCK) } else { (plan.kc, BLOCK_B) };
        let kc = kc.next_multiple_of(depth).min(g.k.max(1));
        let (size, panels) = (size_of::<T>(), MICRO_PANELS / size_of::<T>());
        let nc = ((block / size / kc / panels).max(1) * panels).min(g.n);
        let (mc, pack_a) = if few { (g.m, false) } else { (plan.mc, plan.pack_a) };
        let blocked = BlockedPlan { pack_a, pack_b: true, by_panel: false, prefetch_b: false, mc, kc, nc, ..plan };
        DecodedPlan { blocked, few, depth }
    }

    /// Elements of decoded rows, before they are packed.
    fn decoded(&self) -> usize {
        if self.few { 0 } else { (self.depth * self.blocked.nc).next_multiple_of(PAD) }
    }
}

impl Gemm {
    /// How units divide C of a product with a decoded B, and their number. Columns if there are enough of them, because
    /// each unit then decodes a part of B of its own.
    pub fn decoded_division(&self) -> (Split, usize) {
        match self.decoded_columns() {
            Some(width) => (Split::Columns { row: self.n, width }, self.n.div_ceil(width)),
            None => (Split::PerUnit(self.per_unit()), self.units()),
        }
    }

    /// Columns of a unit of a product with a decoded B, or `None` if units divide rows.
    fn decoded_columns(&self) -> Option<usize> {
        let divided = self.n >= DIVIDED_COLS || self.m == 1;
        divided.then(|| gemm_unit_share(self.m.saturating_mul(self.k), UNIT_COLS))
    }

    /// Elements of scratch of each thread for a product with a B of this [`PanelDecoder::depth`].
    pub fn decoded_scratch<T: GemmFloat>(&self, depth: usize) -> usize {
        let plan = DecodedPlan::new::<T>(self, depth);
        plan.decoded() + plan.blocked.scratch::<T>()
    }
}

/// The elements of C that a call computes, and the first of them.
pub fn block_target<'a, T: GemmFloat>(args: &mut Args<'a>, g: &Gemm) -> (Corner, MatrixMut<'a, T>) {
    let units = args.units();
    match g.decoded_columns() {
        Some(width) => (Corner { row: 0, col: (units.start * width).min(g.n) }, args.panel::<T>(0)),
        None => rows_of_units(g, args.write::<T>(0), &units),
    }
}

/// The elements that a call of a product of one row computes, and the first of them: for kernels that have a loop of
/// their own for one row. It is a multiple of 32.
pub fn one_row_target<'a, T: GemmFloat>(args: &mut Args<'a>, g: &Gemm) -> (usize, MatrixMut<'a, T>) {
    let (at, c) = block_target(args, g);
    (at.col, c)
}

/// The units of a call of a product C = A · B with a decoded B. Writes C `[m, n]`, divided by
/// [`Gemm::decoded_division`], and scratch (`Split::PerThread`, [`Gemm::decoded_scratch`]). The descriptor has neither
/// batch nor epilogue.
///
/// # Panics
/// If a slice is shorter than the descriptor says.
pub fn run_decoded<T: GemmFloat>(args: &mut Args<'_>, g: &Gemm, a: &[T], b: &impl PanelDecoder<T>) {
    let (at, c) = block_target(args, g);
    compute_block(Token::current(), g, a, b, at, c, args.write::<T>(1));
}

/// Products with decoded matrices of one shape, each with any number of rows of A. Plans are made for few rows and for
/// about as many as the descriptor has.
#[derive(Clone, Copy, Debug)]
pub struct OpenDecoded {
    few: Gemm,
    many: Gemm,
}

impl OpenDecoded {
    /// Products of the shape of `g`, which have about `g.m` rows.
    pub fn new(g: Gemm) -> OpenDecoded {
        OpenDecoded { few: Gemm { m: DECODED_FEW_ROWS, ..g }, many: Gemm { m: g.m.max(DECODED_FEW_ROWS + 1), ..g } }
    }

    /// Elements of scratch of each thread for matrices of this [`PanelDecoder::depth`].
    pub fn scratch<T: GemmFloat>(&self, depth: usize) -> usize {
        self.few.decoded_scratch::<T>(depth).max(self.many.decoded_scratch::<T>(depth))
    }

    /// Computes a block of C that begins at column `col`: all rows of A, times as many columns of B as `c` has.
    ///
    /// # Panics
    /// If a slice is shorter than the sizes say.
    pub fn compute<T: GemmFloat>(
        &self,
        a: &[T],
        b: &impl PanelDecoder<T>,
        col: usize,
        c: MatrixMut<'_, T>,
        scratch: &mut [T],
    ) {
        let g = if c.rows() <= DECODED_FEW_ROWS { &self.few } else { &self.many };
        compute_block(Token::current(), g, a, b, Corner { row: 0, col }, c, scratch);
    }
}

/// Computes the block of C that begins at `at`.
fn compute_block<T: GemmFloat>(
    token: Token,
    g: &Gemm,
    a: &[T],
    b: &impl PanelDecoder<T>,
    at: Corner,
    mut c: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let (all, n) = (c.rows(), c.cols());
    if g.k == 0 || all == 0 || n == 0 {
        return (0..all).for_each(|i| c.row(i).fill(T::ZERO));
    }
    let decoded = DecodedPlan::new::<T>(g, b.depth());
    let plan = &decoded.blocked;
    let (rows_of_b, scratch) = scratch.split_at_mut(decoded.decoded());
    let (scratch_b, scratch_a) = scratch.split_at_mut(plan.scratch_b::<T>());
    let tallest = BlockedTiles::new::<T>(token, all.min(plan.mc)).tallest().max(plan.panel_rows);
    let whole = Gemm { m: at.row + all, ..*g }.a_len();
    assert!(whole.is_some_and(|len| len <= a.len()), "{} elements of A are too few for the product {g:?}", a.len());
    let a = &a[at.row * g.a.row..];
    for pc in (0..g.k).step_by(plan.kc) {
        let k = plan.kc.min(g.k - pc);
        for jc in (0..n).step_by(plan.nc) {
            let cols = at.col + jc..at.col + n.min(jc + plan.nc);
            let width = cols.len();
            let mut panels = if decoded.few {
                for p in (0..k).step_by(decoded.depth) {
                    let rows = pc + p..pc + k.min(p + decoded.depth);
                    b.decode(rows, cols.clone(), &mut scratch_b[p * width..], width);
                }
                BlockedMicroPanels::InPlace(View { data: scratch_b, row: width, col: 1 })
            } else {
                for p in (0..k).step_by(decoded.depth) {
                    let rows = pc + p..pc + k.min(p + decoded.depth);
                    let len = rows.len() * width;
                    b.decode(rows, cols.clone(), rows_of_b, width);
                    pack_decoded(token, &rows_of_b[..len], width, (p, k), tallest, scratch_b);
                }
                BlockedMicroPanels::Packed(scratch_b)
            };
            for ic in (0..all).step_by(plan.mc) {
                let rows = plan.mc.min(all - ic);
                let tiles = BlockedTiles::new::<T>(token, rows);
                let a = View { data: &a[ic * g.a.row + pc * g.a.col..], row: g.a.row, col: g.a.col };
                let fresh = jc == 0 || all > plan.mc;
                let a = match plan.pack_a {
                    true => blocked::pack_block_of_a(token, a, tiles, k, scratch_a, fresh),
                    false => BlockedRows::Strided(a),
                };
                let block = c.part(ic..ic + rows, jc..jc + width);
                let BlockedPlan { far_c, far_new_c, .. } = *plan;
                let part =
                    BlockedProductSums { tiles, tallest, k, c: block, add: pc > 0, step: None, far_c, far_new_c };
                part.compute(token, a, &mut panels, &mut ());
            }
        }
    }
}

/// Packs decoded rows of `width` columns as rows `p ..` of micro-panels of `k` rows, one after the other, each one tile
/// wide.
fn pack_decoded<T: GemmFloat>(
    token: Token,
    rows: &[T],
    width: usize,
    (p, k): (usize, usize),
    tallest: usize,
    to: &mut [T],
) {
    let mut j = 0;
    while j < width {
        let inner = T::width(token, tallest, width - j);
        let block = Block { src: &rows[j..], outer_step: width, inner_step: 1, outer: rows.len() / width, inner };
        pack_block(token, block, &mut to[j * k + p * inner..], inner);
        j += inner;
    }
}

#[cfg(test)]
mod tests {
    use super::super::gemm;
    use super::*;
    use crate::abi::Kernel;
    use crate::harness::{In, Out, fewer_under_miri, noise, run_in_ranges, written_elements};
    use crate::simd::{Isa, detect_isa, limit};

    /// A matrix whose numbers are stored negated. With a depth of 0, parts may begin anywhere.
    struct Negated<'a> {
        b: &'a [f64],
        n: usize,
        depth: usize,
    }

    impl PanelDecoder<f64> for Negated<'_> {
        fn depth(&self) -> usize {
            self.depth
        }
        fn decode(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [f64], step: usize) {
            assert!(self.depth == 0 || (rows.start.is_multiple_of(self.depth) && rows.len() <= self.depth));
            for (p, row) in rows.enumerate() {
                for (j, col) in cols.clone().enumerate() {
                    to[p * step + j] = -self.b[row * self.n + col];
                }
            }
        }
    }

    /// Words: the descriptor, the depth, whether B is stored as its transpose.
    fn kernel(args: &mut Args<'_>) {
        let (g, rest) = Gemm::and_words(args.params());
        let (a, b) = (args.read::<f64>(0), args.read::<f64>(1));
        let (depth, transposed) = (rest[0] as usize, rest[1] != 0);
        match transposed {
            true => run_decoded(args, &g, a, &TransposedDecoder(Negated { b, n: g.k, depth: 0 })),
            false => run_decoded(args, &g, a, &Negated { b, n: g.n, depth }),
        }
    }

    #[test]
    fn products_with_decoded_matrices_have_the_bits_of_products() {
        let all = vec![(1, 7, 5), (1, 300, 90), (2, 300, 700), (5, 33, 40), (70, 260, 600), (150, 20, 33), (3, 4, 0)];
        for (m, n, k) in fewer_under_miri(all, vec![(1, 7, 5), (2, 20, 50), (5, 19, 20), (3, 4, 0)]) {
            let (a, b) = (noise(m * k, 3), noise(k * n, 4));
            let negated: Vec<f64> = b.iter().map(|x| -x).collect();
            let g = Gemm::new(m, n, k);
            let mut want = vec![0.0; m * n];
            let mut scratch = vec![0.0; g.scratch_len::<f64>()];
            gemm(&g, &a, &negated, None, &mut want, 0..g.units(), &mut scratch);
            let across: Vec<f64> = (0..n * k).map(|at| b[at % k.max(1) * n + at / k.max(1)]).collect();
            for (depth, stored) in [(1, &b), (16, &b), (48, &b), (16, &across)] {
                let transposed = std::ptr::eq(stored, &across);
                let words = [g.to_words(), vec![depth as u64, u64::from(transposed)]].concat();
                let (split, units) = g.decoded_division();
                for isa in fewer_under_miri(vec![Isa::Portable, detect_isa()], vec![Isa::Portable]) {
                    limit(isa);
                    let depth = if transposed { SQUARE } else { depth };
                    let per = g.decoded_scratch::<f64>(depth);
                    let out = [Out(m * n, 8, split), Out(per, 8, Split::PerThread(per))];
                    let y = run_in_ranges(kernel as Kernel, &words, &[In::of(&a), In::of(stored)], &out, units);
                    let same =
                        written_elements::<f64>(&y, 0).iter().zip(&want).all(|(y, w)| y.to_bits() == w.to_bits());
                    assert!(same, "{m} x {n} x {k}, depth {depth}, {isa:?}, transposed: {transposed}");
                }
                limit(detect_isa());
            }
        }
    }
}
