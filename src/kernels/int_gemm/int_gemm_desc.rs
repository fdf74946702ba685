//! The descriptor of a product of 8-bit integers: shape, codes, units, scratch.
//!
//! Invariant: units and scratch follow from the descriptor alone.

use super::int_codes::IntCodes;
use crate::abi::Split;
use crate::params::params;

/// Least number of products of a unit.
const UNIT: usize = 1 << 17;
/// Rows of a unit are a multiple of this: whole tiles on every instruction set.
const UNIT_ROWS: usize = 12;
/// Columns of a unit are a multiple of this: whole tiles on every instruction set.
pub const UNIT_COLS: usize = 64;
/// Columns of the product are divided among units only if there are this many.
const DIVIDED_COLS: usize = 4 * UNIT_COLS;
/// Pairs of terms that are packed at once.
const PAIRS: usize = 256;
/// Columns that are packed at once: 256 KiB.
const COLS: usize = 256;
/// Rows that are packed at once: 96 KiB.
const ROWS: usize = 96;
/// Pairs between packed rows, so that they do not share cache sets.
const PAD: usize = 16;

params! {
    /// C = (A − a's zero) · (B − b's zero) in `i32`, for every matrix of a batch.
    pub struct IntGemm {
        /// Number of products.
        pub batch: usize,
        /// Rows of A and C.
        pub m: usize,
        /// Columns of B and C.
        pub n: usize,
        /// Terms of a sum.
        pub k: usize,
        /// Whether A is stored as its transpose.
        pub ta: bool,
        /// Whether B is.
        pub tb: bool,
        /// Whether A has signed codes.
        pub a_signed: bool,
        /// Whether B has.
        pub b_signed: bool,
        /// The zero of A, one of its codes.
        pub a_zero: i64,
        /// The zero of B.
        pub b_zero: i64,
    }
}

/// Blocks of a product that are packed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntGemmBlocks {
    /// Pairs of terms.
    pub pairs: usize,
    /// Columns of B.
    pub cols: usize,
    /// Rows of A.
    pub rows: usize,
}

impl IntGemmBlocks {
    /// The blocks of a product of `m` rows, `n` columns and `k` terms.
    pub fn new(m: usize, n: usize, k: usize) -> IntGemmBlocks {
        IntGemmBlocks {
            pairs: k.div_ceil(2).clamp(1, PAIRS),
            cols: n.next_multiple_of(UNIT_COLS).clamp(UNIT_COLS, COLS),
            rows: m.clamp(1, ROWS),
        }
    }

    /// Elements of a packed block of B.
    pub fn packed_b(&self) -> usize {
        self.pairs * self.cols
    }

    /// Pairs between the rows of a packed block of A.
    pub fn step_a(&self) -> usize {
        self.pairs + PAD
    }

    /// Elements of scratch of each thread.
    pub fn scratch(&self) -> usize {
        // Quads have one more row, and a number for each column.
        (self.packed_b() + (self.rows + 1) * self.step_a() + self.cols).next_multiple_of(PAD)
    }
}

/// Rows in a unit of a product with `n` columns and `k` terms.
pub fn int_gemm_unit_rows(n: usize, k: usize) -> usize {
    (UNIT / n.saturating_mul(k).max(1)).max(1).next_multiple_of(UNIT_ROWS)
}

impl IntGemm {
    /// The codes of A and of B.
    pub fn codes(&self) -> (IntCodes, IntCodes) {
        (IntCodes::new(self.a_signed, self.a_zero), IntCodes::new(self.b_signed, self.b_zero))
    }

    /// Columns of a unit, or `None` if units divide rows. Columns if B is much larger than A and C: each unit then
    /// packs a part of B of its own.
    pub fn unit_columns(&self) -> Option<usize> {
        let (m, n, k) = (self.m, self.n, self.k);
        let few_rows = n >= DIVIDED_COLS && 2 * m * (k + n) <= k.saturating_mul(n);
        let width = (UNIT / m.saturating_mul(k).max(1)).max(1).next_multiple_of(UNIT_COLS);
        (self.batch == 1 && few_rows).then_some(width)
    }

    /// Rows of a unit where units divide rows.
    pub fn unit_rows(&self) -> usize {
        int_gemm_unit_rows(self.n, self.k)
    }

    /// How units divide C, `[batch, m, n]`, and their number.
    pub fn division(&self) -> (Split, usize) {
        match self.unit_columns() {
            Some(width) => (Split::Columns { row: self.n, width }, self.n.div_ceil(width)),
            None => {
                let rows = self.unit_rows();
                (Split::PerUnit(rows * self.n), (self.batch * self.m).div_ceil(rows))
            }
        }
    }

    /// Elements of scratch of each thread.
    pub fn scratch(&self) -> usize {
        IntGemmBlocks::new(self.m, self.n, self.k).scratch()
    }
}
