//! The general product: cache blocks around register tiles.
//!
//! Blocks of A stay in L2 while strips of B, one tile wide, stay in L1; what a tile could not read well in place is
//! packed into scratch first. Sums that span blocks of k go on from C, so block sizes do not show in the bits.
//! Only `mod.rs` calls this.

use super::desc::Gemm;
use super::epilogue::Epilogue;
use super::operands::Tile;
use super::pack::{Block, pack};
use super::tile::{GemmFloat, Level};

/// Longest sums between two visits of C. A strip of B of 128 bytes a row then takes 64 KiB; the part of it that L1
/// cannot keep streams from L2 at a tenth of what L2 gives.
const DEPTH: usize = 512;
/// Bytes of the block of A: half of a 2 MiB L2.
const BLOCK_A: usize = 1 << 20;
/// Bytes of B that are packed at once.
const BLOCK_B: usize = 256 << 10;
/// Bytes that the widths of all strips but a few divide: the columns of a packed block of B are a multiple.
const STRIPS: usize = 512;
/// Rows of B that are packed side by side before the next ones, so that reads go on along each row.
const BAND: usize = 16;
/// Rows of C from which packing B pays.
pub const MANY_ROWS: usize = 48;
/// Columns of C from which packing A costs next to nothing.
const MANY_COLS: usize = 1024;
/// Distance between rows, in bytes, from which a strip in place falls into few cache sets.
const FAR: usize = 2048;

/// Which operands are packed, and the sizes of the blocks, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pack_a: bool,
    pack_b: bool,
    mc: usize,
    kc: usize,
    nc: usize,
}

impl Plan {
    /// The plan of a product, from its shape alone.
    pub fn new<T>(g: &Gemm) -> Plan {
        let size = size_of::<T>();
        // What is in L2 and spread over its sets is read as fast in place.
        let large_b = g.k * g.n * size > 2 * BLOCK_B || g.b.row * size >= FAR;
        let pack_b = g.b.col != 1 || (g.m >= MANY_ROWS && large_b);
        let aliased_a = (g.a.row.max(g.a.col) * size).is_multiple_of(2 * FAR) && g.n >= MANY_COLS / 4;
        let pack_a = (g.a.col != 1 && g.a.row != 1) || (g.m >= MANY_ROWS && (g.n >= MANY_COLS || aliased_a));
        let kc = g.k.div_ceil(g.k.div_ceil(DEPTH).max(1)).max(1);
        let mc = (BLOCK_A / size / kc).min(g.m);
        let nc = (BLOCK_B / kc / STRIPS).max(1) * (STRIPS / size);
        Plan { pack_a, pack_b, mc, kc, nc: nc.min(g.n) }
    }

    /// Elements of scratch that `product` needs: whole cache lines, so that those of two lanes stay apart.
    pub fn scratch(&self) -> usize {
        (self.scratch_b() + if self.pack_a { (self.mc + PAD) * (self.kc + PAD) } else { 0 }).next_multiple_of(PAD)
    }

    fn scratch_b(&self) -> usize {
        if self.pack_b { (self.kc * self.nc).next_multiple_of(PAD) } else { 0 }
    }
}

/// Elements added to the lines of a packed block of A, so that lines do not share cache sets.
const PAD: usize = 16;

/// Some rows of one product of a batch.
pub struct Product<'a, T> {
    /// A, from the first row.
    pub a: &'a [T],
    /// B.
    pub b: &'a [T],
    /// The rows of C.
    pub c: &'a mut [T],
}

/// A block of an operand, packed or in place.
struct View<'a, T> {
    data: &'a [T],
    row: usize,
    col: usize,
}

