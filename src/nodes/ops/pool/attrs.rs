//! Attributes of pools. Those of pools of maxima are [`WindowAttrs`].

use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ops::common::window_attrs::WindowAttrs;

attrs! {
    /// Attributes of `max_pool2d_backward`.
    pub struct MaxPoolBackwardAttrs {
        /// Height and width of x.
        in_hw: Vec<i64>,
    }
}

attrs! {
    /// Attributes of pools of sums.
    pub struct SumPoolAttrs {
        /// As in [`WindowAttrs`].
        kernel: Vec<i64>,
        /// As in [`WindowAttrs`].
        stride: Vec<i64>,
        /// As in [`WindowAttrs`].
        pad: Vec<i64>,
    }
}

attrs! {
    /// Attributes of `sum_pool2d_backward`.
    pub struct SumPoolBackwardAttrs {
        /// Height and width of x.
        in_hw: Vec<i64>,
        /// As in [`WindowAttrs`].
        kernel: Vec<i64>,
        /// As in [`WindowAttrs`].
        stride: Vec<i64>,
        /// As in [`WindowAttrs`].
        pad: Vec<i64>,
    }
}

attrs! {
    /// Attributes of pools of means.
    pub struct AvgPoolAttrs {
        /// As in [`WindowAttrs`].
        kernel: Vec<i64>,
        /// As in [`WindowAttrs`].
        stride: Vec<i64>,
        /// As in [`WindowAttrs`].
        pad: Vec<i64>,
        /// Whether padding counts as elements.
        count_include_pad: bool,
    }
}

attrs! {
    /// Attributes of `avg_pool2d_backward`.
    pub struct AvgPoolBackwardAttrs {
        /// Height and width of x.
        in_hw: Vec<i64>,
        /// As in [`WindowAttrs`].
        kernel: Vec<i64>,
        /// As in [`WindowAttrs`].
        stride: Vec<i64>,
        /// As in [`WindowAttrs`].
        pad: Vec<i64>,
        /// Whether padding counts as elements.
        count_include_pad: bool,
    }
}

/// The windows, with dilation 1, for each struct that has the other lists.
macro_rules! holds_windows {
    ($($name:ident)*) => {$(
        impl $name {
            /// The windows.
            pub fn windows(&self) -> WindowAttrs {
                WindowAttrs {
                    kernel: self.kernel.clone(),
                    stride: self.stride.clone(),
                    pad: self.pad.clone(),
                    dilation: vec![1; self.kernel.len()],
                }
            }
        }
    )*};
}

holds_windows! { SumPoolAttrs SumPoolBackwardAttrs AvgPoolAttrs AvgPoolBackwardAttrs }

impl SumPoolAttrs {
    /// Sums over these windows, which have dilation 1.
    pub fn new(windows: WindowAttrs) -> SumPoolAttrs {
        let WindowAttrs { kernel, stride, pad, dilation: _ } = windows;
        SumPoolAttrs { kernel, stride, pad }
    }
}

impl AvgPoolAttrs {
    /// Means over these windows, which have dilation 1.
    pub fn new(windows: WindowAttrs, count_include_pad: bool) -> AvgPoolAttrs {
        let WindowAttrs { kernel, stride, pad, dilation: _ } = windows;
        AvgPoolAttrs { kernel, stride, pad, count_include_pad }
    }
}
