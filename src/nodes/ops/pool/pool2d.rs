//! 2-D pools (NCHW). A max pool keeps the position of each maximum; its derivatives move elements between those
//! positions, by two ops that are each other's transpose.

use super::attrs::{AvgPoolAttrs, AvgPoolBackwardAttrs, MaxPoolBackwardAttrs, SumPoolAttrs, SumPoolBackwardAttrs};
use super::lower;
use crate::ensure;
use crate::kernels::window::WindowGeometry;
use crate::nodes::arguments::size_attrs::{size_attrs_to_i64, to_size_attrs};
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::common::window_geometry::{PlaneTaps, check_window_sizes, first_entries, sum_over_window_taps};
use crate::nodes::ops::index::attrs::ScatterAddAttrs;
use crate::nodes::ops::pool::{check_i32_plane, last_two_dims};
use Domain::{Distinct, Index, Real};

const fn define_op(
    name: &'static str,
    doc: &'static str,
    arity: usize,
    attrs: &'static [Field],
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv,
        batch: Batch::Rule(|s| s.merged()),
        lower: Lower::Expand,
        cost: |cx| cx.args(),
        cases: &[],
        ..OpDef::BLANK
    }
}

fn infer_max(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let d = cx.rank(0, "x", 4)?;
    let a = WindowAttrs::of(&cx.attrs);
    a.check::<2>()?;
    let win = a.over(last_two_dims(&d));
    let [ho, wo] = win.count()?;
    win.all_touch()?;
    check_i32_plane(win.size)?;
    cx.result(dtype, &[d[0], d[1], ho, wo])?;
    cx.result(DType::I32, &[d[0], d[1], ho, wo])
}

/// Running maximum over the taps, with its position in the plane: NaN wins, then the first of equals; a position in
/// the padding (−1) loses to every other.
fn decompose_max<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let x = s.args[0];
    let d = x.dims();
    let win = WindowAttrs::of(&s.attrs).over(last_two_dims(&d));
    let Ok(count) = win.count() else { return Vec::new() };
    let [h, w] = win.size;
    let places = s.g.iota(0, [h * w], DType::I32).reshape([1, 1, h, w]).broadcast(d);
    let (padded, places) = (win.pad(x, f64::NEG_INFINITY), win.pad(places, -1.0));
    let best = win.taps().map(|t| (win.tap(padded, t, count), win.tap(places, t, count))).reduce(|(y, at), (v, p)| {
        let larger = v.greater(y).logical_or(v.not_equal(v).logical_and(y.equal(y)));
        let wins = p.greater_equal(0.0).logical_and(at.less(0.0).logical_or(larger));
        (wins.select(v, y), wins.select(p, at))
    });
    best.map_or(Vec::new(), |(y, at)| vec![y, at])
}

/// `max_pool2d_backward` to planes of size `hw`.
fn spread_maxima<'g>(s: &Site<'_, 'g>, up: Var<'g>, index: Var<'g>, hw: [usize; 2]) -> Var<'g> {
    s.g.emit1(Op::MAX_POOL2D_BACKWARD, &[up, index], &MaxPoolBackwardAttrs { in_hw: size_attrs_to_i64(&hw) }.list())
}

