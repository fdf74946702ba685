//! Convolutions as methods of [`Var`].

use super::conv_options::{Conv, ConvTranspose};
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::conv::attrs::{ConvAttrs, ConvTransposeAttrs};

/// Methods for one, two and three axes.
macro_rules! by_axes {
    ($($n:literal $p:literal $shape:literal: $conv:ident $transposed:ident;)*) => {
        impl<'g> Var<'g> {
            $(
            #[doc = concat!("The convolution (cross-correlation) of x `[N, C, ", $shape, "]` with w `[O, C/groups, \
                kernel…]`.")]
            #[doc = ""]
            #[doc = "The result is `[N, O, …]` with ⌊(n + padding − dilation·(kernel − 1) − 1)/stride⌋ + 1 elements \
                along"]
            #[doc = "each axis. Both operands are `f32` or both `f64`. Windows longer than a padded axis are an error."]
            #[track_caller]
            pub fn $conv(self, w: Var<'g>, opt: Conv<$n, $p>) -> Var<'g> {
                self.conv_with_options([Op::CONV1D, Op::CONV2D, Op::CONV3D][$n - 1], w, &opt)
            }

            #[doc = concat!("The transpose of [`Var::", stringify!($conv), "`]: x `[N, C, ", $shape, "]`, w `[C, \
                O/groups, kernel…]`.")]
            #[doc = ""]
            #[doc = "The result is `[N, O, …]` with (n − 1)·stride − 2·pad + dilation·(kernel − 1) + output_pad + 1 \
                elements"]
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
    fn conv_with_options<const N: usize, const P: usize>(self, op: Op, w: Var<'g>, opt: &Conv<N, P>) -> Var<'g> {
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
