//! The weight gradient of depthwise convolutions with channels in the lanes: each pixel is multiplied by the value of
//! dy at its position, for all channels of a block at once.
//!
//! Invariant: some rows of an image, [`CHAIN`] positions or one row, are one chain of `mul_add`. An element is the sum
//! of these in the order of the images of a block and of their bands: in each of them, first the positions where all
//! taps of a run see the image, then the others. Short chains are as accurate as the sums of many lanes.

use super::super::conv_micro::{fma_arrays, load_array};
use super::super::conv_plan::largest_divisor;
use super::super::geom::ConvGeom;
use super::each_plan::{BLOCK, EachPlan, load_channels};
use crate::float::Float;
use crate::gemm::{GemmFloat, transpose};
use crate::simd;
use crate::simd::Token;
use std::ops::Range;

/// Positions of a block of images, about.
const POSITIONS: usize = 1 << 12;
/// Positions of a chain, about.
const CHAIN: usize = 64;
/// Most taps of a run.
const RUN: usize = 5;

/// (image blocks, channels of a unit).
pub(in super::super) fn each_weight_blocks(g: &ConvGeom) -> (usize, usize) {
    let channels = largest_divisor(g.c_out, BLOCK);
    let all = g.n * g.windows.out()[0] * g.windows.out()[1];
    let blocks = if g.c_out / channels < 8 { (all / POSITIONS).clamp(1, g.n.clamp(1, 8)) } else { 1 };
    // The parts of several blocks are units of whole gradients.
    (blocks, if blocks > 1 { g.c_out } else { channels })
}

/// Elements of [sums, pixels, dy].
fn sizes(p: &EachPlan) -> [usize; 3] {
    [p.kernel[0] * p.kernel[1], p.strip_rows() * p.src[1], p.band * p.dst[1]].map(|len| len * BLOCK)
}

/// Elements of scratch of a thread.
pub(in super::super) fn each_weight_scratch(g: &ConvGeom) -> usize {
    sizes(&EachPlan::forward(g)).iter().sum()
}

/// Computes the rows `rows` of the parts, which count through the channels of each image block.
pub(in super::super) fn each_weight_grad<T: GemmFloat>(
    g: &ConvGeom,
    (x, dy): (&[T], &[T]),
    rows: Range<usize>,
    dw: &mut [T],
    scratch: &mut [T],
) {
    let p = EachPlan::forward(g);
    let [sums, pixels, fields] = sizes(&p);
    let (sums, scratch) = scratch.split_at_mut(sums);
    let (pixels, scratch) = scratch.split_at_mut(pixels);
    let fields = &mut scratch[..fields];
    let (blocks, window, plane) = (each_weight_blocks(g).0, g.window(), p.src[0] * p.src[1]);
    let mut at = rows.start;
    while at < rows.end {
        let (block, m) = (at / p.channels, at % p.channels);
        let count = BLOCK.min(rows.end - at).min(p.channels - m);
        sums.fill(T::ZERO);
        for image in block * g.n / blocks..(block + 1) * g.n / blocks {
            let x = &x[(image * p.channels + m) * plane..][..count * plane];
            let dy = &dy[(image * p.channels + m) * p.area()..][..count * p.area()];
            for row in (0..p.dst[0]).step_by(p.band) {
                let (from, to) = (p.source_rows(row), row..p.dst[0].min(row + p.band));
                load_channels(x, p.src, &from, count, pixels);
                load_channels(dy, p.dst, &to, count, fields);
                add_band(&p, (&from, &to), pixels, fields, sums);
            }
        }
        transpose(sums, BLOCK, &mut dw[(at - rows.start) * window..], window, count, window);
        at += count;
    }
}

