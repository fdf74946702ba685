//! The operands of correlations with channels in the lanes: strips of pixels, and weights with adjacent channels.

use super::lanes_plan::{GROUP, LanesPlan};
use crate::gemm::{GemmFloat, transpose};

/// Source channels whose weights are transposed at once.
pub(super) const SOME: usize = 16;

/// Elements that [`pack_weights`] needs beside its result.
pub(super) fn transposed_len(p: &LanesPlan) -> usize {
    GROUP * p.kernel[0] * p.kernel[1] * SOME
}

/// Writes the weights of `count` output channels from `m` on: for each run of each sub-grid, for each panel of `panel`
/// of [`GROUP`] channels, a row for each (tap, source channel).
pub(super) fn pack_weights<T: GemmFloat>(
    p: &LanesPlan,
    weight: &[T],
    (m, count): (usize, usize),
    panel: usize,
    work: &mut [T],
    to: &mut [T],
) {
    match panel {
        16 => pack_panels::<T, 16>(p, weight, (m, count), work, to),
        8 => pack_panels::<T, 8>(p, weight, (m, count), work, to),
        _ => pack_panels::<T, GROUP>(p, weight, (m, count), work, to),
    }
}

fn pack_panels<T: GemmFloat, const WIDTH: usize>(
    p: &LanesPlan,
    weight: &[T],
    (m, count): (usize, usize),
    work: &mut [T],
    to: &mut [T],
) {
    let window = p.kernel[0] * p.kernel[1];
    let (work, to) = (work.as_chunks_mut::<WIDTH>().0, to.as_chunks_mut::<WIDTH>().0);
    for (panel, j) in (0..count).step_by(WIDTH).enumerate() {
        let channels = WIDTH.min(count - j);
        for c in (0..p.src_c).step_by(SOME) {
            let some = SOME.min(p.src_c - c);
            // Rows of channels for each (source channel, tap).
            let from = &weight[(m + j) * p.w_dst + c * p.w_src..];
            if p.w_src == window {
                transpose(from, p.w_dst, work.as_flattened_mut(), WIDTH, some * window, channels);
            } else {
                for (c, work) in work.chunks_exact_mut(window).take(some).enumerate() {
                    transpose(&from[c * p.w_src..], p.w_dst, work.as_flattened_mut(), WIDTH, window, channels);
                }
            }
            let mut at = 0;
            for sub in p.subs() {
                p.each_run(sub, |_, _, taps| {
                    let all = taps.count * p.src_c;
                    for t in 0..taps.count {
                        let to = &mut to[at + panel * all + t * p.src_c + c..][..some];
                        to.iter_mut().zip(work[taps.at(t)..].iter().step_by(window)).for_each(|(to, from)| *to = *from);
                    }
                    at += GROUP / WIDTH * all;
                });
            }
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
