//! Tiles, blocks of tiles and blocks of channels; and which convolutions are faster by points.

use super::super::conv_plan::largest_divisor;
use super::super::geom::ConvGeom;
use super::points::{POINTS, TAPS, TILE};
use std::ops::Range;

/// Tiles of a block, about.
const TILES: usize = 32;
/// Source channels of a block. What a block has at the points stays in L2, or of many channels in L3.
const CHANNELS: usize = 64;
/// Output channels that are computed together.
pub(super) const GROUP: usize = 64;
/// Lanes that channels are rounded up to.
pub(super) const LANES: usize = 16;
/// Most tiles across an image, and most channels: scratch is bounded by these.
const WIDEST: usize = 128;
const MOST_CHANNELS: usize = 1024;
/// Tiles from which on the products take longer than bringing the taps to the points.
const LEAST: usize = 24;
/// Tiles from which on an image block of the weight gradient takes longer than bringing its sums back to taps.
const LEAST_OF_BLOCK: usize = 128;

/// A correlation of `src_c` planes that gives `dst_c` planes.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct WinogradPlan {
    pub src_c: usize,
    pub src: [usize; 2],
    pub dst_c: usize,
    pub dst: [usize; 2],
    /// Zeros before the image.
    pub pad: [usize; 2],
    /// Tiles down and across.
    pub grid: [usize; 2],
    /// Rows of tiles of a block. They may be of several images.
    pub rows: usize,
    /// Whether it is the input gradient.
    pub back: bool,
}

impl WinogradPlan {
    /// y from x.
    pub fn forward(g: &ConvGeom) -> WinogradPlan {
        WinogradPlan::of(g, false)
    }

    /// dx from dy.
    pub fn backward(g: &ConvGeom) -> WinogradPlan {
        WinogradPlan::of(g, true)
    }

    fn of(g: &ConvGeom, back: bool) -> WinogradPlan {
        let (x, y) = (g.windows.size, g.windows.out());
        let before = g.windows.pad.map(|[before, _]| before);
        let ((src_c, src, dst_c, dst), pad) = match back {
            false => ((g.c_in, x, g.c_out, y), before),
            true => ((g.c_out, y, g.c_in, x), before.map(|p| TAPS - 1 - p)),
        };
        let grid = dst.map(|d| d.div_ceil(TILE));
        let rows = (TILES / grid[1].max(1)).max(1);
        WinogradPlan { src_c, src, dst_c, dst, pad, grid, rows, back }
    }

    /// Tiles of a block.
    pub fn tiles(&self) -> usize {
        self.rows * self.grid[1]
    }

    /// Tiles of an image.
    pub fn all_tiles(&self) -> usize {
        self.grid[0] * self.grid[1]
    }

    /// Elements of an output plane.
    pub fn area(&self) -> usize {
        self.dst[0] * self.dst[1]
    }

    /// Images whose tiles fill a block.
    pub fn fold(&self) -> usize {
        (TILES / self.all_tiles().max(1)).max(1)
    }

    /// Source channels of a block.
    pub fn channels(&self) -> usize {
        CHANNELS.min(self.src_c)
    }

    /// The blocks of source channels.
    pub fn channel_blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (all, some) = (self.src_c, self.channels());
        (0..all).step_by(some).map(move |c| c..all.min(c + some))
    }

    /// The blocks of tiles of `images`, as ranges of rows of tiles, which count through the images.
    pub fn blocks(&self, images: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let (first, end, rows) = (images.start * self.grid[0], images.end * self.grid[0], self.rows);
        (first..end).step_by(rows).map(move |r| r..end.min(r + rows))
    }

    /// The parts of a block that are one image each: the image, its rows of tiles, and the row of the block where they
    /// begin.
    pub fn pieces(&self, block: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> + use<> {
        let (down, first) = (self.grid[0], block.start);
        let mut at = block.start;
        std::iter::from_fn(move || {
            (at < block.end).then(|| {
                let (image, row) = (at / down, at % down);
                let end = down.min(row + block.end - at);
                let piece = (image, row..end, at - first);
                at += end - row;
                piece
            })
        })
    }

    /// Rows of tiles of the largest piece.
    pub fn piece_rows(&self) -> usize {
        self.rows.min(self.grid[0])
    }
}

/// Channels of a row of something, with the lanes filled.
pub(super) fn filled(channels: usize) -> usize {
    channels.next_multiple_of(LANES)
}

/// Elements between two points of something with `tiles` rows of `row` elements. A line more, as the same row at all
/// points would else fall into few sets of a cache.
pub(super) fn point_step(tiles: usize, row: usize) -> usize {
    tiles * row + LANES
}

/// Whether a convolution can be computed so, and takes less time.
pub(in super::super) fn fits_winograd(g: &ConvGeom) -> bool {
    let w = &g.windows;
    let plain = w.kernel == [TAPS; 2] && w.stride == [1; 2] && w.dilation == [1; 2];
    let near = w.pad.iter().flatten().all(|p| *p < TAPS);
    let some = g.c_in.min(g.c_out) >= LANES && g.c_in.max(g.c_out) <= MOST_CHANNELS;
    // Units of the weight gradient that leave most lanes empty take longer.
    if !plain || !near || g.groups != 1 || g.n == 0 || !some || winograd_channels(g) < LANES {
        return false;
    }
    [WinogradPlan::forward(g), WinogradPlan::backward(g)].iter().all(|p| {
        // Tiles that are not full compute positions that are not there.
        let full = p.all_tiles() * POINTS * POINTS * 2 <= p.area() * TAPS * TAPS;
        full && p.grid[1] <= WIDEST && g.n * p.all_tiles() >= LEAST
    })
}

/// Output channels of a unit of the weight gradient.
fn winograd_channels(g: &ConvGeom) -> usize {
    largest_divisor(g.c_out, GROUP)
}

/// (image blocks, output channels of a unit) of the weight gradient: about sixteen units.
pub(in super::super) fn winograd_weight_blocks(g: &ConvGeom) -> (usize, usize) {
    let channels = winograd_channels(g);
    let tiles = g.n * WinogradPlan::forward(g).all_tiles();
    let blocks = (16 * channels / g.c_out).min(tiles / LEAST_OF_BLOCK);
    (blocks.clamp(1, g.n.max(1)), channels)
}
