//! Products of f32 matrices by bf16 units: operands become one to three bf16 terms each, and sums stay f32.
//!
//! Blocks of A and B are packed into scratch as packed tiles of bf16 pairs, edges filled with zeros, and tiles of 32 ×
//! 32 of C are computed from them. Invariant: which engine computes a product, and whether any does, follows from the
//! CPU and the descriptor; the bits of an element follow from its row, its column and the engine. Only `gemm/mod.rs`
//! and `gemm/desc.rs` call this.

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod amx;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512_bf16;
mod engine;
mod pack;
mod round;
#[cfg(test)]
mod tests;
mod tile;

pub use engine::{Engine, bf16_engine};

use super::desc::Gemm;
use super::epilogue::Epilogue;
use super::prefetch::PrefetchQueue;
use super::sink::TileSink;
use crate::kernels::abi::MatrixMut;
use pack::{Operand, Side, pack};
use std::ops::Range;
use tile::{Machine, Tile};

/// Lines of a packed tile.
const LINES: usize = 16;
/// Places of k in a packed tile.
const PLACES: usize = 32;
/// Words of a cache line.
const LINE: usize = 16;
/// Words of a packed tile.
const PACKED: usize = 256;
/// Sixteen lines by 32 places of k, two bf16 to a word: what a tile register holds.
type PackedTile = [u32; PACKED];

/// How the products of `f32` are computed. Other element types have one way only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Precision {
    /// Products and sums in f32.
    #[default]
    F32 = 0,
    /// Operands split in three bf16 terms, which are all of an f32, and the six larger products of them summed in f32.
    /// An element is off by at most 2⁻²⁴ (1 + 2⁻⁹) Σ|a||b| beside the rounding of the sums: as in f32.
    Bf16x3 = 1,
    /// Operands split in two bf16 terms, the three larger products of them summed in f32. An element is off by at most
    /// 2⁻¹⁵ (1 + 2⁻⁹) Σ|a||b| beside the rounding of the sums.
    Bf16x2 = 2,
    /// Operands rounded to bf16, sums in f32. An element is off by at most 2⁻⁷ (1 + 2⁻⁹) Σ|a||b| beside the rounding of
    /// the sums.
    Bf16 = 3,
}

impl Precision {
    /// All of them, by their number, with their names.
    pub const ALL: [(Precision, &'static str); 4] = [
        (Precision::F32, "f32"),
        (Precision::Bf16x3, "bf16x3"),
        (Precision::Bf16x2, "bf16x2"),
        (Precision::Bf16, "bf16"),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Precision::ALL[self as usize].1
    }

    /// The precision called `name`.
    pub fn named(name: &str) -> Option<Precision> {
        Precision::ALL.iter().find(|p| p.1 == name).map(|p| p.0)
    }

    /// What this CPU computes products in that ask for this precision and are large enough: those of several terms cost
    /// more than those of f32, but by tiles of AMX.
    pub fn here(self) -> Precision {
        if self.splits() == 1 || Engine::current() == Engine::Amx { self } else { Precision::F32 }
    }

    /// The name, and what is computed instead where that differs: `bf16x3 (as f32)`.
    pub fn report(self) -> String {
        let (asked, here) = (self.name(), self.here().name());
        if asked == here { asked.to_string() } else { format!("{asked} (as {here})") }
    }

    /// Terms of an operand.
    fn splits(self) -> usize {
        match self {
            Precision::F32 | Precision::Bf16 => 1,
            Precision::Bf16x2 => 2,
            Precision::Bf16x3 => 3,
        }
    }
}

/// Sizes of blocks, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    splits: usize,
    /// Rows whose A is packed at once, all of k.
    mc: usize,
    /// Rows whose A stays in L2 beside a block of B.
    mr: usize,
    kc: usize,
    nc: usize,
    /// Sums that are kept beside C: those of one tile, of rows whose A stays in L2, or of all whose A is packed.
    sums: usize,
}

