//! Optimiser steps on the rows of a table that a step has read, and the sum of gradient rows with equal indices.
//!
//! The gradient of a gather along axis 0 is one row for each index, `[.., inner]` with indices `[..]`. The steps take
//! it so, without the gradient of the other rows, which is 0. Invariant: rows that no index names stay as they are, and
//! equal indices count as one row whose gradient is the sum.

use super::attrs::{AdagradRowsAttrs, AdamRowsAttrs, CoalesceAttrs};
use super::{bias_correction, check_step_number, lower};
use crate::ensure;
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::index::attrs::Scatter;
use Domain::{Count, Index, Positive, Real};

const fn define_op(
    name: &'static str,
    doc: &'static str,
    args: usize,
    attrs: &'static [Field],
    (lower, deriv): (Lower, Deriv),
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(args),
        attrs,
        flags: Flags::PURE,
        deriv,
        batch: Batch::ViaDecompose,
        lower,
        cost: |cx| 4 * cx.arg(1),
        ..OpDef::BLANK
    }
}

/// Checks a table, its gradient and the indices, then `states` of the table's type, and the scalar rate.
fn check_rows(cx: &mut Infer<'_>, states: usize) -> Result<(), String> {
    cx.float(0)?;
    cx.index(2)?;
    let (table, g, idx) = (cx.dims(0), cx.dims(1), cx.dims(2));
    ensure!(!table.is_empty(), "the table is a scalar; rows are along its first axis");
    let want = [&idx[..], &table[1..]].concat();
    ensure!(
        *g == *want,
        "the gradient has shape {g}; indices of shape {idx} and a table of shape {table} need {}",
        Infer::show_dims(&want)
    );
    cx.same_dtype(0, 1)?;
    (3..3 + states).try_for_each(|i| cx.same(0, i))?;
    cx.same_dtype(0, 3 + states)?;
    cx.expect_dims(3 + states, "lr", &[])?;
    std::iter::once(0).chain(3..3 + states).try_for_each(|i| cx.same_as(i))
}

/// The gradient of all rows.
fn dense_gradient<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    s.args[1].scatter_add(s.args[2], 0, s.args[0].dims()[0])
}

/// `new` in the rows that an index names, `old` in the others.
fn select_rows<'g>(s: &Site<'_, 'g>, new: Var<'g>, old: Var<'g>) -> Var<'g> {
    let (idx, dims) = (s.args[2], old.dims());
    let named = s.g.full(1.0, idx.dims(), DType::I32).scatter_add(idx, 0, dims[0]).greater(0.0);
    let column = [&dims[..1], &vec![1; dims.len() - 1]].concat();
    named.reshape(column).broadcast(dims).select(new, old)
}

/// SGD on rows.
pub const SGD_ROWS: OpDef = OpDef {
    infer: |cx| check_rows(cx, 0),
    decompose: Some(|s| vec![select_rows(s, s.args[0] - s.args[3] * dense_gradient(s), s.args[0])]),
    cases: &[
        Case { args: "f[9,3] f[4,3] i32[4] f[]", attrs: "", domains: &[Real, Real, Index(9), Positive] },
        Case { args: "f[700,20] f[5,2,20] i64[5,2] f[]", attrs: "", domains: &[Real, Real, Index(4), Positive] },
        Case { args: "f[5] f[] i32[] f[]", attrs: "", domains: &[Real, Real, Index(5), Positive] },
    ],
    ..define_op(
        "sgd_rows",
        "p' = p − lr·g for the rows of p that an index names, from (p, g, indices, lr): g holds a gradient row for each \
         index, and rows of equal indices are added up first",
        4,
        &[],
        (Lower::Kernel(lower::emit_rows_step), Deriv::ViaDecompose),
    )
};

/// Adagrad on rows.
pub const ADAGRAD_ROWS: OpDef = OpDef {
    infer: |cx| {
        AdagradRowsAttrs::of(&cx.attrs).check()?;
        check_rows(cx, 1)
    },
    decompose: Some(|s| {
        let (p, sum, lr, g) = (s.args[0], s.args[3], s.args[4], dense_gradient(s));
        let next = sum + g * g;
        let moved = p - lr * g / (next.sqrt() + AdagradRowsAttrs::of(&s.attrs).eps);
        vec![select_rows(s, moved, p), select_rows(s, next, sum)]
    }),
    cases: &[
        Case {
            args: "f[9,3] f[4,3] i32[4] f[9,3] f[]",
            attrs: "eps=0.001",
            domains: &[Real, Real, Index(9), Positive, Positive],
        },
        Case {
            args: "f[700,20] f[10,20] i64[10] f[700,20] f[]",
            attrs: "eps=0.0000000001",
            domains: &[Real, Real, Index(4), Positive, Positive],
        },
    ],
    ..define_op(
        "adagrad_rows",
        "sum' = sum + g², p' = p − lr·g/(√sum' + eps) for the rows of p that an index names, from (p, g, indices, sum, \
         lr): g holds a gradient row for each index, and rows of equal indices are added up first",
        5,
        AdagradRowsAttrs::FIELDS,
        (Lower::Kernel(lower::emit_rows_step), Deriv::ViaDecompose),
    )
};