/// The largest element of each 2-D window, and its position.
pub const MAX_POOL2D: OpDef = OpDef {
    infer: infer_max,
    decompose: Some(decompose_max),
    cost: |cx| 2 * cx.arg(0),
    cases: &[
        Case {
            args: "f[2,3,4,6]",
            attrs: "kernel=[2,2] stride=[2,2] pad=[0,0,0,0] dilation=[1,1]",
            domains: &[Distinct],
        },
        Case {
            args: "f[1,2,5,7]",
            attrs: "kernel=[3,3] stride=[2,1] pad=[1,1,1,0] dilation=[1,2]",
            domains: &[Distinct],
        },
        Case {
            args: "f[1,1,3,3]",
            attrs: "kernel=[3,3] stride=[1,1] pad=[0,0,0,0] dilation=[1,1]",
            domains: &[Distinct],
        },
    ],
    lower: Lower::Kernel(lower::emit_max_pool2d),
    ..define_op(
        "max_pool2d",
        "y = the largest of each window (the first of equals; NaN if there is one; the padding never wins), and its \
        position h·W + w in the plane",
        1,
        WindowAttrs::FIELDS,
        Deriv::Rules(
            |s, t| vec![t[0].map(|t| s.g.emit1(Op::MAX_POOL2D_GATHER, &[t, s.outs[1]], &[])), None],
            |s, ct, _| vec![ct[0].map(|g| spread_maxima(s, g, s.outs[1], last_two_dims(&s.args[0].dims())))],
        ),
    )
};

/// Checks (a, index): rank 4, an `i32` index, equal dimensions but the last two.
fn check_positions(cx: &Infer<'_>) -> Result<[Vec<usize>; 2], String> {
    cx.float(0)?;
    ensure!(cx.dtype(1) == DType::I32, "places are {}; i32 is needed", cx.dtype(1));
    let (a, i) = (cx.rank(0, "operand 0", 4)?, cx.rank(1, "places", 4)?);
    ensure!(a[..2] == i[..2], "places of shape {i} do not fit {a}");
    ensure!(!a[2..].contains(&0) && !i[2..].contains(&0), "a plane of {a} or {i} is empty");
    Ok([a.to_vec(), i.to_vec()])
}

/// `[N, C, h, w]` as rows of planes.
fn planes_as_rows<'g>(x: Var<'g>) -> Var<'g> {
    let [n, c, h, w] = first_entries::<4>(&x.dims());
    x.reshape([n * c, h * w])
}

/// Where `index` is −1, the place of no element; and the indices, 0 there.
fn mark_padding(index: Var<'_>) -> (Var<'_>, Var<'_>) {
    let none = index.equal(-1.0);
    (none, none.select(index.full_like(0.0), index))
}

/// The cotangent of [`MAX_POOL2D`]: elements added at positions in planes.
pub const MAX_POOL2D_BACKWARD: OpDef = OpDef {
    infer: |cx| {
        let [dy, index] = check_positions(cx)?;
        cx.expect_dims(1, "places", &dy)?;
        let hw = check_window_sizes::<2>("in_hw", &MaxPoolBackwardAttrs::of(&cx.attrs).in_hw)?;
        check_i32_plane(hw)?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[index[0], index[1], hw[0], hw[1]])
    },
    decompose: Some(|s| {
        let (dy, index) = (s.args[0], s.args[1]);
        let (d, [h, w]) = (dy.dims(), first_entries::<2>(&to_size_attrs(&MaxPoolBackwardAttrs::of(&s.attrs).in_hw)));
        let attrs = ScatterAddAttrs { axis: 1, size: (h * w) as i64 };
        let (none, places) = mark_padding(index);
        let up = none.select(dy.full_like(0.0), dy);
        let dx = s.g.emit1(Op::SCATTER_ALONG_AXIS, &[planes_as_rows(up), planes_as_rows(places)], &attrs.list());
        let [n, c, ..] = first_entries::<4>(&d);
        vec![dx.reshape([n, c, h, w])]
    }),
    cases: &[
        Case { args: "f[2,3,2,3] i32[2,3,2,3]", attrs: "in_hw=[4,6]", domains: &[Real, Index(24)] },
        Case { args: "f[1,2,3,3] i32[1,2,3,3]", attrs: "in_hw=[2,2]", domains: &[Real, Index(4)] },
    ],
    lower: Lower::Kernel(lower::emit_max_pool2d_backward),
    ..define_op(
        "max_pool2d_backward",
        "dx[n, c, index[n, c, i, j]] += dy[n, c, i, j] on planes of in_hw, nothing for the index −1; the transpose of max_pool2d_gather",
        2,
        MaxPoolBackwardAttrs::FIELDS,
        Deriv::Linear(|s, i, g| (i == 0).then(|| s.g.emit1(Op::MAX_POOL2D_GATHER, &[g, s.args[1]], &[]))),
    )
};

