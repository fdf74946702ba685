//! Reductions over sets of axes, arg-reductions, and running sums.

pub mod attrs;
pub mod euclidean_length;
pub mod lower;
pub mod var;

use crate::ensure;
use crate::kernels::reduce::cumulative;
use crate::nodes::arguments::axes::dims_without_axes;
use crate::nodes::arguments::axes::{check_axes, check_axis};
use crate::nodes::arguments::size_attrs::{to_size_attr, to_size_attrs};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::batch_site::behind_batch;
use crate::nodes::ops::common::cost::cost_per_operand;
use Domain::{Distinct, Positive, Real};
use attrs::{ArgExtremeAttrs, ReduceAttrs, RunningAttrs, SumSquaresAttrs, VarAttrs};

const fn define_op(name: &'static str, doc: &'static str, lower: Lower, deriv: Deriv, cases: &'static [Case]) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: ReduceAttrs::FIELDS,
        flags: Flags::PURE.and(Flags::EXACT),
        infer: infer_reduced_numbers,
        deriv,
        batch: Batch::Rule(batch_reduction),
        lower,
        cost: cost_per_operand,
        cases,
        ..OpDef::BLANK
    }
}

/// The result of a reduction by `a`.
fn infer_reduced(cx: &mut Infer<'_>, a: &ReduceAttrs) -> Result<(), String> {
    let d = cx.dims(0);
    let axes = check_axes(&a.axes, d.len())?;
    ensure!(axes.is_sorted(), "axes must be in order");
    let dtype = cx.dtype(0);
    cx.result(dtype, &dims_without_axes(&d, &axes, a.keep))
}

fn infer_reduced_numbers(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    ensure!(
        d.is_float() || matches!(d, DType::I32 | DType::I64),
        "no reduction of {d}; cast it, or name the type of the result (sum_as)"
    );
    infer_reduced(cx, &ReduceAttrs::of(&cx.attrs))
}

fn infer_reduced_reals(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.float(0)?;
    infer_reduced(cx, &ReduceAttrs::of(&cx.attrs))
}

/// Every type with an order. Maximum and minimum of no element do not exist.
fn infer_reduced_nonempty(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dims(0);
    for a in check_axes(&ReduceAttrs::of(&cx.attrs).axes, d.len())? {
        ensure!(d[a] > 0, "axis {a} is empty and the reduction has no identity");
    }
    let d = cx.dtype(0);
    cx.real(0)?;
    ensure!(d.is_float() || d.is_int() || d == DType::Bool, "no reduction of {d}; cast it");
    infer_reduced(cx, &ReduceAttrs::of(&cx.attrs))
}

/// The reduction along axes of each member.
fn batch_reduction<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let ReduceAttrs { axes, keep } = ReduceAttrs::of(&s.site.attrs);
    s.emit(s.site.args, &ReduceAttrs { axes: behind_batch(&axes), keep }.list())
}

/// The position along an axis of each member.
fn batch_arg_reduction<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let ArgExtremeAttrs { axis, dtype } = ArgExtremeAttrs::of(&s.site.attrs);
    s.emit(s.site.args, &ArgExtremeAttrs { axis: axis + 1, dtype }.list())
}

/// The running reduction along an axis of each member.
fn batch_running_reduction<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let a = RunningAttrs::of(&s.site.attrs);
    s.emit(s.site.args, &RunningAttrs { axis: a.axis + 1, ..a }.list())
}

/// The reduction of a node: its operand and axes.
struct ReduceOpAxes<'g> {
    x: Var<'g>,
    attrs: ReduceAttrs,
}

impl<'g> ReduceOpAxes<'g> {
    fn of(s: &Site<'_, 'g>) -> ReduceOpAxes<'g> {
        ReduceOpAxes { x: s.args[0], attrs: ReduceAttrs::of(&s.attrs) }
    }

    /// The sizes of the reduced axes, multiplied.
    fn count(&self) -> usize {
        let d = self.x.dims();
        to_size_attrs(&self.attrs.axes).iter().map(|&a| d[a]).product()
    }

    /// A value of the result's shape, repeated over the reduced axes.
    fn spread(&self, v: Var<'g>) -> Var<'g> {
        let d = self.x.dims();
        v.reshape(dims_without_axes(&d, &to_size_attrs(&self.attrs.axes), true)).broadcast(d)
    }

    /// The sum of `v` as the node reduces: same axes, same `keep`.
    fn sum(&self, v: Var<'g>) -> Var<'g> {
        v.reduce(Op::REDUCE_SUM, self.attrs.axes.as_slice(), self.attrs.keep)
    }
}

/// [`ReduceOpAxes::spread`] of `v` over the axes of `s`.
fn spread_reduced<'g>(s: &Site<'_, 'g>, v: Var<'g>) -> Var<'g> {
    ReduceOpAxes::of(s).spread(v)
}

