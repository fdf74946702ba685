//! The weight gradient of depthwise convolutions: dot products of dy with the strip of x, for several taps at once.

use super::super::conv_micro::{conv_micro_all_finite, dot_lanes, fma_arrays, fold_lanes, load_array, mask_lanes};
use super::super::geom::ConvGeom;
use super::super::strip::copy_rows;
use super::plane_strip::{LANES, PlanePlan};
use crate::float::Float;
use crate::simd;
use crate::simd::Token;

/// Elements of the copy of dy, whose rows lie as those of the strip, with zeros behind them.
fn dy_len(p: &PlanePlan) -> usize {
    (p.band * p.pitch).next_multiple_of(LANES) + LANES
}

/// Elements of scratch of a thread.
pub(in super::super) fn plane_weight_scratch(p: &PlanePlan) -> usize {
    let taps = p.kernel[0] * p.kernel[1];
    taps * LANES + dy_len(p) + p.strip_len()
}

/// The gradients of the weights of channels, in order, from each of `blocks` blocks of images; `first` counts the
/// channels of the blocks before the first of `parts`.
pub(in super::super) fn plane_weight_grad<T: Float>(
    g: &ConvGeom,
    blocks: usize,
    (x, dy): (&[T], &[T]),
    first: usize,
    parts: &mut [T],
    scratch: &mut [T],
) {
    let p = &PlanePlan::new(g, false);
    let (taps, pixels, area, pitch) = (g.window(), g.windows.size[0] * g.windows.size[1], p.area(), p.pitch);
    let (sums, scratch) = scratch.split_at_mut(taps * LANES);
    let sums = &mut sums[..taps * dot_lanes::<T>()];
    let (rows_of_dy, strip) = scratch.split_at_mut(dy_len(p));
    let strip = &mut strip[..p.strip_len()];
    strip.fill(T::ZERO);
    rows_of_dy.fill(T::ZERO);
    for (at, dw) in (first..).zip(parts.chunks_exact_mut(taps)) {
        let (block, channel) = (at / g.c_out, at % g.c_out);
        sums.fill(T::ZERO);
        for image in block * g.n / blocks..(block + 1) * g.n / blocks {
            let plane = image * g.groups + channel;
            for row in (0..p.dst[0]).step_by(p.band) {
                p.load(&x[plane * pixels..][..pixels], row, strip);
                let finite = conv_micro_all_finite(strip);
                let rows = p.band.min(p.dst[0] - row);
                let from = &dy[plane * area + row * p.dst[1]..];
                copy_rows(from, p.dst[1], rows_of_dy, pitch, p.dst[1], rows);
                // A last band may have fewer rows than the one before.
                rows_of_dy[rows * pitch..].fill(T::ZERO);
                let f = Field { x: strip, dy: rows_of_dy, pitch, rows, cols: p.dst[1], finite };
                sum_taps(p, f, sums);
            }
        }
        fold_lanes(sums, dw);
    }
}

/// What a sweep reads.
#[derive(Clone, Copy)]
struct Field<'a, T> {
    x: &'a [T],
    dy: &'a [T],
    /// Elements from row to row of both.
    pitch: usize,
    rows: usize,
    /// Positions of a row.
    cols: usize,
    /// Whether x is finite.
    finite: bool,
}

/// Sums of `K` taps, in `L` lanes. With `MASK`, numbers behind the end of a row count as zeros: they may be infinite.
struct TapSums<const K: usize, const L: usize, const MASK: bool>;

/// The sums stay in registers only if all indices are constants: hence the copy to `out` at the end.
#[inline(always)]
fn add_rows<T: Float, const K: usize, const L: usize, const MASK: bool>(
    f: Field<'_, T>,
    offs: [usize; K],
    mask: [T; L],
    out: &mut [[T; L]; K],
) {
    let mut acc = *out;
    // Without infinities all rows are one: what lies between them is multiplied by zeros.
    let (rows, len) = if MASK { (f.rows, f.cols) } else { (1, f.rows * f.pitch) };
    let (whole, len) = (len / L, len.next_multiple_of(L));
    for row in 0..rows {
        let mut lines: [&[T]; K] = [&[]; K];
        for k in 0..K {
            lines[k] = &f.x[offs[k] + row * f.pitch..][..len];
        }
        for (q, dy) in f.dy[row * f.pitch..][..len].as_chunks::<L>().0.iter().enumerate() {
            let last = MASK && q == whole;
            let dy = if last { mask_lanes(*dy, mask) } else { *dy };
            for k in 0..K {
                let x = load_array(&lines[k][q * L..]);
                acc[k] = fma_arrays(if last { mask_lanes(x, mask) } else { x }, dy, acc[k]);
            }
        }
    }
    *out = acc;
}

simd! {
    fn plane_taps[T: Float, const K: usize, const L: usize, const MASK: bool](
        _sums: TapSums<K, L, MASK>, f: Field<'_, T>, offs: &[usize], sums: &mut [T]) {
        let (mut own, mut mask) = ([0; K], [T::ZERO; L]);
        own.copy_from_slice(&offs[..K]);
        mask[..f.cols % L].fill(T::ONE);
        let mut acc = [[T::ZERO; L]; K];
        acc.as_flattened_mut().copy_from_slice(&sums[..K * L]);
        add_rows::<T, K, L, MASK>(f, own, mask, &mut acc);
        sums[..K * L].copy_from_slice(acc.as_flattened());
    }
}

/// Adds the products of the rows of dy and of x at each tap.
fn sum_taps<T: Float>(p: &PlanePlan, f: Field<'_, T>, sums: &mut [T]) {
    let (all, lanes) = (p.kernel[0] * p.kernel[1], dot_lanes::<T>());
    let wide = Token::current().shape::<T>().lanes == lanes;
    let mut at = 0;
    while at < all {
        let mut offs = [0; 9];
        let some = if wide { 9 } else { 4 }.min(all - at);
        for (k, off) in offs[..some].iter_mut().enumerate() {
            let tap = at + k;
            // Every tap contributes to the forward pass.
            *off = p.tap([0, 0], [tap / p.kernel[1], tap % p.kernel[1]]).unwrap_or(0);
        }
        let sums = &mut sums[at * lanes..];
        macro_rules! by {
            ($l:literal, $m:literal, $($k:literal)+) => {
                match some {
                    $($k => plane_taps(TapSums::<$k, $l, $m>, f, &offs, sums),)+
                    _ => unreachable!("no sweep of {some} taps"),
                }
            };
        }
        match (lanes, f.finite) {
            (16, true) => by!(16, false, 1 2 3 4 5 6 7 8 9),
            (16, false) => by!(16, true, 1 2 3 4 5 6 7 8 9),
            (_, true) => by!(8, false, 1 2 3 4 5 6 7 8 9),
            (_, false) => by!(8, true, 1 2 3 4 5 6 7 8 9),
        }
        at += some;
    }
}
