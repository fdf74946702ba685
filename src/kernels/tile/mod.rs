//! The tile interpreter: the one kernel of all pointwise ops and fused pointwise regions.
//!
//! A [`TileProgram`] is a list of operations on values of one length. The kernel walks the elements in tiles that fit
//! the first-level cache and runs each step on a whole tile. So fusion needs no code generation, and an unfused op is a
//! program of one step. Each step rounds separately, so a fused program has the bits of the separate ops.
//!
//! Operands of the kernel: reads are the program's inputs in order. Writes are its outputs in order, each
//! `PerUnit(UNIT)`, then, if [`program_scratch_len`] is not 0, scratch of [`Line`](arenagrad_arena::tensor::Line)s,
//! `PerThread(program_scratch_len / LINE)`. An output may be in place of an input with access `Full` and the same
//! element size. A [`TileCode`] is prepared for the call; the number of units is [`count_units`].
//!
//! A kernel that reduces what a program computes ([`reduce::terms`](crate::reduce::terms)) asks for it part by part.
//!
//! `tile_op` and `program` are for the compiler, [`tile_kernel`] for the executor, [`evaluate_program`] for constant
//! folding and tests.

mod apply;
mod cast;
mod element_loops;
mod element_numbers;
mod load;
mod loose_operands;
mod paired_loops;
mod program;
mod special;
mod step_code;
mod step_loops;
#[cfg(test)]
mod tests;
mod tile_code;
mod tile_kernel;
mod tile_op;
mod tile_plan;
mod tile_table;

pub use loose_operands::evaluate_program;
pub use program::{Access, Input, MAX_INPUTS, MAX_OUTPUTS, TileProgram, TileStep};
pub use tile_code::TileCode;
pub(crate) use tile_kernel::compute_terms;
pub use tile_kernel::tile_kernel;
pub use tile_op::{TileOp, supports_operand_type};
pub use tile_plan::program_scratch_len;

/// Elements of a tile. A typical `f32` program has a handful of tile buffers, which fill a third of a 48 KiB cache.
pub const TILE: usize = 512;

/// Elements of a unit: a tile, so that threads divide the small programs in bodies of loops, too.
pub const UNIT: usize = TILE;

/// Units of a program of `len` elements.
#[inline]
pub const fn count_units(len: usize) -> usize {
    len.div_ceil(UNIT)
}
