//! Products that are not stored: a sink consumes each block while it is in cache.
//!
//! A block of columns of B, packed over all of k, stays in L2 beside the sink's own data, while one panel of rows of A
//! after another is multiplied by it. The sums of a panel are complete before the next panel begins, so partial sums
//! need little scratch. The sink's data of a panel is prefetched tile by tile while the panel is computed. Then the
//! sink consumes the panel, in rows of many elements: a tile's rows are two vectors, and a loop that short costs more
//! than its work.
//!
//! Invariant: blocks have the bits of the product. Fused weight updates use this.

use super::algorithm::Algorithm;
use super::bf16::{self, Bf16Engine};
use super::blocked::{self, BlockedMicroPanels, BlockedProductSums, BlockedRows, BlockedTiles};
use super::blocked_plan::BlockedPlan;
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::gemm_units::gemm_unit_row;
use super::operands::View;
use super::prefetch::PrefetchQueue;
use super::sink::{RecastSink, TileSink};
use super::tile_observer::BlockedTileObserver;
use super::tuning::{MICRO_PANELS, PAD, SINK_BLOCK_A, SINK_BLOCK_B, SINK_COLS, SINK_ROWS};
use crate::abi::MatrixMut;
use crate::simd::Token;
use std::ops::Range;

/// The observer that has the sink's data prefetched.
struct GemmIntoObserver<'t, K> {
    /// The sink.
    to: &'t K,
    /// Whether sums are complete after this block of k, so that the sink is next.
    whole: bool,
    /// Terms of the sums in this block of k.
    k: usize,
    /// The panel's first row of C.
    row: usize,
    /// The panel's first column of C.
    col: usize,
}

impl<T, K: TileSink<T>> BlockedTileObserver<T> for GemmIntoObserver<'_, K> {
    #[inline(always)]
    fn before_blocked_tile(&mut self, lines: &mut PrefetchQueue, rows: Range<usize>, cols: Range<usize>) {
        lines.clear();
        if self.whole {
            let (rows, cols) = (self.row + rows.start..self.row + rows.end, self.col + cols.start..self.col + cols.end);
            self.to.prefetch(rows, cols, lines);
            if let Some(lines) = lines.any() {
                lines.spread(1, self.k);
            }
        }
    }
}

/// The sizes of the blocks, in elements.
#[derive(Clone, Copy)]
pub struct GemmIntoPlan {
    plan: BlockedPlan,
    /// Scratch of packed A.
    a: usize,
    /// Scratch of packed B.
    b: usize,
    /// Scratch of the block of the product.
    c: usize,
}

impl GemmIntoPlan {
    /// The blocks of a product, from its shape and the instruction set.
    pub fn new<T>(g: &Gemm) -> GemmIntoPlan {
        let (size, panels) = (size_of::<T>(), MICRO_PANELS / size_of::<T>());
        let plan = BlockedPlan::new::<T>(g);
        let mc = even_block_len(g.m, SINK_BLOCK_A / size / g.k, SINK_ROWS);
        let nc = even_block_len(g.n, (SINK_BLOCK_B / size / g.k).min(SINK_COLS / size), panels);
        let plan = BlockedPlan { by_panel: false, mc, nc, ..plan };
        let cuts = g.k.div_ceil(plan.kc);
        let a = if plan.pack_a { cuts * plan.packed_a() } else { 0 };
        let b = if plan.pack_b { g.k.saturating_mul(plan.nc).div_ceil(PAD).saturating_mul(PAD) } else { 0 };
        GemmIntoPlan { plan, a, b, c: (SINK_ROWS.min(g.m) * plan.nc).next_multiple_of(PAD) }
    }

    /// Elements of scratch of each thread.
    pub fn scratch(&self) -> usize {
        (self.a + self.c).saturating_add(self.b).div_ceil(PAD).saturating_mul(PAD)
    }
}

/// The length of nearly equal blocks that cover `all`: about `most`, a multiple of `step`.
fn even_block_len(all: usize, most: usize, step: usize) -> usize {
    let count = all.div_ceil(most.max(step));
    all.div_ceil(count).next_multiple_of(step).min(all)
}

