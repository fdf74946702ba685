//! Options of convolutions as layers: those of the ops, and those of the params.
//!
//! `nn::conv2d` takes the options of the op, [`Conv2d`](crate::nodes::Conv2d). `.bias(…)`, `.weight_init(…)` and
//! `.bias_init(…)` turn them into options of the layer, which `nn::conv2d_with` takes and the op does not.

use crate::nodes::build::per_axis::both_sides_per_axis;
use crate::nodes::build::setters::setters;
use crate::nodes::{Conv, ConvTranspose, Init, PerAxis};

/// Options of [`conv1d`](super::conv1d).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1d {
    /// Distance between windows.
    pub stride: usize,
    /// Number of zeros before and after the axis.
    pub pad: [usize; 2],
    /// Distance between the elements of a window.
    pub dilation: usize,
    /// Number of groups of channels that are convolved independently.
    pub groups: usize,
}

impl Default for Conv1d {
    fn default() -> Conv1d {
        Conv1d { stride: 1, pad: [0, 0], dilation: 1, groups: 1 }
    }
}

setters! {
    [] Conv1d {
        stride: impl PerAxis<1> => stride.per_axis()[0],
        pad: [usize; 2],
        dilation: impl PerAxis<1> => dilation.per_axis()[0],
        groups: usize,
    }
}

impl Conv1d {
    /// These options with the same `pad` on both sides: torch's `padding`.
    pub fn padding(self, padding: impl PerAxis<1>) -> Conv1d {
        Conv1d { pad: both_sides_per_axis(padding), ..self }
    }
}

/// Options of [`conv_transpose1d`](super::conv_transpose1d).
pub type ConvTranspose1d = ConvTranspose<1>;

/// Options of [`conv_transpose2d`](super::conv_transpose2d).
pub type ConvTranspose2d = ConvTranspose<2>;

/// Options of [`conv_transpose3d`](super::conv_transpose3d).
pub type ConvTranspose3d = ConvTranspose<3>;

/// Options of a convolution as a layer over `N` axes, with `P` = 2·`N` sides to pad. Options of the op become options
/// of the layer by `.bias(…)`, `.weight_init(…)` and `.bias_init(…)`.
///
/// ```
/// use arenagrad::prelude::*;
///
/// let g = Builder::new("net");
/// let x = g.input("x", [8, 3, 32, 32], DType::F32);
/// let y = nn::conv2d_with(&g, "conv", x, 16, 3, Conv2d::default().stride(2).padding(1).bias(false));
/// assert_eq!(*y.dims(), [8, 16, 16, 16]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvLayer<const N: usize, const P: usize> {
    /// The windows.
    pub conv: Conv<N, P>,
    /// Adds a param `name.bias`.
    pub bias: bool,
    /// Start values of the weight; `None` is torch's default, uniform in ±1/√fan_in.
    pub weight_init: Option<Init>,
    /// Start values of the bias; `None` is torch's default, uniform in ±1/√fan_in.
    pub bias_init: Option<Init>,
}

/// Options of a transposed convolution as a layer over `N` axes, made as those of a [`ConvLayer`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvTransposeLayer<const N: usize> {
    /// The windows.
    pub conv: ConvTranspose<N>,
    /// As in [`ConvLayer`].
    pub bias: bool,
    /// As in [`ConvLayer`].
    pub weight_init: Option<Init>,
    /// As in [`ConvLayer`].
    pub bias_init: Option<Init>,
}

/// The methods of a layer's options, and what makes them of the op's options.
macro_rules! layer_options {
    ([$($generics:tt)*] $layer:ident<$($n:ident),*> of $op:ty { $($(#[$doc:meta])* $name:ident: $ty:ty),* $(,)? }) => {
        impl<$($generics)*> From<$op> for $layer<$($n),*> {
            fn from(conv: $op) -> Self {
                $layer { conv, bias: true, weight_init: None, bias_init: None }
            }
        }

        impl<$($generics)*> Default for $layer<$($n),*> {
            fn default() -> Self {
                <$op>::default().into()
            }
        }

        setters! {
            [$($generics)*] $layer<$($n),*> {
                bias: bool,
                weight_init: Init => Some(weight_init),
                bias_init: Init => Some(bias_init),
            }
        }

        impl<$($generics)*> $layer<$($n),*> {
            $(
            #[doc = concat!("These options with this `", stringify!($name), "` of the windows.")]
            pub fn $name(self, $name: $ty) -> Self {
                $layer { conv: self.conv.$name($name), ..self }
            }
            )*
        }

        to_layer! { [$($generics)*] $op => $layer<$($n),*> }
    };
}

/// The methods that make options of a layer of an op's.
macro_rules! to_layer {
    ([$($generics:tt)*] $op:ty => $layer:ty) => {
        impl<$($generics)*> $op {
            /// Options of a layer with this `bias`: whether it has a param `name.bias`.
            pub fn bias(self, bias: bool) -> $layer {
                <$layer>::from(self).bias(bias)
            }

            /// Options of a layer with these start values of its weight.
            pub fn weight_init(self, init: Init) -> $layer {
                <$layer>::from(self).weight_init(init)
            }

            /// Options of a layer with these start values of its bias.
            pub fn bias_init(self, init: Init) -> $layer {
                <$layer>::from(self).bias_init(init)
            }
        }
    };
}

layer_options! {
    [const N: usize, const P: usize] ConvLayer<N, P> of Conv<N, P> {
        stride: impl PerAxis<N>,
        padding: impl PerAxis<N>,
        pad: [usize; P],
        dilation: impl PerAxis<N>,
        groups: usize,
    }
}

layer_options! {
    [const N: usize] ConvTransposeLayer<N> of ConvTranspose<N> {
        stride: impl PerAxis<N>,
        padding: impl PerAxis<N>,
        pad: impl PerAxis<N>,
        output_padding: impl PerAxis<N>,
        output_pad: impl PerAxis<N>,
        dilation: impl PerAxis<N>,
        groups: usize,
    }
}

to_layer! { [] Conv1d => ConvLayer<1, 2> }

impl From<Conv1d> for ConvLayer<1, 2> {
    fn from(o: Conv1d) -> Self {
        Conv { stride: [o.stride], pad: o.pad, dilation: [o.dilation], groups: o.groups }.into()
    }
}