/// [`ReduceOpAxes::sum`] of `v` along the axes of `s`.
fn sum_like_reduced<'g>(s: &Site<'_, 'g>, v: Var<'g>) -> Var<'g> {
    ReduceOpAxes::of(s).sum(v)
}

/// e^(x − y) for y = ln Σ eˣ: the share of each element. Zeros where all elements are −∞.
fn logsumexp_shares<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    let y = s.outs[0];
    (s.args[0] - spread_reduced(s, y.equal(f64::NEG_INFINITY).select(0.0, y))).exp()
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

/// The sum over axes.
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
    ..define_op(
        "reduce_sum",
        "y = Σ x over `axes`; empty sums are 0",
        Lower::Kernel(lower::emit_reduce_sum),
        Deriv::Linear(|s, _, g| Some(spread_reduced(s, g))),
        SUMS,
    )
};

/// The sum, or the mean, of all squares.
pub const SUM_SQUARES: OpDef = OpDef {
    attrs: SumSquaresAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::EXACT),
    infer: |cx| {
        let dtype = cx.float(0)?;
        cx.result(dtype, &[])
    },
    decompose: Some(|s| {
        let x = s.args[0];
        vec![if SumSquaresAttrs::of(&s.attrs).mean { (x * x).mean(..) } else { (x * x).sum(..) }]
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
    batch: Batch::ViaDecompose,
    ..define_op(
        "sum_squares",
        "y = Σ x² over all elements, or their mean; an empty sum is 0",
        Lower::Kernel(lower::emit_sum_squares),
        Deriv::ViaDecompose,
        &[],
    )
};

/// The mean over axes.
pub const REDUCE_MEAN: OpDef = OpDef {
    infer: infer_reduced_reals,
    ..define_op(
        "reduce_mean",
        "y = Σ x / n over `axes`; NaN for n = 0",
        Lower::Kernel(lower::emit_reduce_mean),
        // Scaled before it is spread: there are fewer elements, and the pass `contract` sees a broadcast.
        Deriv::Linear(|s, _, g| Some(spread_reduced(s, g * (1.0 / ReduceOpAxes::of(s).count() as f64)))),
        SUMS,
    )
};

/// The share of each element in its maximum or minimum. Ties share evenly, so shares sum to 1.
fn extreme_shares<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    let x = s.args[0];
    let hit = x.equal(spread_reduced(s, s.outs[0])).cast(x.dtype());
    hit / spread_reduced(s, sum_like_reduced(s, hit))
}

fn push_extreme_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    vec![t[0].map(|t| sum_like_reduced(s, t * extreme_shares(s)))]
}

fn pull_extreme_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    vec![ct[0].map(|g| spread_reduced(s, g) * extreme_shares(s))]
}

const EXTREMES: &[Case] = &[
    Case { args: "f[3,4,5]", attrs: "axes=[1] keep=false", domains: &[Distinct] },
    Case { args: "f[3,4,5]", attrs: "axes=[0,2] keep=true", domains: &[Distinct] },
    Case { args: "f[40]", attrs: "axes=[0] keep=false", domains: &[Distinct] },
    Case { args: "i64[6,5]", attrs: "axes=[0] keep=false", domains: &[Domain::Index(9)] },
    Case { args: "u8[6,5]", attrs: "axes=[1] keep=false", domains: &[Domain::Index(256)] },
    Case { args: "u32[9001]", attrs: "axes=[0] keep=false", domains: &[Domain::Bits] },
    Case { args: "bool[3,4,5]", attrs: "axes=[0,2] keep=false", domains: &[Domain::Bit] },
];

/// The largest element over axes.
pub const REDUCE_MAX: OpDef = OpDef {
    infer: infer_reduced_nonempty,
    ..define_op(
        "reduce_max",
        "y = max x over `axes`, NaN if any is; ties share the gradient evenly",
        Lower::Kernel(lower::emit_reduce_max),
        Deriv::Rules(push_extreme_tangents, pull_extreme_cotangents),
        EXTREMES,
    )
};

/// The smallest element over axes.
pub const REDUCE_MIN: OpDef = OpDef {
    infer: infer_reduced_nonempty,
    ..define_op(
        "reduce_min",
        "y = min x over `axes`, NaN if any is; ties share the gradient evenly",
        Lower::Kernel(lower::emit_reduce_min),
        Deriv::Rules(push_extreme_tangents, pull_extreme_cotangents),
        EXTREMES,
    )
};

