//! The forward pass and the input gradient of depthwise convolutions with channels in the lanes.
//!
//! Invariant: an element is one chain of `mul_add` over kernel row, then kernel column, of taps that see the source.

use super::super::conv_micro::{ConvMicroEpilogue, fma_arrays, load_array};
use super::each_plan::{AxisTaps, BLOCK, EachPlan, load_channels};
use crate::abi::MatrixMut;
use crate::float::Float;
use crate::gemm::{GemmFloat, transpose};
use crate::simd;
use crate::simd::Token;
use std::ops::Range;

/// Elements of [weights, pixels, sums].
fn sizes(p: &EachPlan) -> [usize; 3] {
    let weights = p.kernel[0] * p.kernel[1];
    [weights, p.strip_rows() * p.src[1], p.band * p.step[0] * p.dst[1]].map(|len| len * BLOCK)
}

/// Elements of scratch of a thread.
pub(in super::super) fn each_scratch(p: &EachPlan) -> usize {
    sizes(p).iter().sum()
}

/// Computes channels `channels` of images `images`: a row of `dst` for each image.
pub(in super::super) fn correlate_each<T: GemmFloat>(
    p: &EachPlan,
    (src, weight): (&[T], &[T]),
    epilogue: ConvMicroEpilogue<'_, T>,
    (images, channels): (Range<usize>, Range<usize>),
    mut dst: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let [weights, pixels, sums] = sizes(p);
    let (weights, scratch) = scratch.split_at_mut(weights);
    let (pixels, scratch) = scratch.split_at_mut(pixels);
    let sums = &mut scratch[..sums];
    let (window, plane) = (p.kernel[0] * p.kernel[1], p.src[0] * p.src[1]);
    for m in channels.clone().step_by(BLOCK) {
        let count = BLOCK.min(channels.end - m);
        transpose(&weight[m * window..], window, weights, BLOCK, window, count);
        for image in images.clone() {
            let planes = &src[(image * p.channels + m) * plane..][..count * plane];
            let to = &mut dst.row(image - images.start)[(m - channels.start) * p.area()..][..count * p.area()];
            for row in (0..p.grid_rows()).step_by(p.band) {
                let rows = p.source_rows(row);
                load_channels(planes, p.src, &rows, count, pixels);
                sum_band(p, row, &rows, pixels, weights, sums);
                let first = row * p.step[0] * p.dst[1];
                let len = (p.band * p.step[0] * p.dst[1]).min(p.area() - first);
                transpose(sums, BLOCK, &mut to[first..], p.area(), count, len);
                if epilogue.some() {
                    let epilogue = epilogue.of(m..m + count);
                    let planes = to.chunks_exact_mut(p.area()).enumerate();
                    planes.for_each(|(c, to)| epilogue.apply(c, &mut to[first..first + len]));
                }
            }
        }
    }
}

/// Sums all taps for a band from row `row` of the sub-grids on; `pixels` holds rows `rows` of the source.
///
/// Positions whose taps are the same are tiles: along rows where every column of the kernel sees the source, and down
/// the columns that are left.
fn sum_band<T: Float>(p: &EachPlan, row: usize, rows: &Range<usize>, pixels: &[T], weights: &[T], sums: &mut [T]) {
    let tile = tile_positions(size_of::<T>(), lanes::<T>());
    for sub in p.subs() {
        let ([height, width], [down, across]) = (p.sub_grid(sub), [0, 1].map(|a| p.taps(a, sub[a])));
        let band = row..height.min(row + p.band);
        let mut sum = |r: usize, q: usize, positions: usize, vertical: bool| {
            let from = [r * p.stride[0], q * p.stride[1]];
            let (apart, to_apart) = match vertical {
                true => (p.stride[0] * p.src[1], p.step[0] * p.dst[1]),
                false => (p.stride[1], p.step[1]),
            };
            let taps = [down.inside(from[0], p.src[0]), across.inside(from[1], p.src[1])];
            let [width, columns] = [p.src[1], p.kernel[1]];
            let run = Run { down, across, taps, from, first: rows.start, width, columns, positions, apart, to_apart };
            let to = ((r - row) * p.step[0] + sub[0]) * p.dst[1] + q * p.step[1] + sub[1];
            sum_positions(&run, pixels, weights, &mut sums[to * BLOCK..]);
        };
        let whole = across.all_inside(width, p.stride[1], p.src[1]);
        let tiles = whole.start..whole.start + whole.len() / tile * tile;
        if !tiles.is_empty() {
            band.clone().for_each(|r| sum(r, tiles.start, tiles.len(), false));
        }
        let high = down.all_inside(height, p.stride[0], p.src[0]);
        let (first, last) = (high.start.clamp(band.start, band.end), high.end.clamp(band.start, band.end));
        for q in (0..tiles.start).chain(tiles.end..width) {
            (band.start..first).chain(last.max(first)..band.end).for_each(|r| sum(r, q, 1, true));
            if first < last {
                sum(first, q, last - first, true);
            }
        }
    }
}

