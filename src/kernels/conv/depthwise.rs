//! Depthwise 3 × 3 convolutions with stride 1: rows of planes in pieces of fixed size that fill vectors. No plane is
//! copied to a strip and back; some rows with their padding are.
//!
//! Invariant: padding is a zero that is multiplied. An element of the forward pass or of the input gradient is one
//! chain over kernel row, then kernel column: the bits are those of strips. A weight gradient has a chain in each lane
//! through all images of a block, and the lanes are added in a tree.

use super::conv_micro::{Product, fma_arrays, load_array, mask_lanes, sum_lanes};
use super::conv_plan::ConvPlan;
use crate::float::Float;
use crate::simd;
use std::ops::Range;

/// The widest row of a plane.
const WIDTH: usize = 256;
/// Elements of a row with its padding.
const LINE: usize = WIDTH + 4;
/// Rows that are kept. They are copied long before they are read: a read across two recent writes waits for both.
const ROWS: usize = 16;

/// Rows with their padding, which stays 0: row `r` is at `r % ROWS`.
type Rows<T> = [[T; LINE]; ROWS];

/// Pieces of `L` elements; `BACK` is the input gradient, which turns the kernel around.
struct By<const L: usize, const BACK: bool>;

/// Whether the loops of this file compute the correlation.
pub(super) fn fits(c: &ConvPlan) -> bool {
    let [narrow, wide] = [c.src[1].min(c.dst[1]), c.src[1].max(c.dst[1])];
    c.is_depthwise([3, 3]) && !c.images && narrow >= 4 && wide <= WIDTH
}

/// Copies `x` in pieces, the last of which overlaps the one before.
#[inline(always)]
fn copy_pieces<T: Float, const L: usize>(x: &[T], to: &mut [T]) {
    let (pieces, to) = (x.as_chunks::<L>().0, &mut to[..x.len()]);
    for (to, from) in to.as_chunks_mut::<L>().0.iter_mut().zip(pieces) {
        *to = *from;
    }
    if !x.len().is_multiple_of(L) {
        let last = x.len() - L;
        to[last..].copy_from_slice(&x[last..][..L]);
    }
}

/// Elements `at..at + L` of a row of results; `lines` are what the rows of the kernel read.
#[inline(always)]
fn sum_piece<T: Float, const L: usize, const BACK: bool>(lines: [&[T; LINE]; 3], w: &[T; 9], at: usize) -> [T; L] {
    let mut acc = [T::ZERO; L];
    for i in 0..3 {
        for j in 0..3 {
            let shift = if BACK { 2 - j } else { j };
            acc = fma_arrays([w[3 * i + j]; L], load_array(&lines[i][at + shift..]), acc);
        }
    }
    acc
}

/// Copies the rows that row `r` of the results reads, and then as many as there is room for, from row `next` on.
/// Returns the row after them.
#[inline(always)]
fn load_rows<T: Float, const L: usize>(c: &ConvPlan, x: &[T], r: usize, next: usize, rows: &mut Rows<T>) -> usize {
    let ([h, width], [above, left]) = (c.src, c.lead);
    if next >= h || next + above > r + 2 {
        return next;
    }
    let end = h.min((r + ROWS).saturating_sub(above));
    for row in next..end {
        copy_pieces::<T, L>(&x[row * width..][..width], &mut rows[row % ROWS][left..]);
    }
    end
}

/// The rows that the three rows of the kernel read for row `r` of the results.
#[inline(always)]
fn kernel_rows<'a, T, const BACK: bool>(
    c: &ConvPlan,
    r: usize,
    rows: &'a Rows<T>,
    zeros: &'a [T; LINE],
) -> [&'a [T; LINE]; 3] {
    let mut lines = [zeros; 3];
    for (i, line) in lines.iter_mut().enumerate() {
        let row = (r + if BACK { 2 - i } else { i }).wrapping_sub(c.lead[0]);
        if row < c.src[0] {
            *line = &rows[row % ROWS];
        }
    }
    lines
}

simd! {
    fn depthwise_plane[T: Float, const L: usize, const BACK: bool](
        _by: By<L, BACK>, c: &ConvPlan, x: &[T], w: &[T; 9], y: &mut [T], rows: &mut Rows<T>,
    ) {
        let (count, zeros, mut next) = (c.dst[1], [T::ZERO; LINE], 0);
        for (r, y) in y.chunks_exact_mut(count).enumerate() {
            next = load_rows::<T, L>(c, x, r, next, rows);
            let lines = kernel_rows::<T, BACK>(c, r, rows, &zeros);
            for q in (0..count / L * L).step_by(L) {
                y[q..][..L].copy_from_slice(&sum_piece::<T, L, BACK>(lines, w, q));
            }
            if !count.is_multiple_of(L) {
                let last = count - L;
                y[last..].copy_from_slice(&sum_piece::<T, L, BACK>(lines, w, last));
            }
        }
    }
}

