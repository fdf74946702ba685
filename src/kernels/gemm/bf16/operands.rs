//! The operands of an engine: a tile of C.

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
