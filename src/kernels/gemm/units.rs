//! How the units of an instruction divide C.
//!
//! Invariant: units follow from the descriptor alone.

use super::desc::Gemm;
use super::precision::Precision;
use super::tuning::{DIVIDED_COLS, FAR_B, PACK_B_ROWS, UNIT_COLS, UNIT_ROWS, UNIT_ROWS_BF16, UNIT_WORK};
use super::{sums, transposed};
use crate::kernels::abi::Split;
use crate::kernels::pairwise;
use std::ops::Range;

impl Gemm {
    /// How units divide C, and how many there are.
    ///
    /// By columns where B is much larger than A and C, and packed or far away, or where its transpose is computed: each
    /// thread then reads and packs its own part of B only, but all of A, and leaves C by columns to a next instruction
    /// that takes it by rows. Batches keep rows; the only row of C is always divided.
    pub fn division(&self) -> (Split, usize) {
        match self.unit_columns() {
            Some(width) => (Split::Columns { row: self.n, width }, self.n.div_ceil(width)),
            None => (Split::PerUnit(self.per_unit()), self.units()),
        }
    }

    /// Columns of a unit, where units divide columns.
    pub(super) fn unit_columns(&self) -> Option<usize> {
        let (m, n, k) = (self.m, self.n, self.k);
        let large = n >= DIVIDED_COLS && 2 * m * (k + n) <= k * n && (m >= PACK_B_ROWS || k * n >= FAR_B);
        (transposed::fits(self) || (large && m > 1 && self.batch().is_empty())).then(|| share(m * k, UNIT_COLS))
    }

    /// Elements of C that a unit owns where units are rows: whole rows, or part of the only row.
    #[inline]
    pub fn per_unit(&self) -> usize {
        if self.m == 1 && self.batch().is_empty() {
            return share(self.k, 16 * UNIT_ROWS).min(self.n);
        }
        let step = match self.precision {
            _ if self.sums => pairwise::ROWS,
            Precision::F32 => UNIT_ROWS,
            _ => UNIT_ROWS_BF16,
        };
        share(self.n * self.k, step).min(self.batches() * self.m) * self.n
    }

    /// Number of units where units are rows.
    pub fn units(&self) -> usize {
        self.len().div_ceil(self.per_unit().max(1))
    }

    /// The elements of C that `units` own where they are rows.
    pub(super) fn elements(&self, units: &Range<usize>) -> Range<usize> {
        let (per, len) = (self.per_unit(), self.len());
        (units.start * per).min(len)..(units.end * per).min(len)
    }

    /// Blocks of rows that have sums of their own, each of n, and how units divide those.
    pub fn sums(&self) -> (usize, Split) {
        let blocks = |rows| sums::blocks(rows, self.n);
        match self.unit_columns() {
            Some(width) => (blocks(self.m), Split::Columns { row: self.n, width }),
            None => (blocks(self.m), Split::PerUnit(blocks(self.per_unit() / self.n) * self.n)),
        }
    }
}

/// The row that element `from` of a matrix begins.
#[inline]
pub fn row_of(from: usize, g: &Gemm) -> usize {
    // Mostly the first: a division would be felt in the smallest products.
    if from == 0 { 0 } else { from / g.n }
}

/// Lines of a unit of which each takes `work` multiply-adds: a multiple of `step`, a power of two.
#[inline]
fn share(work: usize, step: usize) -> usize {
    // Shifts stand for divisions: this runs in every call, and the smallest products take 20 ns.
    (((UNIT_WORK >> work.max(1).ilog2()) + step - 1) & !(step - 1)).max(step)
}