/// Lazy Adam.
pub const ADAM_ROWS: OpDef = OpDef {
    infer: |cx| {
        AdamRowsAttrs::of(&cx.attrs).check()?;
        check_rows(cx, 2)?;
        check_step_number(cx, 6)
    },
    decompose: Some(|s| {
        let AdamRowsAttrs { beta1, beta2, eps, weight_decay } = AdamRowsAttrs::of(&s.attrs);
        let [p, _, _, m, v, lr, t] = *s.args else { return Vec::new() };
        let g = dense_gradient(s);
        let (next_m, next_v) = (m + (g - m) * (1.0 - beta1), v + (g * g - v) * (1.0 - beta2));
        let size = lr.cast(DType::F64) * bias_correction(t, beta2).sqrt() / bias_correction(t, beta1);
        let kept = if weight_decay == 0.0 { p } else { p * (1.0 - lr * weight_decay) };
        let moved = kept - size.cast(p.dtype()) * (next_m / (next_v.sqrt() + eps));
        vec![select_rows(s, moved, p), select_rows(s, next_m, m), select_rows(s, next_v, v)]
    }),
    cost: |cx| 14 * cx.arg(1),
    cases: &[
        Case {
            args: "f[9,3] f[4,3] i32[4] f[9,3] f[9,3] f[] i64[]",
            attrs: "beta1=0.9 beta2=0.999 eps=0.001 weight_decay=0",
            domains: &[Real, Real, Index(9), Real, Positive, Positive, Count(9)],
        },
        Case {
            args: "f[700,20] f[10,20] i64[10] f[700,20] f[700,20] f[] i64[]",
            attrs: "beta1=0.5 beta2=0.9 eps=0.001 weight_decay=0.1",
            domains: &[Real, Real, Index(4), Real, Positive, Positive, Count(1)],
        },
    ],
    ..define_op(
        "adam_rows",
        "m' = m + (1 − β₁)(g − m), v' = v + (1 − β₂)(g² − v), p' = p·(1 − lr·weight_decay) − lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ)·m'/(√v' \
         + eps) for the rows of p that an index names, from (p, g, indices, m, v, lr, t): g holds a gradient row for \
         each index, and rows of equal indices are added up first",
        7,
        AdamRowsAttrs::FIELDS,
        (Lower::Kernel(lower::emit_rows_step), Deriv::ViaDecompose),
    )
};

/// The most rows of a table of [`COALESCE`].
pub const MOST_TABLE_ROWS: i64 = i32::MAX as i64;

/// Gradient rows with equal indices as one.
pub const COALESCE: OpDef = OpDef {
    infer: |cx| {
        cx.float(0)?;
        cx.index(1)?;
        let (g, idx) = (cx.dims(0), cx.dims(1));
        ensure!(g.starts_with(&idx), "updates of shape {g} do not hold indices of shape {idx}");
        let size = CoalesceAttrs::of(&cx.attrs).size;
        ensure!((0..=MOST_TABLE_ROWS).contains(&size), "size is {size}; it must be in 0..={MOST_TABLE_ROWS}");
        cx.same_as(0)
    },
    decompose: Some(|s| {
        let (g, idx, n) = (s.args[0], s.args[1], to_size_attr(CoalesceAttrs::of(&s.attrs).size));
        let (d, k) = (g.dims(), idx.numel());
        let (place, flat) = (s.g.iota(0, [k], DType::I64), idx.reshape([k]));
        let first = s.g.full(k as f64, [n], DType::I64).scatter_slices(flat, place, 0, Scatter::Min);
        let column = [&idx.dims()[..], &vec![1; d.len() - idx.rank()]].concat();
        let is_first = first.gather(flat, 0).equal(place).reshape(column).broadcast(d);
        let sums = g.scatter_add(idx, 0, n).gather(idx, 0);
        vec![is_first.select(sums, sums.full_like(0.0))]
    }),
    cases: &[
        Case { args: "f[4,3] i32[4]", attrs: "size=5", domains: &[Real, Index(5)] },
        Case { args: "f[6,2,20] i64[6,2]", attrs: "size=700", domains: &[Real, Index(4)] },
        Case { args: "f[3] i32[3]", attrs: "size=2", domains: &[Real, Index(2)] },
    ],
    cost: |cx| cx.arg(0),
    ..define_op(
        "coalesce",
        "updates with equal indices (each below `size`) added up: the first of them holds the sum, the others are 0",
        2,
        CoalesceAttrs::FIELDS,
        (Lower::Kernel(lower::emit_coalesce), Deriv::ViaDecompose),
    )
};
