//! The plan of a blocked product: which operands are packed, and the sizes of the cache blocks.
//!
//! Invariant: the bits do not depend on the plan, because a sum over several blocks of k continues from C.

use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::tuning::{
    A_IN_L1, ALIASED_A, ALIASED_B, BLOCK_A, BLOCK_B, BLOCK_B_SHARED, BLOCK_C_ACT_GRAD, FAR_ROWS, KC, KC_LARGE_C,
    LARGE_C, MICRO_PANELS, MIN_TILE_ROWS, PACK_A_COLS, PACK_B_ROWS, PACK_FAR_A_COLS, PAD, PREFETCH_B, PREFETCH_C,
    PREFETCH_C_TERMS, SHORT_SUMS, Tuning,
};
use crate::simd::Token;

/// Which operands are packed, and the sizes of the blocks, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockedPlan {
    /// Whether A is packed.
    pub pack_a: bool,
    /// Whether B is packed.
    pub pack_b: bool,
    /// Whether B is packed micro-panel by micro-panel, each just before its only use.
    pub by_panel: bool,
    /// Whether each micro-panel is prefetched while the one before is used.
    pub prefetch_b: bool,
    /// Whether C is too large to stay in a cache.
    pub far_c: bool,
    /// Whether a new C is prefetched.
    pub far_new_c: bool,
    /// Whether all tiles of some rows are computed before those of the next rows, with all of a block of B packed or in
    /// place.
    pub by_rows: bool,
    /// Whether the rows of A are prefetched, too.
    pub far_a: bool,
    /// Whether the rows of both operands for a block of k are prefetched during the block before it.
    pub prefetch_next: bool,
    /// Micro-panels of B are at most as wide as tiles of this many rows. Tiles of fewer rows may be wider, but scratch
    /// has no room for wider micro-panels.
    pub panel_rows: usize,
    /// Rows of a block of A.
    pub mc: usize,
    /// Block size along k: terms added to a sum in one visit of C.
    pub kc: usize,
    /// Columns of a block of B.
    pub nc: usize,
}

impl BlockedPlan {
    /// The plan of a product, from its shape and the instruction set.
    pub fn new<T>(g: &Gemm) -> BlockedPlan {
        let (size, tuning) = (size_of::<T>(), Tuning::current());
        let bytes_b = g.k.saturating_mul(g.n).saturating_mul(size);
        let (c_row, b_stride) = (g.n.saturating_mul(size), g.b.row.saturating_mul(size));
        let large_b = (bytes_b > tuning.b_in_l2 || b_stride >= FAR_ROWS) && !tuning.panel_in_l1.fits(g.k, b_stride);
        let pack_b = g.b.col != 1 || (g.m >= PACK_B_ROWS && large_b);
        let pack_a = packs_a(g, size, tuning);
        let depth = match g.m.saturating_mul(c_row) > LARGE_C {
            true => KC_LARGE_C,
            false if pack_a && g.a.row == 1 => tuning.kc_packed,
            false => KC,
        };
        let kc = block_terms(g.k, depth);
        let mc = if g.m.saturating_mul(kc) <= BLOCK_A / size { g.m } else { BLOCK_A / size / kc };
        // The operand of an act-grad epilogue comes from memory. If all of B fits in a block, smaller blocks of C keep
        // C in cache until then.
        let by_matrix = g.act.is_act_grad() && bytes_b <= BLOCK_B && mc.saturating_mul(c_row) > 4 * BLOCK_C_ACT_GRAD;
        let mc = if by_matrix { (BLOCK_C_ACT_GRAD / c_row).max(PACK_B_ROWS).min(mc) } else { mc };
        let nc = block_cols(g.n, kc, if mc < g.m { BLOCK_B_SHARED } else { BLOCK_B }, size);
        // Lines along k are read to their end for each micro-panel. Lines along n are left after a few cache lines,
        // which hardware prefetchers handle badly.
        let prefetch_b = g.all_b().saturating_mul(size) > PREFETCH_B && g.m >= PACK_B_ROWS && g.b.row.min(g.b.col) == 1;
        let by_panel = pack_b && (g.b.col != 1 || prefetch_b || bytes_b <= tuning.panel_b) && mc == g.m;
        let panel_rows = if g.m >= PACK_B_ROWS { MIN_TILE_ROWS } else { 1 };
        BlockedPlan {
            pack_a,
            pack_b,
            by_panel,
            prefetch_b: prefetch_b && by_panel,
            far_c: g.len().saturating_mul(size) > PREFETCH_C,
            far_new_c: g.k >= PREFETCH_C_TERMS && g.len().saturating_mul(size) > tuning.prefetch_new_c,
            by_rows: false,
            far_a: false,
            prefetch_next: pack_a
                && pack_b
                && !by_panel
                && (g.a.row, g.b.col) == (1, 1)
                && bytes_of_terms(g, size) >= tuning.far_terms,
            panel_rows,
            mc,
            kc,
            nc,
        }
    }

