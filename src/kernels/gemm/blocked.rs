//! The general product: cache blocks around register tiles (Goto and van de Geijn, 2008).
//!
//! A block of A stays in L2 while it is multiplied by one micro-panel of B after another; a micro-panel is as wide as a
//! tile. Where A or an old C comes from memory, a block of B stays in L2, and the tiles of some rows come before those
//! of the next. Operands that a tile would read slowly in place are packed into scratch first.
//!
//! Invariant: the bits do not depend on block sizes, because a sum over several blocks of k continues from C.

use super::blocked_plan::BlockedPlan;
use super::column_sums;
use super::epilogue::GemmEpilogue;
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::operands::{RegisterTileOperands, View};
use super::pack_block::{Block, pack_block};
use super::prefetch::PrefetchQueue;
use super::sgd_epilogue::SgdEpilogue;
use super::tile_observer::{BlockedTileObserver, NextBlockedTerms};
use super::tuning::{PACK_ROWS, PAD, PREFETCH_C_TERMS, Tuning};
use crate::abi::MatrixMut;
use crate::simd::Token;

/// A block of one product of a batch.
pub struct BlockedProduct<'a, T> {
    /// A, from the block's first row.
    pub a: &'a [T],
    /// B, from the block's first column.
    pub b: &'a [T],
    /// The block of C.
    pub c: MatrixMut<'a, T>,
    /// The sums of its columns, one row for each block of rows, if they are asked for.
    pub sums: Option<MatrixMut<'a, T>>,
}

/// A block of A.
#[derive(Clone, Copy)]
pub enum BlockedRows<'a, T> {
    /// In place, or packed row by row.
    Strided(View<'a, T>),
    /// Packed micro-panel by micro-panel: the rows of a tile are adjacent for each k.
    Panels(&'a [T]),
}

impl<'a, T> BlockedRows<'a, T> {
    /// The same from row `i` on, the first row of a tile. `k` is the number of terms.
    #[inline(always)]
    pub fn from(self, i: usize, k: usize) -> BlockedRows<'a, T> {
        match self {
            BlockedRows::Strided(a) => BlockedRows::Strided(View { data: &a.data[i * a.row..], ..a }),
            BlockedRows::Panels(data) => BlockedRows::Panels(&data[i * k..]),
        }
    }

    /// The rows of a tile of `height` rows from row `i` on.
    #[inline(always)]
    fn of_tile(self, (i, height): (usize, usize), k: usize) -> View<'a, T> {
        match self.from(i, k) {
            BlockedRows::Strided(a) => a,
            BlockedRows::Panels(data) => View { data, row: 1, col: height },
        }
    }
}

/// The division of a block's rows among tiles of nearly equal height.
#[derive(Clone, Copy)]
pub struct BlockedTiles {
    /// Rows of all tiles.
    pub rows: usize,
    /// Number of tiles.
    count: usize,
    /// Rows of each tile but the first `higher`, which have one more.
    low: usize,
    higher: usize,
}

impl BlockedTiles {
    /// The tiles of a block of `rows` rows.
    pub fn new<T: GemmFloat>(token: Token, rows: usize) -> BlockedTiles {
        let (high, _) = T::shape(token, rows);
        if rows <= high {
            return BlockedTiles { rows, count: 1, low: rows, higher: 0 };
        }
        let count = rows.div_ceil(high);
        BlockedTiles { rows, count, low: rows / count, higher: rows % count }
    }

    /// Rows of the first block of `rows` rows where B is in place: all, or those of the tallest tiles where equal ones
    /// would wait for their sums. The tiles of the few rows behind are wider.
    pub fn block_rows<T: GemmFloat>(token: Token, rows: usize) -> usize {
        let (high, _) = T::shape(token, rows);
        let equal = rows / rows.div_ceil(high).max(1);
        if rows > high && equal < Tuning::current().waiting_rows { rows - rows % high } else { rows }
    }

    /// Rows of the tallest tile.
    pub fn tallest(self) -> usize {
        self.low + usize::from(self.higher > 0)
    }

    /// The same tiles in row panels of up to `rows` rows, or one tile: the first row of each panel, and its tiles.
    pub fn row_panels(self, rows: usize) -> impl Iterator<Item = (usize, BlockedTiles)> {
        let each = (rows / self.tallest()).max(1);
        (0..self.count).step_by(each).map(move |t| {
            let count = each.min(self.count - t);
            let higher = self.higher.saturating_sub(t).min(count);
            (t * self.low + t.min(self.higher), BlockedTiles { rows: count * self.low + higher, count, higher, ..self })
        })
    }