/// Π_{j≠i} xⱼ by exclusive running products from both ends: no division, so zeros are no special case.
fn multiply_others<'g>(s: &Site<'_, 'g>) -> Var<'g> {
    let (x, axes) = (s.args[0], to_size_attrs(&ReduceAttrs::of(&s.attrs).axes));
    let d = x.dims();
    let kept: Vec<usize> = (0..d.len()).filter(|a| !axes.contains(a)).collect();
    let perm = [&kept[..], &axes[..]].concat();
    let rows: usize = kept.iter().map(|&a| d[a]).product();
    let n: usize = axes.iter().map(|&a| d[a]).product();
    let flat = x.permute(&perm).reshape([rows, n]);
    // Each round doubles the number of factors: log₂ n rounds.
    let mut left = shift_rows(flat, 1, false);
    let mut right = shift_rows(flat, 1, true);
    let mut step = 1;
    while step < n {
        left = left * shift_rows(left, step, false);
        right = right * shift_rows(right, step, true);
        step *= 2;
    }
    let mut back = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(i, &p)| back[p] = i);
    let dims: Vec<usize> = perm.iter().map(|&a| d[a]).collect();
    (left * right).reshape(&dims).permute(&back)
}

/// Elements of each row of `x` moved by `by` positions, with ones coming in.
fn shift_rows<'g>(x: Var<'g>, by: usize, left: bool) -> Var<'g> {
    let d = x.dims();
    let (rows, n) = (d.first().copied().unwrap_or(0), d.get(1).copied().unwrap_or(0));
    let by = by.min(n);
    let ones = x.g.full(1.0, [rows, by], x.dtype());
    if left { x.narrow(1, by, n - by).concat(&[ones], 1) } else { ones.concat(&[x.narrow(1, 0, n - by)], 1) }
}

/// The product over axes.
pub const REDUCE_PROD: OpDef = define_op(
    "reduce_prod",
    "y = Π x over `axes`; empty products are 1; x̄ᵢ = ȳ·Π_{j≠i} xⱼ, without division",
    Lower::Kernel(lower::emit_reduce_prod),
    Deriv::Rules(
        |s, t| vec![t[0].map(|t| sum_like_reduced(s, t * multiply_others(s)))],
        |s, ct, _| vec![ct[0].map(|g| spread_reduced(s, g) * multiply_others(s))],
    ),
    &[
        Case { args: "f[3,4,5]", attrs: "axes=[1] keep=false", domains: &[Positive] },
        Case { args: "f[2,3,2]", attrs: "axes=[0,2] keep=true", domains: &[Real] },
        Case { args: "f[7]", attrs: "axes=[0] keep=false", domains: &[Positive] },
        Case { args: "f[1]", attrs: "axes=[0] keep=false", domains: &[Real] },
    ],
);

/// The logarithm of the sum of exponentials over axes.
pub const LOGSUMEXP: OpDef = OpDef {
    infer: |cx| {
        cx.float(0)?;
        infer_reduced_nonempty(cx)
    },
    cost: |cx| 3 * cx.args(),
    ..define_op(
        "logsumexp",
        "y = ln Σ eˣ over `axes`, without overflow; x̄ = ȳ·e^(x − y), 0 where y = −∞",
        Lower::Kernel(lower::emit_logsumexp),
        Deriv::Rules(
            |s, t| vec![t[0].map(|t| sum_like_reduced(s, t * logsumexp_shares(s)))],
            |s, ct, _| vec![ct[0].map(|g| spread_reduced(s, g) * logsumexp_shares(s))],
        ),
        SUMS,
    )
};

