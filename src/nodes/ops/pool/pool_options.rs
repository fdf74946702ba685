//! Options of pools, with torch's names.

use crate::kernels::window::WindowGeometry;
use crate::nodes::arguments::per_axis::{PerAxis, both_sides_per_axis};
use crate::nodes::arguments::setters::setters;
use crate::nodes::ops::common::window_geometry::{first_entries, low_high_pairs};

/// Options of a pool over `N` axes, with `P` = 2·`N` sides to pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pool<const N: usize, const P: usize> {
    /// Elements of a window along each axis.
    pub kernel: [usize; N],
    /// Step between windows.
    pub stride: [usize; N],
    /// Padding before and after each axis, at most half of a window: the first axis first (top, bottom, left, right).
    pub pad: [usize; P],
    /// Distance between the taps of a window (maximum and minimum only).
    pub dilation: [usize; N],
    /// Whether padding counts as elements (average only).
    pub count_include_pad: bool,
    /// Whether the last window may reach beyond the padding at the end, if it begins before that padding.
    pub ceil_mode: bool,
    /// The divisor of the sums, instead of the number of elements (average only).
    pub divisor_override: Option<usize>,
}

/// Options of 1-D pools.
pub type Pool1d = Pool<1, 2>;
/// Options of 2-D pools.
pub type Pool2d = Pool<2, 4>;
/// Options of 3-D pools.
pub type Pool3d = Pool<3, 6>;

setters! {
    [const N: usize, const P: usize] Pool<N, P> {
        stride: impl PerAxis<N> => stride.per_axis(),
        pad: [usize; P],
        dilation: impl PerAxis<N> => dilation.per_axis(),
        count_include_pad: bool,
        ceil_mode: bool,
        divisor_override: impl Into<Option<usize>> => divisor_override.into(),
    }
}

impl<const N: usize, const P: usize> Pool<N, P> {
    /// Windows of size `kernel`, with a stride of `kernel` (they do not overlap) and no padding.
    pub fn new(kernel: impl PerAxis<N>) -> Self {
        let kernel = kernel.per_axis();
        Pool {
            kernel,
            stride: kernel,
            pad: [0; P],
            dilation: [1; N],
            count_include_pad: true,
            ceil_mode: false,
            divisor_override: None,
        }
    }

    /// These windows with the same padding on both sides of each axis.
    pub fn padding(self, padding: impl PerAxis<N>) -> Self {
        Pool { pad: both_sides_per_axis(padding), ..self }
    }

    /// The windows over axes of these sizes.
    pub(super) fn over(&self, size: &[usize]) -> WindowGeometry<N> {
        let Pool { kernel, stride, pad, dilation, .. } = *self;
        WindowGeometry { size: first_entries(size), kernel, stride, pad: low_high_pairs(&pad), dilation }
    }
}
