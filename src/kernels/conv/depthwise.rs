//! Depthwise 3 × 3 convolutions with stride 1, forward and input gradient: a row of a plane from three rows of another,
//! in pieces of fixed size that fill vectors. No plane is copied to a strip and back; three rows with their padding are.
//!
//! Invariant: the bits are those of strips: an element is one chain over kernel row, then kernel column, and padding is
//! a zero that is multiplied.

use super::conv_micro::{fma_arrays, load_array};
use super::conv_plan::ConvPlan;
use super::correlate::Product;
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

simd! {
    fn depthwise_plane[T: Float, const L: usize, const BACK: bool](
        _by: By<L, BACK>, c: &ConvPlan, x: &[T], w: &[T; 9], y: &mut [T], rows: &mut Rows<T>,
    ) {
        let ([h, width], [above, left], count) = (c.src, c.lead, c.dst[1]);
        let zeros = [T::ZERO; LINE];
        let mut next = 0;
        for (r, y) in y.chunks_exact_mut(count).enumerate() {
            // The rows of the kernel, and then as many as there is room for.
            if next < h && next + above <= r + 2 {
                let end = h.min((r + ROWS).saturating_sub(above));
                while next < end {
                    copy_pieces::<T, L>(&x[next * width..][..width], &mut rows[next % ROWS][left..]);
                    next += 1;
                }
            }
            let mut lines = [&zeros; 3];
            for i in 0..3 {
                let row = (r + if BACK { 2 - i } else { i }).wrapping_sub(above);
                if row < h {
                    lines[i] = &rows[row % ROWS];
                }
            }
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
