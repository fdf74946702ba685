//! The table of register tiles: which heights and widths each instruction set has.
//!
//! Invariants: `tile` compiles a kernel for every size that this table names; the more rows, the narrower the widest tile,
//! which scratch for strips is measured by. Only `tile` calls this.

use super::portable;
use crate::kernels::simd::Isa;

/// Widths (in vectors) that tiles of `rows` rows come in; accumulators, one row of B and one element of A must fit
/// the registers. Nearly square tiles load least for each multiply-add, and loads are what runs short first.
const fn widths(isa: Isa, rows: usize) -> &'static [usize] {
    match (isa, rows) {
        (Isa::Avx512, 0..=3) => &[8, 4, 3, 2, 1],
        (Isa::Avx512, 4..) => &[4, 3, 2, 1],
        (Isa::Avx2, 0..=1) => &[8, 4, 3, 2, 1],
        // Not 3 × 4 nor 4 × 3: their sums, a row of B and an element of A need all registers, and LLVM moves them about.
        (Isa::Avx2, 2) => &[4, 3, 2, 1],
        (Isa::Avx2, 3) => &[3, 2, 1],
        _ => &[2, 1],
    }
}

/// The greatest height of a tile.
const fn height(isa: Isa) -> usize {
    match isa {
        Isa::Avx512 => 6,
        Isa::Avx2 => 6,
        Isa::Portable => portable::ROWS,
    }
}

/// Bytes in a vector.
const fn bytes(isa: Isa) -> usize {
    match isa {
        Isa::Avx512 => 64,
        Isa::Avx2 => 32,
        Isa::Portable => 16,
    }
}

/// The largest tile for a block of `rows` rows: height, and width in columns.
pub fn shape_of<T>(isa: Isa, rows: usize) -> (usize, usize) {
    let lanes = bytes(isa) / size_of::<T>();
    let high = height(isa);
    let tallest = if rows <= high { rows } else { rows.div_ceil(rows.div_ceil(high)) };
    (high, widths(isa, tallest)[0] * lanes)
}

/// The widest tile of `rows` rows that covers at most `cols` columns.
pub fn width_of<T>(isa: Isa, rows: usize, cols: usize) -> usize {
    let lanes = bytes(isa) / size_of::<T>();
    let want = cols.div_ceil(lanes);
    let all = widths(isa, rows);
    let vectors = all.iter().copied().find(|&w| w <= want).unwrap_or(1);
    (vectors * lanes).min(cols)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_tiles_are_not_wider() {
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            for rows in 2..=height(isa) {
                assert!(widths(isa, rows)[0] <= widths(isa, rows - 1)[0], "{isa:?}, {rows} rows");
            }
        }
    }
}
