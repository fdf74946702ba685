//! Ops with integer indices. Every index is checked when the step runs. The error names the position of the bad index.

pub mod attrs;
pub(crate) mod batch;
mod dynamic_slice;
pub mod index_bounds;
pub mod lower;
pub mod scatter;
pub mod var;

use crate::ensure;
use crate::nodes::arguments::axes::check_axis;
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ops::common::cost::cost_free;
use Domain::{Index, Real};
use attrs::{GatherAttrs, HistogramAttrs, OneHotAttrs, ScatterAddAttrs};

const fn define_op(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    lower: Lower,
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(2),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv,
        batch: Batch::Members,
        lower,
        cost: cost_free,
        cases: &[],
        ..OpDef::BLANK
    }
}

/// A length in an attribute.
fn check_length(x: i64) -> Result<usize, String> {
    usize::try_from(x).map_err(|_| format!("size {x} is negative"))
}

fn check_summed_dtype(cx: &Infer<'_>) -> Result<DType, String> {
    cx.real(0)?;
    let d = cx.dtype(0);
    ensure!(d.is_float() || d.is_index(), "no sums of {d}; cast it");
    Ok(d)
}

/// Slices at indices along an axis.
pub const GATHER: OpDef = OpDef {
    infer: |cx| {
        cx.index(1)?;
        let (t, i) = (cx.dims(0), cx.dims(1));
        let axis = check_axis(GatherAttrs::of(&cx.attrs).axis, t.len())?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[&t[..axis], &i[..], &t[axis + 1..]].concat())
    },
    batch: Batch::Rule(batch::gather_members),
    cases: &[
        Case { args: "f[5,3] i32[4]", attrs: "axis=0", domains: &[Real, Index(5)] },
        Case { args: "f[2,5,3] i64[2,2]", attrs: "axis=1", domains: &[Real, Index(5)] },
        Case { args: "f[4] i32[]", attrs: "axis=0", domains: &[Real, Index(4)] },
    ],
    ..define_op(
        "gather",
        "slices of x at the indices along `axis`",
        GatherAttrs::FIELDS,
        Lower::Kernel(lower::emit_gather),
        Deriv::Linear(|s, i, g| {
            let axis = GatherAttrs::of(&s.attrs).axis;
            (i == 0).then(|| g.scatter_add(s.args[1], axis, s.args[0].dims()[to_size_attr(axis)]))
        }),
    )
};

/// Slices added into zeros at indices: the transpose of [`GATHER`].
pub const SCATTER_ADD: OpDef = OpDef {
    infer: |cx| {
        cx.index(1)?;
        let dtype = check_summed_dtype(cx)?;
        let (u, i) = (cx.dims(0), cx.dims(1));
        let ScatterAddAttrs { axis, size } = ScatterAddAttrs::of(&cx.attrs);
        let axis = usize::try_from(axis).map_err(|_| format!("axis {axis} is negative"))?;
        let fits = axis.checked_add(i.len()).is_some_and(|end| u.get(axis..end) == Some(&i[..]));
        ensure!(fits, "updates of shape {u} do not hold indices of shape {} at axis {axis}", Infer::show_dims(&i));
        let n = check_length(size)?;
        cx.result(dtype, &[&u[..axis], &[n], &u[axis + i.len()..]].concat())
    },
    cost: crate::nodes::ops::common::cost::cost_per_operand,
    batch: Batch::Rule(batch::scatter_add_members),
    cases: &[
        Case { args: "f[4,3] i32[4]", attrs: "axis=0 size=5", domains: &[Real, Index(5)] },
        Case { args: "f[2,2,2,3] i64[2,2]", attrs: "axis=1 size=5", domains: &[Real, Index(5)] },
        Case { args: "f[3] i32[]", attrs: "axis=0 size=2", domains: &[Real, Index(2)] },
    ],
    ..define_op(
        "scatter_add",
        "zeros of `size` along `axis`, with the update slices added at the indices",
        ScatterAddAttrs::FIELDS,
        Lower::Kernel(lower::emit_scatter_add),
        Deriv::Linear(|s, i, g| (i == 0).then(|| g.gather(s.args[1], ScatterAddAttrs::of(&s.attrs).axis))),
    )
};

/// Single elements at indices along an axis.
pub const TAKE_ALONG_AXIS: OpDef = OpDef {
    infer: |cx| {
        cx.index(1)?;
        let (x, i) = (cx.dims(0), cx.dims(1));
        let axis = check_axis(GatherAttrs::of(&cx.attrs).axis, x.len())?;
        let fits = x.len() == i.len() && (0..x.len()).all(|k| k == axis || x[k] == i[k]);
        ensure!(fits, "indices of shape {i} do not fit {x} beside axis {axis}");
        let dtype = cx.dtype(0);
        cx.result(dtype, &i)
    },
    batch: Batch::Rule(batch::take_members_along_axis),
    cases: &[
        Case { args: "f[4,5] i32[4,2]", attrs: "axis=1", domains: &[Real, Index(5)] },
        Case { args: "f[4,5,2] i64[3,5,2]", attrs: "axis=0", domains: &[Real, Index(4)] },
    ],
    ..define_op(
        "take_along_axis",
        "y[.., i, ..] = x[.., index[.., i, ..], ..] along `axis`",
        GatherAttrs::FIELDS,
        Lower::Kernel(lower::emit_take_along_axis),
        Deriv::Linear(|s, i, g| {
            let axis = GatherAttrs::of(&s.attrs).axis;
            let size = s.args[0].dims()[to_size_attr(axis)] as i64;
            let attrs = ScatterAddAttrs { axis, size };
            (i == 0).then(|| g.scatter_into_zeros(Op::SCATTER_ALONG_AXIS, s.args[1], &attrs))
        }),
    )
};

