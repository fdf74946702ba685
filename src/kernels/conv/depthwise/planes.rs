//! The forward pass and the input gradient of depthwise convolutions.

use super::super::conv_micro::ConvMicroEpilogue;
use super::plane_strip::{LANES, PlanePlan};
use crate::float::Float;
use crate::simd;
use crate::simd::Token;
use std::ops::Range;

/// Elements of a row of results, before it goes to its place.
fn stage_len(p: &PlanePlan) -> usize {
    p.step[1] * 8 * p.pitch
}

/// Elements of scratch of a thread.
pub(in super::super) fn planes_scratch(p: &PlanePlan) -> usize {
    let taps = p.kernel[0] * p.kernel[1];
    stage_len(p) + p.strip_len() + 2 * taps
}

/// Computes planes `planes`, which count through all images, into `dst`.
pub(in super::super) fn correlate_planes<T: Float>(
    p: &PlanePlan,
    (src, weight): (&[T], &[T]),
    epilogue: ConvMicroEpilogue<'_, T>,
    planes: Range<usize>,
    dst: &mut [T],
    scratch: &mut [T],
) {
    let taps = p.kernel[0] * p.kernel[1];
    let (stage, scratch) = scratch.split_at_mut(stage_len(p));
    let (strip, scratch) = scratch.split_at_mut(p.strip_len());
    let (weights, offs) = scratch.split_at_mut(taps);
    let offs: &mut [u32] = bytemuck::cast_slice_mut(offs);
    strip.fill(T::ZERO);
    let pixels = p.src[0] * p.src[1];
    for (plane, dst) in planes.zip(dst.chunks_exact_mut(p.area().max(1))) {
        let channel = plane % p.channels;
        let mut row = 0;
        while row * p.step[0] < p.dst[0] {
            p.load(&src[plane * pixels..][..pixels], row, strip);
            for a in 0..p.step[0] {
                let [rows, _] = p.sub_grid([a, 0]);
                let rows = row..rows.min(row + p.band);
                fill_rows(p, a, (row, rows), &weight[channel * taps..][..taps], (&*strip, weights, offs), stage, dst);
            }
            row += p.band;
        }
        if epilogue.some() {
            epilogue.of(channel..channel + 1).apply(0, dst);
        }
    }
}

/// Computes rows `rows` of the sub-grids whose rows have phase `a`. The strip begins at row `first`.
fn fill_rows<T: Float>(
    p: &PlanePlan,
    a: usize,
    (first, rows): (usize, Range<usize>),
    weight: &[T],
    (strip, weights, offs): (&[T], &mut [T], &mut [u32]),
    stage: &mut [T],
    dst: &mut [T],
) {
    for at in rows.clone().step_by(8) {
        let some = 8.min(rows.end - at);
        let strip = &strip[(at - first) * p.pitch..];
        for b in 0..p.step[1] {
            let [_, cols] = p.sub_grid([a, b]);
            let count = list_taps(p, [a, b], weight, weights, offs);
            let t = Taps { weights: &weights[..count], offs: &offs[..count] };
            if p.step == [1, 1] {
                sum_rows(t, strip, p.pitch, [some, cols], &mut dst[at * p.dst[1]..], p.dst[1]);
            } else {
                sum_rows(t, strip, p.pitch, [some, cols], &mut stage[b * 8 * p.pitch..], p.pitch);
            }
        }
        if p.step == [1, 1] {
            continue;
        }
        for i in 0..some {
            let to = &mut dst[((at + i) * p.step[0] + a) * p.dst[1]..][..p.dst[1]];
            if p.step[1] == 2 {
                let (even, odd) = stage.split_at(8 * p.pitch);
                interleave_planes_row(&even[i * p.pitch..], &odd[i * p.pitch..], to);
                continue;
            }
            for (b, stage) in stage.chunks_exact(8 * p.pitch).enumerate() {
                to.iter_mut().skip(b).step_by(p.step[1]).zip(&stage[i * p.pitch..]).for_each(|(to, v)| *to = *v);
            }
        }
    }
}

simd! {
    /// Writes elements of two rows in turn.
    fn interleave_planes_row[T: Float](even: &[T], odd: &[T], to: &mut [T]) {
        let (pairs, last) = to.as_chunks_mut::<2>();
        let count = pairs.len();
        for ((to, a), b) in pairs.iter_mut().zip(&even[..count]).zip(&odd[..count]) {
            *to = [*a, *b];
        }
        if let Some(last) = last.first_mut() {
            *last = even[count];
        }
    }
}

