//! Reductions over sets of axes, arg-reductions, and running sums.

pub mod length;
pub mod lower;
pub mod var;

use super::each_arg;
use crate::ensure;
use crate::kernels::scan;
use crate::nodes::build::axes::reduced_dims;
use crate::nodes::ir::attrs::{Attr, Field, Kind};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef, Site};
use crate::nodes::ops::common::lowering::by_num;
use Domain::{Distinct, Positive, Real};

const AXES: &[Field] = &[Field::new("axes", Kind::Ints), Field::new("keep", Kind::Bool)];

const fn row(name: &'static str, doc: &'static str, lower: Lower, deriv: Deriv, cases: &'static [Case]) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: AXES,
        flags: Flags::PURE,
        infer: numbers,
        deriv,
        decompose: None,
        lower,
        cost: each_arg,
        cases,
    }
}

fn reduced(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dims(0);
    let axes = cx.axes(0, d.len())?;
    ensure!(axes.is_sorted(), "axes must be in order");
    let dtype = cx.dtype(0);
    cx.result(dtype, &reduced_dims(&d, &axes, cx.attrs.bool(1)))
}

fn numbers(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    ensure!(d.is_float() || matches!(d, DType::I32 | DType::I64), "no reduction of {d}; cast it");
    reduced(cx)
}

fn reals(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.float(0)?;
    reduced(cx)
}

/// Maximum and minimum of nothing do not exist.
fn nonempty(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dims(0);
    for a in cx.axes(0, d.len())? {
        ensure!(d[a] > 0, "axis {a} is empty and the reduction has no identity");
    }
    numbers(cx)
}

/// The sizes of the reduced axes, multiplied.
fn count(s: &Site<'_, '_>) -> usize {
    let d = s.args[0].dims();
    s.attrs.sizes(0).iter().map(|&a| d[a]).product()
}

/// A value of the result's shape, repeated over the reduced axes.
fn spread<'g>(s: &Site<'_, 'g>, v: Var<'g>) -> Var<'g> {
    let d = s.args[0].dims();
    v.reshape(reduced_dims(&d, &s.attrs.sizes(0), true)).broadcast(d)
}

/// A sum as this node reduces: same axes, same `keep`.
fn sum_like<'g>(s: &Site<'_, 'g>, x: Var<'g>) -> Var<'g> {
    x.reduce(Op::REDUCE_SUM, s.attrs.ints(0).as_slice(), s.attrs.bool(1))
}

const SUMS: &[Case] = &[
    Case { args: "f[3,4,5]", attrs: "axes=[1] keep=false", domains: &[Real] },
    Case { args: "f[3,4,5]", attrs: "axes=[0,2] keep=true", domains: &[Real] },
    Case { args: "f[3,4,5]", attrs: "axes=[0,1,2] keep=false", domains: &[Real] },
    Case { args: "f[3,4]", attrs: "axes=[] keep=false", domains: &[Real] },
    Case { args: "f[70,33]", attrs: "axes=[0] keep=false", domains: &[Real] },
    Case { args: "f[3,700]", attrs: "axes=[1] keep=false", domains: &[Real] },
    Case { args: "f[9001]", attrs: "axes=[0] keep=false", domains: &[Real] },
];

/// See `doc`.
pub const REDUCE_SUM: OpDef = OpDef {
    cases: &[
        SUMS[0],
        SUMS[1],
        SUMS[2],
        SUMS[3],
        SUMS[4],
        SUMS[5],
        SUMS[6],
        Case { args: "f[3,0]", attrs: "axes=[1] keep=false", domains: &[Real] },
        Case { args: "i32[6,5]", attrs: "axes=[0] keep=false", domains: &[Domain::Index(9)] },
    ],
    ..row(
        "reduce_sum",
        "y = Σ x over `axes`; empty sums are 0",
        Lower::Kernel(lower::sum),
        Deriv::Linear(|s, _, g| Some(spread(s, g))),
        SUMS,
    )
};

