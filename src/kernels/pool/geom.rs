//! The geometry of a pool: sizes, attributes, units, and the elements that a window covers.

use crate::abi::Args;
use crate::params::params;
use crate::window::{Units, WindowGeometry};
use std::ops::Range;

/// Least columns of windows that are computed one by one.
pub(super) const WIDE: usize = 8;
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

params! {
    /// A pool of `[n, c, h, w]`.
    pub struct PoolGeom {
        /// Images; may be 0.
        pub n: usize,
        /// Channels.
        pub c: usize,
        /// Windows over the planes; those of an average pool have dilation 1.
        pub windows: WindowGeometry<2>,
    }
}

impl PoolGeom {
    /// Elements of a plane of x and of a plane of y.
    pub(crate) fn areas(&self) -> [usize; 2] {
        [self.windows.size, self.windows.out()].map(|[h, w]| h * w)
    }

    /// Planes of a unit: at least 8192 elements of x, or one plane.
    pub(super) fn planes(&self) -> usize {
        (8192 / self.areas()[0]).max(1)
    }

    /// Units of a kernel that writes y (and indices).
    pub fn y_units(&self) -> Units {
        let planes = self.planes();
        Units { count: (self.n * self.c).div_ceil(planes), per_unit: planes * self.areas()[1] }
    }

    /// Units of a kernel that writes dx: the same planes as [`PoolGeom::y_units`].
    pub fn x_units(&self) -> Units {
        Units { per_unit: self.planes() * self.areas()[0], ..self.y_units() }
    }

    /// Whether 2 × 2 windows tile the image without padding.
    pub(super) fn has_2x2_windows(&self) -> bool {
        self.windows == WindowGeometry { stride: [2, 2], ..WindowGeometry::new(self.windows.size, [2, 2]) }
    }

    /// Whether windows of at least `least` columns overlap little, so that the loops of `wide_windows` are used.
    pub(super) fn has_wide_windows(&self, least: usize) -> bool {
        let WindowGeometry { kernel, stride, dilation, .. } = self.windows;
        dilation[1] == 1 && kernel[1] >= least && (stride[1] >= 3 || self.windows.out()[1] == 1)
    }

    /// Whether windows are one row that is too short for the loops of `wide_windows`, and the general loops have the
    /// bits of those: they add the elements of a window in order, and no more than two windows to an element of x.
    pub(super) fn has_short_rows(&self) -> bool {
        let WindowGeometry { kernel, stride, .. } = self.windows;
        kernel[0] == 1 && kernel[1] < WIDE && (kernel[1] <= 2 * stride[1] || self.windows.out()[1] == 1)
    }

    /// The divisor of all windows, if they have the same.
    pub(super) fn common_divisor(&self, by: PoolDivisor) -> Option<usize> {
        let whole = self.windows.pad == [[0; 2]; 2];
        (whole || by != PoolDivisor::Image).then(|| self.divisor(0, 0, by))
    }

    /// The divisor of a window.
    #[inline(always)]
    pub(super) fn divisor(&self, oh: usize, ow: usize, by: PoolDivisor) -> usize {
        let WindowGeometry { size, kernel, stride, pad, .. } = self.windows;
        match by {
            PoolDivisor::Window => return kernel[0] * kernel[1],
            PoolDivisor::One => return 1,
            PoolDivisor::Image => {}
        }
        let inside = |o: usize, a: usize| {
            let (from, pad) = (o * stride[a], pad[a][0]);
            (from + kernel[a]).min(size[a] + pad).saturating_sub(from.max(pad))
        };
        inside(oh, 0) * inside(ow, 1)
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
    let [image, area] = g.areas();
    (g, lo * image..hi * image, lo * area..hi * area)
}
