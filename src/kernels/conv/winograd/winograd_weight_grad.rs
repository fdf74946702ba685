//! The weight gradient by points.

use super::super::geom::ConvGeom;
use super::operands::{Strip, strip_of};
use super::point_products::{PointOperand, multiply_points};
use super::points::{POINTS, TAPS, TILE};
use super::transforms::{TileRow, channel_of_taps, pixels_of_row, positions_of_row};
use super::winograd_plan::{WinogradPlan, filled, point_step, winograd_weight_blocks};
use crate::gemm::{GemmFloat, transpose};
use crate::scratch::scratch;
use std::ops::Range;

scratch! {
    /// The scratch of `row` output channels.
    struct Work(p: &WinogradPlan, row: usize) {
        /// The pixels of a piece, and those of a block at the points.
        strip: (p.piece_rows() * TILE + TAPS - 1) * (p.grid[1] * TILE + TAPS - 1) * filled(p.channels()),
        pixels: POINTS * POINTS * point_step(p.tiles(), filled(p.channels())),
        /// The same of dy.
        field: p.piece_rows() * TILE * p.grid[1] * TILE * row,
        positions: POINTS * POINTS * point_step(p.tiles(), row),
        /// Sums at the points, and the taps of one source channel.
        sums: POINTS * POINTS * point_step(p.channels(), row),
        taps: TAPS * TAPS * row,
    }
}

/// Elements of scratch of a thread.
pub(in super::super) fn winograd_weight_scratch(g: &ConvGeom) -> usize {
    Work::len(&WinogradPlan::forward(g), filled(winograd_weight_blocks(g).1))
}

/// Computes the rows `rows` of the parts, which count through the output channels of each image block. `rows` are whole
/// units.
pub(in super::super) fn winograd_weight_grad<T: GemmFloat>(
    g: &ConvGeom,
    (x, dy): (&[T], &[T]),
    rows: Range<usize>,
    dw: &mut [T],
    scratch: &mut [T],
) {
    let p = WinogradPlan::forward(g);
    let (blocks, count) = winograd_weight_blocks(g);
    let (row, pixel, window) = (filled(count), filled(p.channels()), TAPS * TAPS);
    let w = Work::cut(&p, row, scratch);
    // Columns outside of the images, and lanes without a channel.
    w.strip.fill(T::ZERO);
    w.field.fill(T::ZERO);
    let steps = [point_step(p.tiles(), pixel), point_step(p.tiles(), row), point_step(p.channels(), row)];
    let across = p.grid[1];
    for (first, dw) in rows.step_by(count).zip(dw.chunks_exact_mut(count * g.taps())) {
        let (block, m) = (first / g.c_out, first % g.c_out);
        let images = block * g.n / blocks..(block + 1) * g.n / blocks;
        for channels in p.channel_blocks() {
            let mut add = false;
            for tile_rows in p.blocks(&images) {
                for (image, rows, at) in p.pieces(tile_rows.clone()) {
                    let strip = strip_of(&p, &rows);
                    let planes = &x[(image * p.src_c + channels.start) * p.src[0] * p.src[1]..];
                    strip.load(planes, p.src, channels.len(), pixel, w.strip);
                    let (top, cols) = (rows.start * TILE, across * TILE);
                    let field = Strip { rows: rows.len() * TILE, cols, top, left: 0 };
                    field.load(&dy[(image * p.dst_c + m) * p.area()..], p.dst, count, row, w.field);
                    for r in 0..rows.len() {
                        let line = strip.cols * pixel;
                        let own = TileRow { tiles: across, channels: pixel, line, step: steps[0] };
                        let to = &mut w.pixels[(at + r) * across * pixel..];
                        pixels_of_row(own, &w.strip[r * TILE * line..], to);
                        let line = cols * row;
                        let own = TileRow { tiles: across, channels: row, line, step: steps[1] };
                        positions_of_row(own, &w.field[r * TILE * line..], &mut w.positions[(at + r) * across * row..]);
                    }
                }
                let a = PointOperand { of: w.pixels, row: 1, term: pixel, point: steps[0] };
                let b = PointOperand { of: w.positions, row: 1, term: row, point: steps[1] };
                let size = [channels.len(), row, tile_rows.len() * across];
                multiply_points(size, a, b, add, (w.sums, steps[2]));
                add = true;
            }
            for (at, c) in channels.enumerate() {
                channel_of_taps(row, steps[2], &w.sums[at * row..], w.taps);
                transpose(w.taps, row, &mut dw[c * window..], g.taps(), count, window);
            }
        }
    }
}