/// See `doc`.
pub const SUM_SQUARES: OpDef = OpDef {
    attrs: &[Field::new("mean", Kind::Bool)],
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        let dtype = cx.float(0)?;
        cx.result(dtype, &[])
    },
    decompose: Some(|s| {
        let x = s.args[0];
        vec![if s.attrs.bool(0) { (x * x).mean(..) } else { (x * x).sum(..) }]
    }),
    cost: |cx| 2 * cx.arg(0),
    cases: &[
        Case { args: "f[3,5]", attrs: "mean=false", domains: &[Real] },
        Case { args: "f[9001]", attrs: "mean=false", domains: &[Real] },
        Case { args: "f[40000]", attrs: "mean=true", domains: &[Real] },
        Case { args: "f[]", attrs: "mean=false", domains: &[Real] },
        Case { args: "f[2,1,7]", attrs: "mean=true", domains: &[Real] },
        Case { args: "f[0,3]", attrs: "mean=false", domains: &[Real] },
    ],
    ..row(
        "sum_squares",
        "y = Σ x² over all elements, or their mean; an empty sum is 0",
        Lower::Kernel(lower::sum_squares),
        Deriv::ViaDecompose,
        &[],
    )
};

/// See `doc`.
pub const REDUCE_MEAN: OpDef = OpDef {
    infer: reals,
    ..row(
        "reduce_mean",
        "y = Σ x / n over `axes`; NaN for n = 0",
        Lower::Kernel(lower::mean),
        Deriv::Linear(|s, _, g| Some(spread(s, g) * (1.0 / count(s) as f64))),
        SUMS,
    )
};

/// The share of each element in its maximum or minimum: evenly among ties, so that shares sum to 1.
fn shares<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    let x = s.args[0];
    let hit = x.equal(spread(s, s.outs[0])).cast(x.dtype());
    hit / spread(s, sum_like(s, hit))
}

fn extreme_jvp<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    vec![t[0].map(|t| sum_like(s, t * shares(s)))]
}

fn extreme_vjp<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    vec![ct[0].map(|g| spread(s, g) * shares(s))]
}

const EXTREMES: &[Case] = &[
    Case { args: "f[3,4,5]", attrs: "axes=[1] keep=false", domains: &[Distinct] },
    Case { args: "f[3,4,5]", attrs: "axes=[0,2] keep=true", domains: &[Distinct] },
    Case { args: "f[40]", attrs: "axes=[0] keep=false", domains: &[Distinct] },
    Case { args: "i64[6,5]", attrs: "axes=[0] keep=false", domains: &[Domain::Index(9)] },
];

/// See `doc`.
pub const REDUCE_MAX: OpDef = OpDef {
    infer: nonempty,
    ..row(
        "reduce_max",
        "y = max x over `axes`, NaN if any is; ties share the gradient evenly",
        Lower::Kernel(lower::max),
        Deriv::Rules(extreme_jvp, extreme_vjp),
        EXTREMES,
    )
};

/// See `doc`.
pub const REDUCE_MIN: OpDef = OpDef {
    infer: nonempty,
    ..row(
        "reduce_min",
        "y = min x over `axes`, NaN if any is; ties share the gradient evenly",
        Lower::Kernel(lower::min),
        Deriv::Rules(extreme_jvp, extreme_vjp),
        EXTREMES,
    )
};

/// Π_{j≠i} xⱼ by exclusive running products from both ends: no division, so zeros are no special case.
fn others<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    let (x, axes) = (s.args[0], s.attrs.sizes(0));
    let d = x.dims();
    let kept: Vec<usize> = (0..d.len()).filter(|a| !axes.contains(a)).collect();
    let perm = [&kept[..], &axes[..]].concat();
    let rows: usize = kept.iter().map(|&a| d[a]).product();
    let n: usize = axes.iter().map(|&a| d[a]).product();
    let flat = x.transpose(&perm).reshape([rows, n]);
    let one = flat.full_like(1.0);
    // Products over the triangle of other indices: log-depth would need a scan op; n is small where prod is used.
    let mut left = one;
    let mut right = one;
    let mut step = 1;
    let (mut before, mut after) = (shift(flat, 1, false), shift(flat, 1, true));
    while step < n.max(1) {
        left = before;
        right = after;
        before = before * shift(before, step, false);
        after = after * shift(after, step, true);
        step *= 2;
    }
    if n > 1 {
        left = before;
        right = after;
    }
    let mut back = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(i, &p)| back[p] = i);
    let dims: Vec<usize> = perm.iter().map(|&a| d[a]).collect();
    (left * right).reshape(&dims).transpose(&back)
}