/// Words of A packed at once, 8 MiB: B is packed once for that many rows, which costs as much as the products of a
/// hundred.
const WORDS_A: usize = 2 << 20;
/// Words of the part of it that stays in L2.
const WORDS_NEAR: usize = 192 << 10;
/// Words of a block of B.
const WORDS_B: usize = 96 << 10;
/// Longest sums between two visits of the same tile.
const DEPTH: usize = 512;
/// Most rows of sums that are kept beside C.
const KEPT: usize = 512;
/// Side of the largest tile.
const SIDE: usize = 2 * LINES;

impl Plan {
    /// The plan of a product that bf16 units compute; `None` if f32 units do: for element types other than f32,
    /// products asked for in f32, and those that are faster there.
    pub fn new<T: 'static>(g: &Gemm) -> Option<Plan> {
        let asked = g.precision != Precision::F32 && std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>();
        (asked && pays(Engine::current(), g)).then(|| Plan::of(g))
    }

    fn of(g: &Gemm) -> Plan {
        let splits = g.precision.splits();
        let blocks = g.k.div_ceil(DEPTH).max(1);
        let kc = g.k.div_ceil(blocks).next_multiple_of(PLACES).max(PLACES);
        let rows = |words: usize, k: usize| (2 * words / splits / k / SIDE).max(1) * SIDE;
        // Where sums go on from block to block of k, those of all rows of A that are packed are kept.
        let most = if blocks > 1 { KEPT } else { usize::MAX };
        let all = rows(WORDS_A, g.k.next_multiple_of(PLACES).max(PLACES)).min(g.m.next_multiple_of(SIDE));
        let mc = all.min(most);
        let mr = rows(WORDS_NEAR, kc).min(KEPT).min(mc);
        let nc = rows(WORDS_B, kc).min(g.n.next_multiple_of(SIDE));
        let sums = match (blocks > 1, g.accumulate) {
            (true, _) => mc * nc,
            (false, true) => mr * nc,
            (false, false) => SIDE * SIDE,
        };
        Plan { splits, mc, mr, kc, nc, sums }
    }

    fn cells_a(&self, k: usize) -> usize {
        self.mc / LINES * k.div_ceil(PLACES) * self.splits
    }

    fn cells_b(&self) -> usize {
        self.nc / LINES * (self.kc / PLACES) * self.splits
    }

    /// Elements of scratch that `product` needs.
    pub fn scratch(&self, k: usize) -> usize {
        (self.cells_a(k) + self.cells_b()) * PACKED + self.sums + LINE
    }
}

/// Whether bf16 units are faster: what packing costs must be small beside the product. The shapes follow from
/// `cargo bench --bench gemm -- --precision`.
fn pays(engine: Engine, g: &Gemm) -> bool {
    // A lone row is divided among threads inside, and waits for memory in any precision.
    if g.m == 1 || g.n == 1 || g.k == 0 {
        return false;
    }
    // B is packed for whole tiles of rows, A for whole tiles of columns; a tile is computed whole, for whole packed
    // tiles of k.
    let least = |m: usize, n: usize, k: usize, work: usize| {
        g.m >= m && g.n >= n && g.k >= k && g.m.saturating_mul(g.n).saturating_mul(g.k) >= work
    };
    match (engine, g.precision.splits()) {
        (_, 1) => engine == Engine::Portable || least(16, 32, 16, 1 << 17),
        // As `Precision::here` says.
        (Engine::Portable | Engine::Avx512, _) => false,
        (Engine::Amx, 2) => least(if g.b.col != 1 { 32 } else { 64 }, 32, 32, 1 << 20),
        (Engine::Amx, _) => least(64, 64, 32, 1 << 20),
    }
}

