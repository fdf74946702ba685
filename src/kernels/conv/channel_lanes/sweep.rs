//! The loops of correlations with channels in the lanes: channels, images, bands of rows, sub-grids, runs, tiles.

use super::super::conv_micro::ConvMicroEpilogue;
use super::gathered_tile::{GatheredRun, GatheredTile, POSITIONS, gathered_channels, sum_gathered};
use super::lanes_plan::{GROUP, LanesPlan, RUN};
use super::operands::{load_pixels, pack_weights, transposed_len};
use crate::abi::MatrixMut;
use crate::gemm::{GemmFloat, RegisterTileOperands, transpose};
use crate::simd::{Isa, Token, isa};
use arrayvec::ArrayVec;
use std::ops::Range;

/// Most runs that are summed in one visit of the sums of a tile, and most numbers, unless one run has more.
const RUNS: usize = 8;
const TERMS: usize = 512;

/// Channels whose weights are adjacent: those of a tile of sixteen registers, which stay in L1.
fn panel<T>() -> usize {
    if cfg!(target_arch = "x86_64") && isa() == Isa::Avx2 { gathered_channels::<T>() } else { GROUP }
}

/// Elements of [weights, their transposes, strip, sums].
fn sizes(p: &LanesPlan) -> [usize; 4] {
    let weights = p.kernel[0] * p.kernel[1] * p.src_c * GROUP;
    // The last tile of a row may end with a step that is not there.
    let sums = (p.band * p.step[0] * p.dst[1] + p.step[1]) * GROUP;
    [weights, transposed_len(p), p.rows * p.cols * p.src_c, sums].map(|len| len.next_multiple_of(16))
}

/// Elements of scratch of a thread.
pub(in super::super) fn lanes_scratch(p: &LanesPlan) -> usize {
    sizes(p).iter().sum()
}

/// Computes channels `channels` of images `images`: a row of `dst` for each image.
pub(in super::super) fn correlate_lanes<T: GemmFloat>(
    p: &LanesPlan,
    (src, weight): (&[T], &[T]),
    epilogue: ConvMicroEpilogue<'_, T>,
    (images, channels): (Range<usize>, Range<usize>),
    mut dst: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let [weights, work, strip, sums] = sizes(p);
    let (weights, scratch) = scratch.split_at_mut(weights);
    let (work, scratch) = scratch.split_at_mut(work);
    let (strip, scratch) = scratch.split_at_mut(strip);
    let sums = &mut scratch[..sums];
    strip.fill(T::ZERO);
    let planes = p.src_c * p.src[0] * p.src[1];
    let mut m = channels.start;
    while m < channels.end {
        let (group, from) = (m / p.dst_c, m % p.dst_c);
        let count = GROUP.min(p.dst_c - from).min(channels.end - m);
        let all = p.dst_c * p.kernel[0] * p.kernel[1] * p.src_c;
        pack_weights(p, &weight[group * all..][..all], (from, count), panel::<T>(), work, weights);
        for image in images.clone() {
            let planes = &src[(image * p.groups + group) * planes..][..planes];
            let to = &mut dst.row(image - images.start)[(m - channels.start) * p.area()..][..count * p.area()];
            for row in (0..p.grid()[0]).step_by(p.band) {
                load_pixels(p, planes, row, strip);
                sum_band(p, row, count, strip, weights, sums);
                let first = row * p.step[0] * p.dst[1];
                let len = (p.band * p.step[0] * p.dst[1]).min(p.area() - first);
                transpose(sums, GROUP, &mut to[first..], p.area(), count, len);
                if epilogue.some() {
                    let epilogue = epilogue.of(m..m + count);
                    to.chunks_exact_mut(p.area()).enumerate().for_each(|(c, to)| {
                        epilogue.apply(c, &mut to[first..first + len]);
                    });
                }
            }
        }
        m += count;
    }
}

