//! Rotary position embedding of images, by rows and columns.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ops::attention::attrs::{Layout, Pairing};
use crate::nodes::ops::attention::rope_tables::rope_frequencies;
use crate::nodes::ops::attention::var::Rope;

/// Rotary embedding of the pixels of an image, as in SAM 2: the column rotates the first half of a head's pairs, the
/// row rotates the second.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AxialRope2d {
    /// Columns of the image.
    pub end_x: usize,
    /// Rows of the image. Element `t` of the sequence is column `t % end_x` of row `t / end_x`.
    pub end_y: usize,
    /// Elements of a head; a multiple of 4.
    pub head_dim: usize,
    /// Heads. Default: 1.
    pub heads: usize,
    /// The base of the frequencies. Default: 10000, as in SAM 2.
    pub theta: f64,
    /// Number of images of this size that lie one after another in the sequence, as SAM 2's memories do. Default: 1.
    pub repeat_factor: usize,
}

setters! {
    [] AxialRope2d { heads: usize, theta: f64, repeat_factor: usize }
}

impl AxialRope2d {
    /// For images of `end_x` columns and `end_y` rows, and heads of `head_dim` elements.
    pub fn new(end_x: usize, end_y: usize, head_dim: usize) -> AxialRope2d {
        AxialRope2d { end_x, end_y, head_dim, heads: 1, theta: 10_000.0, repeat_factor: 1 }
    }

    /// Tables `[repeat_factor·end_x·end_y, head_dim/2]`: pair i < head_dim/4 is rotated by column·θ^(−4i/head_dim),
    /// pair head_dim/4 + i by row·θ^(−4i/head_dim).
    #[track_caller]
    pub fn tables<'g>(&self, g: &'g Builder, dtype: DType) -> [Var<'g>; 2] {
        let (d, quarter) = (self.head_dim, self.head_dim / 4);
        if d % 4 != 0 {
            return [g.fail(Kind::Shape, format!("axial_rope2d: head_dim is {d}; it must be a multiple of 4")); 2];
        }
        let places = self.end_x.checked_mul(self.end_y).and_then(|n| n.checked_mul(self.repeat_factor));
        let Some(rows) = places else {
            let (n, x, y) = (self.repeat_factor, self.end_x, self.end_y);
            return [g.fail(Kind::Shape, format!("axial_rope2d: {n} images of {x} × {y} are too many")); 2];
        };
        // The pairs of one axis are those of a head of half the elements.
        let rate = rope_frequencies(d / 2, self.theta);
        g.rope_angle_tables("axial_rope2d", [rows, d / 2], self.theta, dtype, |t, i| {
            let t = t % (self.end_x * self.end_y);
            if i < quarter { (t % self.end_x) as f64 * rate(i) } else { (t / self.end_x) as f64 * rate(i - quarter) }
        })
    }

    /// `x` `[batch, repeat_factor·end_x·end_y, heads·head_dim]`, rotated.
    #[track_caller]
    pub fn apply<'g>(&self, x: Var<'g>) -> Var<'g> {
        let (d, wide) = (x.dims(), self.heads.saturating_mul(self.head_dim));
        if x.is_some() && d.last() != Some(&wide) {
            let (h, w) = (self.heads, self.head_dim);
            return x.g.fail(Kind::Shape, format!("axial_rope2d({x:?}): the last axis is not {h} heads of {w}"));
        }
        if !x.is_some() {
            return x.g.var(Value::NONE);
        }
        let [cos, sin] = self.tables(x.g, x.dtype());
        let opt = Rope { layout: Layout::Bsd, heads: self.heads, pairing: Pairing::Neighbours, inverse: false };
        x.rope(cos, sin, opt)
    }
}