/// Computes some rows of a product.
pub fn product<T: GemmFloat>(
    level: Level,
    g: &Gemm,
    plan: &Plan,
    p: Product<'_, T>,
    end: &Epilogue<'_, T>,
    scratch: &mut [T],
) {
    let (scratch_b, scratch_a) = scratch.split_at_mut(plan.scratch_b());
    for (ic, c) in p.c.chunks_mut(plan.mc * g.n).enumerate() {
        let (ic, rows) = (ic * plan.mc, c.len() / g.n);
        for pc in (0..g.k).step_by(plan.kc) {
            let k = plan.kc.min(g.k - pc);
            let a = View { data: &p.a[ic * g.a.row + pc * g.a.col..], row: g.a.row, col: g.a.col };
            let a = if plan.pack_a { pack_a(level, a, rows, k, scratch_a) } else { a };
            for jc in (0..g.n).step_by(plan.nc) {
                let cols = plan.nc.min(g.n - jc);
                let b = View { data: &p.b[pc * g.b.row + jc * g.b.col..], row: g.b.row, col: g.b.col };
                let add = g.accumulate || pc > 0;
                let part = Part { rows, cols, k, c: &mut c[jc..], n: g.n, add };
                let buffer = plan.pack_b.then_some(&mut *scratch_b);
                strips(level, &a, b, part, buffer);
                if pc + k == g.k {
                    end.apply(c, g.n, jc, cols);
                }
            }
        }
    }
}

/// A block of C and the length of the sums to add to it.
struct Part<'a, T> {
    rows: usize,
    cols: usize,
    k: usize,
    c: &'a mut [T],
    n: usize,
    add: bool,
}

/// Computes a block of C, strip by strip.
fn strips<T: GemmFloat>(level: Level, a: &View<'_, T>, b: View<'_, T>, part: Part<'_, T>, buffer: Option<&mut [T]>) {
    let Part { rows, cols, k, c, n, add } = part;
    let (high, _) = T::shape(level, rows);
    let tiles = rows.div_ceil(high);
    let tallest = rows.div_ceil(tiles);
    let packed = buffer.map(|to| &*pack_b(level, &b, k, cols, tallest, to));
    let mut j = 0;
    while j < cols {
        let width = T::width(level, tallest, cols - j);
        let strip = match packed {
            Some(packed) => View { data: &packed[j * k..], row: width, col: 1 },
            None => View { data: &b.data[j..], row: b.row, col: 1 },
        };
        let mut i = 0;
        for t in 0..tiles {
            let height = (rows - i).div_ceil(tiles - t);
            T::tile(
                level,
                Tile {
                    a: &a.data[i * a.row..],
                    a_row: a.row,
                    a_col: a.col,
                    b: strip.data,
                    b_row: strip.row,
                    k,
                    c: &mut c[i * n + j..],
                    c_row: n,
                    rows: height,
                    cols: width,
                    add,
                },
            );
            i += height;
        }
        j += width;
    }
}

/// Copies a block of B, strip after strip: each is one tile wide and `k` long.
fn pack_b<'a, T: GemmFloat>(
    level: Level,
    b: &View<'_, T>,
    k: usize,
    cols: usize,
    tallest: usize,
    to: &'a mut [T],
) -> &'a mut [T] {
    let band = if b.col == 1 { BAND } else { k };
    for p in (0..k).step_by(band) {
        let mut j = 0;
        while j < cols {
            let inner = T::width(level, tallest, cols - j);
            let src = &b.data[p * b.row + j * b.col..];
            let block = Block { src, outer_step: b.row, inner_step: b.col, outer: band.min(k - p), inner };
            pack(level, block, &mut to[j * k + p * inner..], inner);
            j += inner;
        }
    }
    to
}

/// Copies a block of A, keeping its adjacent elements adjacent.
fn pack_a<'a, T: GemmFloat>(level: Level, a: View<'_, T>, rows: usize, k: usize, to: &'a mut [T]) -> View<'a, T> {
    if a.row == 1 {
        let step = rows + PAD;
        pack(level, Block { src: a.data, outer_step: a.col, inner_step: 1, outer: k, inner: rows }, to, step);
        return View { data: to, row: 1, col: step };
    }
    let step = k + PAD;
    pack(level, Block { src: a.data, outer_step: a.row, inner_step: a.col, outer: rows, inner: k }, to, step);
    View { data: to, row: step, col: 1 }
}