/// Positions of a sub-grid, one behind another, that have the same taps.
struct Run {
    /// The taps of each axis, and those of the rows and columns of the kernel that see the source.
    down: AxisTaps,
    across: AxisTaps,
    taps: [Range<usize>; 2],
    /// The row and the column of the source at which the window of the first position begins, but for its shift.
    from: [usize; 2],
    /// The first row of the source among the pixels.
    first: usize,
    /// Pixels of a row of the source.
    width: usize,
    /// Columns of the kernel.
    columns: usize,
    /// Positions.
    positions: usize,
    /// Pixels from position to position, in the source and in the sums.
    apart: usize,
    to_apart: usize,
}

/// `P` positions of `V` vectors of `L` channels.
struct Tile<const P: usize, const V: usize, const L: usize>;

/// The sums of `P` positions from position `q` on.
#[inline(always)]
fn sum_tile<T: Float, const P: usize, const V: usize, const L: usize>(
    run: &Run,
    q: usize,
    pixels: &[T],
    weights: &[T],
) -> [[[T; L]; V]; P] {
    let mut acc = [[[T::ZERO; L]; V]; P];
    if run.taps.iter().any(Range::is_empty) {
        return acc;
    }
    // All of one length, so that one check holds for all positions.
    let len = pixels.len().saturating_sub((q + P - 1) * run.apart * BLOCK);
    let of: [&[T]; P] = std::array::from_fn(|k| &pixels[(q + k) * run.apart * BLOCK..][..len]);
    for i in run.taps[0].clone() {
        let row = (run.down.pixel(run.from[0], i) - run.first) * run.width;
        let kernel = run.down.at(i) * run.columns;
        for j in run.taps[1].clone() {
            let at = (row + run.across.pixel(run.from[1], j)) * BLOCK;
            let w = &weights[(kernel + run.across.at(j)) * BLOCK..][..V * L];
            for v in 0..V {
                let w: [T; L] = load_array(&w[v * L..]);
                for k in 0..P {
                    acc[k][v] = fma_arrays(load_array(&of[k][at..at + V * L][v * L..]), w, acc[k][v]);
                }
            }
        }
    }
    acc
}

#[inline(always)]
fn sum_run<T: Float, const P: usize, const V: usize, const L: usize>(
    run: &Run,
    pixels: &[T],
    weights: &[T],
    to: &mut [T],
) {
    let mut store = |q: usize, sums: &[[T; L]; V]| {
        to[q * run.to_apart * BLOCK..][..V * L].copy_from_slice(sums.as_flattened());
    };
    let tiles = run.positions / P * P;
    for q in (0..tiles).step_by(P) {
        let acc = sum_tile::<T, P, V, L>(run, q, pixels, weights);
        acc.iter().enumerate().for_each(|(k, acc)| store(q + k, acc));
    }
    for q in tiles..run.positions {
        store(q, &sum_tile::<T, 1, V, L>(run, q, pixels, weights)[0]);
    }
}

simd! { wide
    fn each_run_wide[T: Float, const P: usize, const V: usize, const L: usize](
        _t: Tile<P, V, L>, run: &Run, pixels: &[T], weights: &[T], to: &mut [T],
    ) {
        sum_run::<T, P, V, L>(run, pixels, weights, to);
    }
}

simd! { narrow
    fn each_run_narrow[T: Float, const P: usize, const V: usize, const L: usize](
        _t: Tile<P, V, L>, run: &Run, pixels: &[T], weights: &[T], to: &mut [T],
    ) {
        sum_run::<T, P, V, L>(run, pixels, weights, to);
    }
}

/// Positions of a tile, by the bytes of an element and the lanes of a vector. Of eight, LLVM would make vectors of
/// positions, and gather and scatter their channels.
const fn tile_positions(size: usize, lanes: usize) -> usize {
    match (size, lanes) {
        (4, 16) => 7,
        (4, _) | (_, 8) => 4,
        _ => 2,
    }
}

fn sum_positions<T: Float>(run: &Run, pixels: &[T], weights: &[T], to: &mut [T]) {
    match (size_of::<T>(), lanes::<T>()) {
        (4, 16) => each_run_wide(Tile::<{ tile_positions(4, 16) }, 1, 16>, run, pixels, weights, to),
        (4, _) => each_run_narrow(Tile::<{ tile_positions(4, 8) }, 2, 8>, run, pixels, weights, to),
        (_, 8) => each_run_wide(Tile::<{ tile_positions(8, 8) }, 2, 8>, run, pixels, weights, to),
        _ => each_run_narrow(Tile::<{ tile_positions(8, 4) }, 4, 4>, run, pixels, weights, to),
    }
}

fn lanes<T: Float>() -> usize {
    Token::current().shape::<T>().lanes
}
