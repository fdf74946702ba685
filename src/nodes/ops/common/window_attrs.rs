//! The attributes that ops over sliding windows share.

use super::window_geometry::{check_window_pad, check_window_sizes, first_entries, windows_of_lists};
use crate::kernels::window::WindowGeometry;
use crate::nodes::arguments::size_attrs::{size_attrs_to_i64, to_size_attrs};
use crate::nodes::ir::attr_types::attrs;

attrs! {
    /// The attributes of `im2col` and of pools of maxima. Other ops over windows have more attributes, and
    /// give these by conversion.
    pub struct WindowAttrs {
        /// Taps along each axis.
        kernel: Vec<i64>,
        /// Step between windows.
        stride: Vec<i64>,
        /// Padding before and after each axis, the first axis first.
        pad: Vec<i64>,
        /// Distance between taps.
        dilation: Vec<i64>,
    }
}

impl WindowAttrs {
    /// Checks that the lists are those of windows over `N` axes.
    pub fn check<const N: usize>(&self) -> Result<(), String> {
        check_window_sizes::<N>("kernel", &self.kernel)?;
        check_window_sizes::<N>("stride", &self.stride)?;
        check_window_pad::<N>(&self.pad)?;
        check_window_sizes::<N>("dilation", &self.dilation).map(|_| ())
    }

    /// The windows over axes of these sizes, [tight](WindowGeometry::tight).
    pub fn over<const N: usize>(&self, size: [usize; N]) -> WindowGeometry<N> {
        let kernel = first_entries(&to_size_attrs(&self.kernel));
        windows_of_lists(size, kernel, &self.stride, &self.pad, &self.dilation).tight()
    }
}

impl<const N: usize> From<WindowGeometry<N>> for WindowAttrs {
    fn from(win: WindowGeometry<N>) -> WindowAttrs {
        WindowAttrs {
            kernel: size_attrs_to_i64(&win.kernel),
            stride: size_attrs_to_i64(&win.stride),
            pad: size_attrs_to_i64(win.pad.as_flattened()),
            dilation: size_attrs_to_i64(&win.dilation),
        }
    }
}