/// Single elements added into zeros at indices: the transpose of [`TAKE_ALONG_AXIS`].
pub const SCATTER_ALONG_AXIS: OpDef = OpDef {
    infer: |cx| {
        cx.index(1)?;
        let dtype = check_summed_dtype(cx)?;
        cx.expect_dims(1, "the index", &cx.dims(0))?;
        let mut d = cx.dims(0);
        let ScatterAddAttrs { axis, size } = ScatterAddAttrs::of(&cx.attrs);
        let axis = check_axis(axis, d.len())?;
        d.make_mut()[axis] = check_length(size)?;
        cx.result(dtype, &d)
    },
    cost: crate::nodes::ops::common::cost::cost_per_operand,
    batch: Batch::Rule(batch::scatter_members_along_axis),
    cases: &[
        Case { args: "f[4,2] i32[4,2]", attrs: "axis=1 size=5", domains: &[Real, Index(5)] },
        Case { args: "f[3,5,2] i64[3,5,2]", attrs: "axis=0 size=4", domains: &[Real, Index(4)] },
    ],
    ..define_op(
        "scatter_along_axis",
        "zeros of `size` along `axis`, with update[.., i, ..] added at index[.., i, ..]",
        ScatterAddAttrs::FIELDS,
        Lower::Kernel(lower::emit_scatter_along_axis),
        Deriv::Linear(|s, i, g| (i == 0).then(|| g.take_along_axis(s.args[1], ScatterAddAttrs::of(&s.attrs).axis))),
    )
};

/// Indices as rows with a single 1.
pub const ONE_HOT: OpDef = OpDef {
    arity: Arity::Exactly(1),
    infer: |cx| {
        cx.index(0)?;
        let OneHotAttrs { depth, dtype: to } = OneHotAttrs::of(&cx.attrs);
        let depth = check_length(depth)?;
        ensure!(to.is_float() || to.is_int() || to == DType::Bool, "no one-hot of {to}");
        let mut d = cx.dims(0).to_vec();
        d.push(depth);
        cx.result(to, &d)
    },
    batch: Batch::Leading,
    decompose: Some(|s| {
        let (i, a) = (s.args[0], OneHotAttrs::of(&s.attrs));
        let mut d = i.dims().to_vec();
        d.push(1);
        let column = i.reshape(&d);
        if let Some(last) = d.last_mut() {
            *last = to_size_attr(a.depth);
        }
        vec![column.broadcast(&d).equal(s.g.iota(-1, &d, i.dtype())).cast(a.dtype)]
    }),
    cases: &[
        Case { args: "i32[4]", attrs: "depth=5 dtype=f32", domains: &[Index(5)] },
        Case { args: "i64[2,3]", attrs: "depth=4 dtype=f64", domains: &[Index(4)] },
    ],
    ..define_op(
        "one_hot",
        "1 at the index along a new last axis, 0 elsewhere; an index outside it gives zeros",
        OneHotAttrs::FIELDS,
        Lower::Expand,
        Deriv::Zero,
    )
};

/// The most parts of a histogram: up to here their numbers are exact in `f32`.
const MOST_BINS: i64 = 1 << 24;

/// The number of elements in each of equal parts of a range.
pub const HISTOGRAM: OpDef = OpDef {
    arity: Arity::Exactly(3),
    flags: Flags::PURE.and(Flags::STEP),
    infer: |cx| {
        let dtype = cx.float(0)?;
        (1..3).try_for_each(|i| cx.same_dtype(0, i))?;
        cx.rank(0, "x", 1)?;
        cx.expect_dims(1, "the lower bound", &[])?;
        cx.expect_dims(2, "the upper bound", &[])?;
        let bins = HistogramAttrs::of(&cx.attrs).bins;
        ensure!((1..=MOST_BINS).contains(&bins), "bins is {bins}; it must be in 1..={MOST_BINS}");
        cx.result(dtype, &[bins as usize])
    },
    batch: Batch::ViaDecompose,
    decompose: Some(|s| {
        let (x, bins) = (s.args[0], to_size_attr(HistogramAttrs::of(&s.attrs).bins));
        // A range without width is widened by 1 on both sides, as torch does.
        let (low, high) = (s.args[1], s.args[2]);
        let point = low.equal(high).cast(x.dtype());
        let [low, high] = [low - point, high + point].map(|b| b.broadcast(x.dims()));
        let inside = x.greater_equal(low).logical_and(x.less_equal(high));
        let inside = inside.logical_and((high - low).less(f64::INFINITY));
        let part = ((x - low) * (low.full_like(bins as f64) / (high - low))).floor();
        // The upper bound is in the last part. Elements outside are counted in one more part.
        let part = part.clamp(0.0, bins as f64 - 1.0);
        let part = inside.select(part, part.full_like(bins as f64)).cast(DType::I64);
        let count = part.full_like(1.0).scatter_add(part, 0, bins + 1);
        vec![count.narrow(0, 0, bins).cast(x.dtype())]
    }),
    cost: |cx| 6 * cx.arg(0),
    cases: &[
        Case { args: "f[40] f[] f[]", attrs: "bins=5", domains: &[Real, Domain::Unit, Domain::Positive] },
        Case { args: "f[3] f[] f[]", attrs: "bins=1", domains: &[Domain::Unit, Index(1)] },
    ],
    ..define_op(
        "histogram",
        "how many elements of x fall into each of `bins` equal parts of low..=high",
        HistogramAttrs::FIELDS,
        Lower::Expand,
        Deriv::Zero,
    )
};
