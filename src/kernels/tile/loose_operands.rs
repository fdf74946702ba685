//! Operands of a tile program that are in no arena: for constant folding and tests.

use super::program::TileProgram;
use super::program_scratch_len;
use super::tile_code::TileCode;
use super::tile_kernel::{TileKernelCall, TileOperands};
use super::tile_table::TileTable;
use crate::fault::Cause;
use arenagrad_arena::tensor::{LINE, Line};
use bytemuck::{Zeroable, cast_slice, cast_slice_mut};

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

/// Computes elements `lo..hi` of a program; `hi` is clipped to its length.
pub(super) fn compute_loose_elements<'a>(
    code: &'a TileCode,
    operands: &mut LooseOperands<'a>,
    (lo, hi): (usize, usize),
    fault: &mut dyn FnMut(usize, &'static Cause),
) {
    let mut table = TileTable::new_const();
    if let Some(mut call) = TileKernelCall::new(code, &mut table, operands, lo, hi) {
        call.run(fault);
    }
}

/// Runs a whole program on byte buffers of any alignment, for constant folding and tests. `Err` holds the first element
/// that faulted (an integer divisor of 0, or an exponent below 0).
///
/// # Panics
/// If [`TileProgram::check`] does not hold, or a buffer is too short.
pub fn evaluate_program(program: &TileProgram, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), usize> {
    let code = TileCode::new(program);
    let lines = |bytes: &[u8]| {
        let mut copy = vec![Line::zeroed(); bytes.len().div_ceil(LINE)];
        cast_slice_mut::<Line, u8>(&mut copy)[..bytes.len()].copy_from_slice(bytes);
        copy
    };
    let ins: Vec<Vec<Line>> = inputs.iter().map(|b| lines(b)).collect();
    let mut outs: Vec<Vec<Line>> = outputs.iter().map(|b| lines(b)).collect();
    let mut scratch = vec![Line::zeroed(); program_scratch_len(program) / LINE];
    let mut operands = LooseOperands {
        inputs: ins.iter().zip(inputs).map(|(from, bytes)| Ok(&cast_slice(from)[..bytes.len()])).collect(),
        outs: outs.iter_mut().map(|to| cast_slice_mut(to)).collect(),
        slots: cast_slice_mut(&mut scratch),
    };
    let mut first = None;
    compute_loose_elements(&code, &mut operands, (0, program.len), &mut |e, _| {
        first = Some(first.map_or(e, |f: usize| f.min(e)));
    });
    for (to, from) in outputs.iter_mut().zip(&outs) {
        let bytes: &[u8] = cast_slice(from);
        to.copy_from_slice(&bytes[..to.len()]);
    }
    first.map_or(Ok(()), Err)
}
