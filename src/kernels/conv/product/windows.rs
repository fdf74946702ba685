//! Windows of images as columns of a matrix: a row for each (channel, tap), a column for each position of some images.
//!
//! Invariant: every element of the block is written, those that see padding as 0.

use super::super::geom::ConvGeom;
use crate::float::Float;
use crate::simd;
use std::ops::Range;

/// Calls `f(image, row, columns, at)` for each part of a row of `size` = [rows, columns] that lies in `positions`,
/// which count through the positions of all images; `at` counts from the first of them.
pub(super) fn each_row_part(
    size: [usize; 2],
    positions: Range<usize>,
    mut f: impl FnMut(usize, usize, Range<usize>, usize),
) {
    let [rows, cols] = size;
    let mut at = positions.start;
    while at < positions.end {
        let (line, col) = (at / cols, at % cols);
        let end = cols.min(col + positions.end - at);
        f(line / rows, line % rows, col..end, at - positions.start);
        at += end - col;
    }
}

/// Writes the windows of channels `channels` of a group at `positions` of the images from `image` on: tap `t` of the
/// `c`-th of these channels is row `c · kh · kw + t` of `to`, whose rows are `step` apart.
pub(super) fn load_windows<T: Float>(
    g: &ConvGeom,
    x: &[T],
    (image, group): (usize, usize),
    channels: Range<usize>,
    positions: Range<usize>,
    to: &mut [T],
    step: usize,
) {
    let (plane, each, s) = (g.windows.size[0] * g.windows.size[1], g.c_in / g.groups, g.windows.stride[1]);
    each_row_part([g.windows.out()[0], g.windows.out()[1]], positions, |offset, row, cols, at| {
        let planes = &x[((image + offset) * g.c_in + group * each + channels.start) * plane..];
        for tap in 0..g.window() {
            let (i, j) = (tap / g.windows.kernel[1], tap % g.windows.kernel[1] * g.windows.dilation[1]);
            let line = (row * g.windows.stride[0] + i * g.windows.dilation[0]).wrapping_sub(g.windows.pad[0][0]);
            // Positions from `lo` to `hi` see the image.
            let lo = g.windows.pad[1][0].saturating_sub(j).div_ceil(s).clamp(cols.start, cols.end);
            let hi = (g.windows.size[1] + g.windows.pad[1][0]).saturating_sub(j).div_ceil(s).clamp(lo, cols.end);
            let (lo, hi) = if line < g.windows.size[0] { (lo, hi) } else { (cols.end, cols.end) };
            let lines = Lines {
                plane,
                taps: g.window() * step,
                count: channels.len(),
                zeros: [lo - cols.start, cols.end - hi],
                width: hi - lo,
            };
            let from =
                if hi > lo { &planes[line * g.windows.size[1] + lo * s + j - g.windows.pad[1][0]..] } else { planes };
            copy_lines(s, from, lines, &mut to[tap * step + at..]);
        }
    });
}

/// A part of a row of each of some channels.
#[derive(Clone, Copy)]
struct Lines {
    /// Elements from channel to channel, in the image and in the block.
    plane: usize,
    taps: usize,
    /// Channels.
    count: usize,
    /// Positions before and after the image.
    zeros: [usize; 2],
    /// Positions inside the image.
    width: usize,
}

/// Copies every `s`-th element of parts of rows.
fn copy_lines<T: Float>(s: usize, from: &[T], l: Lines, to: &mut [T]) {
    match (s, l.width) {
        (_, 0) => (0..l.count).for_each(|c| to[c * l.taps..][..l.zeros[0] + l.zeros[1]].fill(T::ZERO)),
        (1, 1..4) => copy_window_lines(Pieces::<1, 1>, from, l, to),
        (1, 4..8) => copy_window_lines(Pieces::<1, 4>, from, l, to),
        (1, 8..16) => copy_window_lines(Pieces::<1, 8>, from, l, to),
        (1, _) => copy_window_lines(Pieces::<1, 16>, from, l, to),
        (2, 1..4) => copy_window_lines(Pieces::<2, 1>, from, l, to),
        (2, 4..8) => copy_window_lines(Pieces::<2, 4>, from, l, to),
        (2, 8..16) => copy_window_lines(Pieces::<2, 8>, from, l, to),
        (2, _) => copy_window_lines(Pieces::<2, 16>, from, l, to),
        _ => copy_distant_elements(s, from, l, to),
    }
}

/// Pieces of `L` elements, `S` apart.
struct Pieces<const S: usize, const L: usize>;

/// Every `S`-th element, by two loads and a shuffle.
#[inline(always)]
fn pick<T: Float, const S: usize, const L: usize>(from: &[T]) -> [T; L] {
    let from = &from[..S * (L - 1) + 1];
    let (mut low, mut high) = ([T::ZERO; L], [T::ZERO; L]);
    low.copy_from_slice(&from[..L]);
    high.copy_from_slice(&from[from.len() - L..]);
    let mut all = low;
    for i in 0..L {
        all[i] = if S * i < L { low[S * i] } else { high[S * i - (S - 1) * (L - 1)] };
    }
    all
}

simd! {
    /// [`copy_lines`] for a width of at least `L`: pieces of `L`, the last one overlapping the one before.
    fn copy_window_lines[T: Float, const S: usize, const L: usize](
        _p: Pieces<S, L>, from: &[T], l: Lines, to: &mut [T],
    ) {
        let [before, after] = l.zeros;
        let tail = l.width - L;
        for c in 0..l.count {
            let line = &from[c * l.plane..][..S * (l.width - 1) + 1];
            let to = &mut to[c * l.taps..][..before + l.width + after];
            match before {
                0 => {}
                1 => to[0] = T::ZERO,
                _ => to[..before].fill(T::ZERO),
            }
            match after {
                0 => {}
                1 => to[before + l.width] = T::ZERO,
                _ => to[before + l.width..].fill(T::ZERO),
            }
            let to = &mut to[before..before + l.width];
            let mut q = 0;
            while q < tail {
                to[q..][..L].copy_from_slice(&pick::<T, S, L>(&line[S * q..]));
                q += L;
            }
            to[tail..][..L].copy_from_slice(&pick::<T, S, L>(&line[S * tail..]));
        }
    }
}

/// [`copy_lines`] for any step.
fn copy_distant_elements<T: Float>(s: usize, from: &[T], l: Lines, to: &mut [T]) {
    for c in 0..l.count {
        let (to, after) = to[c * l.taps..].split_at_mut(l.zeros[0] + l.width);
        to[..l.zeros[0]].fill(T::ZERO);
        after[..l.zeros[1]].fill(T::ZERO);
        to[l.zeros[0]..].iter_mut().zip(from[c * l.plane..].iter().step_by(s)).for_each(|(to, v)| *to = *v);
    }
}