/// Where sums go when they are whole. Rows and columns are counted from the first that are computed.
pub trait Output {
    /// What some sums begin from, where the product accumulates.
    fn old(&mut self, rows: Range<usize>, cols: Range<usize>) -> Option<MatrixMut<'_, f32>>;
    /// Gets a tile of sums, in rows of [`SIDE`].
    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>);
    /// Hears that all tiles of a block have been there.
    fn block(&mut self, rows: Range<usize>, cols: Range<usize>);
}

/// Some rows and columns of C, and what is done to them at last.
pub struct IntoMatrix<'a, 'e> {
    /// That part of C.
    pub c: MatrixMut<'a, f32>,
    /// What is done to it.
    pub end: &'e Epilogue<'e, f32>,
}

impl Output for IntoMatrix<'_, '_> {
    fn old(&mut self, rows: Range<usize>, cols: Range<usize>) -> Option<MatrixMut<'_, f32>> {
        Some(self.c.part(rows, cols))
    }

    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>) {
        let bias = self.end.bias.map_or(&[][..], |bias| &bias[cols.clone()]);
        leave(tile, &mut self.c.part(rows, cols), bias);
    }

    fn block(&mut self, rows: Range<usize>, cols: Range<usize>) {
        let at = (rows.start, cols.start);
        self.end.activate(self.c.part(rows, cols), at);
    }
}

/// The sink of the tiles of a product of this many rows and columns.
pub struct IntoSink<'t, K> {
    /// Who.
    pub to: &'t mut K,
    /// Rows and columns of all tiles.
    pub size: (usize, usize),
}

impl<K: TileSink<f32>> Output for IntoSink<'_, K> {
    fn old(&mut self, _: Range<usize>, _: Range<usize>) -> Option<MatrixMut<'_, f32>> {
        None
    }

    fn tile(&mut self, tile: &mut [f32], rows: Range<usize>, cols: Range<usize>) {
        // The next tile of the row comes next, but at the end of a block.
        let mut lines = PrefetchQueue::default();
        if cols.end < self.size.1 {
            self.to.prefetch(rows.clone(), cols.end..(cols.end + SIDE).min(self.size.1), &mut lines);
        }
        if let Some(lines) = lines.any() {
            lines.spread(1, 1);
            lines.visit();
        }
        let mut tile = MatrixMut::new(tile, SIDE, SIDE);
        self.to.consume(rows.start, cols.start, tile.part(0..rows.len(), 0..cols.len()));
    }

    fn block(&mut self, _: Range<usize>, _: Range<usize>) {}
}

