//! Channels as blocks of pixels and back, as methods of [`Var`]. Neither is an op.

use crate::nodes::ir::builder::Var;

impl<'g> Var<'g> {
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
