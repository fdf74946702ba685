//! The element-wise tile interpreter: the one kernel of every point-wise op and every fused element-wise region.
//!
//! A [`Program`] is a list of operations on values of one length. The kernel walks the elements in tiles that stay in
//! the first-level cache and does each step on a whole tile, so that fusing needs no code generation: an unfused op
//! is a program of one step. Each step rounds on its own, so a fused program gives the bits of the separate ops.
//!
//! Operands of the kernel: reads are the program's inputs in order; writes are its outputs in order, each split
//! `PerUnit(UNIT)`, then, if [`scratch_len`] is not 0, scratch of [`Line`](crate::arena::tensor::Line)s split
//! `PerThread(scratch_len / LINE)`. An input of access `Full` may be written in place by an output of the same element
//! size. Parameters are [`Program::to_words`]; units are [`units`].
//!
//! `op` and `program` are for the compiler; [`run`] for the executor; [`eval`] for constant folding and tests.

mod apply;
mod cast;
mod code;
mod load;
mod loops;
mod op;
mod plan;
mod program;
mod run;
#[cfg(test)]
mod tests;

pub use op::{TileOp, supports};
pub use plan::scratch_len;
pub use program::{Access, Input, MAX_DIMS, MAX_INPUTS, MAX_OUTPUTS, MAX_STEPS, Program, Step};
pub use run::{eval, run};

/// Elements of a tile: with the usual handful of `f32` values the tile's slots fill a third of a 48 KiB cache.
pub const TILE: usize = 512;

/// Elements of a unit, the grain in which threads share a program.
pub const UNIT: usize = 8 * TILE;

/// Units of a program of `len` elements.
#[inline]
pub const fn units(len: usize) -> usize {
    len.div_ceil(UNIT)
}
