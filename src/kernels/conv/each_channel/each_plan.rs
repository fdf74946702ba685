//! What a depthwise correlation with channels in the lanes reads: the taps of each axis, and the sizes of bands.
//!
//! Position `p` of an axis of a sub-grid reads pixel `p · stride + shift` for each tap. The input gradient is a
//! correlation of dy, whose output is `step` interleaved sub-grids.

use super::super::geom::ConvGeom;
use crate::gemm::{GemmFloat, transpose};
use std::ops::Range;

/// Channels that are computed together.
pub(super) const BLOCK: usize = 16;
/// Pixels of a band, about: with [`BLOCK`] channels they stay in L2.
const PIXELS: usize = 1 << 11;

/// A depthwise correlation.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct EachPlan {
    /// Channels.
    pub channels: usize,
    pub src: [usize; 2],
    pub dst: [usize; 2],
    pub kernel: [usize; 2],
    /// Pixels from position to position in the source.
    pub stride: [usize; 2],
    /// The output is `step` interleaved sub-grids.
    pub step: [usize; 2],
    /// Rows of a sub-grid that are computed together.
    pub band: usize,
    back: bool,
    dilation: [usize; 2],
    pad: [usize; 2],
}

/// The taps of an axis that contribute to a sub-grid: the `t`-th is tap `first + t · by`, and reads pixel `shift +
/// t · across` for position 0.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct AxisTaps {
    first: usize,
    by: usize,
    shift: isize,
    across: isize,
    pub count: usize,
}

impl AxisTaps {
    /// Tap `t`.
    pub fn at(self, t: usize) -> usize {
        self.first + t * self.by
    }

    /// The pixel that tap `t` reads for a position that begins at pixel `from`.
    pub fn pixel(self, from: usize, t: usize) -> usize {
        (from as isize + self.shift + t as isize * self.across) as usize
    }

    /// `count` taps from tap `t` on.
    pub fn some(self, t: usize, count: usize) -> AxisTaps {
        AxisTaps { first: self.at(t), shift: self.shift + t as isize * self.across, count, ..self }
    }

    /// The taps that read one of `size` pixels for a position that begins at pixel `from`. They are adjacent.
    pub fn inside(self, from: usize, size: usize) -> Range<usize> {
        let sees = |t: &usize| self.pixel(from, *t) < size;
        let lo = (0..self.count).find(sees).unwrap_or(self.count);
        lo..(lo..self.count).rev().find(sees).map_or(lo, |t| t + 1)
    }

    /// The positions, `stride` pixels apart, for which all taps read one of `size` pixels.
    pub fn all_inside(self, positions: usize, stride: usize, size: usize) -> Range<usize> {
        let ends = [self.shift, self.shift + (self.count as isize - 1) * self.across];
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let lo = ((-low).max(0) as usize).div_ceil(stride).min(positions);
        let hi = (size as isize - high).max(0) as usize;
        lo..hi.div_ceil(stride).clamp(lo, positions)
    }
}

impl EachPlan {
    /// y from x.
    pub fn forward(g: &ConvGeom) -> EachPlan {
        EachPlan::of(g, false)
    }

    /// dx from dy.
    pub fn backward(g: &ConvGeom) -> EachPlan {
        EachPlan::of(g, true)
    }

    fn of(g: &ConvGeom, back: bool) -> EachPlan {
        let w = &g.windows;
        let (src, dst) = if back { (w.out(), w.size) } else { (w.size, w.out()) };
        let mut p = EachPlan {
            channels: g.groups,
            src,
            dst,
            kernel: w.kernel,
            stride: if back { [1, 1] } else { w.stride },
            step: if back { w.stride } else { [1, 1] },
            band: 1,
            back,
            dilation: w.dilation,
            pad: [w.pad[0][0], w.pad[1][0]],
        };
        let rows = (PIXELS / p.src[1].max(1) / p.stride[0]).min(PIXELS / (p.dst[1] * p.step[0]).max(1));
        p.band = rows.clamp(1, p.grid_rows().max(1));
        p
    }

