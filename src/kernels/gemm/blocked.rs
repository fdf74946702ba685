//! The general product: cache blocks around register tiles.
//!
//! Blocks of A stay in L2 while micro-panels of B, one tile wide, stream past them; what a tile could not read well in
//! place is packed into scratch first. Sums that span blocks of k go on from C, so block sizes do not show in the bits.
//! Only `mod.rs`, `algorithm`, `transposed`, `fused_update` and `sink`, which hands its tiles on, call this.

use super::desc::Gemm;
use super::epilogue::{Epilogue, SgdEpilogue};
use super::float::GemmFloat;
use super::operands::Tile;
use super::pack::{Block, pack};
use super::prefetch::{LINE, PrefetchQueue};
use super::sums;
use crate::kernels::abi::MatrixMut;
use crate::kernels::simd::Token;
use crate::kernels::simd::{Isa, isa};
use std::ops::Range;

/// Longest sums between two visits of C. A micro-panel of B of 256 bytes a row then takes 128 KiB, which streams from
/// L2 at half of what L2 gives.
const DEPTH: usize = 512;
/// The same where C is too large to stay in a cache between two visits.
const DEEP: usize = 1024;
/// Bytes of such a C: more than L2 has.
const LARGE_C: usize = 2 << 20;
/// Length of sums from which a tile of C is fetched while the tile before it is computed.
const LONG: usize = 64;
/// Bytes of the block of A: half of a 2 MiB L2.
const BLOCK_A: usize = 1 << 20;
/// Bytes of the block of C where an activation's gradient follows.
const ACT_GRAD_C: usize = 128 << 10;
/// Bytes of B that are packed at once.
const BLOCK_B: usize = 256 << 10;
/// The same where A has more than one block: B is packed once for all of them, and waits in L3.
const SHARED_B: usize = 4 << 20;
/// Bytes that the widths of all micro-panels but a few divide: the columns of a packed block of B are a multiple.
pub const PANELS: usize = 512;
/// Rows of B that are packed side by side before the next ones, so that reads go on along each row.
const ROW_PANEL: usize = 16;
/// Rows of C from which packing B pays.
pub const MANY_ROWS: usize = 48;
/// Least height of the tiles that micro-panels are made for where there are that many rows.
const HIGH: usize = 4;
/// Bytes from which B is fetched ahead: less stays in a cache.
const LARGE_B: usize = 2 << 20;
/// Columns of C from which packing A costs next to nothing.
const MANY_COLS: usize = 1024;
/// Bytes of a transposed A that stays in the first cache.
const NEAR_A: usize = 16 << 10;
/// Columns of C from which packing an A of many pages costs less than it saves.
const FEW_COLS: usize = 96;
/// Distance between lines of such an A, in bytes.
const FAR_A: usize = 1536;
/// Bytes of 64 pages: what the first token of a TLB knows.
const PAGES: usize = 64 << PAGE;
/// Distance between rows, in bytes, from which a micro-panel in place falls into few cache sets.
const FAR: usize = 2048;
/// Bytes of the first cache: as many sets as a page has lines.
const NEAR_B: usize = 32 << 10;
/// The logarithm of a page's bytes.
const PAGE: u32 = 12;
/// Rows of B of which a micro-panel stays in the first cache in place, unless they are a power of two apart.
const FEW: usize = 64;

/// Which operands are packed, and the sizes of the blocks, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Whether A is packed.
    pub pack_a: bool,
    /// Whether B is packed.
    pub pack_b: bool,
    /// Whether B is packed micro-panel by micro-panel, each just before its only use.
    pub by_panel: bool,
    /// Whether each micro-panel is fetched while the one before is used.
    pub far: bool,
    /// B micro-panels are at most as wide as tiles of that many rows, also where a thread has fewer: they have room for
    /// no more. (The fewer rows a tile has, the wider it may be.)
    pub high: usize,
    /// Rows of a block of A.
    pub mc: usize,
    /// Terms of a sum between two visits of C.
    pub kc: usize,
    /// Columns of a block of B.
    pub nc: usize,
}