/// Sums all taps for the rows of a band from row `row` of the sub-grids on, and for `count` channels.
fn sum_band<T: GemmFloat>(p: &LanesPlan, row: usize, count: usize, strip: &[T], weights: &[T], sums: &mut [T]) {
    let token = Token::current();
    let (tallest, _) = T::shape(token, usize::MAX);
    let panel = panel::<T>();
    let mut weights = weights;
    for sub in p.subs() {
        let [rows, cols] = p.sub_grid(sub);
        let rows = rows.saturating_sub(row).min(p.band);
        let mut add = false;
        if panel < GROUP && rows > 1 && cols.div_ceil(cols.div_ceil(tallest).max(1)) < 5 {
            let (mut runs, mut terms) = (ArrayVec::<_, RUNS>::new(), 0);
            p.each_run(sub, |down, across, taps| {
                let k = taps.count * p.src_c;
                if runs.is_full() || (terms > 0 && terms + k > TERMS) {
                    gather(p, [rows, cols], sub, count, (strip, &runs), add, sums);
                    runs.clear();
                    (add, terms) = (true, 0);
                }
                let (run, rest) = weights.split_at(k * GROUP);
                weights = rest;
                runs.push(GatheredRun { at: (down * p.cols + across) * p.src_c, k, weights: run });
                terms += k;
            });
            if !runs.is_empty() {
                gather(p, [rows, cols], sub, count, (strip, &runs), add, sums);
                add = true;
            }
        } else {
            p.each_run(sub, |down, across, taps| {
                let all = taps.count * p.src_c;
                let (run, rest) = weights.split_at(all * GROUP);
                weights = rest;
                // Pieces of about equal length.
                let piece = all.div_ceil(all.div_ceil(RUN));
                for at in (0..all).step_by(piece) {
                    let k = piece.min(all - at);
                    let mut j = 0;
                    while j < count {
                        let width = T::width(token, tallest, panel.min(count - j));
                        let b = &run[j / panel * panel * all + at * panel + j % panel..];
                        let at = (down * p.cols + across) * p.src_c + at;
                        Tiles { rows, cols, sub, at, k, j, width, add }.sum(token, p, tallest, strip, (b, panel), sums);
                        j += width;
                    }
                    add = true;
                }
            });
        }
        if !add {
            clear_positions(p, sub, [rows, cols], sums);
        }
    }
}

/// Adds `runs` to the sums of a sub-grid of [rows, columns], in tiles of positions of several rows. Channels from
/// `count` on hold anything.
fn gather<T: GemmFloat>(
    p: &LanesPlan,
    [rows, cols]: [usize; 2],
    sub: [usize; 2],
    count: usize,
    (strip, runs): (&[T], &[GatheredRun<'_, T>]),
    add: bool,
    sums: &mut [T],
) {
    let sums = sums.as_chunks_mut::<GROUP>().0;
    let all = rows * cols;
    let tiles = all.div_ceil(POSITIONS);
    for j in (0..count).step_by(gathered_channels::<T>()) {
        let (mut row, mut q) = (0, 0);
        for tile in 0..tiles {
            let count = all * (tile + 1) / tiles - all * tile / tiles;
            let (mut from, mut to) = ([0; POSITIONS], [0; POSITIONS]);
            for (from, to) in from.iter_mut().zip(&mut to).take(count) {
                *from = (row * p.stride[0] * p.cols + q * p.stride[1]) * p.src_c;
                *to = (row * p.step[0] + sub[0]) * p.dst[1] + sub[1] + q * p.step[1];
                (row, q) = if q + 1 == cols { (row + 1, 0) } else { (row, q + 1) };
            }
            sum_gathered(&GatheredTile { strip, from, to, count, runs, j, add }, sums);
        }
    }
}

/// The register tiles of one run and some channels.
struct Tiles {
    rows: usize,
    cols: usize,
    sub: [usize; 2],
    /// The first number of position (0, 0) in the strip.
    at: usize,
    /// Numbers of the run.
    k: usize,
    /// Channels `j..j + width`.
    j: usize,
    width: usize,
    /// Whether sums are there already.
    add: bool,
}

impl Tiles {
    #[inline(always)]
    fn sum<T: GemmFloat>(
        &self,
        token: Token,
        p: &LanesPlan,
        tallest: usize,
        strip: &[T],
        (b, b_row): (&[T], usize),
        sums: &mut [T],
    ) {
        if self.cols == 0 {
            return;
        }
        let count = self.cols.div_ceil(tallest);
        let (low, higher) = (self.cols / count, self.cols % count);
        let (a_row, c_row) = (p.stride[1] * p.src_c, p.step[1] * GROUP);
        for row in 0..self.rows {
            let mut q = 0;
            for t in 0..count {
                let height = low + usize::from(t < higher);
                let a = &strip[self.at + (row * p.stride[0] * p.cols + q * p.stride[1]) * p.src_c..];
                let to = ((row * p.step[0] + self.sub[0]) * p.dst[1] + self.sub[1] + q * p.step[1]) * GROUP;
                let c = MatrixMut::new(&mut sums[to..], height, c_row).cut(0..height, self.j..self.j + self.width);
                T::tile(
                    token,
                    RegisterTileOperands {
                        a,
                        a_row,
                        a_col: 1,
                        b,
                        b_row,
                        k: self.k,
                        c,
                        add: self.add,
                        prefetch_c: false,
                        prefetch: None,
                        step: None,
                    },
                );
                q += height;
            }
        }
    }
}

/// Clears the positions of a sub-grid that no tap reaches.
fn clear_positions<T: GemmFloat>(p: &LanesPlan, sub: [usize; 2], [rows, cols]: [usize; 2], sums: &mut [T]) {
    for row in 0..rows {
        for q in 0..cols {
            let at = (row * p.step[0] + sub[0]) * p.dst[1] + sub[1] + q * p.step[1];
            sums[at * GROUP..][..GROUP].fill(T::ZERO);
        }
    }
}
