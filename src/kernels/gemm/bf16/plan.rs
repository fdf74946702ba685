//! The choice of the products that a bf16 engine computes, and the sizes of their blocks.

use super::engine::Bf16Engine;
use super::packed::{DEPTH, LINE, LINES, PACKED, SIDE};
use crate::gemm::gemm_desc::Gemm;
use crate::gemm::precision::Precision;
use crate::gemm::tuning::{
    BF16_KC, BF16_LEAST, BF16_LEAST_AVX512, BF16_PARTIAL_ROWS, BF16_WORDS_A, BF16_WORDS_A_IN_L2, BF16_WORDS_B,
    BF16X2_LEAST, BF16X2_LEAST_STRIDED, BF16X3_LEAST, LeastShape,
};

/// The sizes of the blocks, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bf16Plan {
    /// bf16 terms of a number.
    pub splits: usize,
    /// Rows of A that are packed at once, for all of k.
    pub mc: usize,
    /// Rows of A that stay in L2 beside a block of B.
    pub mr: usize,
    /// Terms of a sum between two visits of a tile.
    pub kc: usize,
    /// Columns of a block of B.
    pub nc: usize,
    /// Sums that are kept in scratch: those of one tile, of the rows whose A stays in L2, or of the rows whose A is
    /// packed.
    pub sums: usize,
}

impl Bf16Plan {
    /// The plan of a product that the bf16 engine computes. `None` if the element type is not f32, if the product is
    /// asked for in f32, or if f32 arithmetic is faster.
    pub fn new<T: 'static>(g: &Gemm) -> Option<Bf16Plan> {
        let asked = g.precision != Precision::F32 && std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>();
        (asked && is_faster_than_f32(Bf16Engine::current(), g)).then(|| Bf16Plan::of(g))
    }

    /// The plan of a product of f32 that the bf16 engine computes.
    pub fn of(g: &Gemm) -> Bf16Plan {
        let splits = g.precision.splits();
        let blocks = g.k.div_ceil(BF16_KC).max(1);
        let kc = g.k.div_ceil(blocks).next_multiple_of(DEPTH).max(DEPTH);
        let rows = |words: usize, k: usize| (2 * words / splits / k / SIDE).max(1) * SIDE;
        // With several blocks of k, the partial sums of all packed rows of A are kept.
        let most = if blocks > 1 { BF16_PARTIAL_ROWS } else { usize::MAX };
        let all = rows(BF16_WORDS_A, g.k.next_multiple_of(DEPTH).max(DEPTH)).min(g.m.next_multiple_of(SIDE));
        let mc = all.min(most);
        let mr = rows(BF16_WORDS_A_IN_L2, kc).min(BF16_PARTIAL_ROWS).min(mc);
        let nc = rows(BF16_WORDS_B, kc).min(g.n.next_multiple_of(SIDE));
        let sums = match (blocks > 1, g.accumulate) {
            (true, _) => mc * nc,
            (false, true) => mr * nc,
            (false, false) => SIDE * SIDE,
        };
        Bf16Plan { splits, mc, mr, kc, nc, sums }
    }

    /// Packed tiles of A, for sums of `k` terms.
    pub fn packed_a(&self, k: usize) -> usize {
        self.mc / LINES * k.div_ceil(DEPTH) * self.splits
    }

    /// Packed tiles of a block of B.
    pub fn packed_b(&self) -> usize {
        self.nc / LINES * (self.kc / DEPTH) * self.splits
    }

    /// Elements of scratch of each thread, for sums of `k` terms.
    pub fn scratch(&self, k: usize) -> usize {
        (self.packed_a(k) + self.packed_b()).saturating_mul(PACKED).saturating_add(self.sums + LINE)
    }
}

/// Whether the engine is faster than f32 arithmetic.
fn is_faster_than_f32(engine: Bf16Engine, g: &Gemm) -> bool {
    // Products with a vector wait for memory in every precision. Besides, units divide a lone row inside tiles.
    if g.m == 1 || g.n == 1 || g.k == 0 {
        return false;
    }
    let reaches = |least: LeastShape| {
        let work = g.m.saturating_mul(g.n).saturating_mul(g.k);
        g.m >= least.m && g.n >= least.n && g.k >= least.k && work >= least.work
    };
    match (engine, g.precision.splits()) {
        (Bf16Engine::Portable, splits) => splits == 1,
        (Bf16Engine::Avx512, 1) => reaches(BF16_LEAST_AVX512),
        (Bf16Engine::Amx, 1) => reaches(BF16_LEAST),
        // As `Precision::here` says.
        (Bf16Engine::Avx512, _) => false,
        (Bf16Engine::Amx, 2) => reaches(if g.b.col == 1 { BF16X2_LEAST } else { BF16X2_LEAST_STRIDED }),
        (Bf16Engine::Amx, _) => reaches(BF16X3_LEAST),
    }
}
