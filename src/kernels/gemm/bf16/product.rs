//! Products by a bf16 engine: cache blocks around tiles of 32 × 32.
//!
//! Sums of a tile are in scratch until they are complete. Invariant: the bits of an element follow from its row, its
//! column, the descriptor and the engine.

use super::engine::Bf16Engine;
use super::operands::Tile;
use super::output::{Bf16Output, copy_tile_row};
use super::pack::lay_out_lines;
use super::packed::{DEPTH, LINE, LINES, PACKED, PackedSource, PackedTile, SIDE, Side};
use super::plan::Bf16Plan;
use super::tile::Bf16TileMachine;
use crate::abi::MatrixMut;
use crate::gemm::gemm_desc::Gemm;
use std::ops::Range;

/// Computes a block of `all` rows and `n` columns of one product of a batch. `a` begins at its first row, `b` at its
/// first column. `scratch` has [`Bf16Plan::scratch`] elements.
pub fn multiply_in_bf16(
    engine: Bf16Engine,
    g: &Gemm,
    plan: &Bf16Plan,
    (a, b): (&[f32], &[f32]),
    (all, n): (usize, usize),
    to: &mut impl Bf16Output,
    scratch: &mut [f32],
) {
    let machine = Bf16TileMachine::new(engine);
    // Rows of a packed tile are whole cache lines if the first packed tile begins at one.
    let from = scratch.as_ptr().align_offset(4 * LINE).min(LINE);
    let (sums, packed) = scratch[from..].split_at_mut(plan.sums);
    let packed = bytemuck::cast_slice_mut::<f32, u32>(packed).as_chunks_mut::<PACKED>().0;
    let (packed_a, packed_b) = packed.split_at_mut(plan.packed_a(g.k));
    for ic in (0..all).step_by(plan.mc) {
        let rows = plan.mc.min(all - ic);
        let a = PackedSource { data: &a[ic * g.a.row..], line_step: g.a.row, k_step: g.a.col };
        let nonfinite_a = pack_rows_of_a(engine, g, plan, a, rows, packed_a);
        for jc in (0..n).step_by(plan.nc) {
            let cols = plan.nc.min(n - jc);
            let b = PackedSource { data: &b[jc * g.b.col..], line_step: g.b.col, k_step: g.b.row };
            let mut nonfinite = nonfinite_a;
            for pc in (0..g.k).step_by(plan.kc) {
                let k = plan.kc.min(g.k - pc);
                let block = Bf16ProductBlock { cols, panel: k.div_ceil(DEPTH) * plan.splits };
                let part = PackedSource { data: &b.data[pc * b.k_step..], ..b };
                nonfinite |= pack_block_of_b(engine, plan, part, &block, k, packed_b);
                let from = pc.div_ceil(DEPTH) * rows.div_ceil(LINES) * plan.splits;
                for at in (0..rows).step_by(plan.mr) {
                    let lines = plan.mr.min(rows - at);
                    let sums = &mut sums[if plan.sums > plan.mr * plan.nc { at * plan.nc } else { 0 }..];
                    let (row, columns) = (ic + at, jc..jc + cols);
                    if g.accumulate
                        && pc == 0
                        && let Some(mut c) = to.old(row..row + lines, columns.clone())
                    {
                        block.load(&mut c, sums);
                    }
                    let packed = (&packed_a[from + at / LINES * block.panel..], &*packed_b);
                    let add = g.accumulate || pc > 0;
                    if pc + k < g.k {
                        block.tiles(&machine, plan, packed, (sums, add), lines, None);
                        continue;
                    }
                    let mut last = |tile: &mut [f32], i: Range<usize>, j: Range<usize>| {
                        if nonfinite {
                            let (a, b) = (a.from(at + i.start), b.from(j.start));
                            add_unsplit(a, b, g.k, &mut MatrixMut::new(tile, SIDE, SIDE).part(0..i.len(), 0..j.len()));
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

/// Packs rows of A for all of k: block of k after block of k, micro-panel after micro-panel. Returns what
/// [`lay_out_lines`] returns.
fn pack_rows_of_a(
    engine: Bf16Engine,
    g: &Gemm,
    plan: &Bf16Plan,
    a: PackedSource<'_>,
    rows: usize,
    to: &mut [PackedTile],
) -> bool {
    let (mut nonfinite, mut rest) = (false, to);
    for pc in (0..g.k).step_by(plan.kc) {
        let k = plan.kc.min(g.k - pc);
        let (to, later) = rest.split_at_mut(rows.div_ceil(LINES) * k.div_ceil(DEPTH) * plan.splits);
        nonfinite |= lay_out_lines(
            engine,
            PackedSource { data: &a.data[pc * a.k_step..], ..a },
            Side::A,
            (rows, k),
            plan.splits,
            to,
        );
        rest = later;
    }
    nonfinite
}

/// Packs a block of B, with an even number of micro-panels. Returns what [`lay_out_lines`] returns.
fn pack_block_of_b(
    engine: Bf16Engine,
    plan: &Bf16Plan,
    b: PackedSource<'_>,
    block: &Bf16ProductBlock,
    k: usize,
    to: &mut [PackedTile],
) -> bool {
    let panels = block.cols.div_ceil(LINES);
    if panels % 2 == 1 {
        to[panels * block.panel..][..block.panel].fill([0; PACKED]);
    }
    lay_out_lines(engine, b, Side::B, (block.cols, k), plan.splits, to)
}

/// Receives tiles of complete sums, with their rows and columns in the block.
type Last<'a> = &'a mut dyn FnMut(&mut [f32], Range<usize>, Range<usize>);

/// A block of C and the sums over one block of k that are added to it.
struct Bf16ProductBlock {
    /// Columns.
    cols: usize,
    /// Packed tiles of a micro-panel.
    panel: usize,
}

impl Bf16ProductBlock {
    /// Computes `rows` rows of sums from packed A and B. Sums are stored tile after tile, because a tile in place would
    /// fall into a few cache sets where rows of C are a power of two apart. `last` receives complete sums tile by tile.
    /// If sums start from 0 as well, all tiles share the memory of one.
    fn tiles(
        &self,
        machine: &Bf16TileMachine,
        plan: &Bf16Plan,
        (a, b): (&[PackedTile], &[PackedTile]),
        (sums, add): (&mut [f32], bool),
        rows: usize,
        mut last: Option<Last<'_>>,
    ) {
        let len = self.panel;
        let across = self.cols.div_ceil(SIDE);
        let apart = if add || last.is_none() { SIDE * SIDE } else { 0 };
        let down = rows.div_ceil(SIDE);
        for t in 0..down * across {
            // Complete tiles go row by row, as their destination is laid out.
            let (i, j) = if last.is_some() { (t / across, t % across) } else { (t % down, t / down) };
            let at = 2 * j * len;
            let b = [&b[at..at + len], &b[at + len..at + 2 * len]];
            let columns = j * SIDE..((j + 1) * SIDE).min(self.cols);
            let at = 2 * i * len;
            let low = rows - i * SIDE > LINES;
            let panels = [&a[at..at + len], if low { &a[at + len..at + 2 * len] } else { &[] }];
            let tile = &mut sums[(i * across + j) * apart..][..SIDE * SIDE];
            let panels = &panels[..1 + usize::from(low)];
            machine.tile(Tile { splits: plan.splits, a: panels, b, c: &mut *tile, c_row: SIDE, add });
            if let Some(last) = &mut last {
                last(tile, i * SIDE..((i + 1) * SIDE).min(rows), columns);
            }
        }
    }

    /// Copies rows of C to the sums that start from them.
    fn load(&self, c: &mut MatrixMut<'_, f32>, sums: &mut [f32]) {
        let across = self.cols.div_ceil(SIDE);
        for i in 0..c.rows() {
            let line = i / SIDE * across * SIDE * SIDE + i % SIDE * SIDE;
            for (sum, c) in sums[line..].chunks_mut(SIDE * SIDE).zip(c.row(i).chunks(SIDE)) {
                copy_tile_row(c, &mut sum[..c.len()]);
            }
        }
    }
}

/// Adds the products with an infinite or NaN factor, which splits leave out.
#[cold]
fn add_unsplit(a: PackedSource<'_>, b: PackedSource<'_>, k: usize, c: &mut MatrixMut<'_, f32>) {
    let of = |x: PackedSource<'_>, line: usize, p: usize| x.data[line * x.line_step + p * x.k_step];
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