impl Plan {
    /// The plan of a product, from its shape and the instruction set.
    pub fn new<T>(g: &Gemm) -> Plan {
        let size = size_of::<T>();
        let (wide, row) = (isa() == Isa::Avx512, g.b.row * size);
        // Whether a micro-panel stays in the first cache in place. One that is a line wide takes two where rows begin
        // anywhere (and a third of room for A), and leaves sets unused where they are a power of two apart.
        let apart = if row.is_multiple_of(LINE) { 1 << row.trailing_zeros().min(PAGE) } else { 3 * LINE };
        let few = if wide { g.k <= FEW && !row.is_multiple_of(FAR / 2) } else { g.k * apart <= NEAR_B };
        // What is in L2 and spread over its sets is read as fast in place by tiles of four lines.
        let large_b = (!wide || g.k * g.n * size > 2 * BLOCK_B || row >= FAR) && !few;
        let pack_b = g.b.col != 1 || (g.m >= MANY_ROWS && large_b);
        let aliased_a = (g.a.row.max(g.a.col) * size).is_multiple_of(2 * FAR) && g.n >= MANY_COLS / 4;
        // A tile reads a few elements of each row of a transposed A: a cache line for them, and often a page.
        let many = if g.a.col == 1 { MANY_COLS } else { MANY_COLS / 2 };
        // Where all of it stays in the first cache, it is read as fast in place.
        let near = g.a.row == 1 && g.m * g.k * size <= NEAR_A;
        // Tiles that read from more pages than a CPU has at hand, most of them for a row or two.
        let pages =
            !wide && g.a.row == 1 && g.a.col * size >= FAR_A && g.k * g.a.col * size >= PAGES && g.n >= FEW_COLS;
        let often = g.n >= many || aliased_a || pages;
        let pack_a = (g.a.col != 1 && g.a.row != 1) || (g.m >= MANY_ROWS && !near && often);
        let depth = if g.m * g.n * size > LARGE_C { DEEP } else { DEPTH };
        // Divisions only where blocks are cut: this runs in every call, and the smallest products take 20 ns.
        let kc = if g.k <= depth { g.k.max(1) } else { g.k.div_ceil(g.k.div_ceil(depth)) };
        let mc = if g.m * kc <= BLOCK_A / size { g.m } else { BLOCK_A / size / kc };
        // What that gradient is by comes from afar: C need not, too, if all of B can wait meanwhile.
        let lines = g.n * size;
        let by_matrix = g.act.gates() && g.k * lines <= BLOCK_B && mc * lines > 4 * ACT_GRAD_C;
        let mc = if by_matrix { (ACT_GRAD_C / lines).max(MANY_ROWS).min(mc) } else { mc };
        let block = if mc < g.m { SHARED_B } else { BLOCK_B };
        let nc = if g.n * kc <= block / size { g.n } else { (block / kc / PANELS).max(1) * (PANELS / size) };
        // Lines along k are read to their end for each micro-panel; lines along n are left after a few cache lines,
        // which those who read ahead take badly, unless they are told.
        let far = g.k * g.n * size > LARGE_B && g.m >= MANY_ROWS && g.b.row.min(g.b.col) == 1;
        let by_panel = pack_b && (g.b.col != 1 || far || (!wide && g.k * g.n * size <= BLOCK_B)) && mc == g.m;
        let high = if g.m >= MANY_ROWS { HIGH } else { 1 };
        Plan { pack_a, pack_b, by_panel, far: far && by_panel, high, mc, kc, nc: nc.min(g.n) }
    }

    /// Elements of scratch that `product` needs: whole cache lines, so that those of two lanes stay apart.
    pub fn scratch<T: GemmFloat>(&self) -> usize {
        (self.scratch_b::<T>() + if self.pack_a { self.packed_a() } else { 0 }).next_multiple_of(PAD)
    }

    /// Elements of a packed block of A.
    pub fn packed_a(&self) -> usize {
        (self.mc + PAD) * (self.kc + PAD)
    }

    /// Whether sums of `k` terms are not cut.
    pub fn whole(&self, k: usize) -> bool {
        k <= self.kc
    }

    fn scratch_b<T: GemmFloat>(&self) -> usize {
        let cols = if self.by_panel { self.nc.min(T::shape(Token::current(), self.high).1) } else { self.nc };
        if self.pack_b { (self.kc * cols).next_multiple_of(PAD) } else { 0 }
    }
}

/// Elements added to the lines of a packed block of A, so that lines do not share cache sets.
pub const PAD: usize = 16;