    /// Rows of the largest sub-grid.
    pub fn grid_rows(&self) -> usize {
        self.dst[0].div_ceil(self.step[0])
    }

    /// Rows and columns of sub-grid `sub`.
    pub fn sub_grid(&self, sub: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|a| self.dst[a].saturating_sub(sub[a]).div_ceil(self.step[a]))
    }

    /// The sub-grids of the output.
    pub fn subs(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let [rows, cols] = self.step;
        (0..rows * cols).map(move |s| [s / cols, s % cols])
    }

    /// The taps of axis `a` that contribute to sub-grid `sub`.
    pub fn taps(&self, a: usize, sub: usize) -> AxisTaps {
        let (step, d) = (self.step[a], self.dilation[a] as isize);
        // Whether `sub + pad − k · dilation` is a multiple of the step; the dilation of a lone tap may be any number.
        let last = self.kernel[a] - 1;
        let rest = last * self.dilation[a] % step;
        let meets = |k: &usize| !self.back || (sub + self.pad[a] + (last - k) * self.dilation[a]) % step == rest;
        let mut all = (0..self.kernel[a]).filter(meets);
        let first = all.next();
        let by = all.next().map_or(self.kernel[a], |k| k - first.unwrap_or(0));
        let count = first.map_or(0, |k| (self.kernel[a] - k).div_ceil(by));
        let first = first.unwrap_or(0);
        let (at, across) = (first as isize * d, if count > 1 { by as isize * d } else { 0 });
        let (shift, across) = match self.back {
            false => (at - self.pad[a] as isize, across),
            true => (((sub + self.pad[a]) as isize - at).div_euclid(step as isize), -across / step as isize),
        };
        AxisTaps { first, by, shift, across, count }
    }

    /// The rows of the source that a band reads, from row `row` of the sub-grids on.
    pub fn source_rows(&self, row: usize) -> Range<usize> {
        let last = (row + self.band).min(self.grid_rows()).max(row + 1) - 1;
        let (mut lo, mut hi) = (self.src[0], 0);
        for sub in 0..self.step[0] {
            let taps = self.taps(0, sub);
            if taps.count > 0 {
                let ends = [taps.shift, taps.shift + (taps.count as isize - 1) * taps.across];
                let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
                lo = lo.min((row * self.stride[0]).saturating_add_signed(low));
                hi = hi.max((last * self.stride[0]).saturating_add_signed(high + 1));
            }
        }
        lo.min(self.src[0])..hi.clamp(lo.min(self.src[0]), self.src[0])
    }

    /// Most rows of the source that a band reads.
    pub fn strip_rows(&self) -> usize {
        (0..self.grid_rows()).step_by(self.band).map(|row| self.source_rows(row).len()).max().unwrap_or(0)
    }

    /// Elements of a plane of the output.
    pub fn area(&self) -> usize {
        self.dst[0] * self.dst[1]
    }
}

/// Whether channels fill the lanes of a depthwise convolution, and bands are of bounded size.
pub(in super::super) fn fits_each(g: &ConvGeom) -> bool {
    let small = |p: EachPlan| (p.strip_rows() + p.band) * p.src[1].max(p.dst[1] * p.step[0]) <= 16 * PIXELS;
    let each = g.c_in == g.groups && g.c_out == g.groups;
    g.n > 0 && each && g.groups >= BLOCK / 2 && small(EachPlan::forward(g)) && small(EachPlan::backward(g))
}

/// Copies rows `rows` of `count` planes of `size`: [`BLOCK`] channels for each pixel.
pub(super) fn load_channels<T: GemmFloat>(
    planes: &[T],
    size: [usize; 2],
    rows: &Range<usize>,
    count: usize,
    to: &mut [T],
) {
    let [height, width] = size;
    transpose(&planes[rows.start * width..], height * width, to, BLOCK, rows.len() * width, count);
}