    /// The first row and the number of rows of tile `t`.
    #[inline(always)]
    fn tile(self, t: usize) -> (usize, usize) {
        (t * self.low + t.min(self.higher), self.low + usize::from(t < self.higher))
    }

    /// The first row and the number of rows of each tile.
    #[inline(always)]
    fn each(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count).map(move |t| self.tile(t))
    }
}

/// Computes a block of a product and applies its epilogue. `scratch` has [`BlockedPlan::scratch`] elements.
pub fn multiply_block<T: GemmFloat>(
    token: Token,
    g: &Gemm,
    plan: &BlockedPlan,
    mut p: BlockedProduct<'_, T>,
    end: &GemmEpilogue<'_, T>,
    scratch: &mut [T],
) {
    let (scratch_b, scratch_a) = scratch.split_at_mut(plan.scratch_b::<T>());
    let (all, n) = (p.c.rows(), p.c.cols());
    let mc = if plan.pack_b { plan.mc } else { BlockedTiles::block_rows::<T>(token, all.min(plan.mc)).max(1) };
    let tallest = BlockedTiles::new::<T>(token, all.min(mc)).tallest().max(plan.panel_rows);
    for pc in (0..g.k).step_by(plan.kc) {
        let k = plan.kc.min(g.k - pc);
        for jc in (0..n).step_by(plan.nc) {
            let cols = plan.nc.min(n - jc);
            let b = View { data: &p.b[pc * g.b.row + jc * g.b.col..], row: g.b.row, col: g.b.col };
            let mut panels = match (plan.pack_b, plan.by_panel) {
                (false, _) => BlockedMicroPanels::InPlace(b),
                (true, false) => BlockedMicroPanels::Packed(pack_block_of_b(token, &b, k, cols, tallest, scratch_b)),
                (true, true) => BlockedMicroPanels::Packing {
                    b,
                    to: scratch_b,
                    prefetch_to: if plan.prefetch_b { n - jc } else { 0 },
                },
            };
            for ic in (0..all).step_by(mc) {
                let rows = mc.min(all - ic);
                let mut c = p.c.part(ic..ic + rows, jc..jc + cols);
                let tiles = BlockedTiles::new::<T>(token, rows);
                let tallest = if plan.pack_b { tallest } else { tiles.tallest() };
                let a = View { data: &p.a[ic * g.a.row + pc * g.a.col..], row: g.a.row, col: g.a.col };
                // A lone block of A stays packed for all columns.
                let a = if plan.pack_a {
                    pack_block_of_a(token, a, tiles, k, scratch_a, jc == 0 || all > mc)
                } else {
                    BlockedRows::Strided(a)
                };
                let (block, step, add) = (c.part(0..rows, 0..cols), end.sgd(), g.accumulate || pc > 0);
                let BlockedPlan { far_c, far_new_c, .. } = *plan;
                let part = BlockedProductSums { tiles, tallest, k, c: block, add, step, far_c, far_new_c };
                // A browser's module has no prefetches, nor a copy of the loops for them.
                let prefetches = cfg!(not(target_arch = "wasm32")) && plan.prefetch_next;
                let next = (prefetches && rows == all && cols == n).then_some(pc + k).filter(|&pc| pc < g.k);
                match (plan.by_rows, next) {
                    (true, _) => part.compute_by_rows(token, a, &mut panels, plan.far_a),
                    (false, None) => part.compute(token, a, &mut panels, &mut ()),
                    (false, Some(pc)) => {
                        let (terms, tiles) =
                            (plan.kc.min(g.k - pc), tiles.count * n.div_ceil(T::width(token, tallest, n)));
                        let operands = [(&p.a[pc * g.a.col..], g.a.col, all), (&p.b[pc * g.b.row..], g.b.row, n)];
                        let mut lines = NextBlockedTerms { operands, terms, k, tiles, at: 0 };
                        part.compute(token, a, &mut panels, &mut lines);
                    }
                }
                if pc + k == g.k {
                    end.apply(c, (ic, jc));
                    if let Some(to) = &mut p.sums {
                        let (blocks, cols) = (0..to.rows(), jc..jc + cols);
                        column_sums::add_rows(
                            &p.c.part(0..all, cols.clone()),
                            ic..ic + rows,
                            &mut to.part(blocks, cols),
                        );
                    }
                }
            }
        }
    }
}

/// A block of C, and the sums over one block of k that are added to it.
pub struct BlockedProductSums<'a, T> {
    /// The tiles of its rows.
    pub tiles: BlockedTiles,
    /// Rows of the tallest tile that the micro-panels are made for.
    pub tallest: usize,
    /// Terms of a sum.
    pub k: usize,
    /// The block of C.
    pub c: MatrixMut<'a, T>,
    /// Whether sums start from the old C, else from 0.
    pub add: bool,
    /// The SGD step by which C is updated, if the sums are its gradient.
    pub step: Option<SgdEpilogue<T>>,
    /// Whether C is too large to stay in a cache.
    pub far_c: bool,
    /// Whether a new C is prefetched.
    pub far_new_c: bool,
}

