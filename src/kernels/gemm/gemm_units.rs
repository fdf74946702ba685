//! How the units of an instruction divide C.
//!
//! Invariant: units follow from the descriptor alone.

use super::gemm_desc::Gemm;
use super::precision::Precision;
use super::tuning::{
    DIVIDED_COLS, ELEMENT_WORK, FAR_B, PACK_B_ROWS, TRANSPOSED_LANES, Tuning, UNIT_COLS, UNIT_ROWS, UNIT_ROWS_BF16,
    UNIT_WORK,
};
use super::{column_sums, transposed_product};
use crate::abi::Split;
use crate::reduce::pairwise;
use std::ops::Range;

impl Gemm {
    /// How units divide C, and their number.
    ///
    /// Units divide columns if the product is computed by its transpose, or if B is much larger than A and C and is
    /// packed or out of cache. Each thread then reads and packs only its own part of B, but all of A. The price is that
    /// the next instruction, which reads C by rows, reads what other threads wrote. Units of a batch are rows. A lone
    /// row of C is always divided.
    pub fn division(&self) -> (Split, usize) {
        match self.unit_columns() {
            Some(width) => (Split::Columns { row: self.n, width }, self.n.div_ceil(width)),
            None => (Split::PerUnit(self.per_unit()), self.units()),
        }
    }

    /// Whether `threads` threads compute rows about as fast as columns, if each reads all of B: B fits a core's cache,
    /// and a product that is computed by its transpose fills the lanes of tiles.
    pub fn has_rows_for(&self, threads: usize) -> bool {
        let rows = match (transposed_product::transposed_fits(self), self.precision) {
            (true, _) => Tuning::current().transposed_lanes,
            (false, Precision::F32) => UNIT_ROWS,
            (false, _) => UNIT_ROWS_BF16,
        };
        threads > 1 && self.m >= threads.saturating_mul(rows) && self.k.saturating_mul(self.n) < FAR_B
    }

    /// Columns of a unit, or `None` if units divide rows.
    pub(super) fn unit_columns(&self) -> Option<usize> {
        let (m, n, k) = (self.m, self.n, self.k);
        let (both, b) = (m.saturating_mul(k.saturating_add(n)), k.saturating_mul(n));
        let large = n >= DIVIDED_COLS && both.saturating_mul(2) <= b && (m >= PACK_B_ROWS || b >= FAR_B);
        (!self.by_rows && self.batch().is_empty() && (transposed_product::transposed_fits(self) || (large && m > 1)))
            .then(|| gemm_unit_share(m.saturating_mul(k), UNIT_COLS))
    }

    /// Elements of C that a unit owns where units divide rows: whole rows, or part of a lone row.
    #[inline]
    pub fn per_unit(&self) -> usize {
        if self.m == 1 && self.batch().is_empty() {
            return gemm_unit_share(self.k, 16 * UNIT_ROWS).min(self.n);
        }
        let step = match self.precision {
            _ if self.sums => pairwise::ROWS,
            Precision::F32 => UNIT_ROWS,
            _ => UNIT_ROWS_BF16,
        };
        let rows = gemm_unit_share(self.row_work(), step);
        let rows = match transposed_product::transposed_fits(self) {
            // Its lanes are rows of C.
            true if self.by_rows => rows.next_multiple_of(TRANSPOSED_LANES),
            // Each unit reads all of B, and all rows of A together.
            true => rows.next_multiple_of(self.m),
            false => rows,
        };
        rows.min(self.batches().saturating_mul(self.m)).saturating_mul(self.n)
    }

    /// The work of a row of C, in multiply-adds. Where it is little, elements count that are read and written.
    fn row_work(&self) -> usize {
        // An empty product has no rows.
        let rows = self.batches().saturating_mul(self.m).max(1);
        let own_b = if self.all_b() > self.k.saturating_mul(self.n) { self.all_b() / rows } else { 0 };
        let elements = self.k.saturating_add(self.n).saturating_add(own_b);
        self.n.saturating_mul(self.k).max(elements.saturating_mul(ELEMENT_WORK))
    }

    /// Number of units where they divide rows.
    pub fn units(&self) -> usize {
        self.len().div_ceil(self.per_unit().max(1))
    }

    /// The elements of C that `units` own where they divide rows.
    pub(super) fn unit_elements(&self, units: &Range<usize>) -> Range<usize> {
        let (per, len) = (self.per_unit(), self.len());
        units.start.saturating_mul(per).min(len)..units.end.saturating_mul(per).min(len)
    }

    /// The number of rows of the sums of columns, `[rows, n]`, one for each block of rows of C; and how units divide
    /// them.
    pub fn unit_sums(&self) -> (usize, Split) {
        let blocks = |rows| column_sums::count_blocks(rows, self.n);
        match self.unit_columns() {
            Some(width) => (blocks(self.m), Split::Columns { row: self.n, width }),
            None => (blocks(self.m), Split::PerUnit(blocks(self.per_unit() / self.n) * self.n)),
        }
    }
}

/// The row of C of element `from`.
#[inline]
pub fn gemm_unit_row(from: usize, g: &Gemm) -> usize {
    // It is mostly 0, and a division is slow beside the smallest products.
    if from == 0 { 0 } else { from / g.n }
}

/// Rows or columns of a unit, each of `work` multiply-adds: a multiple of `step`, which is a power of two.
#[inline]
pub fn gemm_unit_share(work: usize, step: usize) -> usize {
    // Shifts instead of divisions: this runs in every call, and the smallest products take 20 ns.
    (((UNIT_WORK >> work.max(1).ilog2()) + step - 1) & !(step - 1)).max(step)
}
