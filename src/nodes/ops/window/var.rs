//! Im2col, col2im and interpolation as methods of [`Var`]. Options have torch's names.

use crate::nodes::build::size_attrs::size_attrs_to_i64;
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

    /// `[.., C·r², H, W]` as `[.., C, H·r, W·r]`: channel c·r² + i·r + j becomes the pixels (i, j) of each r × r block,
    /// as in `torch.nn.PixelShuffle`. Source: Shi et al., "Real-time single image and video super-resolution".
    #[track_caller]
    pub fn pixel_shuffle(self, r: usize) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        let &[ref lead @ .., c, h, w] = &d[..] else {
            return self.refuse("pixel_shuffle", "rank 3 or more is needed");
        };
        if r == 0 || !r.checked_mul(r).is_some_and(|area| c.is_multiple_of(area)) {
            return self.refuse("pixel_shuffle", format!("r = {r}: its square must divide the {c} channels"));
        }
        if h.checked_mul(r).is_none() || w.checked_mul(r).is_none() {
            return self.refuse("pixel_shuffle", format!("r = {r}: the image is too large"));
        }
        self.g.with_caller(|| {
            let (n, c) = (lead.iter().product(), c / (r * r));
            let blocks = self.reshape([n, c, r, r, h, w]).permute(&[0, 1, 4, 2, 5, 3]);
            blocks.reshape([lead, &[c, h * r, w * r]].concat())
        })
    }

    /// `[.., C, H·r, W·r]` as `[.., C·r², H, W]`: the inverse of [`Var::pixel_shuffle`], as in
    /// `torch.nn.PixelUnshuffle`.
    #[track_caller]
    pub fn pixel_unshuffle(self, r: usize) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        let &[ref lead @ .., c, h, w] = &d[..] else {
            return self.refuse("pixel_unshuffle", "rank 3 or more is needed");
        };
        if r == 0 || !h.is_multiple_of(r) || !w.is_multiple_of(r) {
            return self.refuse("pixel_unshuffle", format!("r = {r} does not divide the last axes, {h} and {w}"));
        }
        if r.checked_mul(r).is_none_or(|area| c.checked_mul(area).is_none()) {
            return self.refuse("pixel_unshuffle", format!("r = {r}: the channels are too many"));
        }
        self.g.with_caller(|| {
            let (n, h, w) = (lead.iter().product(), h / r, w / r);
            let blocks = self.reshape([n, c, h, r, w, r]).permute(&[0, 1, 3, 5, 2, 4]);
            blocks.reshape([lead, &[c * r * r, h, w]].concat())
        })
    }
}