/// The micro-panels of a block of B.
pub enum BlockedMicroPanels<'a, T> {
    /// In place.
    InPlace(View<'a, T>),
    /// All packed, one after the other.
    Packed(&'a [T]),
    /// Packed one at a time into the same scratch, which stays in L1 or L2.
    Packing {
        /// The block of B.
        b: View<'a, T>,
        /// The scratch of one micro-panel.
        to: &'a mut [T],
        /// Micro-panels before this column are prefetched while the one before them is used.
        prefetch_to: usize,
    },
}

impl<T: GemmFloat> BlockedMicroPanels<'_, T> {
    /// The micro-panel of `k` rows and of `width` columns from `j` on, for tiles of up to `tallest` rows.
    #[inline(always)]
    fn at(&mut self, token: Token, j: usize, width: usize, k: usize, tallest: usize) -> View<'_, T> {
        match self {
            BlockedMicroPanels::InPlace(b) => View { data: &b.data[j..], row: b.row, col: 1 },
            BlockedMicroPanels::Packed(packed) => View { data: &packed[j * k..], row: width, col: 1 },
            BlockedMicroPanels::Packing { b, to, .. } => {
                let from = View { data: &b.data[j * b.col..], ..*b };
                View { data: pack_block_of_b(token, &from, k, width, tallest, to), row: width, col: 1 }
            }
        }
    }

    /// Fills `lines` with the next micro-panel, from column `j` on, to be prefetched during the `tiles` tiles of this
    /// one, whose sums have `k` terms.
    #[inline(always)]
    fn prefetch(&self, token: Token, j: usize, (tiles, k): (usize, usize), tallest: usize, lines: &mut PrefetchQueue) {
        let BlockedMicroPanels::Packing { b, prefetch_to: cols, .. } = self else { return };
        if j >= *cols {
            return lines.clear();
        }
        let (width, panel) = (T::width(token, tallest, cols - j), std::iter::once(&b.data[j * b.col..]));
        if b.col == 1 {
            lines.set(panel, k, width, b.row);
        } else {
            lines.set(panel, width, k, b.col);
        }
        lines.spread(tiles, k);
    }
}

impl<T: GemmFloat> BlockedProductSums<'_, T> {
    /// What its tiles have in common. Old elements of C are prefetched if they are far, or if each tile takes long; the
    /// lines of a new C where the plan says so.
    #[inline(always)]
    fn each_tile(&self) -> EachBlockedTile<T> {
        let BlockedProductSums { k, add, step, far_c, far_new_c, .. } = *self;
        let old = add || step.is_some();
        EachBlockedTile { k, add, prefetch_c: if old { far_c || k >= PREFETCH_C_TERMS } else { far_new_c }, step }
    }

    /// Computes the block, micro-panel by micro-panel, and calls `observer` for each tile.
    #[inline(always)]
    pub fn compute(
        self,
        token: Token,
        a: BlockedRows<'_, T>,
        b: &mut BlockedMicroPanels<'_, T>,
        observer: &mut impl BlockedTileObserver<T>,
    ) {
        let each = self.each_tile();
        let BlockedProductSums { tiles, tallest, k, mut c, .. } = self;
        let cols = c.cols();
        let mut lines = PrefetchQueue::default();
        let mut j = 0;
        while j < cols {
            let width = T::width(token, tallest, cols - j);
            b.prefetch(token, j + width, (tiles.count, k), tallest, &mut lines);
            let panel = b.at(token, j, width, k, tallest);
            for (i, height) in tiles.each() {
                observer.before_blocked_tile(&mut lines, i..i + height, j..j + width);
                let (a, to) = (a.of_tile((i, height), k), c.part(i..i + height, j..j + width));
                T::tile(token, each.operands(a, panel, to, lines.any()));
            }
            j += width;
        }
    }

    /// Computes the block, all tiles of some rows before those of the next rows. The rows of A are prefetched if it is
    /// far.
    fn compute_by_rows(self, token: Token, a: BlockedRows<'_, T>, b: &mut BlockedMicroPanels<'_, T>, far_a: bool) {
        let each = self.each_tile();
        let BlockedProductSums { tiles, tallest, k, mut c, .. } = self;
        let cols = c.cols();
        let mut lines = PrefetchQueue::default();
        for (t, (i, height)) in tiles.each().enumerate() {
            let of_tile = a.of_tile((i, height), k);
            if far_a && t + 1 < tiles.count {
                let (next, rows) = tiles.tile(t + 1);
                let of_next = a.of_tile((next, rows), k);
                lines.set(std::iter::once(of_next.data), rows, k, of_next.row);
                lines.spread(cols.div_ceil(T::width(token, tallest, cols)), k);
            }
            let mut j = 0;
            while j < cols {
                let width = T::width(token, tallest, cols - j);
                let (panel, to) = (b.at(token, j, width, k, tallest), c.part(i..i + height, j..j + width));
                T::tile(token, each.operands(of_tile, panel, to, lines.any()));
                j += width;
            }
        }
    }
}