/// Some rows and columns of one product of a batch.
pub struct Product<'a, T> {
    /// A, from the first row.
    pub a: &'a [T],
    /// B, from the first column.
    pub b: &'a [T],
    /// That part of C.
    pub c: MatrixMut<'a, T>,
    /// Where its columns are summed in the end, if they are.
    pub sums: Option<MatrixMut<'a, T>>,
}

/// A block of an operand, packed or in place.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    /// The elements, from the block's first.
    pub data: &'a [T],
    /// Distance between rows.
    pub row: usize,
    /// Distance between columns.
    pub col: usize,
}

/// A block of A.
#[derive(Clone, Copy)]
pub enum Rows<'a, T> {
    /// Where it is, or packed with the same neighbours.
    Strided(View<'a, T>),
    /// Packed tile after tile; what a tile reads together is adjacent.
    Panels(&'a [T]),
}

impl<'a, T> Rows<'a, T> {
    /// The same, from row `i` on, which begins a tile, where sums have `k` terms.
    #[inline(always)]
    pub fn from(self, i: usize, k: usize) -> Rows<'a, T> {
        match self {
            Rows::Strided(a) => Rows::Strided(View { data: &a.data[i * a.row..], ..a }),
            Rows::Panels(data) => Rows::Panels(&data[i * k..]),
        }
    }
}

/// How the rows of a block are cut into tiles of nearly one height.
#[derive(Clone, Copy)]
pub struct Tiles {
    /// Rows of all tiles.
    pub rows: usize,
    count: usize,
    /// Rows of most tiles; the first `higher` have one more.
    low: usize,
    higher: usize,
}

impl Tiles {
    /// The tiles of a block of `rows` rows.
    pub fn new<T: GemmFloat>(token: Token, rows: usize) -> Tiles {
        let (high, _) = T::shape(token, rows);
        if rows <= high {
            return Tiles { rows, count: 1, low: rows, higher: 0 };
        }
        let count = rows.div_ceil(high);
        Tiles { rows, count, low: rows / count, higher: rows % count }
    }

    /// Rows of the highest tile.
    pub fn tallest(self) -> usize {
        self.low + usize::from(self.higher > 0)
    }

    /// The same tiles in row panels of up to `rows` rows, or of one tile: the first row of each, and its tiles.
    pub fn row_panels(self, rows: usize) -> impl Iterator<Item = (usize, Tiles)> {
        let each = (rows / self.tallest()).max(1);
        (0..self.count).step_by(each).map(move |t| {
            let count = each.min(self.count - t);
            let higher = self.higher.saturating_sub(t).min(count);
            (t * self.low + t.min(self.higher), Tiles { rows: count * self.low + higher, count, higher, ..self })
        })
    }

    /// The first row and the number of rows of tile `t`.
    #[inline(always)]
    fn tile(self, t: usize) -> (usize, usize) {
        (t * self.low + t.min(self.higher), self.low + usize::from(t < self.higher))
    }

    /// Those of each tile.
    #[inline(always)]
    fn each(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count).map(move |t| self.tile(t))
    }
}

