//! Options of convolutions, with torch's names.

use crate::nodes::arguments::per_axis::{PerAxis, both_sides_per_axis};
use crate::nodes::arguments::setters::setters;

/// Options of a convolution over `N` axes, with `P` = 2·`N` sides to pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conv<const N: usize, const P: usize> {
    /// Step between windows along each axis.
    pub stride: [usize; N],
    /// Zeros before and after each axis, the first axis first (top, bottom, left, right).
    pub pad: [usize; P],
    /// Distance between the taps of a window.
    pub dilation: [usize; N],
    /// Independent groups of channels.
    pub groups: usize,
}

/// Options of [`Var::conv1d`](crate::nodes::Var::conv1d).
pub type Conv1d = Conv<1, 2>;
/// Options of [`Var::conv2d`](crate::nodes::Var::conv2d).
pub type Conv2d = Conv<2, 4>;
/// Options of [`Var::conv3d`](crate::nodes::Var::conv3d).
pub type Conv3d = Conv<3, 6>;

impl<const N: usize, const P: usize> Default for Conv<N, P> {
    fn default() -> Self {
        Conv { stride: [1; N], pad: [0; P], dilation: [1; N], groups: 1 }
    }
}

setters! {
    [const N: usize, const P: usize] Conv<N, P> {
        stride: impl PerAxis<N> => stride.per_axis(),
        pad: [usize; P],
        dilation: impl PerAxis<N> => dilation.per_axis(),
        groups: usize,
    }
}

impl<const N: usize, const P: usize> Conv<N, P> {
    /// These options with the same `pad` on both sides of each axis: torch's `padding`.
    pub fn padding(self, padding: impl PerAxis<N>) -> Self {
        Conv { pad: both_sides_per_axis(padding), ..self }
    }
}

/// Options of a transposed convolution over `N` axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvTranspose<const N: usize> {
    /// Distance in the result between the windows of neighbouring elements of x.
    pub stride: [usize; N],
    /// Elements cut off on both sides of each axis of the result.
    pub pad: [usize; N],
    /// Elements added at the end of each axis, fewer than the stride or the dilation.
    pub output_pad: [usize; N],
    /// Distance between the taps.
    pub dilation: [usize; N],
    /// Independent groups of channels.
    pub groups: usize,
}

/// Options of [`Var::conv_transpose1d`](crate::nodes::Var::conv_transpose1d).
pub type ConvTranspose1d = ConvTranspose<1>;
/// Options of [`Var::conv_transpose2d`](crate::nodes::Var::conv_transpose2d).
pub type ConvTranspose2d = ConvTranspose<2>;
/// Options of [`Var::conv_transpose3d`](crate::nodes::Var::conv_transpose3d).
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> Default for ConvTranspose<N> {
    fn default() -> Self {
        ConvTranspose { stride: [1; N], pad: [0; N], output_pad: [0; N], dilation: [1; N], groups: 1 }
    }
}

setters! {
    [const N: usize] ConvTranspose<N> {
        stride: impl PerAxis<N> => stride.per_axis(),
        pad: impl PerAxis<N> => pad.per_axis(),
        output_pad: impl PerAxis<N> => output_pad.per_axis(),
        dilation: impl PerAxis<N> => dilation.per_axis(),
        groups: usize,
    }
}

impl<const N: usize> ConvTranspose<N> {
    /// The same as [`ConvTranspose::pad`]: torch's `padding`.
    pub fn padding(self, padding: impl PerAxis<N>) -> Self {
        self.pad(padding)
    }

    /// The same as [`ConvTranspose::output_pad`]: torch's `output_padding`.
    pub fn output_padding(self, padding: impl PerAxis<N>) -> Self {
        self.output_pad(padding)
    }
}
