//! Which products bf16 units compute, and the sizes of their blocks.

use super::engine::Engine;
use super::packed::{LINE, LINES, PACKED, PLACES, SIDE};
use crate::kernels::gemm::desc::Gemm;
use crate::kernels::gemm::precision::Precision;
use crate::kernels::gemm::tuning::{
    BF16_KC, BF16_LEAST, BF16_PARTIAL_ROWS, BF16_WORDS_A, BF16_WORDS_A_IN_L2, BF16_WORDS_B, BF16X2_LEAST,
    BF16X2_LEAST_STRIDED, BF16X3_LEAST, LeastShape,
};

/// Sizes of blocks, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub splits: usize,
    /// Rows whose A is packed at once, all of k.
    pub mc: usize,
    /// Rows whose A stays in L2 beside a block of B.
    pub mr: usize,
    pub kc: usize,
    pub nc: usize,
    /// Sums that are kept beside C: those of one tile, of rows whose A stays in L2, or of all whose A is packed.
    pub sums: usize,
}

impl Plan {
    /// The plan of a product that bf16 units compute; `None` if f32 units do: for element types other than f32,
    /// products asked for in f32, and those that are faster there.
    pub fn new<T: 'static>(g: &Gemm) -> Option<Plan> {
        let asked = g.precision != Precision::F32 && std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>();
        (asked && pays(Engine::current(), g)).then(|| Plan::of(g))
    }

    pub fn of(g: &Gemm) -> Plan {
        let splits = g.precision.splits();
        let blocks = g.k.div_ceil(BF16_KC).max(1);
        let kc = g.k.div_ceil(blocks).next_multiple_of(PLACES).max(PLACES);
        let rows = |words: usize, k: usize| (2 * words / splits / k / SIDE).max(1) * SIDE;
        // Where sums go on from block to block of k, those of all rows of A that are packed are kept.
        let most = if blocks > 1 { BF16_PARTIAL_ROWS } else { usize::MAX };
        let all = rows(BF16_WORDS_A, g.k.next_multiple_of(PLACES).max(PLACES)).min(g.m.next_multiple_of(SIDE));
        let mc = all.min(most);
        let mr = rows(BF16_WORDS_A_IN_L2, kc).min(BF16_PARTIAL_ROWS).min(mc);
        let nc = rows(BF16_WORDS_B, kc).min(g.n.next_multiple_of(SIDE));
        let sums = match (blocks > 1, g.accumulate) {
            (true, _) => mc * nc,
            (false, true) => mr * nc,
            (false, false) => SIDE * SIDE,
        };
        Plan { splits, mc, mr, kc, nc, sums }
    }

    pub fn cells_a(&self, k: usize) -> usize {
        self.mc / LINES * k.div_ceil(PLACES) * self.splits
    }

    pub fn cells_b(&self) -> usize {
        self.nc / LINES * (self.kc / PLACES) * self.splits
    }

    /// Elements of scratch that `product` needs.
    pub fn scratch(&self, k: usize) -> usize {
        (self.cells_a(k) + self.cells_b()) * PACKED + self.sums + LINE
    }
}

/// Whether bf16 units are faster.
fn pays(engine: Engine, g: &Gemm) -> bool {
    // A lone row is divided among threads inside, and waits for memory in any precision.
    if g.m == 1 || g.n == 1 || g.k == 0 {
        return false;
    }
    let reaches = |least: LeastShape| {
        let work = g.m.saturating_mul(g.n).saturating_mul(g.k);
        g.m >= least.m && g.n >= least.n && g.k >= least.k && work >= least.work
    };
    match (engine, g.precision.splits()) {
        (_, 1) => engine == Engine::Portable || reaches(BF16_LEAST),
        // As `Precision::here` says.
        (Engine::Portable | Engine::Avx512, _) => false,
        (Engine::Amx, 2) => reaches(if g.b.col == 1 { BF16X2_LEAST } else { BF16X2_LEAST_STRIDED }),
        (Engine::Amx, _) => reaches(BF16X3_LEAST),
    }
}