/// The variance over axes.
pub const VAR: OpDef = OpDef {
    attrs: VarAttrs::FIELDS,
    infer: |cx| {
        let a = VarAttrs::of(&cx.attrs);
        ensure!(a.correction >= 0, "correction {} is negative", a.correction);
        cx.float(0)?;
        infer_reduced(cx, &a.reduce_attrs())
    },
    decompose: Some(|s| {
        let (x, a) = (s.args[0], VarAttrs::of(&s.attrs));
        let mean = x.reduce(Op::REDUCE_MEAN, a.axes.as_slice(), false);
        let correction = a.correction as f64;
        let over = ReduceOpAxes { x, attrs: a.reduce_attrs() };
        let d = x - over.spread(mean);
        // A mean far from 0 is rounded by much of a small deviation; what is left of the deviations is taken off, too.
        let rest = d.reduce(Op::REDUCE_MEAN, over.attrs.axes.as_slice(), false);
        let d = d - over.spread(rest.stop_gradient());
        vec![over.sum(d * d) * (1.0 / (over.count() as f64 - correction))]
    }),
    batch: Batch::ViaDecompose,
    ..define_op(
        "var",
        "y = Σ (x − mean)² / (n − correction) over `axes`",
        Lower::Expand,
        Deriv::ViaDecompose,
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

fn infer_arg_reduction(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dims(0);
    let ArgExtremeAttrs { axis, dtype: to } = ArgExtremeAttrs::of(&cx.attrs);
    let axis = check_axis(axis, d.len())?;
    ensure!(d[axis] > 0, "axis {axis} is empty");
    cx.real(0)?;
    ensure!(cx.dtype(0).is_float() || cx.dtype(0).is_index(), "no order of {}; cast it", cx.dtype(0));
    ensure!(to.is_index(), "positions are i32 or i64, not {to}");
    ensure!(to == DType::I64 || d[axis] <= i32::MAX as usize, "axis {axis} has more positions than i32");
    cx.result(to, &dims_without_axes(&d, &[axis], false))
}

/// The position of the largest element along an axis.
pub const ARG_MAX: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STEP),
    attrs: ArgExtremeAttrs::FIELDS,
    infer: infer_arg_reduction,
    batch: Batch::Rule(batch_arg_reduction),
    ..define_op(
        "arg_max",
        "position of the first largest element along `axis`; NaN is largest",
        Lower::Kernel(lower::emit_arg_max),
        Deriv::Zero,
        ARG,
    )
};

/// The position of the smallest element along an axis.
pub const ARG_MIN: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::STEP),
    attrs: ArgExtremeAttrs::FIELDS,
    infer: infer_arg_reduction,
    batch: Batch::Rule(batch_arg_reduction),
    ..define_op(
        "arg_min",
        "position of the first smallest element along `axis`; NaN is smallest",
        Lower::Kernel(lower::emit_arg_min),
        Deriv::Zero,
        ARG,
    )
};

fn infer_running_reduction(cx: &mut Infer<'_>) -> Result<(), String> {
    let d = cx.dtype(0);
    cx.real(0)?;
    ensure!(d.is_float() || d.is_index(), "no running total of {d}; cast it");
    let rank = cx.dims(0).len();
    check_axis(RunningAttrs::of(&cx.attrs).axis, rank)?;
    cx.same_as(0)
}

/// The running sum along an axis.
pub const CUMSUM: OpDef = OpDef {
    attrs: RunningAttrs::FIELDS,
    infer: infer_running_reduction,
    batch: Batch::Rule(batch_running_reduction),
    ..define_op(
        "cumsum",
        "yᵢ = Σ_{j≤i} xⱼ along `axis` (j < i if exclusive; from the end if reverse)",
        Lower::Kernel(|cx| lower::emit_running_reduction(cx, cumulative::cumsum_kernel_for(cx.dtype(0)))),
        Deriv::Linear(|s, _, g| {
            let a = RunningAttrs::of(&s.attrs);
            Some(s.g.emit1(s.op, &[g], &RunningAttrs { reverse: !a.reverse, ..a }.list()))
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
fn decompose_running_product<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, a) = (s.args[0], RunningAttrs::of(&s.attrs));
    let axis = to_size_attr(a.axis);
    let d = x.dims();
    let last = d.len() - 1;
    // The axis last, elements from the front. The permutation is its own inverse.
    let mut perm: Vec<usize> = (0..d.len()).collect();
    perm.swap(axis, last);
    let forward = if a.reverse { x.flip(a.axis) } else { x };
    let there = forward.permute(&perm);
    let (dims, n) = (there.dims(), d[axis]);
    let mut y = there.reshape([dims[..last].iter().product(), n]);
    if a.exclusive {
        y = shift_rows(y, 1, false);
    }
    let mut step = 1;
    while step < n {
        y = y * shift_rows(y, step, false);
        step *= 2;
    }
    let back = y.reshape(dims).permute(&perm);
    vec![if a.reverse { back.flip(a.axis) } else { back }]
}

/// The running product along an axis.
pub const CUMPROD: OpDef = OpDef {
    attrs: RunningAttrs::FIELDS,
    infer: infer_running_reduction,
    decompose: Some(decompose_running_product),
    batch: Batch::Rule(batch_running_reduction),
    ..define_op(
        "cumprod",
        "yᵢ = Π_{j≤i} xⱼ along `axis` (j < i if exclusive; from the end if reverse)",
        Lower::Kernel(|cx| lower::emit_running_reduction(cx, cumulative::cumprod_kernel_for(cx.dtype(0)))),
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
