//! What the engines compute: a tile of C, and the order of its products of terms.

use super::packed::PackedTile;

/// A tile: C (+)= A·B for one or two strips of sixteen rows and two strips of sixteen columns.
pub struct Tile<'a, 'c> {
    /// Cells for each 32 places of k: 1, or 2 or 3 for split operands.
    pub splits: usize,
    /// The strips of A.
    pub a: &'a [&'a [PackedTile]],
    /// The strips of B.
    pub b: [&'a [PackedTile]; 2],
    /// C: whole rows of 32 columns, the last one may end there.
    pub c: &'c mut [f32],
    /// Distance between rows of C.
    pub c_row: usize,
    /// Whether the sums start from C (else from 0).
    pub add: bool,
}

/// The products of terms of a step, in order: (term of A, term of B), high first. Those that are left out are as small
/// as what two terms leave of a number, or as the rounding of f32 where there are three. From each product to the next,
/// one operand stays.
pub fn order(splits: usize) -> &'static [(usize, usize)] {
    match splits {
        1 => &[(0, 0)],
        2 => &[(0, 1), (0, 0), (1, 0)],
        _ => &[(0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0)],
    }
}
