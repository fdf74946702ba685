//! Scatter into a tensor; `ravel_index`, which turns coordinates into one flat index.
//!
//! Invariant: [`ScatterOpWeights`] alone says how gradients pass to the updates and to the base. Both modes of
//! differentiation use it.

use super::lower;
use crate::ensure;
use crate::nodes::arguments::axes::check_axis;
use crate::nodes::arguments::size_attrs::check_size_attrs;
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::attr_types::Choice;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::index::attrs::{RavelIndexAttrs, Scatter, ScatterAddAttrs, ScatterAttrs};
use Domain::{Distinct, Index, Real};

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let (base, updates, index) = (cx.dims(0), cx.dims(1), cx.dims(2));
    cx.same_dtype(0, 1)?;
    let d = cx.dtype(2);
    ensure!(d.is_index(), "indices are {d}; i32 or i64 is needed");
    let (dtype, ScatterAttrs { axis, mode, own }) = (cx.dtype(0), ScatterAttrs::of(&cx.attrs));
    if mode != Scatter::Set {
        cx.real(0)?;
    }
    let sums = dtype.is_float() || dtype.is_index();
    ensure!(sums || mode == Scatter::Set, "no {} of {dtype}; cast it", Scatter::NAMES[mode as usize]);
    let axis = check_axis(axis, base.len())?;
    if own {
        ensure!(index == updates, "indices of shape {index} and updates of shape {updates} differ");
        let fits = base.len() == index.len() && (0..base.len()).all(|k| k == axis || base[k] == index[k]);
        ensure!(fits, "updates of shape {updates} do not fit {base} beside axis {axis}");
    } else {
        let want = [&base[..axis], &index[..], &base[axis + 1..]].concat();
        ensure!(
            *updates == *want,
            "updates have shape {updates}; indices of shape {index} need {}",
            Infer::show_dims(&want)
        );
    }
    cx.same_as(0)
}

/// A factor, and a mask outside which the result is 0. Both may be missing.
#[derive(Clone, Copy, Default)]
struct ScatterOpShare<'g> {
    only: Option<Var<'g>>,
    times: Option<Var<'g>>,
}

impl<'g> ScatterOpShare<'g> {
    fn of(self, x: Var<'g>) -> Var<'g> {
        let x = self.times.map_or(x, |t| x * t);
        self.only.map_or(x, |only| only.select(x, x.full_like(0.0)))
    }
}

/// The factors of ȳ on its way to the base and to the updates.
struct ScatterOpWeights<'g> {
    base: ScatterOpShare<'g>,
    updates: ScatterOpShare<'g>,
}

/// The elements of `x` at the indices of the updates.
fn take_updated<'g>(s: &Site<'_, 'g>, x: Var<'g>) -> Var<'g> {
    let a = ScatterAttrs::of(&s.attrs);
    match a.own {
        true => x.take_along_axis(s.args[2], a.axis),
        false => x.gather(s.args[2], a.axis),
    }
}

/// Sums of updates at their indices.
fn sum_updates<'g>(s: &Site<'_, 'g>, updates: Var<'g>) -> Var<'g> {
    let ScatterAttrs { axis, own, .. } = ScatterAttrs::of(&s.attrs);
    let op = if own { Op::SCATTER_ALONG_AXIS } else { Op::SCATTER_ADD };
    let size = s.args[0].dims()[to_size_attr(axis)] as i64;
    updates.scatter_into_zeros(op, s.args[2], &ScatterAddAttrs { axis, size })
}

/// The op again, in another mode.
fn repeat_in_mode<'g>(s: &Site<'_, 'g>, base: Var<'g>, updates: Var<'g>, mode: Scatter) -> Var<'g> {
    let attrs = ScatterAttrs { mode, ..ScatterAttrs::of(&s.attrs) };
    base.scattered(updates, s.args[2], &attrs)
}