/// Computes a block of rows and columns of one product of a batch, from `a` and `b`, which begin with those.
pub fn product(
    engine: Engine,
    g: &Gemm,
    plan: &Plan,
    (a, b): (&[f32], &[f32]),
    (all, n): (usize, usize),
    to: &mut impl Output,
    scratch: &mut [f32],
) {
    let machine = Machine::new(engine);
    // Rows of a packed tile are cache lines, if packed tiles begin with one.
    let from = scratch.as_ptr().align_offset(4 * LINE).min(LINE);
    let (sums, cells) = scratch[from..].split_at_mut(plan.sums);
    let cells = bytemuck::cast_slice_mut::<f32, u32>(cells).as_chunks_mut::<PACKED>().0;
    let (cells_a, cells_b) = cells.split_at_mut(plan.cells_a(g.k));
    for ic in (0..all).step_by(plan.mc) {
        let rows = plan.mc.min(all - ic);
        let a = Operand { data: &a[ic * g.a.row..], line: g.a.row, place: g.a.col };
        let nonfinite_a = pack_a(engine, g, plan, a, rows, cells_a);
        for jc in (0..n).step_by(plan.nc) {
            let cols = plan.nc.min(n - jc);
            let b = Operand { data: &b[jc * g.b.col..], line: g.b.col, place: g.b.row };
            let mut nonfinite = nonfinite_a;
            for pc in (0..g.k).step_by(plan.kc) {
                let k = plan.kc.min(g.k - pc);
                let block = Block { cols, cells: k.div_ceil(PLACES) * plan.splits };
                let part = Operand { data: &b.data[pc * b.place..], ..b };
                nonfinite |= pack_b(engine, plan, part, &block, k, cells_b);
                let from = pc.div_ceil(PLACES) * rows.div_ceil(LINES) * plan.splits;
                for at in (0..rows).step_by(plan.mr) {
                    let lines = plan.mr.min(rows - at);
                    let sums = &mut sums[if plan.sums > plan.mr * plan.nc { at * plan.nc } else { 0 }..];
                    let (row, columns) = (ic + at, jc..jc + cols);
                    if g.accumulate
                        && pc == 0
                        && let Some(mut c) = to.old(row..row + lines, columns.clone())
                    {
                        block.fetch(&mut c, sums);
                    }
                    let packed = (&cells_a[from + at / LINES * block.cells..], &*cells_b);
                    let add = g.accumulate || pc > 0;
                    if pc + k < g.k {
                        block.tiles(&machine, plan, packed, (sums, add), lines, None);
                        continue;
                    }
                    let mut last = |tile: &mut [f32], i: Range<usize>, j: Range<usize>| {
                        if nonfinite {
                            let (a, b) = (a.from(at + i.start), b.from(j.start));
                            unsplit(a, b, g.k, &mut MatrixMut::new(tile, SIDE, SIDE).part(0..i.len(), 0..j.len()));
                        }
                        to.tile(tile, row + i.start..row + i.end, jc + j.start..jc + j.end);
                    };
                    block.tiles(&machine, plan, packed, (sums, add), lines, Some(&mut last));
                    to.block(row..row + lines, columns);
                }
            }
        }
    }
}

/// Packs all of some rows of A: block of k after block of k, strip after strip.
fn pack_a(engine: Engine, g: &Gemm, plan: &Plan, a: Operand<'_>, rows: usize, to: &mut [PackedTile]) -> bool {
    let (mut nonfinite, mut rest) = (false, to);
    for pc in (0..g.k).step_by(plan.kc) {
        let k = plan.kc.min(g.k - pc);
        let (to, later) = rest.split_at_mut(rows.div_ceil(LINES) * k.div_ceil(PLACES) * plan.splits);
        nonfinite |= pack(engine, Operand { data: &a.data[pc * a.place..], ..a }, Side::A, (rows, k), plan.splits, to);
        rest = later;
    }
    nonfinite
}

/// Packs a block of B, an even number of strips.
fn pack_b(engine: Engine, plan: &Plan, b: Operand<'_>, block: &Block, k: usize, to: &mut [PackedTile]) -> bool {
    let strips = block.cols.div_ceil(LINES);
    if strips % 2 == 1 {
        to[strips * block.cells..][..block.cells].fill([0; PACKED]);
    }
    pack(engine, b, Side::B, (block.cols, k), plan.splits, to)
}

