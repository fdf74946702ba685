//! Rotary position embedding: one op, which is its own adjoint with the sines negated.
//!
//! Source: Su et al., "RoFormer: enhanced transformer with rotary position embedding". Invariant: [`RopeGeometry::of`]
//! checks the operands' shapes; inference, lowering, decomposition and derivative share it.

use super::lower;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
pub use crate::nodes::ops::attention::attrs::Pairing;
use crate::nodes::ops::attention::attrs::RopeAttrs;
use crate::nodes::ops::attention::rope_geometry::{RopeGeometry, rope_geometry};
use Domain::{Real, Unit};

/// The op again, on other operands, with negated angles if `inverse`.
fn rotate_again<'g>(s: &Site<'_, 'g>, args: [Var<'g>; 3], inverse: bool) -> Var<'g> {
    s.g.emit1(Op::ROPE, &args, &RopeAttrs { inverse, ..RopeAttrs::of(&s.attrs) }.list())
}

/// ẏ = rope(ẋ) + the rotation of x by the tables' tangents instead of the tables.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(geo) = rope_geometry(s) else { return vec![None] };
    let inverse = geo.inverse;
    let along = t[0].map(|x| rotate_again(s, [x, s.args[1], s.args[2]], inverse));
    let tables = (t[1].is_some() || t[2].is_some()).then(|| {
        let of = |i: usize| t[i].unwrap_or_else(|| s.args[i].full_like(0.0));
        let y = geo.rope_rotate(s.args[0], of(1), of(2));
        let rest = geo.width - 2 * geo.pairs;
        let y = if rest > 0 { y.pad(&[0; 4], &[0, 0, 0, rest], 0.0) } else { y };
        y.reshape(s.args[0].dims())
    });
    vec![[along, tables].into_iter().flatten().reduce(|a, b| a + b)]
}

/// x̄ = rope⁻¹(ȳ), c̄ = Σ ȳₐa + ȳ_b b, s̄ = ±Σ ȳ_b a − ȳₐb over the elements that share a row of the tables.
fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
    let (Some(geo), [Some(g)]) = (rope_geometry(s), ct) else { return vec![None; 3] };
    let x = want[0].then(|| rotate_again(s, [*g, s.args[1], s.args[2]], !geo.inverse));
    if !want[1] && !want[2] {
        return vec![x, None, None];
    }
    let ([a, b], [u, v]) =
        (geo.rope_pair(geo.split_heads(s.args[0], geo.width)), geo.rope_pair(geo.split_heads(*g, geo.width)));
    let cos = want[1].then(|| geo.summed_as_table(u * a + v * b));
    let sin = want[2].then(|| geo.summed_as_table(if geo.inverse { u * b - v * a } else { v * a - u * b }));
    vec![x, cos, sin]
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let Some(geo) = rope_geometry(s) else { return Vec::new() };
    let (x, rotated) = (geo.split_heads(s.args[0], geo.width), geo.rope_rotate(s.args[0], s.args[1], s.args[2]));
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
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower::emit_rope),
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
    ..OpDef::BLANK
};