/// The tangent of [`MAX_POOL2D`]: elements taken from positions in planes.
pub const MAX_POOL2D_GATHER: OpDef = OpDef {
    infer: |cx| {
        let [x, index] = check_positions(cx)?;
        check_i32_plane(last_two_dims(&x))?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &index)
    },
    decompose: Some(|s| {
        let (none, places) = mark_padding(s.args[1]);
        let y = planes_as_rows(s.args[0]).take_along_axis(planes_as_rows(places), 1).reshape(places.dims());
        vec![none.select(y.full_like(0.0), y)]
    }),
    cases: &[
        Case { args: "f[2,3,4,6] i32[2,3,2,3]", attrs: "", domains: &[Real, Index(24)] },
        Case { args: "f[1,2,2,2] i32[1,2,3,3]", attrs: "", domains: &[Real, Index(4)] },
    ],
    lower: Lower::Kernel(lower::emit_max_pool2d_gather),
    ..define_op(
        "max_pool2d_gather",
        "y[n, c, i, j] = x[n, c, index[n, c, i, j]] in each plane of x, 0 for the index −1",
        2,
        &[],
        Deriv::Linear(|s, i, g| (i == 0).then(|| spread_maxima(s, g, s.args[1], last_two_dims(&s.args[0].dims())))),
    )
};

/// Checks a pool of sums or means over planes of this size, and counts its windows.
fn count_windows(windows: &WindowAttrs, plane: [usize; 2]) -> Result<[usize; 2], String> {
    windows.check::<2>()?;
    let win = windows.over(plane);
    win.all_touch()?;
    win.count()
}

/// 1 over the number of elements that each window averages, `[1, 1, Ho, Wo]`.
fn mean_shares<'g>(
    s: &Site<'_, 'g>,
    win: &WindowGeometry<2>,
    count: [usize; 2],
    dtype: DType,
    counts_pad: bool,
) -> Var<'g> {
    let [h, w] = win.size;
    if counts_pad {
        let n = (win.kernel[0] * win.kernel[1]) as f64;
        return s.g.full(1.0 / n, [1, 1, count[0], count[1]], dtype);
    }
    let ones = win.pad(s.g.full(1.0, [1, 1, h, w], dtype), 0.0);
    let seen = sum_over_window_taps(win.taps().map(|t| win.tap(ones, t, count)));
    seen.map_or_else(|| s.g.full(1.0, [], dtype), Var::recip)
}

