//! The forward pass and the input gradient by points.

use super::super::conv_micro::ConvMicroEpilogue;
use super::operands::{load_taps, strip_of};
use super::point_products::{PointOperand, multiply_points};
use super::points::{POINTS, TAPS, TILE};
use super::transforms::{TileRow, pixels_of_row, row_of_positions};
use super::winograd_plan::{GROUP, WinogradPlan, filled, point_step};
use crate::abi::MatrixMut;
use crate::gemm::{GemmFloat, transpose};
use crate::scratch::scratch;
use std::ops::Range;

scratch! {
    /// The scratch of `row` output channels.
    struct Work(p: &WinogradPlan, row: usize) {
        /// Taps at the points, for all source channels.
        taps: p.channel_blocks().count() * POINTS * POINTS * p.channels() * row,
        /// Taps of one source channel.
        channel_taps: TAPS * TAPS * row,
        /// The pixels of a piece.
        strip: (p.piece_rows() * TILE + TAPS - 1) * (p.grid[1] * TILE + TAPS - 1) * filled(p.channels()),
        /// Those of a block at the points.
        pixels: POINTS * POINTS * point_step(p.tiles(), filled(p.channels())),
        products: POINTS * POINTS * point_step(p.tiles(), row),
        /// The positions of a row of tiles.
        positions: TILE * TILE * p.grid[1] * row,
    }
}

/// Elements of scratch of a thread.
pub(in super::super) fn winograd_scratch(p: &WinogradPlan) -> usize {
    Work::len(p, filled(p.dst_c.min(GROUP)))
}

/// Computes channels `channels` of images `images`: a row of `dst` for each image.
pub(in super::super) fn correlate_winograd<T: GemmFloat>(
    p: &WinogradPlan,
    (src, weight): (&[T], &[T]),
    epilogue: ConvMicroEpilogue<'_, T>,
    (images, channels): (Range<usize>, Range<usize>),
    mut dst: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let w = Work::cut(p, filled(p.dst_c.min(GROUP)), scratch);
    w.strip.fill(T::ZERO);
    let (plane, pixel) = (p.src[0] * p.src[1], filled(p.channels()));
    for m in channels.clone().step_by(GROUP) {
        let outs = m..channels.end.min(m + GROUP);
        let row = filled(outs.len());
        load_taps(p, weight, outs.clone(), row, w.channel_taps, w.taps);
        let taps_step = p.channels() * row;
        for block in p.blocks(&images) {
            let tiles = block.len() * p.grid[1];
            let steps = [pixel, row].map(|row| point_step(p.tiles(), row));
            for (n, some) in p.channel_blocks().enumerate() {
                for (image, rows, at) in p.pieces(block.clone()) {
                    let (planes, strip) = (&src[(image * p.src_c + some.start) * plane..], strip_of(p, &rows));
                    strip.load(planes, p.src, some.len(), pixel, w.strip);
                    let line = strip.cols * pixel;
                    for r in 0..rows.len() {
                        let own = TileRow { tiles: p.grid[1], channels: pixel, line, step: steps[0] };
                        let to = &mut w.pixels[(at + r) * p.grid[1] * pixel..];
                        pixels_of_row(own, &w.strip[r * TILE * line..], to);
                    }
                }
                let a = PointOperand { of: w.pixels, row: pixel, term: 1, point: steps[0] };
                let taps = &w.taps[n * POINTS * POINTS * taps_step..];
                let b = PointOperand { of: taps, row: 1, term: row, point: taps_step };
                multiply_points([tiles, row, some.len()], a, b, n > 0, (w.products, steps[1]));
            }
            let own = epilogue.of(outs.clone());
            for (image, rows, at) in p.pieces(block) {
                let to = &mut dst.row(image - images.start)[(m - channels.start) * p.area()..];
                for (r, tile_row) in rows.enumerate() {
                    let line = p.grid[1] * TILE * row;
                    let tiles = TileRow { tiles: p.grid[1], channels: row, line, step: steps[1] };
                    row_of_positions(tiles, &w.products[(at + r) * p.grid[1] * row..], w.positions);
                    store_row(p, tile_row, outs.len(), row, w.positions, own, to);
                }
            }
        }
    }
}

/// Stores the positions of row `tile_row` of tiles, `[row][column][channel]`, in `count` planes.
fn store_row<T: GemmFloat>(
    p: &WinogradPlan,
    tile_row: usize,
    count: usize,
    row: usize,
    from: &[T],
    epilogue: ConvMicroEpilogue<'_, T>,
    to: &mut [T],
) {
    let ([h, w], first) = (p.dst, tile_row * TILE);
    let rows = TILE.min(h - first);
    for (i, from) in from.chunks_exact(p.grid[1] * TILE * row).take(rows).enumerate() {
        transpose(from, row, &mut to[(first + i) * w..], p.area(), count, w);
    }
    if epilogue.some() {
        let planes = to.chunks_mut(p.area()).take(count).enumerate();
        planes.for_each(|(c, to)| epilogue.apply(c, &mut to[first * w..][..rows * w]));
    }
}
