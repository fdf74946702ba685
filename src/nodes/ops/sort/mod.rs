//! Positions of elements in sorted order, and of running extremes (`cum_arg_max`). `take_along_axis` gives the values,
//! and its derivative moves gradients back to where the values came from. `top_k` gives the largest elements with their
//! positions.

pub mod attrs;
pub mod cum_arg_max;
pub mod lower;
pub mod var;

use crate::ensure;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, to_size_attr};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::index::attrs::ScatterAddAttrs;
use crate::nodes::ops::sort::attrs::{ArgSortAttrs, TopKAttrs};

const POSITIONS: usize = i32::MAX as usize;

/// The positions that sort the last axis.
pub const ARG_SORT: OpDef = OpDef {
    name: "arg_sort",
    doc: "positions (i32) of the elements along the last axis in sorted order: equal ones in their order, NaN last",
    arity: Arity::Exactly(1),
    attrs: ArgSortAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STEP),
    infer: |cx| {
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(dtype.is_float() || dtype.is_index(), "no order of {dtype}; cast it");
        let n = d.last().copied().ok_or("x is a scalar; it needs an axis to sort")?;
        ensure!(i32::try_from(n).is_ok(), "the last axis of {d} is too long for i32 positions");
        cx.result(DType::I32, &d)
    },
    deriv: Deriv::Zero,
    batch: Batch::Leading,
    lower: Lower::Kernel(lower::emit_arg_sort),
    cost: |cx| cx.arg(0) * 8,
    cases: &[
        Case { args: "f[3,17]", attrs: "descending=false", domains: &[Domain::Distinct] },
        Case { args: "f[2,2,40]", attrs: "descending=true", domains: &[Domain::Distinct] },
        Case { args: "i32[9]", attrs: "descending=true", domains: &[Domain::Index(4)] },
        Case { args: "f[0,4]", attrs: "descending=false", domains: &[Domain::Distinct] },
        Case { args: "f[4,0]", attrs: "descending=false", domains: &[Domain::Distinct] },
    ],
    ..OpDef::BLANK
};

/// The start of the sorted elements.
fn decompose_top_k<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, k) = (s.args[0], to_size_attr(TopKAttrs::of(&s.attrs).k));
    let positions = x.arg_sort(-1, true).narrow(-1, 0, k);
    vec![x.take_along_axis(positions, -1), positions]
}

/// The cotangents go back to where the values came from.
fn top_k_vjp<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let d = s.args[0].dims();
    let Some(axis) = d.len().checked_sub(1) else { return vec![None] };
    let attrs = ScatterAddAttrs { axis: size_attr_to_i64(axis), size: size_attr_to_i64(d[axis]) };
    vec![ct[0].map(|g| g.g.emit1(Op::SCATTER_ALONG_AXIS, &[g, s.outs[1]], &attrs.list()))]
}

/// The largest elements of the last axis, and their positions.
pub const TOP_K: OpDef = OpDef {
    name: "top_k",
    doc: "the k largest elements along the last axis, largest first, and their positions (i32): of equal ones the first, \
          NaN last",
    arity: Arity::Exactly(1),
    attrs: TopKAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(dtype.is_float() || dtype.is_index(), "no order of {dtype}; cast it");
        cx.real(0)?;
        let n = d.last().copied().ok_or("x is a scalar; it needs an axis to sort")?;
        ensure!(n <= POSITIONS, "the last axis of {d} is too long for i32 positions");
        let k = TopKAttrs::of(&cx.attrs).k;
        let k = usize::try_from(k).ok().filter(|&k| k <= n);
        let k = k.ok_or_else(|| format!("k is {}; the last axis has {n} elements", TopKAttrs::of(&cx.attrs).k))?;
        let dims = [&d[..d.len() - 1], &[k]].concat();
        cx.result(dtype, &dims)?;
        cx.result(DType::I32, &dims)
    },
    deriv: Deriv::Rules(|s, t| vec![t[0].map(|t| t.take_along_axis(s.outs[1], -1)), None], top_k_vjp),
    batch: Batch::Leading,
    decompose: Some(decompose_top_k),
    lower: Lower::Kernel(lower::emit_top_k),
    cost: |cx| cx.arg(0) * 2,
    cases: &[
        Case { args: "f[3,17]", attrs: "k=4", domains: &[Domain::Distinct] },
        Case { args: "f[2,2,40]", attrs: "k=40", domains: &[Domain::Distinct] },
        Case { args: "i32[9]", attrs: "k=5", domains: &[Domain::Index(4)] },
        Case { args: "f[6]", attrs: "k=1", domains: &[Domain::Distinct] },
        Case { args: "f[3,5]", attrs: "k=0", domains: &[Domain::Distinct] },
        Case { args: "f[0,4]", attrs: "k=2", domains: &[Domain::Distinct] },
    ],
    ..OpDef::BLANK
};
