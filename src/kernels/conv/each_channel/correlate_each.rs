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
fn sum_band<T: Float>(p: &EachPlan, row: usize, rows: &Range<usize>, pixels: &[T], weights: &[T], sums: &mut [T]) {
    for sub in p.subs() {
        let ([height, width], [down, across]) = (p.sub_grid(sub), [0, 1].map(|a| p.taps(a, sub[a])));
        for r in row..height.min(row + p.band) {
            let from = r * p.stride[0];
            let line = Line {
                down,
                across,
                taps: down.inside(from, p.src[0]),
                from,
                first: rows.start,
                width: p.src[1],
                kernel: p.kernel[1],
                positions: width,
            };
            let to = &mut sums[(((r - row) * p.step[0] + sub[0]) * p.dst[1] + sub[1]) * BLOCK..];
            sum_line(line, p.stride[1], pixels, weights, to, p.step[1]);
        }
    }
}

/// A row of positions of a sub-grid.
#[derive(Clone)]
struct Line {
    /// The taps of each axis, and the rows of the kernel that see the source.
    down: AxisTaps,
    across: AxisTaps,
    taps: Range<usize>,
    /// The row of the source at which the window begins, but for its shift.
    from: usize,
    /// The first row of the source among the pixels.
    first: usize,
    /// Pixels of a row of the source.
    width: usize,
    /// Columns of the kernel.
    kernel: usize,
    /// Positions.
    positions: usize,
}

/// `P` positions, `S` pixels apart, of `V` vectors of `L` channels.
struct Tile<const P: usize, const S: usize, const V: usize, const L: usize>;

/// Positions from `q` on, which begin at pixel `q · stride` and read columns `cols` of the kernel.
#[inline(always)]
fn sum_tile<T: Float, const P: usize, const S: usize, const V: usize, const L: usize>(
    line: &Line,
    at: usize,
    cols: Range<usize>,
    pixels: &[T],
    weights: &[T],
) -> [[[T; L]; V]; P] {
    let mut acc = [[[T::ZERO; L]; V]; P];
    for i in line.taps.clone() {
        let row = (line.down.pixel(line.from, i) - line.first) * line.width;
        let kernel = line.down.at(i) * line.kernel;
        for j in cols.clone() {
            let x = &pixels[(row + line.across.pixel(at, j)) * BLOCK..][..((P - 1) * S + 1) * V * L];
            let w = &weights[(kernel + line.across.at(j)) * BLOCK..][..V * L];
            for v in 0..V {
                let w: [T; L] = load_array(&w[v * L..]);
                for k in 0..P {
                    acc[k][v] = fma_arrays(load_array(&x[k * S * V * L + v * L..]), w, acc[k][v]);
                }
            }
        }
    }
    acc
}

#[inline(always)]
fn sum_row<T: Float, const P: usize, const S: usize, const V: usize, const L: usize>(
    line: &Line,
    stride: usize,
    pixels: &[T],
    weights: &[T],
    to: &mut [T],
    step: usize,
) {
    let whole = line.across.all_inside(line.positions, stride, line.width);
    let mut q = 0;
    while q < line.positions {
        let to = &mut to[q * step * BLOCK..];
        if whole.contains(&q) && q + P <= whole.end {
            let acc = sum_tile::<T, P, S, V, L>(line, q * stride, 0..line.across.count, pixels, weights);
            for (k, acc) in acc.iter().enumerate() {
                to[k * step * BLOCK..][..V * L].copy_from_slice(acc.as_flattened());
            }
            q += P;
        } else {
            let cols = line.across.inside(q * stride, line.width);
            let acc = sum_tile::<T, 1, 1, V, L>(line, q * stride, cols, pixels, weights);
            to[..V * L].copy_from_slice(acc[0].as_flattened());
            q += 1;
        }
    }
}

simd! { wide
    fn each_row_wide[T: Float, const P: usize, const S: usize, const V: usize, const L: usize](
        _t: Tile<P, S, V, L>, line: &Line, stride: usize, pixels: &[T], weights: &[T], to: &mut [T], step: usize,
    ) {
        sum_row::<T, P, S, V, L>(line, stride, pixels, weights, to, step);
    }
}

simd! { narrow
    fn each_row_narrow[T: Float, const P: usize, const S: usize, const V: usize, const L: usize](
        _t: Tile<P, S, V, L>, line: &Line, stride: usize, pixels: &[T], weights: &[T], to: &mut [T], step: usize,
    ) {
        sum_row::<T, P, S, V, L>(line, stride, pixels, weights, to, step);
    }
}

/// Sums a row of positions, which are `stride` pixels apart, to every `step`-th position of `to`.
fn sum_line<T: Float>(line: Line, stride: usize, pixels: &[T], weights: &[T], to: &mut [T], step: usize) {
    macro_rules! by_stride {
        ($row:ident, $p:literal, $v:literal, $l:literal) => {
            match stride {
                1 => $row(Tile::<$p, 1, $v, $l>, &line, 1, pixels, weights, to, step),
                2 => $row(Tile::<$p, 2, $v, $l>, &line, 2, pixels, weights, to, step),
                _ => $row(Tile::<1, 1, $v, $l>, &line, stride, pixels, weights, to, step),
            }
        };
    }
    match (size_of::<T>(), Token::current().shape::<T>().lanes) {
        (4, 16) => by_stride!(each_row_wide, 8, 1, 16),
        (4, _) => by_stride!(each_row_narrow, 4, 2, 8),
        (_, 8) => by_stride!(each_row_wide, 4, 2, 8),
        _ => by_stride!(each_row_narrow, 2, 4, 4),
    }
}