/// Rows of `x` moved by `by` places, with ones coming in.
fn shift<'g>(x: Var<'g>, by: usize, left: bool) -> Var<'g> {
    let d = x.dims();
    let (rows, n) = (d.first().copied().unwrap_or(0), d.get(1).copied().unwrap_or(0));
    let by = by.min(n);
    let ones = x.g.full(1.0, [rows, by], x.dtype());
    if left { x.narrow(1, by, n - by).concat(&[ones], 1) } else { ones.concat(&[x.narrow(1, 0, n - by)], 1) }
}

/// See `doc`.
pub const REDUCE_PROD: OpDef = row(
    "reduce_prod",
    "y = Π x over `axes`; empty products are 1; x̄ᵢ = ȳ·Π_{j≠i} xⱼ, without division",
    Lower::Kernel(lower::prod),
    Deriv::Rules(
        |s, t| vec![t[0].map(|t| sum_like(s, t * others(s)))],
        |s, ct, _| vec![ct[0].map(|g| spread(s, g) * others(s))],
    ),
    &[
        Case { args: "f[3,4,5]", attrs: "axes=[1] keep=false", domains: &[Positive] },
        Case { args: "f[2,3,2]", attrs: "axes=[0,2] keep=true", domains: &[Real] },
        Case { args: "f[7]", attrs: "axes=[0] keep=false", domains: &[Positive] },
        Case { args: "f[1]", attrs: "axes=[0] keep=false", domains: &[Real] },
    ],
);

/// See `doc`.
pub const LOGSUMEXP: OpDef = OpDef {
    infer: |cx| {
        cx.float(0)?;
        nonempty(cx)
    },
    cost: |cx| 3 * cx.args(),
    ..row(
        "logsumexp",
        "y = ln Σ eˣ over `axes`, without overflow; x̄ = ȳ·e^(x − y)",
        Lower::Kernel(lower::logsumexp),
        Deriv::Rules(
            |s, t| vec![t[0].map(|t| sum_like(s, t * (s.args[0] - spread(s, s.outs[0])).exp()))],
            |s, ct, _| vec![ct[0].map(|g| spread(s, g) * (s.args[0] - spread(s, s.outs[0])).exp())],
        ),
        SUMS,
    )
};

/// See `doc`.
pub const VAR: OpDef = OpDef {
    attrs: &[Field::new("axes", Kind::Ints), Field::new("keep", Kind::Bool), Field::new("correction", Kind::Int)],
    infer: |cx| {
        ensure!(cx.attrs.int(2) >= 0, "correction {} is negative", cx.attrs.int(2));
        reals(cx)
    },
    deriv: Deriv::ViaDecompose,
    decompose: Some(|s| {
        let x = s.args[0];
        let mean = x.reduce(Op::REDUCE_MEAN, s.attrs.ints(0).as_slice(), false);
        let d = x - spread(s, mean);
        vec![sum_like(s, d * d) * (1.0 / (count(s) as f64 - s.attrs.int(2) as f64))]
    }),
    ..row(
        "var",
        "y = Σ (x − mean)² / (n − correction) over `axes`",
        Lower::Expand,
        Deriv::Zero,
        &[
            Case { args: "f[3,4,5]", attrs: "axes=[1] keep=false correction=0", domains: &[Real] },
            Case { args: "f[3,4,5]", attrs: "axes=[0,2] keep=true correction=1", domains: &[Real] },
        ],
    )
};

const ARG: &[Case] = &[
    Case { args: "f[3,4,5]", attrs: "axis=1 dtype=i32", domains: &[Distinct] },
    Case { args: "f[40]", attrs: "axis=0 dtype=i64", domains: &[Distinct] },
];

fn arg_infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dims(0);
    let axis = cx.axis(0, d.len())?;
    ensure!(d[axis] > 0, "axis {axis} is empty");
    ensure!(cx.dtype(0).is_float() || cx.dtype(0).is_index(), "no order of {}; cast it", cx.dtype(0));
    let to = cx.attrs.dtype(1);
    ensure!(to.is_index(), "positions are i32 or i64, not {to}");
    ensure!(to == DType::I64 || d[axis] <= i32::MAX as usize, "axis {axis} has more positions than i32");
    cx.result(to, &reduced_dims(&d, &[axis], false))
}

