//! Sizes of a rotary position embedding.

use crate::ensure;
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::site::Site;
use crate::nodes::ops::attention::attrs::{Layout, Pairing, RopeAttrs};
use crate::nodes::ops::attention::geometry::{attention_count, operand_axes};

/// Sizes and options of a node, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeGeometry {
    /// Order of axes.
    pub layout: Layout,
    /// Sequences.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Positions of a sequence.
    pub seq: usize,
    /// Elements of a head.
    pub width: usize,
    /// Pairs that are rotated.
    pub pairs: usize,
    /// Whether each sequence has its own table rows.
    pub own: bool,
    /// Which elements make a pair.
    pub pairing: Pairing,
    /// Whether the angles are negated.
    pub inverse: bool,
}

impl RopeGeometry {
    /// The geometry of operands of these dimensions.
    pub fn of(x: &[usize], cos: &[usize], sin: &[usize], attrs: &Attrs<'_>) -> Result<RopeGeometry, String> {
        let RopeAttrs { layout, heads, pairing, inverse } = RopeAttrs::of(attrs);
        let heads = attention_count("heads", heads)?;
        let [batch, _, seq, width] = operand_axes("x", x, layout, heads)?;
        ensure!(
            cos == sin,
            "cos has shape {}, sin {}; they must be the same",
            Infer::show_dims(cos),
            Infer::show_dims(sin)
        );
        let (own, rows, pairs) = match *cos {
            [rows, pairs] => (None, rows, pairs),
            [b, rows, pairs] => (Some(b), rows, pairs),
            _ => {
                return Err(format!(
                    "cos has shape {}; [positions, pairs] or [batch, positions, pairs] is needed",
                    Infer::show_dims(cos)
                ));
            }
        };
        ensure!(rows == seq, "cos has rows for {rows} positions, x has {seq} positions");
        ensure!(own.is_none_or(|b| b == batch), "cos has shape {}, and x a batch of {batch}", Infer::show_dims(cos));
        let turned = pairs.saturating_mul(2);
        ensure!(
            turned <= width,
            "the rotary width, 2 × the last axis of cos, is {turned}; the head width of x is {width}"
        );
        let own = own.is_some();
        Ok(RopeGeometry { layout, batch, heads, seq, width, pairs, own, pairing, inverse })
    }

    /// `x` as `[batch, seq, heads, width]` or `[batch, heads, seq, width]`: the axes of its layout.
    pub(super) fn split_heads<'g>(&self, x: Var<'g>, width: usize) -> Var<'g> {
        x.reshape(match self.layout {
            Layout::Bhsd => [self.batch, self.heads, self.seq, width],
            _ => [self.batch, self.seq, self.heads, width],
        })
    }

    /// A table that broadcasts against [`RopeGeometry::split_heads`].
    pub(super) fn table_over_heads<'g>(&self, table: Var<'g>) -> Var<'g> {
        let batch = if self.own { self.batch } else { 1 };
        table.reshape(match self.layout {
            Layout::Bhsd => [batch, 1, self.seq, self.pairs],
            _ => [batch, self.seq, 1, self.pairs],
        })
    }

    /// The inverse of [`RopeGeometry::table_over_heads`], summing what several heads or sequences share.
    pub(super) fn summed_as_table<'g>(&self, x: Var<'g>) -> Var<'g> {
        let heads = if self.layout == Layout::Bhsd { 1 } else { 2 };
        match self.own {
            true => x.sum(heads),
            false => x.sum([0, heads]),
        }
    }

    /// The two elements of each pair of `x` (of [`RopeGeometry::split_heads`]).
    pub(super) fn rope_pair<'g>(&self, x: Var<'g>) -> [Var<'g>; 2] {
        let (n, mut d) = (self.pairs, x.dims().to_vec());
        match self.pairing {
            Pairing::Halves => [x.narrow(-1, 0, n), x.narrow(-1, n, n)],
            Pairing::Neighbours => {
                d.truncate(3);
                let two = x.narrow(-1, 0, 2 * n).reshape([&d[..], &[n, 2]].concat());
                [0, 1].map(|i| two.narrow(-1, i, 1).reshape([&d[..], &[n]].concat()))
            }
        }
    }

    /// The inverse of [`RopeGeometry::rope_pair`].
    pub(super) fn rope_unpair<'g>(&self, [a, b]: [Var<'g>; 2]) -> Var<'g> {
        match self.pairing {
            Pairing::Halves => a.concat(&[b], -1),
            Pairing::Neighbours => {
                let mut d = a.dims().to_vec();
                d.push(1);
                let two = a.reshape(&d).concat(&[b.reshape(&d)], -1);
                d.truncate(3);
                d.push(2 * self.pairs);
                two.reshape(d)
            }
        }
    }

    /// The rotated pairs of `x`, without the elements that pass through.
    pub(super) fn rope_rotate<'g>(&self, x: Var<'g>, cos: Var<'g>, sin: Var<'g>) -> Var<'g> {
        let ([a, b], c, s) =
            (self.rope_pair(self.split_heads(x, self.width)), self.table_over_heads(cos), self.table_over_heads(sin));
        let s = if self.inverse { -s } else { s };
        self.rope_unpair([a * c - b * s, b * c + a * s])
    }
}

pub(super) fn rope_geometry(s: &Site<'_, '_>) -> Option<RopeGeometry> {
    RopeGeometry::of(&s.args[0].dims(), &s.args[1].dims(), &s.args[2].dims(), &s.attrs).ok()
}
