//! The operands of an engine: a tile of C, and the order of its products of terms.

use super::packed::PackedTile;

/// A tile: C (+)= A·B for one or two micro-panels of A, of sixteen rows each, and two of B, of sixteen columns each.
pub struct Tile<'a, 'c> {
    /// Packed tiles for each 32 terms of a sum: one for each bf16 term of a number.
    pub splits: usize,
    /// The micro-panels of A.
    pub a: &'a [&'a [PackedTile]],
    /// The micro-panels of B.
    pub b: [&'a [PackedTile]; 2],
    /// C, rows of 32 columns. The last row may end there.
    pub c: &'c mut [f32],
    /// Stride between rows of C.
    pub c_row: usize,
    /// Whether sums start from C, else from 0.
    pub add: bool,
}

/// The products of terms for each 32 elements along k, in order, as (term of A, term of B). Term 0 is the highest. With
/// two terms, the products left out are as small as the error of two terms; with three, as the rounding of f32.
/// Consecutive products share an operand.
pub fn operand_terms_order(splits: usize) -> &'static [(usize, usize)] {
    match splits {
        1 => &[(0, 0)],
        2 => &[(0, 1), (0, 0), (1, 0)],
        _ => &[(0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0)],
    }
}
