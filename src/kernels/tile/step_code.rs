//! A step of a tile program as the kernel reads it, and the loop that computes it.

use super::tile_op::TileOp;
use super::tile_table::TileBytes;
use arenagrad_arena::DType;

/// Computes a step on a tile: the step, the result, and the table that has the operands. An operand that is values has
/// at least as many elements, a uniform one has at least one. Returns the first bad element.
pub(super) type StepLoop = fn(&StepCode, &mut [u8], &[TileBytes<'_>]) -> Option<usize>;

/// A step as the kernel reads it.
#[derive(Clone, Copy)]
pub(super) struct StepCode {
    /// Computes the step.
    pub run: StepLoop,
    pub op: TileOp,
    pub elem: DType,
    pub out: DType,
    /// Bytes of an element of the result.
    pub size: usize,
    /// What the step writes and reads: entries of the table of a call.
    pub to: u16,
    pub args: [u16; 4],
    /// The immediates.
    pub imm: [f64; 2],
}

impl StepCode {
    /// The first `N` operands, of at most four.
    #[inline(always)]
    pub(super) fn operands<'t, const N: usize>(&self, table: &'t [TileBytes<'_>]) -> [&'t [u8]; N] {
        std::array::from_fn(|k| table[usize::from(self.args[k])].bytes())
    }
}