/// Computes some rows and columns of a product, of which `end` is.
pub fn product<T: GemmFloat>(
    token: Token,
    g: &Gemm,
    plan: &Plan,
    mut p: Product<'_, T>,
    end: &Epilogue<'_, T>,
    scratch: &mut [T],
) {
    let (scratch_b, scratch_a) = scratch.split_at_mut(plan.scratch_b::<T>());
    let (all, n) = (p.c.rows(), p.c.cols());
    let tallest = Tiles::new::<T>(token, all.min(plan.mc)).tallest().max(plan.high);
    for pc in (0..g.k).step_by(plan.kc) {
        let k = plan.kc.min(g.k - pc);
        for jc in (0..n).step_by(plan.nc) {
            let cols = plan.nc.min(n - jc);
            let b = View { data: &p.b[pc * g.b.row + jc * g.b.col..], row: g.b.row, col: g.b.col };
            let mut panels = match (plan.pack_b, plan.by_panel) {
                (false, _) => MicroPanels::InPlace(b),
                (true, false) => MicroPanels::Packed(pack_b(token, &b, k, cols, tallest, scratch_b)),
                (true, true) => MicroPanels::Packing(b, scratch_b, if plan.far { n - jc } else { 0 }),
            };
            for ic in (0..all).step_by(plan.mc) {
                let rows = plan.mc.min(all - ic);
                let mut c = p.c.part(ic..ic + rows, jc..jc + cols);
                let tiles = Tiles::new::<T>(token, rows);
                let a = View { data: &p.a[ic * g.a.row + pc * g.a.col..], row: g.a.row, col: g.a.col };
                // The only block of A stays packed for all columns.
                let fresh = jc == 0 || all > plan.mc;
                let a = if plan.pack_a { pack_a(token, a, tiles, k, scratch_a, fresh) } else { Rows::Strided(a) };
                let add = g.accumulate || pc > 0;
                let part = BlockSums { tiles, tallest, k, c: c.part(0..rows, 0..cols), add, step: end.sgd() };
                part.compute(token, a, &mut panels, &mut ());
                if pc + k == g.k {
                    end.apply(c, (ic, jc));
                    if let Some(to) = &mut p.sums {
                        let (blocks, cols) = (0..to.rows(), jc..jc + cols);
                        sums::add(&p.c.part(0..all, cols.clone()), ic..ic + rows, &mut to.part(blocks, cols));
                    }
                }
            }
        }
    }
}

/// A block of C and the length of the sums to add to it.
pub struct BlockSums<'a, T> {
    /// Its rows.
    pub tiles: Tiles,
    /// Rows of the highest tile that the micro-panels are made for.
    pub tallest: usize,
    /// Terms of the sums.
    pub k: usize,
    /// The block.
    pub c: MatrixMut<'a, T>,
    /// Whether the sums start from what it holds.
    pub add: bool,
    /// A step that it takes by the sums.
    pub step: Option<SgdEpilogue<T>>,
}

/// What is told of the tiles of a block, by their rows and columns.
pub trait TileObserver<T> {
    /// A tile is about to be computed: sets what is fetched meanwhile, for the `next`, which may lie below the block.
    fn before(&mut self, lines: &mut PrefetchQueue, next: impl FnOnce() -> (Range<usize>, Range<usize>));
    /// A tile has been computed, from row `i` and column `j` on.
    fn after(&mut self, i: usize, j: usize, tile: MatrixMut<'_, T>);
}

/// No observer.
impl<T> TileObserver<T> for () {
    #[inline(always)]
    fn before(&mut self, _: &mut PrefetchQueue, _: impl FnOnce() -> (Range<usize>, Range<usize>)) {}
    #[inline(always)]
    fn after(&mut self, _: usize, _: usize, _: MatrixMut<'_, T>) {}
}

/// The micro-panels of a block of B.
pub enum MicroPanels<'a, T> {
    /// Where they are.
    InPlace(View<'a, T>),
    /// All of them, one after the other.
    Packed(&'a [T]),
    /// Packed one at a time, into the same place: it stays in the first caches. Those before the column are fetched
    /// while the one before them is used.
    Packing(View<'a, T>, &'a mut [T], usize),
}

impl<T: GemmFloat> MicroPanels<'_, T> {
    /// The micro-panel of `width` columns from `j`, `k` long, for tiles of up to `tallest` rows.
    #[inline(always)]
    fn at(&mut self, token: Token, j: usize, width: usize, k: usize, tallest: usize) -> View<'_, T> {
        match self {
            MicroPanels::InPlace(b) => View { data: &b.data[j..], row: b.row, col: 1 },
            MicroPanels::Packed(packed) => View { data: &packed[j * k..], row: width, col: 1 },
            MicroPanels::Packing(b, to, _) => {
                let from = View { data: &b.data[j * b.col..], ..*b };
                View { data: pack_b(token, &from, k, width, tallest, to), row: width, col: 1 }
            }
        }
    }