/// Lists the weights and the offsets of the taps of a sub-grid; their number.
fn list_taps<T: Float>(p: &PlanePlan, sub: [usize; 2], weight: &[T], weights: &mut [T], offs: &mut [u32]) -> usize {
    let mut count = 0;
    for (tap, w) in weight.iter().enumerate() {
        if let Some(off) = p.tap(sub, [tap / p.kernel[1], tap % p.kernel[1]]) {
            (weights[count], offs[count]) = (*w, off as u32);
            count += 1;
        }
    }
    count
}

/// The taps of a sub-grid.
#[derive(Clone, Copy)]
struct Taps<'a, T> {
    weights: &'a [T],
    offs: &'a [u32],
}

/// A tile of `R` rows of `V` vectors of `L` positions.
struct Tile<const R: usize, const V: usize, const L: usize>;

/// The sums stay in registers only if all indices are constants.
#[inline(always)]
fn sum_tile<T: Float, const R: usize, const V: usize, const L: usize>(
    t: Taps<'_, T>,
    strip: &[T],
    pitch: usize,
) -> [[[T; L]; V]; R] {
    let mut acc = [[[T::ZERO; L]; V]; R];
    for (w, off) in t.weights.iter().zip(t.offs) {
        let from = &strip[*off as usize..][..(R - 1) * pitch + V * L];
        for r in 0..R {
            let from = &from[r * pitch..][..V * L];
            for v in 0..V {
                for i in 0..L {
                    acc[r][v][i] = w.mul_add(from[v * L + i], acc[r][v][i]);
                }
            }
        }
    }
    acc
}

/// `R` rows of `cols` positions, of which `rows` are stored.
#[inline(always)]
fn sum_columns<T: Float, const R: usize, const V: usize, const L: usize>(
    t: Taps<'_, T>,
    strip: &[T],
    pitch: usize,
    [rows, cols]: [usize; 2],
    to: &mut [T],
    step: usize,
) {
    for q in (0..cols).step_by(V * L) {
        let acc = sum_tile::<T, R, V, L>(t, &strip[q..], pitch);
        let len = (cols - q).min(V * L);
        for r in 0..R {
            if r < rows {
                let row = acc[r].as_flattened();
                let to = &mut to[r * step + q..][..len];
                if len == V * L {
                    to.copy_from_slice(row);
                } else {
                    to.copy_from_slice(&row[..len]);
                }
            }
        }
    }
}

simd! {
    fn plane_rows[T: Float, const R: usize, const V: usize, const L: usize](
        _tile: Tile<R, V, L>, t: Taps<'_, T>, strip: &[T], pitch: usize, size: [usize; 2], to: &mut [T], step: usize,
    ) {
        let [rows, cols] = size;
        let mut r = 0;
        while r < rows {
            sum_columns::<T, R, V, L>(t, &strip[r * pitch..], pitch, [rows - r, cols], &mut to[r * step..], step);
            r += R;
        }
    }
}

/// Sums all taps for `size` = [rows, columns] positions; at most eight rows. Rows of results are `step` apart.
fn sum_rows<T: Float>(t: Taps<'_, T>, strip: &[T], pitch: usize, size: [usize; 2], to: &mut [T], step: usize) {
    let [rows, cols] = size;
    if cols == 0 {
        return;
    }
    macro_rules! by_lanes {
        ($l:literal) => {
            match (rows, cols > $l) {
                (1, _) => plane_rows(Tile::<1, { 128 / $l }, $l>, t, strip, pitch, size, to, step),
                (2.., true) => plane_rows(Tile::<4, 2, $l>, t, strip, pitch, size, to, step),
                _ => plane_rows(Tile::<8, 1, $l>, t, strip, pitch, size, to, step),
            }
        };
    }
    match (size_of::<T>(), Token::current().shape::<T>().lanes) {
        (4, 16) => by_lanes!(16),
        (4, _) | (_, 8) => by_lanes!(8),
        _ => by_lanes!(4),
    }
}

/// A tile reads at most this far behind a row: [`PlanePlan::strip_len`] has room for it.
const _: () = assert!(LANES == 16);