/// See `doc`.
pub const ARG_MAX: OpDef = OpDef {
    attrs: &[Field::new("axis", Kind::Int), Field::new("dtype", Kind::DType)],
    infer: arg_infer,
    ..row(
        "arg_max",
        "position of the first largest element along `axis`; NaN is largest",
        Lower::Kernel(lower::arg_max),
        Deriv::Zero,
        ARG,
    )
};

/// See `doc`.
pub const ARG_MIN: OpDef = OpDef {
    attrs: &[Field::new("axis", Kind::Int), Field::new("dtype", Kind::DType)],
    infer: arg_infer,
    ..row(
        "arg_min",
        "position of the first smallest element along `axis`; NaN is smallest",
        Lower::Kernel(lower::arg_min),
        Deriv::Zero,
        ARG,
    )
};

const RUNNING: &[Field] =
    &[Field::new("axis", Kind::Int), Field::new("exclusive", Kind::Bool), Field::new("reverse", Kind::Bool)];

fn running(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    ensure!(d.is_float() || d.is_index(), "no running total of {d}; cast it");
    let rank = cx.dims(0).len();
    cx.axis(0, rank)?;
    cx.same_as(0)
}

/// See `doc`.
pub const CUMSUM: OpDef = OpDef {
    attrs: RUNNING,
    infer: running,
    ..row(
        "cumsum",
        "yᵢ = Σ_{j≤i} xⱼ along `axis` (j < i if exclusive; from the end if reverse)",
        Lower::Kernel(|cx| lower::running(cx, by_num!(cx.dtype(0), scan::cumsum))),
        Deriv::Linear(|s, _, g| {
            let (axis, exclusive, reverse) = (s.attrs.int(0), s.attrs.bool(1), s.attrs.bool(2));
            Some(s.g.emit1(s.op, &[g], &[Attr::Int(axis), Attr::Bool(exclusive), Attr::Bool(!reverse)]))
        }),
        &[
            Case { args: "f[3,4]", attrs: "axis=1 exclusive=false reverse=false", domains: &[Real] },
            Case { args: "f[3,4,2]", attrs: "axis=1 exclusive=true reverse=false", domains: &[Real] },
            Case { args: "f[3,4]", attrs: "axis=0 exclusive=true reverse=true", domains: &[Real] },
            Case { args: "i64[5]", attrs: "axis=0 exclusive=false reverse=true", domains: &[Domain::Index(9)] },
        ],
    )
};

/// The running product in log₂ n rounds of products with a shifted copy: no division, so zeros are no special case.
fn running_product<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, axis) = (s.args[0], s.attrs.size(0));
    let d = x.dims();
    let last = d.len() - 1;
    // Rows along the last axis, from the front; the way there is its own way back.
    let mut perm: Vec<usize> = (0..d.len()).collect();
    perm.swap(axis, last);
    let turned = if s.attrs.bool(2) { x.flip(s.attrs.int(0)) } else { x };
    let there = turned.transpose(&perm);
    let (dims, n) = (there.dims(), d[axis]);
    let mut y = there.reshape([dims[..last].iter().product(), n]);
    if s.attrs.bool(1) {
        y = shift(y, 1, false);
    }
    let mut step = 1;
    while step < n {
        y = y * shift(y, step, false);
        step *= 2;
    }
    let back = y.reshape(dims).transpose(&perm);
    vec![if s.attrs.bool(2) { back.flip(s.attrs.int(0)) } else { back }]
}

/// See `doc`.
pub const CUMPROD: OpDef = OpDef {
    attrs: RUNNING,
    infer: running,
    decompose: Some(running_product),
    ..row(
        "cumprod",
        "yᵢ = Π_{j≤i} xⱼ along `axis` (j < i if exclusive; from the end if reverse)",
        Lower::Kernel(|cx| lower::running(cx, by_num!(cx.dtype(0), scan::cumprod))),
        Deriv::ViaDecompose,
        &[
            Case { args: "f[3,4]", attrs: "axis=1 exclusive=false reverse=false", domains: &[Real] },
            Case { args: "f[3,5,2]", attrs: "axis=1 exclusive=true reverse=false", domains: &[Positive] },
            Case { args: "f[3,4]", attrs: "axis=0 exclusive=true reverse=true", domains: &[Real] },
            Case { args: "f[1]", attrs: "axis=0 exclusive=false reverse=true", domains: &[Real] },
            Case { args: "i64[5]", attrs: "axis=0 exclusive=false reverse=true", domains: &[Domain::Index(3)] },
        ],
    )
};