/// The mean of each 2-D window.
pub const AVG_POOL2D: OpDef = OpDef {
    infer: |cx| {
        let dtype = cx.float(0)?;
        let d = cx.rank(0, "x", 4)?;
        let [ho, wo] = count_windows(&AvgPoolAttrs::of(&cx.attrs).windows(), last_two_dims(&d))?;
        cx.result(dtype, &[d[0], d[1], ho, wo])
    },
    decompose: Some(|s| {
        let x = s.args[0];
        let a = AvgPoolAttrs::of(&s.attrs);
        let win = a.windows().over(last_two_dims(&x.dims()));
        let Ok(count) = win.count() else { return Vec::new() };
        let padded = win.pad(x, 0.0);
        let total = sum_over_window_taps(win.taps().map(|t| win.tap(padded, t, count)));
        total.map(|t| t * mean_shares(s, &win, count, x.dtype(), a.count_include_pad)).into_iter().collect()
    }),
    cost: |cx| 2 * cx.arg(0),
    cases: &[
        Case {
            args: "f[2,3,4,6]",
            attrs: "kernel=[2,2] stride=[2,2] pad=[0,0,0,0] count_include_pad=true",
            domains: &[Real],
        },
        Case {
            args: "f[1,2,5,7]",
            attrs: "kernel=[3,2] stride=[2,1] pad=[1,2,1,0] count_include_pad=true",
            domains: &[Real],
        },
        Case {
            args: "f[1,2,5,7]",
            attrs: "kernel=[3,2] stride=[2,1] pad=[1,2,1,0] count_include_pad=false",
            domains: &[Real],
        },
    ],
    lower: Lower::Kernel(lower::emit_avg_pool2d),
    ..define_op(
        "avg_pool2d",
        "y = Σ x / n over each window; n counts the padding only if count_include_pad",
        1,
        AvgPoolAttrs::FIELDS,
        Deriv::Linear(|s, _, g| {
            let AvgPoolAttrs { kernel, stride, pad, count_include_pad } = AvgPoolAttrs::of(&s.attrs);
            let in_hw = size_attrs_to_i64(&last_two_dims(&s.args[0].dims()));
            let attrs = AvgPoolBackwardAttrs { in_hw, kernel, stride, pad, count_include_pad };
            Some(s.g.emit1(Op::AVG_POOL2D_BACKWARD, &[g], &attrs.list()))
        }),
    )
};

/// The transpose of [`AVG_POOL2D`].
pub const AVG_POOL2D_BACKWARD: OpDef = OpDef {
    infer: |cx| {
        let dtype = cx.float(0)?;
        let d = cx.rank(0, "dy", 4)?;
        let a = AvgPoolBackwardAttrs::of(&cx.attrs);
        let hw = check_window_sizes::<2>("in_hw", &a.in_hw)?;
        let [ho, wo] = count_windows(&a.windows(), hw)?;
        cx.expect_dims(0, "dy", &[d[0], d[1], ho, wo])?;
        cx.result(dtype, &[d[0], d[1], hw[0], hw[1]])
    },
    decompose: Some(|s| {
        let dy = s.args[0];
        let a = AvgPoolBackwardAttrs::of(&s.attrs);
        let win = a.windows().over(first_entries(&to_size_attrs(&a.in_hw)));
        let Ok(count) = win.count() else { return Vec::new() };
        let share = dy * mean_shares(s, &win, count, dy.dtype(), a.count_include_pad);
        sum_over_window_taps(win.taps().map(|t| win.untap(share, t))).map(|dx| win.crop(dx)).into_iter().collect()
    }),
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case {
            args: "f[2,3,2,3]",
            attrs: "in_hw=[4,6] kernel=[2,2] stride=[2,2] pad=[0,0,0,0] count_include_pad=true",
            domains: &[Real],
        },
        Case {
            args: "f[1,2,3,7]",
            attrs: "in_hw=[5,7] kernel=[3,2] stride=[2,1] pad=[1,1,1,0] count_include_pad=true",
            domains: &[Real],
        },
        Case {
            args: "f[1,2,3,7]",
            attrs: "in_hw=[5,7] kernel=[3,2] stride=[2,1] pad=[1,2,1,0] count_include_pad=false",
            domains: &[Real],
        },
    ],
    lower: Lower::Kernel(lower::emit_avg_pool2d_backward),
    ..define_op(
        "avg_pool2d_backward",
        "dx[..] = Σ dy / n over the windows that contain the element; the transpose of avg_pool2d",
        1,
        AvgPoolBackwardAttrs::FIELDS,
        Deriv::Linear(|s, _, g| {
            let a = AvgPoolBackwardAttrs::of(&s.attrs);
            let attrs =
                AvgPoolAttrs { kernel: a.kernel, stride: a.stride, pad: a.pad, count_include_pad: a.count_include_pad };
            Some(s.g.emit1(Op::AVG_POOL2D, &[g], &attrs.list()))
        }),
    )
};

