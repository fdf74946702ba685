//! Sliding windows over the last two axes: geometry checks, and the simple ops that convolutions and pools decompose
//! into, one tap (position in the window) at a time.

use super::slide::{Slide, pairs};
use crate::nodes::ir::attrs::{Field, Kind};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;

/// Step between windows, down and across.
pub const STRIDE: Field = Field::new("stride", Kind::Ints);
/// Padding: top, bottom, left, right.
pub const PAD: Field = Field::new("pad", Kind::Ints);
/// Distance between the taps of a window, down and across.
pub const DILATION: Field = Field::new("dilation", Kind::Ints);
/// Height and width of a window.
pub const KERNEL: Field = Field::new("kernel", Kind::Ints);
/// Height and width of the plane that windows slide over.
pub const IN_HW: Field = Field::new("in_hw", Kind::Ints);

/// Where windows lie on a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Height and width of the plane.
    pub plane: [usize; 2],
    /// Height and width of a window, in taps.
    pub kernel: [usize; 2],
    /// Step between windows.
    pub stride: [usize; 2],
    /// Padding: top, bottom, left, right.
    pub pad: [usize; 4],
    /// Distance between taps.
    pub dilation: [usize; 2],
}

/// Field `i` as `N` non-negative sizes.
pub fn sizes<const N: usize>(cx: &Infer<'_>, i: usize) -> Result<[usize; N], String> {
    let list = cx.sizes(i)?;
    let name = cx.attrs.fields[i].name;
    list.try_into().map_err(|l: Vec<usize>| format!("{name} has {} entries, not {N}", l.len()))
}

/// The first `N` entries of an attribute that shape inference has seen.
pub fn array<const N: usize>(list: &[usize]) -> [usize; N] {
    std::array::from_fn(|i| list.get(i).copied().unwrap_or(0))
}

impl Windows {
    /// The same windows, as [`Slide`] has them.
    pub fn slide(&self) -> Slide<2> {
        let Windows { plane, kernel, stride, pad, dilation } = *self;
        Slide { size: plane, kernel, stride, pad: pairs(&pad), dilation }
    }

    /// The same windows with the least numbers that say so: see [`Slide::tight`].
    pub fn tight(self) -> Windows {
        let Slide { stride, dilation, .. } = self.slide().tight();
        Windows { stride, dilation, ..self }
    }

    /// Number of windows down and across, or why there are none.
    pub fn count(&self) -> Result<[usize; 2], String> {
        self.slide().count()
    }

    /// Asks that every window has a tap inside the plane.
    pub fn all_touch(&self) -> Result<(), String> {
        self.slide().all_touch()
    }

    /// Height and width of the padded plane.
    pub fn padded(&self) -> [usize; 2] {
        [0, 1].map(|a| self.plane[a] + self.pad[2 * a] + self.pad[2 * a + 1])
    }

    /// The taps of a window, row by row.
    pub fn taps(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let [kh, kw] = self.kernel;
        (0..kh).flat_map(move |i| (0..kw).map(move |j| [i, j]))
    }

    /// `x[N, C, H, W]` with the padding filled by `value`.
    pub fn pad<'g>(&self, x: Var<'g>, value: f64) -> Var<'g> {
        let [t, b, l, r] = self.pad;
        if self.pad == [0; 4] { x } else { x.pad(&[0, 0, t, l], &[0, 0, b, r], value) }
    }

    /// What tap `tap` of every window sees of a padded plane: `[N, C, Ho, Wo]`.
    pub fn tap<'g>(&self, padded: Var<'g>, tap: [usize; 2], count: [usize; 2]) -> Var<'g> {
        let d = padded.dims();
        let (n, c) = (d.first().copied().unwrap_or(0), d.get(1).copied().unwrap_or(0));
        let start = [0, 1].map(|a| tap[a] * self.dilation[a]);
        // Up to one past the last element taken, so that the slice never leaves the plane.
        let limit = [0, 1].map(|a| start[a] + (count[a].max(1) - 1) * self.stride[a] + 1);
        padded.slice(&[0, 0, start[0], start[1]], &[n, c, limit[0], limit[1]], &[1, 1, self.stride[0], self.stride[1]])
    }

    /// The transpose of [`Windows::tap`]: `y[N, C, Ho, Wo]` in its places of a padded plane of zeros.
    pub fn untap<'g>(&self, y: Var<'g>, tap: [usize; 2]) -> Var<'g> {
        let spread = crate::nodes::ops::layout::dilate(y, &[1, 1, self.stride[0], self.stride[1]]);
        let (d, padded) = (spread.dims(), self.padded());
        let start = [0, 1].map(|a| tap[a] * self.dilation[a]);
        let after = [0, 1].map(|a| padded[a].saturating_sub(start[a] + d.get(2 + a).copied().unwrap_or(0)));
        spread.pad(&[0, 0, start[0], start[1]], &[0, 0, after[0], after[1]], 0.0)
    }

    /// A padded plane without its padding.
    pub fn crop<'g>(&self, padded: Var<'g>) -> Var<'g> {
        let [t, _, l, _] = self.pad;
        let [h, w] = self.plane;
        padded.narrow(2, t, h).narrow(3, l, w)
    }
}

/// The sum of `terms`, in order. After an error, which more terms would not undo, no more are made.
pub fn sum<'g>(mut terms: impl Iterator<Item = Var<'g>>) -> Option<Var<'g>> {
    let first = terms.next()?;
    terms.try_fold(first, |a, b| if a.is_some() { Ok(a + b) } else { Err(a) }).map_or_else(Some, Some)
}