impl<'g> ScatterOpWeights<'g> {
    fn new(s: &Site<'_, 'g>) -> ScatterOpWeights<'g> {
        match ScatterAttrs::of(&s.attrs).mode {
            Scatter::Add => ScatterOpWeights { base: ScatterOpShare::default(), updates: ScatterOpShare::default() },
            Scatter::Set => ScatterOpWeights::last(s),
            Scatter::Mul => ScatterOpWeights::factors(s),
            Scatter::Max | Scatter::Min => ScatterOpWeights::ties(s),
        }
    }

    /// Of several updates of one element, the last gets the gradient; the base gets it at elements without an update.
    fn last(s: &Site<'_, 'g>) -> ScatterOpWeights<'g> {
        let (base, a, d) = (s.args[0].dims(), ScatterAttrs::of(&s.attrs), s.args[2].dims());
        let axis = to_size_attr(a.axis);
        let only = |only| ScatterOpShare { only: Some(only), times: None };
        if a.own {
            let order = s.g.iota(a.axis, d, DType::I64);
            let winner = repeat_in_mode(s, s.g.full(-1.0, base, DType::I64), order, Scatter::Set);
            return ScatterOpWeights {
                base: only(winner.less(0.0)),
                updates: only(take_updated(s, winner).equal(order)),
            };
        }
        // One winner for each index of the axis.
        let (n, k) = (base[axis], d.numel());
        let (order, idx) = (s.g.iota(0, [k], DType::I64), s.args[2].reshape([k]));
        let attrs = ScatterAttrs { axis: 0, mode: Scatter::Set, own: false };
        let winner = s.g.emit1(Op::SCATTER, &[s.g.full(-1.0, [n], DType::I64), order, idx], &attrs.list());
        let mut shape = vec![1; base.len()];
        shape[axis] = n;
        let kept = winner.less(0.0).reshape(&shape).broadcast(base);
        let mut shape = vec![1; base.len() - 1 + d.len()];
        shape[axis..axis + d.len()].copy_from_slice(&d);
        let won = winner.gather(idx, 0).equal(order).reshape(&shape).broadcast(s.args[1].dims());
        ScatterOpWeights { base: only(kept), updates: only(won) }
    }

    /// All elements that are the extreme share evenly.
    fn ties(s: &Site<'_, 'g>) -> ScatterOpWeights<'g> {
        let (dtype, y) = (s.args[0].dtype(), s.outs[0]);
        let base = s.args[0].equal(y).cast(dtype);
        let updates = s.args[1].equal(take_updated(s, y)).cast(dtype);
        let count = base + sum_updates(s, updates);
        let share = |hit: Var<'g>, count: Var<'g>| ScatterOpShare { only: None, times: Some(hit / count) };
        ScatterOpWeights { base: share(base, count), updates: share(updates, take_updated(s, count)) }
    }

    /// The product of all other factors. Only factors that are not 0 are divided by.
    fn factors(s: &Site<'_, 'g>) -> ScatterOpWeights<'g> {
        let (base, u) = (s.args[0], s.args[1]);
        let zero = u.equal(0.0);
        let rest = zero.select(u.full_like(1.0), u);
        let product = repeat_in_mode(s, base, rest, Scatter::Mul);
        let zeros = zero.cast(u.dtype());
        let others = (take_updated(s, sum_updates(s, zeros)) - zeros).equal(0.0);
        let of_base = repeat_in_mode(s, base.full_like(1.0), u, Scatter::Mul);
        ScatterOpWeights {
            base: ScatterOpShare { only: None, times: Some(of_base) },
            updates: ScatterOpShare { only: Some(others), times: Some(take_updated(s, product) / rest) },
        }
    }
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    if t[0].is_none() && t[1].is_none() {
        return vec![None];
    }
    let w = ScatterOpWeights::new(s);
    let (base, updates) = (t[0].map(|t| w.base.of(t)), t[1].map(|t| sum_updates(s, w.updates.of(t))));
    vec![[base, updates].into_iter().flatten().reduce(|a, b| a + b)]
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], want: &[bool]) -> Vec<Option<Var<'g>>> {
    let [Some(g)] = *ct else { return vec![None; 3] };
    let w = ScatterOpWeights::new(s);
    vec![want[0].then(|| w.base.of(g)), want[1].then(|| w.updates.of(take_updated(s, g))), None]
}

