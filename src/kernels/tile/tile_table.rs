//! The table of a call: what steps read and write.
//!
//! A step names entries of the table, so that it finds its operands without a case for each kind. In a small map,
//! finding them takes longer than the step.

use super::program::{MAX_INPUTS, MAX_OUTPUTS, MAX_STEPS};
use arrayvec::ArrayVec;

/// The most entries of a table: nothing, the inputs, the outputs, the slots, the tiles of inputs that are not whole,
/// the constants. Each input, constant and result has at most a slot. Each output has one more at most, for a copy of a
/// tile.
const MAX_TABLE: usize = 1 + 3 * MAX_INPUTS + 2 * MAX_OUTPUTS + 2 * MAX_STEPS;

/// The entry that holds nothing.
pub(super) const NOTHING: u16 = 0;
/// The entry of the first input. The outputs, the slots, the tiles of inputs that are not whole, and the constants
/// follow the inputs.
pub(super) const FIRST_INPUT: usize = 1;

/// The table of a call. What is beyond its length is not written: to clear that would take as long as a step.
pub(super) type TileTable<'a, const N: usize = MAX_TABLE> = ArrayVec<TileBytes<'a>, N>;

/// An entry of the table: the current tile of an operand, or a slot. Further bytes may follow the tile.
pub(super) enum TileBytes<'a> {
    /// Bytes that are read only.
    Read(&'a [u8]),
    /// An output or a slot.
    Written(&'a mut [u8]),
}

/// An entry that holds nothing.
pub(super) const NONE: TileBytes<'static> = TileBytes::Read(&[]);

impl TileBytes<'_> {
    /// What the entry holds.
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            TileBytes::Read(bytes) => bytes,
            TileBytes::Written(bytes) => bytes,
        }
    }
}
