//! The operands of correlations with channels in the lanes: strips of pixels, and weights with adjacent channels.

use super::lanes_plan::{GROUP, LanesPlan};
use crate::gemm::{GemmFloat, transpose};

/// Source channels whose weights are transposed at once.
pub(super) const SOME: usize = 16;

/// Elements that [`pack_weights`] needs beside its result.
pub(super) fn transposed_len(p: &LanesPlan) -> usize {
    GROUP * p.kernel[0] * p.kernel[1] * SOME
}

/// Writes the weights of `count` output channels from `m` on: for each run of each sub-grid a row of [`GROUP`] channels
/// for each (tap, source channel).
pub(super) fn pack_weights<T: GemmFloat>(
    p: &LanesPlan,
    weight: &[T],
    (m, count): (usize, usize),
    work: &mut [T],
    to: &mut [T],
) {
    let window = p.kernel[0] * p.kernel[1];
    for c in (0..p.src_c).step_by(SOME) {
        let some = SOME.min(p.src_c - c);
        // Rows of channels for each (source channel, tap).
        let from = &weight[m * p.w_dst + c * p.w_src..];
        if p.w_src == window {
            transpose(from, p.w_dst, work, GROUP, some * window, count);
        } else {
            for (c, work) in work.chunks_exact_mut(window * GROUP).take(some).enumerate() {
                transpose(&from[c * p.w_src..], p.w_dst, work, GROUP, window, count);
            }
        }
        let mut at = 0;
        for sub in p.subs() {
            p.each_run(sub, |_, _, taps| {
                for t in 0..taps.count {
                    let tap = taps.at(t);
                    let to = &mut to[at + (t * p.src_c + c) * GROUP..][..some * GROUP];
                    let rows = to.as_chunks_mut::<GROUP>().0;
                    for (to, from) in rows.iter_mut().zip(work.as_chunks::<GROUP>().0[tap..].iter().step_by(window)) {
                        *to = *from;
                    }
                }
                at += taps.count * p.src_c * GROUP;
            });
        }
    }
}

/// Copies the pixels that rows `row..` of a sub-grid read from the planes of a group of an image. The zeros left and
/// right of the image are there already; rows outside of it are cleared.
pub(super) fn load_pixels<T: GemmFloat>(p: &LanesPlan, planes: &[T], row: usize, strip: &mut [T]) {
    let ([h, w], line) = (p.src, p.cols * p.src_c);
    let width = w.min(p.cols - p.lead[1]);
    for (i, to) in strip.chunks_exact_mut(line).take(p.rows).enumerate() {
        let from = (row * p.stride[0] + i).wrapping_sub(p.lead[0]);
        let to = &mut to[p.lead[1] * p.src_c..][..width * p.src_c];
        if from < h {
            transpose(&planes[from * w..], h * w, to, p.src_c, width, p.src_c);
        } else {
            to.fill(T::ZERO);
        }
    }
}
