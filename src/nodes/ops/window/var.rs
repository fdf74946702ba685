//! Im2col, col2im and interpolation as methods of [`Var`]. Options have torch's names.

use crate::nodes::build::axes::to_i64s;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::common::window::WindowAttrs;
use crate::nodes::ops::window::resize::{InterpolateAttrs, Interpolation};
use crate::nodes::ops::window::unfold::Col2imAttrs;

/// Options of [`Var::im2col`] and [`Var::col2im`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfold {
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// Step between windows.
    pub stride: [usize; 2],
    /// Zeros around the image: top, bottom, left, right.
    pub pad: [usize; 4],
    /// Distance between the taps of a window.
    pub dilation: [usize; 2],
}

impl Unfold {
    /// Windows of `kernel` at every position.
    pub fn new(kernel: [usize; 2]) -> Unfold {
        Unfold { kernel, stride: [1, 1], pad: [0; 4], dilation: [1, 1] }
    }

    fn window_attrs(&self) -> WindowAttrs {
        WindowAttrs {
            kernel: to_i64s(&self.kernel),
            stride: to_i64s(&self.stride),
            pad: to_i64s(&self.pad),
            dilation: to_i64s(&self.dilation),
        }
    }
}

impl<'g> Var<'g> {
    /// The windows of x `[N, C, H, W]` as columns `[N, C·kh·kw, windows]`, as `torch.nn.functional.unfold`: row
    /// (c·kh + i)·kw + j holds the elements of channel c under tap (i, j). (Rows by window, `[N·windows, C·kh·kw]`, are
    /// `.transpose(&[0, 2, 1])` and a reshape away.)
    #[track_caller]
    pub fn im2col(self, opt: Unfold) -> Var<'g> {
        self.g.emit1(Op::IM2COL, &[self], &opt.window_attrs().list())
    }

    /// Columns `[N, C·kh·kw, windows]` added where [`Var::im2col`] takes them from, in planes of height and width
    /// `size`: its transpose, as `torch.nn.functional.fold`.
    #[track_caller]
    pub fn col2im(self, size: [usize; 2], opt: Unfold) -> Var<'g> {
        self.g.emit1(Op::COL2IM, &[self], &Col2imAttrs::new(size, opt.window_attrs()).list())
    }

    /// x `[N, C, …]` with the one to three axes after the second resized to `size`, as
    /// `torch.nn.functional.interpolate` with a size. x is `f32` or `f64`; empty axes are an error.
    #[track_caller]
    pub fn interpolate(self, size: &[usize], mode: Interpolation) -> Var<'g> {
        self.g.emit1(Op::INTERPOLATE, &[self], &InterpolateAttrs { size: to_i64s(size), mode }.list())
    }
}
