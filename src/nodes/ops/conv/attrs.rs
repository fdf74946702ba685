//! Attributes of convolutions, and their windows.

use crate::ensure;
use crate::kernels::window::WindowGeometry;
use crate::nodes::arguments::size_attrs::{size_attrs_to_i64, to_size_attr};
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::common::window_geometry::{check_window_pad, check_window_sizes, windows_of_lists};
use crate::nodes::ops::matmul::activation::Activation;

attrs! {
    /// Attributes of `conv1d`, `conv2d` and `conv3d`. All other convolutions have these, and more.
    pub struct ConvAttrs {
        /// Step between windows along each axis.
        stride: Vec<i64>,
        /// Zeros before and after each axis, the first axis first.
        pad: Vec<i64>,
        /// Distance between the taps of a window along each axis.
        dilation: Vec<i64>,
        /// Independent groups of channels.
        groups: i64,
    }
}

attrs! {
    /// Attributes of `conv2d_input_grad`.
    pub struct ConvInputGradAttrs {
        /// Height and width of x.
        in_hw: Vec<i64>,
        /// As in [`ConvAttrs`].
        stride: Vec<i64>,
        /// As in [`ConvAttrs`].
        pad: Vec<i64>,
        /// As in [`ConvAttrs`].
        dilation: Vec<i64>,
        /// As in [`ConvAttrs`].
        groups: i64,
    }
}

attrs! {
    /// Attributes of `conv2d_weight_grad`.
    pub struct ConvWeightGradAttrs {
        /// Height and width of w.
        kernel: Vec<i64>,
        /// As in [`ConvAttrs`].
        stride: Vec<i64>,
        /// As in [`ConvAttrs`].
        pad: Vec<i64>,
        /// As in [`ConvAttrs`].
        dilation: Vec<i64>,
        /// As in [`ConvAttrs`].
        groups: i64,
    }
}

attrs! {
    /// Attributes of `conv2d_bias_act`.
    pub struct ConvBiasActAttrs {
        /// As in [`ConvAttrs`].
        stride: Vec<i64>,
        /// As in [`ConvAttrs`].
        pad: Vec<i64>,
        /// As in [`ConvAttrs`].
        dilation: Vec<i64>,
        /// As in [`ConvAttrs`].
        groups: i64,
        /// The activation of the biased results.
        act: Activation,
    }
}

attrs! {
    /// Attributes of transposed convolutions.
    pub struct ConvTransposeAttrs {
        /// As in the [convolution](ConvAttrs) whose transpose this is.
        stride: Vec<i64>,
        /// Elements cut off before and after each axis of the result.
        pad: Vec<i64>,
        /// As in the [convolution](ConvAttrs) whose transpose this is.
        dilation: Vec<i64>,
        /// Independent groups of channels.
        groups: i64,
        /// Elements added at the end of each axis of the result.
        output_pad: Vec<i64>,
    }
}

/// The attributes of the convolution, for each struct that has its fields and more.
macro_rules! holds_a_convolution {
    ($($name:ident)*) => {$(
        impl From<$name> for ConvAttrs {
            fn from(a: $name) -> ConvAttrs {
                ConvAttrs { stride: a.stride, pad: a.pad, dilation: a.dilation, groups: a.groups }
            }
        }
    )*};
}

holds_a_convolution! { ConvInputGradAttrs ConvWeightGradAttrs ConvBiasActAttrs ConvTransposeAttrs }

impl ConvAttrs {
    /// The attributes of a convolution with these windows.
    pub fn new<const N: usize>(win: &WindowGeometry<N>, groups: i64) -> ConvAttrs {
        let WindowAttrs { stride, pad, dilation, .. } = (*win).into();
        ConvAttrs { stride, pad, dilation, groups }
    }

    /// The same with the height and width of x.
    pub fn input_grad(self, in_hw: [usize; 2]) -> ConvInputGradAttrs {
        let ConvAttrs { stride, pad, dilation, groups } = self;
        ConvInputGradAttrs { in_hw: size_attrs_to_i64(&in_hw), stride, pad, dilation, groups }
    }

    /// The same with the height and width of w.
    pub fn weight_grad(self, kernel: [usize; 2]) -> ConvWeightGradAttrs {
        let ConvAttrs { stride, pad, dilation, groups } = self;
        ConvWeightGradAttrs { kernel: size_attrs_to_i64(&kernel), stride, pad, dilation, groups }
    }

    /// The same with an activation.
    pub fn bias_act(self, act: Activation) -> ConvBiasActAttrs {
        let ConvAttrs { stride, pad, dilation, groups } = self;
        ConvBiasActAttrs { stride, pad, dilation, groups, act }
    }

    /// Checks that the lists are those of windows over `N` axes.
    pub fn check<const N: usize>(&self) -> Result<(), String> {
        check_window_sizes::<N>("stride", &self.stride)?;
        check_window_pad::<N>(&self.pad)?;
        check_window_sizes::<N>("dilation", &self.dilation).map(|_| ())
    }

    /// The number of groups, if it divides both numbers of channels.
    pub fn check_groups(&self, c_in: usize, c_out: usize) -> Result<usize, String> {
        let g = usize::try_from(self.groups).map_err(|_| format!("groups is {}", self.groups))?;
        ensure!(g > 0, "groups is 0");
        ensure!(
            c_in.is_multiple_of(g) && c_out.is_multiple_of(g),
            "{g} groups do not divide {c_in} and {c_out} channels"
        );
        Ok(g)
    }

    /// The number of groups, which shape inference has seen.
    pub fn groups(&self) -> usize {
        to_size_attr(self.groups)
    }

    /// The windows of a kernel over axes of these sizes.
    pub fn windows<const N: usize>(&self, size: [usize; N], kernel: [usize; N]) -> WindowGeometry<N> {
        windows_of_lists(size, kernel, &self.stride, &self.pad, &self.dilation)
    }
}