/// Computes planes `planes`, which count through all images, into `dst`.
pub(super) fn correlate_planes<T: Float>(c: &ConvPlan, p: Product<'_, T>, planes: Range<usize>, dst: &mut [T]) {
    let (pixels, area, narrow) = (c.src[0] * c.src[1], c.dst[0] * c.dst[1], c.src[1].min(c.dst[1]));
    let weights = p.weight.as_chunks::<9>().0;
    let mut rows = [[T::ZERO; LINE]; ROWS];
    for (plane, y) in planes.zip(dst.chunks_exact_mut(area)) {
        let channel = plane % c.groups;
        let (x, w) = (&p.src[plane * pixels..][..pixels], &weights[channel]);
        match (narrow, c.is_back()) {
            (16.., false) => depthwise_plane(By::<16, false>, c, x, w, y, &mut rows),
            (16.., true) => depthwise_plane(By::<16, true>, c, x, w, y, &mut rows),
            (8.., false) => depthwise_plane(By::<8, false>, c, x, w, y, &mut rows),
            (8.., true) => depthwise_plane(By::<8, true>, c, x, w, y, &mut rows),
            (_, false) => depthwise_plane(By::<4, false>, c, x, w, y, &mut rows),
            (_, true) => depthwise_plane(By::<4, true>, c, x, w, y, &mut rows),
        }
        if p.epilogue.some() {
            p.epilogue.of(channel..channel + 1).apply(0, y);
        }
    }
}

/// `acc[3 · i + j] + lines[i][at + j] · dy`, in the lanes of `mask` alone if there is one.
#[inline(always)]
fn add_piece<T: Float, const L: usize, const MASKED: bool>(
    lines: [&[T; LINE]; 3],
    at: usize,
    dy: &[T],
    mask: [T; L],
    mut acc: [[T; L]; 9],
) -> [[T; L]; 9] {
    let mut dy: [T; L] = load_array(&dy[at..]);
    if MASKED {
        dy = mask_lanes(dy, mask);
    }
    for i in 0..3 {
        for j in 0..3 {
            let mut x: [T; L] = load_array(&lines[i][at + j..]);
            if MASKED {
                x = mask_lanes(x, mask);
            }
            acc[3 * i + j] = fma_arrays(x, dy, acc[3 * i + j]);
        }
    }
    acc
}

simd! {
    fn add_plane_dots[T: Float, const L: usize](
        _by: By<L, false>, c: &ConvPlan, x: &[T], dy: &[T], sums: &mut [[T; L]; 9], rows: &mut Rows<T>,
    ) {
        let (count, zeros, mut next, mut acc) = (c.dst[1], [T::ZERO; LINE], 0, *sums);
        // The last piece of a row overlaps the one before: its first lanes have been added.
        let rest = count % L;
        let mut mask = [T::ZERO; L];
        mask[L - rest..].fill(T::ONE);
        for (r, dy) in dy.chunks_exact(count).enumerate() {
            next = load_rows::<T, L>(c, x, r, next, rows);
            let lines = kernel_rows::<T, false>(c, r, rows, &zeros);
            for at in (0..count / L * L).step_by(L) {
                acc = add_piece::<T, L, false>(lines, at, dy, mask, acc);
            }
            if rest > 0 {
                acc = add_piece::<T, L, true>(lines, count - L, dy, mask, acc);
            }
        }
        *sums = acc;
    }
}

/// One channel of the weight gradient over some images, with `L` lanes.
fn channel_dots<T: Float, const L: usize>(
    c: &ConvPlan,
    (x, dy): (&[T], &[T]),
    (images, channel): (Range<usize>, usize),
    dw: &mut [T; 9],
    rows: &mut Rows<T>,
) {
    let (pixels, area) = (c.src[0] * c.src[1], c.dst[0] * c.dst[1]);
    let mut sums = [[T::ZERO; L]; 9];
    for image in images {
        let plane = image * c.groups + channel;
        let (x, dy) = (&x[plane * pixels..][..pixels], &dy[plane * area..][..area]);
        add_plane_dots(By::<L, false>, c, x, dy, &mut sums, rows);
    }
    for (to, lanes) in dw.iter_mut().zip(sums) {
        *to = sum_lanes(lanes);
    }
}

/// Computes the channels `channels` of parts of the weight gradient, which count through all `blocks` blocks of images.
pub(super) fn weight_parts<T: Float>(
    c: &ConvPlan,
    operands: (&[T], &[T]),
    channels: Range<usize>,
    blocks: usize,
    parts: &mut [T],
) {
    let mut rows = [[T::ZERO; LINE]; ROWS];
    for (at, dw) in channels.zip(parts.as_chunks_mut::<9>().0) {
        let (block, channel) = (at / c.groups, at % c.groups);
        let which = (block * c.n / blocks..(block + 1) * c.n / blocks, channel);
        match c.src[1].min(c.dst[1]) {
            16.. => channel_dots::<T, 16>(c, operands, which, dw, &mut rows),
            8.. => channel_dots::<T, 8>(c, operands, which, dw, &mut rows),
            _ => channel_dots::<T, 4>(c, operands, which, dw, &mut rows),
        }
    }
}