/// The sum of each 2-D window.
pub const SUM_POOL2D: OpDef = OpDef {
    infer: |cx| {
        let dtype = cx.float(0)?;
        let d = cx.rank(0, "x", 4)?;
        let [ho, wo] = count_windows(&SumPoolAttrs::of(&cx.attrs).windows(), last_two_dims(&d))?;
        check_i32_plane(last_two_dims(&d))?;
        cx.result(dtype, &[d[0], d[1], ho, wo])
    },
    decompose: Some(|s| {
        let x = s.args[0];
        let win = SumPoolAttrs::of(&s.attrs).windows().over(last_two_dims(&x.dims()));
        let Ok(count) = win.count() else { return Vec::new() };
        let padded = win.pad(x, 0.0);
        sum_over_window_taps(win.taps().map(|t| win.tap(padded, t, count))).into_iter().collect()
    }),
    cost: |cx| 2 * cx.arg(0),
    cases: &[
        Case { args: "f[2,3,4,6]", attrs: "kernel=[2,2] stride=[2,2] pad=[0,0,0,0]", domains: &[Real] },
        Case { args: "f[1,2,5,7]", attrs: "kernel=[3,2] stride=[2,1] pad=[1,2,1,0]", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::emit_sum_pool2d),
    ..define_op(
        "sum_pool2d",
        "y = Σ x over each window of x [N, C, H, W]",
        1,
        SumPoolAttrs::FIELDS,
        Deriv::Linear(|s, _, g| {
            let SumPoolAttrs { kernel, stride, pad } = SumPoolAttrs::of(&s.attrs);
            let in_hw = size_attrs_to_i64(&last_two_dims(&s.args[0].dims()));
            let attrs = SumPoolBackwardAttrs { in_hw, kernel, stride, pad };
            Some(s.g.emit1(Op::SUM_POOL2D_BACKWARD, &[g], &attrs.list()))
        }),
    )
};

/// The transpose of [`SUM_POOL2D`].
pub const SUM_POOL2D_BACKWARD: OpDef = OpDef {
    infer: |cx| {
        let dtype = cx.float(0)?;
        let d = cx.rank(0, "dy", 4)?;
        let a = SumPoolBackwardAttrs::of(&cx.attrs);
        let hw = check_window_sizes::<2>("in_hw", &a.in_hw)?;
        let [ho, wo] = count_windows(&a.windows(), hw)?;
        check_i32_plane(hw)?;
        cx.expect_dims(0, "dy", &[d[0], d[1], ho, wo])?;
        cx.result(dtype, &[d[0], d[1], hw[0], hw[1]])
    },
    decompose: Some(|s| {
        let a = SumPoolBackwardAttrs::of(&s.attrs);
        let win = a.windows().over(first_entries(&to_size_attrs(&a.in_hw)));
        let dx = sum_over_window_taps(win.taps().map(|t| win.untap(s.args[0], t)));
        dx.map(|dx| win.crop(dx)).into_iter().collect()
    }),
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "f[2,3,2,3]", attrs: "in_hw=[4,6] kernel=[2,2] stride=[2,2] pad=[0,0,0,0]", domains: &[Real] },
        Case { args: "f[1,2,3,7]", attrs: "in_hw=[5,7] kernel=[3,2] stride=[2,1] pad=[1,2,1,0]", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::emit_sum_pool2d_backward),
    ..define_op(
        "sum_pool2d_backward",
        "dx[..] = Σ dy over the windows that contain the element; the transpose of sum_pool2d",
        1,
        SumPoolBackwardAttrs::FIELDS,
        Deriv::Linear(|s, _, g| {
            let SumPoolBackwardAttrs { in_hw: _, kernel, stride, pad } = SumPoolBackwardAttrs::of(&s.attrs);
            Some(s.g.emit1(Op::SUM_POOL2D, &[g], &SumPoolAttrs { kernel, stride, pad }.list()))
        }),
    )
};
