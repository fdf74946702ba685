//! Which algorithm computes a product: decided here, once, from the descriptor.
//!
//! Invariant: it follows from the descriptor, the element type and the CPU alone, never from the units of a call, so
//! that scratch, division and computation agree. `desc` and `mod.rs` match on it; nothing else asks.

use super::bf16;
use super::desc::Gemm;
use super::float::GemmFloat;
use super::gemv::Gemv;
use super::plan::Plan;
use super::{dots, outer, transposed};

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Nothing to sum: C is what it was, or zero.
    Empty,
    /// By bf16 units, where the descriptor asks for them and they are faster.
    Bf16(bf16::Plan),
    /// A matrix by a vector.
    Gemv(Gemv),
    /// A column by a row.
    Outer,
    /// A dot product for each element of C: few rows, and both operands contiguous along k.
    Dots,
    /// Tiles of the transpose, with the plan of its product.
    Transposed,
    /// Tiles in cache blocks.
    Blocked(Plan),
}

impl Algorithm {
    /// That of a product of elements of type `T`.
    #[inline]
    pub fn of<T: GemmFloat>(g: &Gemm) -> Algorithm {
        if let Some(plan) = bf16::Plan::new::<T>(g) {
            Algorithm::Bf16(plan)
        } else if g.k == 0 {
            Algorithm::Empty
        } else if outer::fits(g) {
            Algorithm::Outer
        } else if let Some(gemv) = Gemv::new(g) {
            Algorithm::Gemv(gemv)
        } else if transposed::fits(g) {
            Algorithm::Transposed
        } else if dots::fits(g) {
            Algorithm::Dots
        } else {
            Algorithm::Blocked(Plan::new::<T>(g))
        }
    }

    /// Elements of scratch that a thread needs.
    pub fn scratch<T: GemmFloat>(&self, g: &Gemm) -> usize {
        match self {
            Algorithm::Empty | Algorithm::Outer | Algorithm::Dots => 0,
            Algorithm::Bf16(plan) => plan.scratch(g.k),
            Algorithm::Gemv(gemv) => gemv.scratch(),
            Algorithm::Transposed => transposed::scratch::<T>(g),
            Algorithm::Blocked(plan) => plan.scratch::<T>(),
        }
    }

    /// Whether it makes tiles of C, which a sink may take instead of memory.
    pub fn makes_tiles(&self) -> bool {
        match self {
            Algorithm::Bf16(_) | Algorithm::Outer | Algorithm::Transposed | Algorithm::Blocked(_) => true,
            Algorithm::Empty | Algorithm::Gemv(_) | Algorithm::Dots => false,
        }
    }
}