    /// Has the micro-panel from column `j` on, which comes next, fetched during the `tiles` tiles of this one.
    #[inline(always)]
    fn fetch(&self, token: Token, j: usize, (tiles, k): (usize, usize), tallest: usize, lines: &mut PrefetchQueue) {
        let MicroPanels::Packing(b, _, cols) = self else { return };
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

impl<T: GemmFloat> BlockSums<'_, T> {
    /// Computes the block, micro-panel by micro-panel, and tells `watch` of each tile.
    #[inline(always)]
    pub fn compute(self, token: Token, a: Rows<'_, T>, b: &mut MicroPanels<'_, T>, watch: &mut impl TileObserver<T>) {
        let BlockSums { tiles, tallest, k, mut c, add, step } = self;
        let cols = c.cols();
        let ahead = (add || step.is_some()) && k >= LONG;
        let width_at = |j: usize| T::width(token, tallest, cols - j);
        let mut lines = PrefetchQueue::default();
        let mut j = 0;
        while j < cols {
            let width = width_at(j);
            b.fetch(token, j + width, (tiles.count, k), tallest, &mut lines);
            let panel = b.at(token, j, width, k, tallest);
            for (t, (i, height)) in tiles.each().enumerate() {
                watch.before(&mut lines, || {
                    let ((i, height), j) = match (t + 1 < tiles.count, j + width < cols) {
                        (true, _) => (tiles.tile(t + 1), j),
                        (_, true) => (tiles.tile(0), j + width),
                        _ => ((tiles.rows, tiles.tile(0).1), 0),
                    };
                    (i..i + height, j..j + width_at(j))
                });
                let a = match a {
                    Rows::Strided(a) => View { data: &a.data[i * a.row..], ..a },
                    Rows::Panels(data) => View { data: &data[i * k..], row: 1, col: height },
                };
                let t = Tile {
                    a: a.data,
                    a_row: a.row,
                    a_col: a.col,
                    b: panel.data,
                    b_row: panel.row,
                    k,
                    c: c.part(i..i + height, j..j + width),
                    add,
                    ahead,
                    fetch: lines.any(),
                    step,
                };
                T::tile(token, t);
                watch.after(i, j, c.part(i..i + height, j..j + width));
            }
            j += width;
        }
    }
}

/// Copies a block of B, micro-panel after micro-panel: each is one tile wide and `k` long.
pub fn pack_b<'a, T: GemmFloat>(
    token: Token,
    b: &View<'_, T>,
    k: usize,
    cols: usize,
    tallest: usize,
    to: &'a mut [T],
) -> &'a mut [T] {
    let row_panel = if b.col == 1 { ROW_PANEL } else { k };
    for p in (0..k).step_by(row_panel) {
        let mut j = 0;
        while j < cols {
            let inner = T::width(token, tallest, cols - j);
            let src = &b.data[p * b.row + j * b.col..];
            let block = Block { src, outer_step: b.row, inner_step: b.col, outer: row_panel.min(k - p), inner };
            pack(token, block, &mut to[j * k + p * inner..], inner);
            j += inner;
        }
    }
    to
}

/// Copies a block of A, if it is not there yet: what is adjacent along k stays so, all else goes into panels.
pub fn pack_a<'a, T: GemmFloat>(
    token: Token,
    a: View<'_, T>,
    tiles: Tiles,
    k: usize,
    to: &'a mut [T],
    fresh: bool,
) -> Rows<'a, T> {
    if a.row == 1 {
        if fresh {
            panels(a, tiles, k, to);
        }
        return Rows::Panels(to);
    }
    let step = k + PAD;
    if fresh {
        let block = Block { src: a.data, outer_step: a.row, inner_step: a.col, outer: tiles.rows, inner: k };
        pack(token, block, to, step);
    }
    Rows::Strided(View { data: to, row: step, col: 1 })
}

/// Copies a block of A whose columns are contiguous: tile after tile, its columns one after the other.
fn panels<T: GemmFloat>(a: View<'_, T>, tiles: Tiles, k: usize, to: &mut [T]) {
    for p in (0..k).step_by(ROW_PANEL) {
        let row_panel = ROW_PANEL.min(k - p);
        for (i, height) in tiles.each() {
            let panel = &mut to[i * k + p * height..][..row_panel * height];
            match height {
                // A copy of constant length is two moves, any other a call.
                6 => panel.as_chunks_mut::<6>().0.iter_mut().enumerate().for_each(|(q, to)| {
                    to.copy_from_slice(&a.data[(p + q) * a.col + i..][..6]);
                }),
                _ => panel.chunks_exact_mut(height).enumerate().for_each(|(q, to)| {
                    to.copy_from_slice(&a.data[(p + q) * a.col + i..][..height]);
                }),
            }
        }
    }
}
