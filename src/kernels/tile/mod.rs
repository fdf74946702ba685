//! The tile interpreter: the one kernel of all pointwise ops and fused pointwise regions.
//!
//! A [`Program`] is a list of operations on values of one length. The kernel walks the elements in tiles that fit the
//! first-level cache and runs each step on a whole tile. So fusion needs no code generation, and an unfused op is a
//! program of one step. Each step rounds separately, so a fused program has the bits of the separate ops.
//!
//! Operands of the kernel: reads are the program's inputs in order. Writes are its outputs in order, each
//! `PerUnit(UNIT)`, then, if [`scratch_len`] is not 0, scratch of [`Line`](crate::arena::tensor::Line)s,
//! `PerThread(scratch_len / LINE)`. An output may be in place of an input with access `Full` and the same element size.
//! Parameters are [`Program::to_words`]; the number of units is [`units`].
//!
//! `op` and `program` are for the compiler, [`run`] for the executor, [`eval`] for constant folding and tests.

mod apply;
mod cast;
mod code;
mod load;
mod loops;
mod op;
mod plan;
mod program;
mod run;
mod special;
#[cfg(test)]
mod tests;

pub use op::{TileOp, supports};
pub use plan::scratch_len;
pub use program::{Access, Input, Program, Step};
pub use run::{eval, run};

/// Elements of a tile. A typical `f32` program has a handful of tile buffers, which fill a third of a 48 KiB cache.
pub const TILE: usize = 512;

/// Elements of a unit.
pub const UNIT: usize = 8 * TILE;

/// Units of a program of `len` elements.
#[inline]
pub const fn units(len: usize) -> usize {
    len.div_ceil(UNIT)
}