/// What all tiles of a block have in common.
struct EachBlockedTile<T> {
    k: usize,
    add: bool,
    prefetch_c: bool,
    step: Option<SgdEpilogue<T>>,
}

impl<T> EachBlockedTile<T> {
    /// The tile `c` of the product of the rows `a` and the columns `b`.
    #[inline(always)]
    fn operands<'a>(
        &self,
        a: View<'a, T>,
        b: View<'a, T>,
        c: MatrixMut<'a, T>,
        prefetch: Option<&'a mut PrefetchQueue>,
    ) -> RegisterTileOperands<'a, T>
    where
        T: Copy,
    {
        let EachBlockedTile { k, add, prefetch_c, step } = *self;
        let (a, a_row, a_col) = (a.data, a.row, a.col);
        RegisterTileOperands { a, a_row, a_col, b: b.data, b_row: b.row, k, c, add, prefetch_c, prefetch, step }
    }
}

/// Packs a block of B of `k` rows and `cols` columns, micro-panel after micro-panel, each one tile wide.
pub fn pack_block_of_b<'a, T: GemmFloat>(
    token: Token,
    b: &View<'_, T>,
    k: usize,
    cols: usize,
    tallest: usize,
    to: &'a mut [T],
) -> &'a mut [T] {
    let row_panel = if b.col == 1 { PACK_ROWS } else { k };
    for p in (0..k).step_by(row_panel) {
        let mut j = 0;
        while j < cols {
            let inner = T::width(token, tallest, cols - j);
            let src = &b.data[p * b.row + j * b.col..];
            let block = Block { src, outer_step: b.row, inner_step: b.col, outer: row_panel.min(k - p), inner };
            pack_block(token, block, &mut to[j * k + p * inner..], inner);
            j += inner;
        }
    }
    to
}

/// Packs a block of A if it is `fresh`, else it is packed already. An A that is contiguous along m goes into
/// micro-panels, any other one into rows.
pub fn pack_block_of_a<'a, T: GemmFloat>(
    token: Token,
    a: View<'_, T>,
    tiles: BlockedTiles,
    k: usize,
    to: &'a mut [T],
    fresh: bool,
) -> BlockedRows<'a, T> {
    if a.row == 1 {
        if fresh {
            pack_panels(a, tiles, k, to);
        }
        return BlockedRows::Panels(to);
    }
    let step = k + PAD;
    if fresh {
        let block = Block { src: a.data, outer_step: a.row, inner_step: a.col, outer: tiles.rows, inner: k };
        pack_block(token, block, to, step);
    }
    BlockedRows::Strided(View { data: to, row: step, col: 1 })
}

/// Packs a block of A whose columns are contiguous into micro-panels: the tile's rows for each k, one after the other.
fn pack_panels<T: GemmFloat>(a: View<'_, T>, tiles: BlockedTiles, k: usize, to: &mut [T]) {
    for p in (0..k).step_by(PACK_ROWS) {
        let row_panel = PACK_ROWS.min(k - p);
        for (i, height) in tiles.each() {
            let panel = &mut to[i * k + p * height..][..row_panel * height];
            let from = View { data: &a.data[p * a.col + i..], ..a };
            match height {
                6 => pack_panel_rows::<T, 6>(from, panel),
                5 => pack_panel_rows::<T, 5>(from, panel),
                4 => pack_panel_rows::<T, 4>(from, panel),
                _ => panel.chunks_exact_mut(height).enumerate().for_each(|(q, to)| {
                    to.copy_from_slice(&from.data[q * a.col..][..height]);
                }),
            }
        }
    }
}

/// Packs the first `H` rows of `a`. A copy of constant length is two moves, any other one a call.
#[inline(always)]
fn pack_panel_rows<T: GemmFloat, const H: usize>(a: View<'_, T>, to: &mut [T]) {
    for (q, to) in to.as_chunks_mut::<H>().0.iter_mut().enumerate() {
        to.copy_from_slice(&a.data[q * a.col..][..H]);
    }
}
