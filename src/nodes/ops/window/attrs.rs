//! Attributes of ops that add columns into planes.

use crate::nodes::arguments::size_attrs::size_attrs_to_i64;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ops::common::window_attrs::WindowAttrs;

attrs! {
    /// Attributes of `col2im`. Those of `im2col` are [`WindowAttrs`].
    pub struct Col2imAttrs {
        /// Height and width of the planes.
        in_hw: Vec<i64>,
        /// As in [`WindowAttrs`].
        kernel: Vec<i64>,
        /// As in [`WindowAttrs`].
        stride: Vec<i64>,
        /// As in [`WindowAttrs`].
        pad: Vec<i64>,
        /// As in [`WindowAttrs`].
        dilation: Vec<i64>,
    }
}

impl From<Col2imAttrs> for WindowAttrs {
    fn from(a: Col2imAttrs) -> WindowAttrs {
        WindowAttrs { kernel: a.kernel, stride: a.stride, pad: a.pad, dilation: a.dilation }
    }
}

impl Col2imAttrs {
    /// These windows over planes of size `in_hw`.
    pub fn new(in_hw: [usize; 2], windows: WindowAttrs) -> Col2imAttrs {
        let WindowAttrs { kernel, stride, pad, dilation } = windows;
        Col2imAttrs { in_hw: size_attrs_to_i64(&in_hw), kernel, stride, pad, dilation }
    }
}