/// Adds a band: `pixels` holds rows `from` of the source, `dy` rows `to` of the output.
fn add_band<T: Float>(
    p: &EachPlan,
    (from, to): (&Range<usize>, &Range<usize>),
    pixels: &[T],
    dy: &[T],
    sums: &mut [T],
) {
    let [down, across] = [0, 1].map(|a| p.taps(a, 0));
    for i in 0..p.kernel[0] {
        // The rows for which this row of the kernel sees the image.
        let one = down.some(i, 1);
        let seen = one.all_inside(p.dst[0], p.stride[0], p.src[0]);
        let rows = seen.start.max(to.start)..seen.end.min(to.end);
        if rows.is_empty() {
            continue;
        }
        let mut j = 0;
        while j < p.kernel[1] {
            let run = RUN.min(p.kernel[1] - j);
            let taps = across.some(j, run);
            let whole = taps.all_inside(p.dst[1], p.stride[1], p.src[1]);
            let field = |first: usize, cols: Range<usize>| Field {
                rows: rows.clone(),
                chain: (CHAIN / cols.len().max(1)).max(1),
                cols,
                x: (one.pixel(0, 0).wrapping_sub(from.start), first),
                dy: to.start,
                stride: p.stride,
                widths: [p.src[1], p.dst[1]],
                by: taps.pixel(0, 1).wrapping_sub(taps.pixel(0, 0)),
            };
            let sums = &mut sums[(i * p.kernel[1] + j) * BLOCK..][..run * BLOCK];
            if !whole.is_empty() {
                add_run(run, field(taps.pixel(0, 0), whole.clone()), pixels, dy, sums);
            }
            for (t, sums) in sums.chunks_exact_mut(BLOCK).enumerate() {
                let tap = taps.some(t, 1);
                let seen = tap.all_inside(p.dst[1], p.stride[1], p.src[1]);
                for cols in [seen.start..whole.start.min(seen.end), whole.end.max(seen.start)..seen.end] {
                    if !cols.is_empty() {
                        add_run(1, field(tap.pixel(0, 0), cols), pixels, dy, sums);
                    }
                }
            }
            j += run;
        }
    }
}

/// The positions that a call sums over.
#[derive(Clone)]
struct Field {
    /// Positions.
    rows: Range<usize>,
    cols: Range<usize>,
    /// Rows of a chain.
    chain: usize,
    /// The row and the column of the pixels that the first tap reads for position (0, 0), and from tap to tap. They
    /// wrap.
    x: (usize, usize),
    by: usize,
    /// The first row of dy.
    dy: usize,
    stride: [usize; 2],
    /// Elements of a row of the pixels and of dy.
    widths: [usize; 2],
}

/// `K` taps on `V` vectors of `L` channels.
struct Run<const K: usize, const V: usize, const L: usize>;

#[inline(always)]
fn sum_run<T: Float, const K: usize, const V: usize, const L: usize>(
    f: &Field,
    pixels: &[T],
    dy: &[T],
    sums: &mut [T],
) {
    for from in f.rows.clone().step_by(f.chain) {
        let mut acc = [[[T::ZERO; L]; V]; K];
        for r in from..f.rows.end.min(from + f.chain) {
            let row = (r * f.stride[0]).wrapping_add(f.x.0) * f.widths[0];
            let dy = &dy[((r - f.dy) * f.widths[1] + f.cols.start) * BLOCK..][..f.cols.len() * BLOCK];
            let mut at = row.wrapping_add(f.cols.start * f.stride[1]).wrapping_add(f.x.1);
            for dy in dy.as_chunks::<BLOCK>().0 {
                for k in 0..K {
                    let x = &pixels[at.wrapping_add(k.wrapping_mul(f.by)) * BLOCK..][..BLOCK];
                    for v in 0..V {
                        acc[k][v] = fma_arrays(load_array(&x[v * L..]), load_array(&dy[v * L..]), acc[k][v]);
                    }
                }
                at = at.wrapping_add(f.stride[1]);
            }
        }
        for (sum, acc) in sums.iter_mut().zip(acc.as_flattened().as_flattened()) {
            *sum += *acc;
        }
    }
}

simd! { wide
    fn each_run_wide[T: Float, const K: usize, const V: usize, const L: usize](
        _r: Run<K, V, L>, f: &Field, pixels: &[T], dy: &[T], sums: &mut [T],
    ) {
        sum_run::<T, K, V, L>(f, pixels, dy, sums);
    }
}

simd! { narrow
    fn each_run_narrow[T: Float, const K: usize, const V: usize, const L: usize](
        _r: Run<K, V, L>, f: &Field, pixels: &[T], dy: &[T], sums: &mut [T],
    ) {
        sum_run::<T, K, V, L>(f, pixels, dy, sums);
    }
}

/// Adds the products of `run` taps to their sums.
fn add_run<T: Float>(run: usize, f: Field, pixels: &[T], dy: &[T], sums: &mut [T]) {
    macro_rules! by_run {
        ($run:ident, $v:literal, $l:literal, $($k:literal)+) => {
            match run {
                $($k => $run(Run::<$k, $v, $l>, &f, pixels, dy, sums),)+
                run => unreachable!("no run of {run} taps"),
            }
        };
    }
    match (size_of::<T>(), Token::current().shape::<T>().lanes) {
        (4, 16) => by_run!(each_run_wide, 1, 16, 1 2 3 4 5),
        (4, _) => by_run!(each_run_narrow, 2, 8, 1 2 3 4 5),
        (_, 8) => by_run!(each_run_wide, 2, 8, 1 2 3 4 5),
        _ => by_run!(each_run_narrow, 4, 4, 1 2 3 4 5),
    }
}
