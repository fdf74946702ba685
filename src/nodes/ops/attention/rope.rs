//! Rotary position embedding: one op, which is its own adjoint with the sines negated.
//!
//! Source: Su et al., "RoFormer: enhanced transformer with rotary position embedding". Invariant: [`RopeGeometry::of`]
//! checks the operands' shapes; inference, lowering, decomposition and derivative share it.

use super::lower;
use crate::ensure;
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
pub use crate::nodes::ops::attention::attrs::Pairing;
use crate::nodes::ops::attention::attrs::{Layout, RopeAttrs};
use crate::nodes::ops::attention::geometry::{geometry_axes, geometry_count};
use Domain::{Real, Unit};

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
        let heads = geometry_count("heads", heads)?;
        let [batch, _, seq, width] = geometry_axes("x", x, layout, heads)?;
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
    fn split_heads<'g>(&self, x: Var<'g>, width: usize) -> Var<'g> {
        x.reshape(match self.layout {
            Layout::Bhsd => [self.batch, self.heads, self.seq, width],
            _ => [self.batch, self.seq, self.heads, width],
        })
    }

    /// A table that broadcasts against [`RopeGeometry::split_heads`].
    fn rope_table_axes<'g>(&self, table: Var<'g>) -> Var<'g> {
        let batch = if self.own { self.batch } else { 1 };
        table.reshape(match self.layout {
            Layout::Bhsd => [batch, 1, self.seq, self.pairs],
            _ => [batch, self.seq, 1, self.pairs],
        })
    }

    /// The inverse of [`RopeGeometry::rope_table_axes`], summing what several heads or sequences share.
    fn table<'g>(&self, x: Var<'g>) -> Var<'g> {
        let heads = if self.layout == Layout::Bhsd { 1 } else { 2 };
        match self.own {
            true => x.sum(heads),
            false => x.sum([0, heads]),
        }
    }

    /// The two elements of each pair of `x` (of [`RopeGeometry::split_heads`]).
    fn pair<'g>(&self, x: Var<'g>) -> [Var<'g>; 2] {
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

    /// The inverse of [`RopeGeometry::pair`].
    fn unpair<'g>(&self, [a, b]: [Var<'g>; 2]) -> Var<'g> {
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
    fn rotate<'g>(&self, x: Var<'g>, cos: Var<'g>, sin: Var<'g>) -> Var<'g> {
        let ([a, b], c, s) =
            (self.pair(self.split_heads(x, self.width)), self.rope_table_axes(cos), self.rope_table_axes(sin));
        let s = if self.inverse { -s } else { s };
        self.unpair([a * c - b * s, b * c + a * s])
    }
}

fn rope_geometry(s: &Site<'_, '_>) -> Option<RopeGeometry> {
    RopeGeometry::of(&s.args[0].dims(), &s.args[1].dims(), &s.args[2].dims(), &s.attrs).ok()
}

/// The op again, on other operands, with negated angles if `inverse`.
fn rebuild_rope<'g>(s: &Site<'_, 'g>, args: [Var<'g>; 3], inverse: bool) -> Var<'g> {
    s.g.emit1(Op::ROPE, &args, &RopeAttrs { inverse, ..RopeAttrs::of(&s.attrs) }.list())
}

/// ẏ = rope(ẋ) + the rotation of x by the tables' tangents instead of the tables.
fn rope_jvp<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(geo) = rope_geometry(s) else { return vec![None] };
    let inverse = geo.inverse;
    let along = t[0].map(|x| rebuild_rope(s, [x, s.args[1], s.args[2]], inverse));
    let tables = (t[1].is_some() || t[2].is_some()).then(|| {
        let of = |i: usize| t[i].unwrap_or_else(|| s.args[i].full_like(0.0));
        let y = geo.rotate(s.args[0], of(1), of(2));
        let rest = geo.width - 2 * geo.pairs;
        let y = if rest > 0 { y.pad(&[0; 4], &[0, 0, 0, rest], 0.0) } else { y };
        y.reshape(s.args[0].dims())
    });
    vec![[along, tables].into_iter().flatten().reduce(|a, b| a + b)]
}

