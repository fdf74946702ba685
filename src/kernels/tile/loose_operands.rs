//! Operands of a tile program that are in no arena: for constant folding and tests.

use super::tile_kernel::TileOperands;

/// Operands that are in no arena. An operand is taken out by the call that uses it.
#[derive(Default)]
pub(super) struct LooseOperands<'a> {
    /// The inputs, whole, or the outputs that share their bytes.
    pub inputs: Vec<Result<&'a [u8], usize>>,
    /// The outputs; element 0 is the first element of the range.
    pub outs: Vec<&'a mut [u8]>,
    pub slots: &'a mut [u8],
}

impl<'a> TileOperands<'a> for LooseOperands<'a> {
    fn input(&self, i: usize) -> Result<&'a [u8], usize> {
        self.inputs[i]
    }

    fn output(&mut self, j: usize) -> &'a mut [u8] {
        std::mem::take(&mut self.outs[j])
    }

    fn slots(&mut self) -> &'a mut [u8] {
        std::mem::take(&mut self.slots)
    }
}
