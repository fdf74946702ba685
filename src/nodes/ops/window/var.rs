//! Im2col, col2im and interpolation as methods of [`Var`]. Options have torch's names.

use crate::nodes::arguments::size_attrs::size_attrs_to_i64;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::window::attrs::Col2imAttrs;
use crate::nodes::ops::window::interpolate::{InterpolateAttrs, Interpolation};
use crate::nodes::ops::window::unfold::Unfold;

impl<'g> Var<'g> {
    /// The windows of x `[N, C, H, W]` as columns `[N, C·kh·kw, windows]`, as in `torch.nn.functional.unfold`: row
    /// (c·kh + i)·kw + j holds the elements of channel c under tap (i, j). (Rows by window, `[N·windows, C·kh·kw]`, are
    /// `.transpose(&[0, 2, 1])` and a reshape away.)
    #[track_caller]
    pub fn im2col(self, opt: Unfold) -> Var<'g> {
        self.g.emit1(Op::IM2COL, &[self], &opt.window_attrs().list())
    }

    /// Columns `[N, C·kh·kw, windows]` added where [`Var::im2col`] takes them from, in planes of height and width
    /// `size`: its transpose, as in `torch.nn.functional.fold`.
    #[track_caller]
    pub fn col2im(self, size: [usize; 2], opt: Unfold) -> Var<'g> {
        self.g.emit1(Op::COL2IM, &[self], &Col2imAttrs::new(size, opt.window_attrs()).list())
    }

    /// x `[N, C, …]` with the one to three axes after the second resized to `size`, as in
    /// `torch.nn.functional.interpolate` with a size. x is `f32` or `f64`; empty axes are an error.
    #[track_caller]
    pub fn interpolate(self, size: &[usize], mode: Interpolation) -> Var<'g> {
        self.g.emit1(Op::INTERPOLATE, &[self], &InterpolateAttrs { size: size_attrs_to_i64(size), mode }.list())
    }
}