/// x̄ = rope⁻¹(ȳ), c̄ = Σ ȳₐa + ȳ_b b, s̄ = ±Σ ȳ_b a − ȳₐb over the elements that share a row of the tables.
fn rope_vjp<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
    let (Some(geo), [Some(g)]) = (rope_geometry(s), ct) else { return vec![None; 3] };
    let x = want[0].then(|| rebuild_rope(s, [*g, s.args[1], s.args[2]], !geo.inverse));
    if !want[1] && !want[2] {
        return vec![x, None, None];
    }
    let ([a, b], [u, v]) = (geo.pair(geo.split_heads(s.args[0], geo.width)), geo.pair(geo.split_heads(*g, geo.width)));
    let cos = want[1].then(|| geo.table(u * a + v * b));
    let sin = want[2].then(|| geo.table(if geo.inverse { u * b - v * a } else { v * a - u * b }));
    vec![x, cos, sin]
}

fn decompose_rope<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let Some(geo) = rope_geometry(s) else { return Vec::new() };
    let (x, rotated) = (geo.split_heads(s.args[0], geo.width), geo.rotate(s.args[0], s.args[1], s.args[2]));
    let rest = geo.width - 2 * geo.pairs;
    let y = if rest > 0 { rotated.concat(&[x.narrow(-1, 2 * geo.pairs, rest)], -1) } else { rotated };
    vec![y.reshape(s.args[0].dims())]
}

/// Rotary position embedding.
pub const ROPE: OpDef = OpDef {
    name: "rope",
    doc: "each pair (a, b) of a head of x becomes (a·cos − b·sin, b·cos + a·sin) of its position, with −sin if `inverse`; \
          elements beyond 2 × the tables' last axis pass through",
    arity: Arity::Exactly(3),
    attrs: RopeAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        cx.float(0)?;
        cx.same_dtype(0, 1)?;
        cx.same_dtype(0, 2)?;
        RopeGeometry::of(&cx.dims(0), &cx.dims(1), &cx.dims(2), &cx.attrs)?;
        cx.same_as(0)
    },
    deriv: Deriv::Rules(rope_jvp, rope_vjp),
    decompose: Some(decompose_rope),
    lower: Lower::Kernel(lower::rope),
    cost: |cx| 3 * cx.out(),
    cases: &[
        Case {
            args: "f[2,3,5,4] f[5,2] f[5,2]",
            attrs: "layout=bhsd heads=3 pairing=halves inverse=false",
            domains: &[Real, Unit, Unit],
        },
        // Part of a head is rotated, by tables of each sequence.
        Case {
            args: "f[2,5,3,7] f[2,5,2] f[2,5,2]",
            attrs: "layout=bshd heads=3 pairing=neighbours inverse=false",
            domains: &[Real, Unit, Unit],
        },
        Case {
            args: "f[2,4,10] f[4,1] f[4,1]",
            attrs: "layout=bsd heads=2 pairing=halves inverse=true",
            domains: &[Real, Unit, Unit],
        },
        Case {
            args: "f[1,3,6] f[1,3,3] f[1,3,3]",
            attrs: "layout=bsd heads=1 pairing=neighbours inverse=true",
            domains: &[Real, Unit, Unit],
        },
        // Several units.
        Case {
            args: "f[2,2,70,32] f[70,16] f[70,16]",
            attrs: "layout=bhsd heads=2 pairing=neighbours inverse=false",
            domains: &[Real, Unit, Unit],
        },
        // No pair is rotated.
        Case {
            args: "f[2,1,3,4] f[3,0] f[3,0]",
            attrs: "layout=bhsd heads=1 pairing=halves inverse=false",
            domains: &[Real],
        },
    ],
};
