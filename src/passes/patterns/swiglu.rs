//! SwiGLU on the halves of one packed value: `silu(gate)·value`.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::blocks::attrs::SwigluAttrs;
use crate::nodes::ops::layout::attrs::SliceAttrs;
use crate::nodes::ops::pointwise::attrs::CurveAttr;
use crate::nodes::ops::pointwise::attrs::{ActWithGradAttrs, CastAttrs};
use crate::nodes::{DType, Op};

/// The value that `v` is a half of along the last axis, and which half: 0 or 1.
fn find_half(f: &PatternFacts<'_>, v: Value) -> Option<(Value, usize)> {
    let n = f.is(v, Op::SLICE)?;
    let (whole, cut) = (f.args(n)[0], SliceAttrs::of(&f.attrs(n)));
    let (starts, limits, d) = (to_size_attrs(&cut.starts), to_size_attrs(&cut.limits), f.dims(whole));
    let last = d.len().checked_sub(1)?;
    let all = |i: usize| starts[i] == 0 && limits[i] == d[i];
    let (h, even) = (d[last] / 2, d[last].is_multiple_of(2) && d[last] > 0);
    let fits = even && cut.steps.iter().all(|&s| s == 1) && (0..last).all(all) && limits[last] == starts[last] + h;
    (fits && (starts[last] == 0 || starts[last] == h)).then(|| (whole, starts[last] / h))
}

/// `silu(one half)·other half`, if the parts have no other readers.
pub fn match_gated_halves(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let Some((silu, value)) = [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| Some((f.is(args[i], Op::SILU)?, args[j])))
    else {
        let is_silu = |n: Node| ActWithGradAttrs::of(&f.attrs(n)).act == CurveAttr::Silu;
        let trained = args.iter().any(|&v| f.is(v, Op::ACT_WITH_GRAD).is_some_and(is_silu));
        return match trained {
            true => Found::Missed("the gate's derivative is read by the backward side".into()),
            false => Found::No,
        };
    };
    let (activated, gate) = (f.g.out(silu), f.args(silu)[0]);
    let (Some((a, i)), Some((b, j))) = (find_half(f, gate), find_half(f, value)) else {
        return Found::No;
    };
    if a != b || i == j {
        return Found::Missed("gate and value are not the two halves of one value".into());
    }
    for (what, v) in [("the gate", gate), ("the gate's activation", activated), ("the value", value)] {
        if !f.alone(v) {
            return Found::Missed(f.reads_of(what, v));
        }
    }
    let attrs = SwigluAttrs { gate_first: i == 0, to: f.g.dtype[value.at()] };
    let inner = vec![silu, f.node(gate), f.node(value)];
    Found::Fired(Match::one(f.g.out(root), vec![a], inner, move |g, a| g.emit1(Op::SWIGLU, a, &attrs.list())))
}

/// A cast of a `swiglu` result to f32 or f64, if the op does not convert yet.
pub fn match_cast(f: &PatternFacts<'_>, root: Node) -> Found {
    let (y, to) = (f.args(root)[0], CastAttrs::of(&f.attrs(root)).to);
    let Some(unit) = f.is(y, Op::SWIGLU) else { return Found::No };
    let plain = f.g.dtype[y.at()] == f.g.dtype[f.args(unit)[0].at()];
    if !plain || !matches!(to, DType::F32 | DType::F64) {
        return Found::No;
    }
    if !f.alone(y) {
        return Found::Missed(f.reads_of("the gated unit", y));
    }
    let attrs = SwigluAttrs { to, ..SwigluAttrs::of(&f.attrs(unit)) };
    Found::Fired(Match::one(f.g.out(root), f.args(unit).to_vec(), vec![unit], move |g, a| {
        g.emit1(Op::SWIGLU, a, &attrs.list())
    }))
}
