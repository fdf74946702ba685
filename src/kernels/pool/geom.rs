//! The geometry of a pool: sizes, attributes, units, and the elements that a window covers.

use crate::abi::Args;
use crate::window::{Units, count_windows};
use std::ops::Range;

/// Flag of average pools: padding counts in the divisor.
pub const COUNT_PAD: u64 = 1;
/// Flag of average pools: no divisor; the results are sums.
pub const SUM: u64 = 2;

/// The divisor of a window's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolDivisor {
    /// The window's elements, padding included.
    Window,
    /// The window's elements inside the image.
    Image,
    /// No division.
    One,
}

impl PoolDivisor {
    /// The divisor that flags select.
    pub(super) fn of_geom_flags(flags: u64) -> PoolDivisor {
        match (flags & SUM != 0, flags & COUNT_PAD != 0) {
            (true, _) => PoolDivisor::One,
            (_, true) => PoolDivisor::Window,
            _ => PoolDivisor::Image,
        }
    }
}

/// Sizes and attributes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PoolGeom {
    /// Images; may be 0.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Input height.
    pub h: usize,
    /// Input width.
    pub w: usize,
    /// Window height.
    pub kh: usize,
    /// Window width.
    pub kw: usize,
    /// Step between windows, down and across.
    pub stride: [usize; 2],
    /// Padding: top, bottom, left, right.
    pub pad: [usize; 4],
    /// Distance between the elements of a window; `[1, 1]` for average pools.
    pub dilation: [usize; 2],
}

impl PoolGeom {
    /// Number of words of [`PoolGeom::to_words`].
    pub const WORDS: usize = 14;

    fn outputs(&self, a: usize) -> Option<usize> {
        let pad = [self.pad[2 * a], self.pad[2 * a + 1]];
        count_windows([self.h, self.w][a], [self.kh, self.kw][a], self.stride[a], pad, self.dilation[a])
    }

    /// Output height; 0 when no window fits.
    pub fn out_h(&self) -> usize {
        self.outputs(0).unwrap_or(0)
    }

    /// Output width; 0 when no window fits.
    pub fn out_w(&self) -> usize {
        self.outputs(1).unwrap_or(0)
    }

    /// Planes of a unit: at least 8192 elements of x, or one plane.
    pub(super) fn planes(&self) -> usize {
        (8192 / (self.h * self.w)).max(1)
    }

    /// Units of a kernel that writes y (and indices).
    pub fn y_units(&self) -> Units {
        let planes = self.planes();
        Units { count: (self.n * self.c).div_ceil(planes), per_unit: planes * self.out_h() * self.out_w() }
    }

    /// Units of a kernel that writes dx: the same planes as [`PoolGeom::y_units`].
    pub fn x_units(&self) -> Units {
        let planes = self.planes();
        Units { count: (self.n * self.c).div_ceil(planes), per_unit: planes * self.h * self.w }
    }

    /// The geometry as parameter words.
    pub fn to_words(self) -> [u64; Self::WORDS] {
        let ([s0, s1], [t, b, l, r], [d0, d1]) = (self.stride, self.pad, self.dilation);
        [self.n, self.c, self.h, self.w, self.kh, self.kw, s0, s1, t, b, l, r, d0, d1].map(|v| v as u64)
    }

    /// Decodes [`PoolGeom::to_words`]; ignores words after the geometry.
    ///
    /// # Panics
    /// If there are fewer than [`PoolGeom::WORDS`] words.
    pub fn from_words(words: &[u64]) -> PoolGeom {
        let v = |i: usize| words[i] as usize;
        PoolGeom {
            n: v(0),
            c: v(1),
            h: v(2),
            w: v(3),
            kh: v(4),
            kw: v(5),
            stride: [v(6), v(7)],
            pad: [v(8), v(9), v(10), v(11)],
            dilation: [v(12), v(13)],
        }
    }

    /// The input row of tap `i` of output row `o`; `None` for padding.
    #[inline(always)]
    pub(crate) fn row(&self, o: usize, i: usize) -> Option<usize> {
        (o * self.stride[0] + i * self.dilation[0]).checked_sub(self.pad[0]).filter(|r| *r < self.h)
    }

    /// The output columns whose tap `j` lies in the image, and the input column of the first of them.
    #[inline(always)]
    pub(crate) fn cols(&self, j: usize, wo: usize) -> (Range<usize>, usize) {
        let (at, s) = (j * self.dilation[1], self.stride[1]);
        let lo = self.pad[2].saturating_sub(at).div_ceil(s);
        let hi = (self.w + self.pad[2]).saturating_sub(at).div_ceil(s).min(wo);
        if lo < hi { (lo..hi, lo * s + at - self.pad[2]) } else { (0..0, 0) }
    }

    /// Whether 2 × 2 windows tile the image without padding.
    pub(super) fn has_2x2_windows(&self) -> bool {
        [self.kh, self.kw] == [2, 2] && self.stride == [2, 2] && self.pad == [0; 4] && self.dilation == [1, 1]
    }

    /// Whether windows are at least 4 wide and overlap little, so that the loops of `wide_windows` are used.
    pub(super) fn has_wide_windows(&self) -> bool {
        self.dilation[1] == 1 && self.kw >= 4 && (self.stride[1] >= 3 || self.out_w() == 1)
    }

    /// The divisor of a window.
    #[inline(always)]
    pub(super) fn divisor(&self, oh: usize, ow: usize, by: PoolDivisor) -> usize {
        match by {
            PoolDivisor::Window => return self.kh * self.kw,
            PoolDivisor::One => return 1,
            PoolDivisor::Image => {}
        }
        let inside = |o: usize, a: usize, k: usize, size: usize| {
            let (from, pad) = (o * self.stride[a], self.pad[2 * a]);
            (from + k).min(size + pad).saturating_sub(from.max(pad))
        };
        inside(oh, 0, self.kh, self.h) * inside(ow, 1, self.kw, self.w)
    }

    /// The factor of a sum over a [`PoolGeom::has_2x2_windows`] window.
    pub(super) fn quarter(by: PoolDivisor) -> f64 {
        if by == PoolDivisor::One { 1.0 } else { 0.25 }
    }
}

/// The geometry of a call, and its ranges of elements of x and of y.
pub fn read_call_shape(args: &Args<'_>) -> (PoolGeom, Range<usize>, Range<usize>) {
    let g = PoolGeom::from_words(args.params());
    let (all, units) = (g.n * g.c, args.units());
    let (lo, hi) = ((units.start * g.planes()).min(all), (units.end * g.planes()).min(all));
    let (image, area) = (g.h * g.w, g.out_h() * g.out_w());
    (g, lo * image..hi * image, lo * area..hi * area)
}
