//! Pixels and taps with adjacent channels, and at the points.

use super::points::{POINTS, TAPS, TILE};
use super::transforms::taps_of_channel;
use super::winograd_plan::WinogradPlan;
use crate::gemm::{GemmFloat, transpose};
use std::ops::Range;

/// A window over planes: `rows` × `cols` pixels from row `top` and `left` columns before the first on. What lies
/// outside is zero.
pub(super) struct Strip {
    pub rows: usize,
    pub cols: usize,
    /// The first row; wraps where it is before the image.
    pub top: usize,
    pub left: usize,
}

impl Strip {
    /// Copies the pixels of `count` planes of `[h, w]` as `[row][column][channel]` with `row` channels. Columns outside
    /// of the image keep the zeros that they have.
    pub fn load<T: GemmFloat>(&self, planes: &[T], [h, w]: [usize; 2], count: usize, row: usize, to: &mut [T]) {
        let width = w.min(self.cols - self.left);
        for (i, to) in to.chunks_exact_mut(self.cols * row).take(self.rows).enumerate() {
            let from = self.top.wrapping_add(i);
            let to = &mut to[self.left * row..][..width * row];
            if from < h {
                transpose(&planes[from * w..], h * w, to, row, width, count);
            } else {
                to.fill(T::ZERO);
            }
        }
    }
}

/// The taps of output channels `outs` for all source channels at the points: for each block of source channels
/// `[point][source channel][output channel]` with rows of `row`.
pub(super) fn load_taps<T: GemmFloat>(
    p: &WinogradPlan,
    weight: &[T],
    outs: Range<usize>,
    row: usize,
    work: &mut [T],
    to: &mut [T],
) {
    let window = TAPS * TAPS;
    // What is between the elements of output channels and of source channels.
    let (dst, src) = if p.back { (window, p.dst_c * window) } else { (p.src_c * window, window) };
    work[..window * row].fill(T::ZERO);
    let step = p.channels() * row;
    for (channels, to) in p.channel_blocks().zip(to.chunks_mut(POINTS * POINTS * step)) {
        for (at, c) in channels.enumerate() {
            transpose(&weight[outs.start * dst + c * src..], dst, work, row, window, outs.len());
            if p.back {
                // The kernel is turned around.
                for k in 0..window / 2 {
                    let (low, high) = work[..window * row].split_at_mut((window - 1 - k) * row);
                    low[k * row..][..row].swap_with_slice(&mut high[..row]);
                }
            }
            taps_of_channel(row, step, work, &mut to[at * row..]);
        }
    }
}

/// The strip of pixels that rows `rows` of tiles read.
pub(super) fn strip_of(p: &WinogradPlan, rows: &Range<usize>) -> Strip {
    Strip {
        rows: rows.len() * TILE + TAPS - 1,
        cols: p.grid[1] * TILE + TAPS - 1,
        top: (rows.start * TILE).wrapping_sub(p.pad[0]),
        left: p.pad[1],
    }
}