/// Copies a row of a tile. One of constant length is a few moves, any other a call.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    match (from.first_chunk::<SIDE>(), to.first_chunk_mut::<SIDE>()) {
        (Some(from), Some(to)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

crate::simd! {
    /// Copies a tile's rows of sums, with the bias if there is one, to a tile of C.
    fn leave(tile: &[f32], c: &mut MatrixMut<'_, f32>, bias: &[f32]) {
        let lines = tile.as_chunks::<SIDE>().0.iter().take(c.rows()).enumerate();
        if let (SIDE, Some(bias)) = (c.cols(), bias.first_chunk::<SIDE>()) {
            for (i, sums) in lines {
                if let Some(c) = c.row(i).first_chunk_mut::<SIDE>() {
                    c.iter_mut().zip(sums).zip(bias).for_each(|((c, sum), bias)| *c = *sum + *bias);
                }
            }
            return;
        }
        for (i, sums) in lines {
            let c = c.row(i);
            copy(&sums[..c.len()], c);
            c.iter_mut().zip(bias).for_each(|(c, bias)| *c += *bias);
        }
    }
}

/// Gets tiles of whole sums: their rows and columns of the block.
type Last<'a> = &'a mut dyn FnMut(&mut [f32], Range<usize>, Range<usize>);

/// A block of columns of some rows of C, and the length of the sums to add to it.
struct Block {
    cols: usize,
    /// Cells of a strip.
    cells: usize,
}

impl Block {
    /// Computes `rows` rows of sums from packed rows of A and columns of B. Sums lie tile after tile: where rows of C
    /// are a power of two apart, a tile of C in place would fall into a few cache sets. `last` gets the last sums, tile
    /// by tile; if they are the first as well, all tiles take the same place.
    fn tiles(
        &self,
        machine: &Machine,
        plan: &Plan,
        (a, b): (&[PackedTile], &[PackedTile]),
        (sums, add): (&mut [f32], bool),
        rows: usize,
        mut last: Option<Last<'_>>,
    ) {
        let len = self.cells;
        let across = self.cols.div_ceil(SIDE);
        let apart = if add || last.is_none() { SIDE * SIDE } else { 0 };
        let down = rows.div_ceil(SIDE);
        for t in 0..down * across {
            // Tiles leave by rows, as what they go to lies.
            let (i, j) = if last.is_some() { (t / across, t % across) } else { (t % down, t / down) };
            let at = 2 * j * len;
            let b = [&b[at..at + len], &b[at + len..at + 2 * len]];
            let columns = j * SIDE..((j + 1) * SIDE).min(self.cols);
            let at = 2 * i * len;
            let low = rows - i * SIDE > LINES;
            let strips = [&a[at..at + len], if low { &a[at + len..at + 2 * len] } else { &[] }];
            let tile = &mut sums[(i * across + j) * apart..][..SIDE * SIDE];
            let strips = &strips[..1 + usize::from(low)];
            machine.tile(Tile { splits: plan.splits, a: strips, b, c: &mut *tile, c_row: SIDE, add });
            if let Some(last) = &mut last {
                last(tile, i * SIDE..((i + 1) * SIDE).min(rows), columns);
            }
        }
    }

    /// Copies rows of C to where their sums go on.
    fn fetch(&self, c: &mut MatrixMut<'_, f32>, sums: &mut [f32]) {
        let across = self.cols.div_ceil(SIDE);
        for i in 0..c.rows() {
            let line = i / SIDE * across * SIDE * SIDE + i % SIDE * SIDE;
            for (sum, c) in sums[line..].chunks_mut(SIDE * SIDE).zip(c.row(i).chunks(SIDE)) {
                copy(c, &mut sum[..c.len()]);
            }
        }
    }
}

/// Adds the products that have an infinite or undefined factor, which split operands leave out.
#[cold]
fn unsplit(a: Operand<'_>, b: Operand<'_>, k: usize, c: &mut MatrixMut<'_, f32>) {
    let of = |x: Operand<'_>, line: usize, place: usize| x.data[line * x.line + place * x.place];
    let (rows, cols) = (c.rows(), c.cols());
    for i in 0..rows {
        let row = c.row(i);
        for p in (0..k).filter(|&p| !of(a, i, p).is_finite()) {
            let x = of(a, i, p);
            row.iter_mut().enumerate().for_each(|(j, c)| *c += x * of(b, j, p));
            if row.iter().all(|c| c.is_nan()) {
                break;
            }
        }
    }
    for j in 0..cols {
        for p in (0..k).filter(|&p| !of(b, j, p).is_finite()) {
            let y = of(b, j, p);
            let mut numbers = 0;
            for i in (0..rows).filter(|&i| of(a, i, p).is_finite()) {
                let c = &mut c.row(i)[j];
                *c += of(a, i, p) * y;
                numbers += usize::from(!c.is_nan());
            }
            if numbers == 0 && (0..rows).all(|i| c.row(i)[j].is_nan()) {
                break;
            }
        }
    }
}