/// Computes `units`, which divide rows, of a product that [`Gemm::feeds_sink`]. `to` consumes it tile by tile.
/// `scratch` has [`Gemm::sink_scratch`] elements.
///
/// # Panics
/// If a slice is shorter than the descriptor says.
pub fn gemm_into<T: GemmFloat>(
    g: &Gemm,
    (a, b): (&[T], &[T]),
    units: Range<usize>,
    scratch: &mut [T],
    to: &mut impl TileSink<T>,
) {
    let own = g.unit_elements(&units);
    if own.is_empty() {
        return;
    }
    g.assert_fits(a.len(), b.len());
    let (a, rows) = (&a[gemm_unit_row(own.start, g) * g.a.row..], own.len() / g.n);
    if let Algorithm::Bf16(plan) = Algorithm::of::<T>(g) {
        let (a, b, scratch) = (bytemuck::cast_slice(a), bytemuck::cast_slice(b), bytemuck::cast_slice_mut(scratch));
        let mut to = bf16::Bf16IntoSink { to: &mut RecastSink::new(to), size: (rows, g.n) };
        return bf16::multiply_in_bf16(Bf16Engine::current(), g, &plan, (a, b), (rows, g.n), &mut to, scratch);
    }
    multiply_rows(Token::current(), g, (a, b), rows, scratch, to);
}

/// Computes `rows` rows of a product in `T`. `a` begins at the first of them.
pub fn multiply_rows<T: GemmFloat>(
    token: Token,
    g: &Gemm,
    (a, b): (&[T], &[T]),
    rows: usize,
    scratch: &mut [T],
    to: &mut impl TileSink<T>,
) {
    let GemmIntoPlan { plan, a: len_a, c: len_c, .. } = GemmIntoPlan::new::<T>(g);
    let (block, scratch) = scratch.split_at_mut(len_c);
    let (scratch_a, scratch_b) = scratch.split_at_mut(len_a);
    let tallest = BlockedTiles::new::<T>(token, rows.min(plan.mc)).tallest();
    for ic in (0..rows).step_by(plan.mc) {
        let tiles = BlockedTiles::new::<T>(token, plan.mc.min(rows - ic));
        for jc in (0..g.n).step_by(plan.nc) {
            let cols = plan.nc.min(g.n - jc);
            for (i, row_panel) in tiles.row_panels(SINK_ROWS) {
                for (cut, pc) in (0..g.k).step_by(plan.kc).enumerate() {
                    let k = plan.kc.min(g.k - pc);
                    let a = View { data: &a[ic * g.a.row + pc * g.a.col..], row: g.a.row, col: g.a.col };
                    let a = match plan.pack_a {
                        true => {
                            let packed = &mut scratch_a[cut * plan.packed_a()..];
                            blocked::pack_block_of_a(token, a, tiles, k, packed, jc == 0 && i == 0)
                        }
                        false => BlockedRows::Strided(a),
                    };
                    let b = View { data: &b[pc * g.b.row + jc * g.b.col..], row: g.b.row, col: g.b.col };
                    let packed = &mut scratch_b[if plan.pack_b { pc * cols } else { 0 }..];
                    if plan.pack_b && i == 0 {
                        blocked::pack_block_of_b(token, &b, k, cols, tallest, packed);
                    }
                    let mut panels =
                        if plan.pack_b { BlockedMicroPanels::Packed(packed) } else { BlockedMicroPanels::InPlace(b) };
                    let c = MatrixMut::new(block, row_panel.rows, cols);
                    let part = BlockedProductSums {
                        tiles: row_panel,
                        tallest,
                        k,
                        c,
                        add: cut > 0,
                        step: None,
                        far_c: false,
                        far_new_c: false,
                    };
                    let whole = pc + k == g.k;
                    let mut lines = GemmIntoObserver { to, whole, k, row: ic + i, col: jc };
                    part.compute(token, a.from(i, k), &mut panels, &mut lines);
                }
                to.consume(ic + i, jc, MatrixMut::new(block, row_panel.rows, cols));
            }
        }
    }
}
