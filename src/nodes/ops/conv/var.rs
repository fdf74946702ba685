//! Convolutions as methods of [`Var`]. Options have torch's names.

use crate::nodes::build::setters::{PerAxis, both_sides, setters};
use crate::nodes::build::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::conv::attrs::{ConvAttrs, ConvTransposeAttrs};

/// Options of a convolution over `N` axes, with `P` = 2·`N` sides to pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Options of [`Var::conv2d`].
pub type Conv2d = Conv<2, 4>;
/// Options of [`Var::conv3d`].
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
        Conv { pad: both_sides(padding), ..self }
    }
}

/// Options of a transposed convolution over `N` axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Methods for one, two and three axes.
macro_rules! by_axes {
    ($($n:literal $p:literal $shape:literal: $conv:ident $transposed:ident;)*) => {
        impl<'g> Var<'g> {
            $(
            #[doc = concat!("The convolution (cross-correlation) of x `[N, C, ", $shape, "]` with w `[O, C/groups, kernel…]`.")]
            #[doc = ""]
            #[doc = "The result is `[N, O, …]` with ⌊(n + padding − dilation·(kernel − 1) − 1)/stride⌋ + 1 elements along"]
            #[doc = "each axis. Both operands are `f32` or both `f64`. Windows longer than a padded axis are an error."]
            #[track_caller]
            pub fn $conv(self, w: Var<'g>, opt: Conv<$n, $p>) -> Var<'g> {
                self.convolve_with([Op::CONV1D, Op::CONV2D, Op::CONV3D][$n - 1], w, &opt)
            }

            #[doc = concat!("The transpose of [`Var::", stringify!($conv), "`]: x `[N, C, ", $shape, "]`, w `[C, O/groups, kernel…]`.")]
            #[doc = ""]
            #[doc = "The result is `[N, O, …]` with (n − 1)·stride − 2·pad + dilation·(kernel − 1) + output_pad + 1 elements"]
            #[doc = "along each axis, as torch has it."]
            #[track_caller]
            pub fn $transposed(self, w: Var<'g>, opt: ConvTranspose<$n>) -> Var<'g> {
                let op = [Op::CONV_TRANSPOSE1D, Op::CONV_TRANSPOSE2D, Op::CONV_TRANSPOSE3D][$n - 1];
                self.convolve_transposed_with(op, w, &opt)
            }
            )*
        }
    };
}

by_axes! {
    1 2 "L": conv1d conv_transpose1d;
    2 4 "H, W": conv2d conv_transpose2d;
    3 6 "D, H, W": conv3d conv_transpose3d;
}

impl<'g> Var<'g> {
    #[track_caller]
    fn convolve_with<const N: usize, const P: usize>(self, op: Op, w: Var<'g>, opt: &Conv<N, P>) -> Var<'g> {
        let attrs = ConvAttrs {
            stride: size_attrs_to_i64(&opt.stride),
            pad: size_attrs_to_i64(&opt.pad),
            dilation: size_attrs_to_i64(&opt.dilation),
            groups: size_attr_to_i64(opt.groups),
        };
        self.g.emit1(op, &[self, w], &attrs.list())
    }

    #[track_caller]
    fn convolve_transposed_with<const N: usize>(self, op: Op, w: Var<'g>, opt: &ConvTranspose<N>) -> Var<'g> {
        let attrs = ConvTransposeAttrs {
            stride: size_attrs_to_i64(&opt.stride),
            pad: size_attrs_to_i64(opt.pad.map(|p| [p, p]).as_flattened()),
            dilation: size_attrs_to_i64(&opt.dilation),
            groups: size_attr_to_i64(opt.groups),
            output_pad: size_attrs_to_i64(&opt.output_pad),
        };
        self.g.emit1(op, &[self, w], &attrs.list())
    }
}