/// A tensor with updates joined in at indices.
pub const SCATTER: OpDef = OpDef {
    name: "scatter",
    doc: "x with the updates set, added, multiplied in, or joined by max or min at the indices along `axis`: slices (as \
          gather takes them), or, if `own`, single elements (as take_along_axis does)",
    arity: Arity::Exactly(3),
    attrs: ScatterAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_types,
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(super::batch::scatter_members),
    lower: Lower::Kernel(lower::emit_scatter),
    cost: |cx| cx.arg(1),
    cases: &[
        Case { args: "f[5,3] f[4,3] i32[4]", attrs: "axis=0 mode=set own=false", domains: &[Real, Real, Index(5)] },
        Case {
            args: "f[2,5,3] f[2,2,3,3] i64[2,3]",
            attrs: "axis=1 mode=set own=false",
            domains: &[Real, Real, Index(5)],
        },
        Case { args: "f[4] f[] i32[]", attrs: "axis=0 mode=add own=false", domains: &[Real, Real, Index(4)] },
        Case { args: "f[5,3] f[7,3] i64[7]", attrs: "axis=0 mode=mul own=false", domains: &[Real, Real, Index(5)] },
        Case { args: "f[2,3] f[2,6] i64[6]", attrs: "axis=1 mode=max own=false", domains: &[Real, Distinct, Index(3)] },
        Case { args: "f[4,2] f[4,6] i32[4,6]", attrs: "axis=1 mode=set own=true", domains: &[Real, Real, Index(2)] },
        Case {
            args: "f[3,5,2] f[4,5,2] i64[4,5,2]",
            attrs: "axis=0 mode=add own=true",
            domains: &[Real, Real, Index(3)],
        },
        Case { args: "f[4,2] f[4,6] i32[4,6]", attrs: "axis=1 mode=mul own=true", domains: &[Real, Real, Index(2)] },
        Case {
            args: "f[3,2] f[5,2] i64[5,2]",
            attrs: "axis=0 mode=min own=true",
            domains: &[Real, Distinct, Index(3)],
        },
        Case {
            args: "i64[3] i64[5] i64[5]",
            attrs: "axis=0 mode=max own=true",
            domains: &[Index(9), Index(9), Index(3)],
        },
        Case {
            args: "bool[3,2] bool[2,2] i32[2]",
            attrs: "axis=0 mode=set own=false",
            domains: &[Domain::Bit, Domain::Bit, Index(3)],
        },
    ],
    ..OpDef::BLANK
};

/// Coordinates as positions in row-major order.
pub const RAVEL_INDEX: OpDef = OpDef {
    name: "ravel_index",
    doc: "the positions (i64), in row-major order, of the elements of a tensor with axes of `sizes` whose coordinates are \
          along the last axis of x",
    arity: Arity::Exactly(1),
    attrs: RavelIndexAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        cx.index(0)?;
        let (d, sizes) = (cx.dims(0), check_size_attrs("sizes", &RavelIndexAttrs::of(&cx.attrs).sizes)?);
        let n = sizes.iter().try_fold(1i64, |n, &s| n.checked_mul(i64::try_from(s).ok()?));
        ensure!(n.is_some(), "a tensor with axes of {} has too many elements", Infer::show_dims(&sizes));
        let Some((&axes, lead)) = d.split_last() else {
            return Err("the coordinates are a scalar; their last axis holds those of one place".to_string());
        };
        ensure!(axes == sizes.len(), "{axes} coordinates of a place, and {} axes", sizes.len());
        cx.result(DType::I64, lead)
    },
    deriv: Deriv::Zero,
    batch: Batch::Leading,
    lower: Lower::Kernel(lower::emit_ravel_index),
    cost: |cx| 2 * cx.arg(0),
    cases: &[
        Case { args: "i32[4,2]", attrs: "sizes=[3,5]", domains: &[Index(3)] },
        Case { args: "i64[2,3,1]", attrs: "sizes=[4]", domains: &[Index(4)] },
        Case { args: "i64[3,0]", attrs: "sizes=[]", domains: &[Index(4)] },
    ],
    ..OpDef::BLANK
};
