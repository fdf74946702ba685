//! Products whose number of rows, or of terms, is known only when a step runs: the groups of a grouped product.
//!
//! Two plans are made from the sizes that such a product has on average: one for many rows, and one for few, which
//! reads B in place where it can.
//!
//! Invariant: each element is one chain `c = fma(a[p], b[p], c)` with `p` ascending, whatever the number of rows. So a
//! row of C follows from its row of A and from B alone, and the bits do not depend on the plan.

use super::blocked::{self, BlockedProduct};
use super::blocked_plan::BlockedPlan;
use super::epilogue::GemmEpilogue;
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::tuning::{PACK_B_ROWS, Tuning, UNIT_COLS, UNIT_ROWS, UNIT_WORK};
use crate::abi::MatrixMut;
use crate::simd::Token;

/// Least terms that the plans are made for, so that longer sums are not cut into short pieces.
const LEAST_TERMS: usize = 256;

/// A product C = A · B without epilogue, of any number of rows and of terms.
#[derive(Clone, Copy, Debug)]
pub struct OpenProduct {
    g: Gemm,
    many: BlockedPlan,
    few: BlockedPlan,
}

impl OpenProduct {
    /// A product with the strides and the columns of `g`, which has about `g.m` rows and `g.k` terms.
    pub fn new<T: GemmFloat>(g: Gemm) -> OpenProduct {
        let g = Gemm { m: g.m.max(PACK_B_ROWS), k: g.k.max(LEAST_TERMS), ..g };
        let few = Gemm { m: PACK_B_ROWS - 1, ..g };
        OpenProduct { g, many: BlockedPlan::new::<T>(&g), few: BlockedPlan::new::<T>(&few) }
    }

    /// The same product, added to the old C.
    pub fn accumulating(self) -> OpenProduct {
        OpenProduct { g: Gemm { accumulate: true, ..self.g }, ..self }
    }

    /// The same product with a C that comes from memory and is written row by row: its lines are fetched a tile ahead.
    pub fn with_far_c(self) -> OpenProduct {
        let far = Tuning::current().prefetch_new_c < usize::MAX;
        let by_rows = |plan: BlockedPlan| BlockedPlan { far_new_c: far, ..plan.by_rows() };
        if far { OpenProduct { many: by_rows(self.many), few: by_rows(self.few), ..self } } else { self }
    }

    /// Elements of scratch of each thread.
    pub fn scratch<T: GemmFloat>(&self) -> usize {
        self.many.scratch::<T>().max(self.few.scratch::<T>())
    }

    /// Computes C, a block of any number of rows. `a` begins at the block's first row, `b` at its first column. `k` is
    /// the number of terms. `scratch` has [`OpenProduct::scratch`] elements.
    ///
    /// # Panics
    /// If a slice is shorter than the sizes say.
    pub fn compute<T: GemmFloat>(&self, (a, b): (&[T], &[T]), k: usize, mut c: MatrixMut<'_, T>, scratch: &mut [T]) {
        let rows = c.rows();
        if k == 0 || c.cols() == 0 {
            if !self.g.accumulate {
                (0..rows).for_each(|i| c.row(i).fill(T::ZERO));
            }
            return;
        }
        let g = Gemm { k, ..self.g };
        Gemm { m: rows, n: c.cols(), ..g }.assert_fits(a.len(), b.len());
        let plan = if rows < PACK_B_ROWS { &self.few } else { &self.many };
        let p = BlockedProduct { a, b, c, sums: None };
        blocked::multiply_block(Token::current(), &g, plan, p, &GemmEpilogue::NONE, scratch);
    }
}

/// Rows of a unit, each of `work` multiply-adds.
pub fn open_unit_rows(work: usize) -> usize {
    (UNIT_WORK / work.max(1)).next_multiple_of(UNIT_ROWS).max(UNIT_ROWS)
}

/// Columns of a unit, each of `work` multiply-adds, where a product of `rows` rows and `cols` columns has too few rows
/// for units of rows.
pub fn open_unit_columns(rows: usize, cols: usize, work: usize) -> Option<usize> {
    let width = (UNIT_WORK / work.max(1)).next_multiple_of(UNIT_COLS).max(UNIT_COLS);
    (rows < PACK_B_ROWS && width < cols).then_some(width)
}
