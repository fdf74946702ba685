//! The choice of the algorithm of a product.
//!
//! Invariant: it follows from the descriptor, the element type and the CPU alone, never from the units of a call. So
//! the scratch size, the division into units and the computation follow from one algorithm. `gemm_queries`, `gemm_into`
//! and `gemm_kernel` match on it.

use super::bf16;
use super::blocked_plan::BlockedPlan;
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::gemv::Gemv;
use super::tuning::{DOTS_NARROW, DOTS_NARROW_TERMS, DOTS_TERMS_PER_ROW, PACK_B_ROWS};
use super::{outer_product, transposed_product};

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// k = 0: C keeps its old elements or becomes zero.
    Empty,
    /// By the bf16 engine, if the descriptor asks for a bf16 precision and the engine is faster than f32.
    Bf16(bf16::Bf16Plan),
    /// Matrix times vector.
    Gemv(Gemv),
    /// k = 1: column times row.
    Outer,
    /// One dot product for each element of C: few rows, both operands contiguous along k.
    Dots,
    /// Cᵀ = Bᵀ · Aᵀ in tiles, transposed back.
    Transposed,
    /// Register tiles in cache blocks.
    Blocked(BlockedPlan),
}

impl Algorithm {
    /// The algorithm of a product of elements of type `T`.
    #[inline]
    pub fn of<T: GemmFloat>(g: &Gemm) -> Algorithm {
        if let Some(plan) = bf16::Bf16Plan::new::<T>(g) {
            Algorithm::Bf16(plan)
        } else if g.k == 0 {
            Algorithm::Empty
        } else if outer_product::can_compute(g) {
            Algorithm::Outer
        } else if let Some(gemv) = Gemv::new(g) {
            Algorithm::Gemv(gemv)
        } else if transposed_product::transposed_fits(g) {
            Algorithm::Transposed
        } else if uses_dot_products(g) {
            Algorithm::Dots
        } else {
            Algorithm::Blocked(match g.accumulate {
                true => BlockedPlan::with_old_c::<T>(g),
                false => BlockedPlan::with_new_c::<T>(g),
            })
        }
    }

    /// Elements of scratch of each thread.
    pub fn scratch<T: GemmFloat>(&self, g: &Gemm) -> usize {
        match self {
            Algorithm::Empty | Algorithm::Outer | Algorithm::Dots => 0,
            Algorithm::Bf16(plan) => plan.scratch(g.k),
            Algorithm::Gemv(gemv) => gemv.scratch(),
            Algorithm::Transposed => transposed_product::transposed_scratch::<T>(g),
            Algorithm::Blocked(plan) => plan.scratch::<T>(),
        }
    }

    /// Whether it computes C tile by tile, so that a sink can consume the tiles.
    pub fn makes_tiles(&self) -> bool {
        match self {
            Algorithm::Bf16(_) | Algorithm::Outer | Algorithm::Transposed | Algorithm::Blocked(_) => true,
            Algorithm::Empty | Algorithm::Gemv(_) | Algorithm::Dots => false,
        }
    }
}

/// Whether a product is computed as dot products: A has few rows, and both operands are contiguous along k. Packing B
/// would then cost as much as the sums. False for a product that is computed by its transpose.
pub fn uses_dot_products(g: &Gemm) -> bool {
    let cheap = g.k >= g.m.saturating_mul(DOTS_TERMS_PER_ROW) || (g.n <= DOTS_NARROW && g.k >= DOTS_NARROW_TERMS);
    (2..PACK_B_ROWS).contains(&g.m)
        && g.n > 1
        && cheap
        && g.a.col == 1
        && g.b.row == 1
        && g.b.col >= g.k
        && !transposed_product::transposed_fits(g)
}