    /// The plan of a product whose C is only written.
    pub fn with_new_c<T>(g: &Gemm) -> BlockedPlan {
        let (plan, tuning, size) = (BlockedPlan::new::<T>(g), Tuning::current(), size_of::<T>());
        let aliased = g.b.col == 1 && g.b.row.saturating_mul(size).is_multiple_of(ALIASED_B);
        if let Some(wide) = tuning.wide_blocks.filter(|_| plan.prefetch_b && aliased) {
            let kc = block_terms(g.k, wide.kc);
            let nc = block_cols(g.n, kc, wide.bytes, size);
            return BlockedPlan { by_panel: false, prefetch_b: false, kc, nc, ..plan };
        }
        let bytes_b = g.k.saturating_mul(g.n).saturating_mul(size);
        let near_b = bytes_b <= if plan.mc < g.m { BLOCK_B_SHARED } else { PREFETCH_B };
        match tuning.block_a.filter(|_| near_b && g.m >= PACK_B_ROWS) {
            // A block that is little larger is not worth a cut.
            Some(block) if plan.mc.saturating_mul(plan.kc) > block / size * 4 / 3 => {
                let most = (block / size / plan.kc).max(PACK_B_ROWS);
                let mc = g.m.div_ceil(g.m.div_ceil(most)).next_multiple_of(tuning.tile_rows);
                BlockedPlan { by_panel: false, mc, nc: block_cols(g.n, plan.kc, BLOCK_B_SHARED, size), ..plan }
            }
            _ => plan,
        }
    }

    /// The plan of a product whose C is read before it is written: it accumulates, or is the gradient of a fused step.
    /// A C that comes from memory is read row by row if sums are short and all of B stays in a cache. A micro-panel at
    /// a time, each line would lie in a page of its own.
    pub fn with_old_c<T>(g: &Gemm) -> BlockedPlan {
        let plan = BlockedPlan::new::<T>(g);
        let b_stays = plan.nc == g.n && g.k.saturating_mul(g.n).saturating_mul(size_of::<T>()) <= BLOCK_B;
        let c_takes_longer = plan.far_c && g.k <= SHORT_SUMS && g.m >= PACK_B_ROWS;
        if c_takes_longer && b_stays { plan.by_rows() } else { plan }
    }

    /// The same plan where A comes from memory: its rows are prefetched, and each block of them is read once if B has
    /// one block of columns.
    pub fn with_far_a(self) -> BlockedPlan {
        BlockedPlan { far_a: true, ..self.by_rows() }
    }

    /// The same plan with the tiles of some rows before those of the next rows.
    pub fn by_rows(self) -> BlockedPlan {
        BlockedPlan { by_panel: false, prefetch_b: false, by_rows: true, ..self }
    }

    /// Elements of scratch of each thread: whole cache lines, so that threads do not share lines.
    pub fn scratch<T: GemmFloat>(&self) -> usize {
        (self.scratch_b::<T>() + if self.pack_a { self.packed_a() } else { 0 }).next_multiple_of(PAD)
    }

    /// Elements of a packed block of A.
    pub fn packed_a(&self) -> usize {
        (self.mc + PAD) * (self.kc + PAD)
    }

    /// Whether sums of `k` terms are computed in one block of k.
    pub fn whole(&self, k: usize) -> bool {
        k <= self.kc
    }

    /// Elements of packed B.
    pub fn scratch_b<T: GemmFloat>(&self) -> usize {
        let cols = if self.by_panel { self.nc.min(T::shape(Token::current(), self.panel_rows).1) } else { self.nc };
        if self.pack_b { (self.kc * cols).next_multiple_of(PAD) } else { 0 }
    }
}

/// Terms of blocks of nearly equal depth, at most `depth` each. Divisions only where blocks are cut: this runs in every
/// call, and the smallest products take 20 ns.
#[inline]
fn block_terms(k: usize, depth: usize) -> usize {
    if k <= depth { k.max(1) } else { k.div_ceil(k.div_ceil(depth)) }
}

/// Columns of a block of B of `kc` rows and about `bytes` bytes: all, or whole micro-panels.
#[inline]
fn block_cols(n: usize, kc: usize, bytes: usize, size: usize) -> usize {
    if n.saturating_mul(kc) <= bytes / size {
        return n;
    }
    ((bytes / kc / MICRO_PANELS).max(1) * (MICRO_PANELS / size)).min(n)
}

/// Whether A is packed.
#[inline]
fn packs_a(g: &Gemm, size: usize, tuning: &Tuning) -> bool {
    // A tile reads a few elements of each row of a transposed A: a cache line for them, and often a page.
    let transposed = g.a.row == 1;
    if g.a.col != 1 && !transposed {
        return true;
    }
    let in_l1 = transposed && g.m.saturating_mul(g.k).saturating_mul(size) <= A_IN_L1;
    let aliased = g.a.row.max(g.a.col).saturating_mul(size).is_multiple_of(ALIASED_A) && g.n >= PACK_A_COLS / 4;
    let many_cols = if g.a.col == 1 { PACK_A_COLS } else { PACK_A_COLS / 2 };
    let far = transposed && g.n >= PACK_FAR_A_COLS && bytes_of_terms(g, size) >= tuning.far_terms;
    g.m >= PACK_B_ROWS && !in_l1 && (g.n >= many_cols || aliased || far)
}

/// Bytes of both operands.
#[inline]
fn bytes_of_terms(g: &Gemm, size: usize) -> usize {
    g.k.saturating_mul(g.m.saturating_add(g.n)).saturating_mul(size)
}
