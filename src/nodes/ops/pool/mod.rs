//! 2-D pools (NCHW). A max pool remembers where each maximum was; its derivatives move elements between those places,
//! by two ops that are each other's transpose.

pub mod adaptive;
pub mod lower;
pub mod nd;

use crate::ensure;
use crate::nodes::ir::attrs::{Attr, Attrs, Field, Kind};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef, Site};
use crate::nodes::ops::common::window::{DILATION, IN_HW, KERNEL, PAD, STRIDE, Windows, array, sizes, sum};
use Domain::{Distinct, Index, Real};

const COUNT_PAD: Field = Field::new("count_include_pad", Kind::Bool);
const MAX: &[Field] = &[KERNEL, STRIDE, PAD, DILATION];
const AVG: &[Field] = &[KERNEL, STRIDE, PAD, COUNT_PAD];

const fn row(name: &'static str, doc: &'static str, arity: usize, attrs: &'static [Field]) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv: Deriv::Zero,
        decompose: None,
        lower: Lower::Expand,
        cost: |cx| cx.args(),
        cases: &[],
    }
}

/// The windows of a max pool over planes of this size.
pub fn max_windows(plane: [usize; 2], attrs: &Attrs<'_>) -> Windows {
    let list = |i: usize| attrs.sizes(i);
    let (kernel, stride) = (array(&list(0)), array(&list(1)));
    Windows { plane, kernel, stride, pad: array(&list(2)), dilation: array(&list(3)) }.tight()
}

/// The windows of an average pool over planes of this size; its fields start at `at`.
pub fn avg_windows(plane: [usize; 2], attrs: &Attrs<'_>, at: usize) -> Windows {
    let list = |i: usize| attrs.sizes(at + i);
    Windows { plane, kernel: array(&list(0)), stride: array(&list(1)), pad: array(&list(2)), dilation: [1, 1] }.tight()
}

/// The last two dimensions.
pub fn plane(d: &[usize]) -> [usize; 2] {
    array(d.get(2..).unwrap_or(&[]))
}

/// Checks a plane whose positions are counted in `i32`.
pub(super) fn countable(hw: [usize; 2]) -> Result<(), String> {
    let n = hw[0].checked_mul(hw[1]);
    ensure!(n.is_some_and(|n| n <= i32::MAX as usize), "a plane of {hw:?} has more places than i32");
    Ok(())
}

fn max_infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let d = cx.rank(0, "x", 4)?;
    for i in [0, 1, 3] {
        sizes::<2>(cx, i)?;
    }
    sizes::<4>(cx, 2)?;
    let win = max_windows(plane(&d), &cx.attrs);
    let [ho, wo] = win.count()?;
    win.all_touch()?;
    countable(win.plane)?;
    cx.result(dtype, &[d[0], d[1], ho, wo])?;
    cx.result(DType::I32, &[d[0], d[1], ho, wo])
}

/// Running maximum over the taps, beside the place in the plane where it was: NaN wins, then the first of equals; a
/// place in the padding (−1) loses to every other.
fn max_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let x = s.args[0];
    let d = x.dims();
    let win = max_windows(plane(&d), &s.attrs);
    let Ok(count) = win.count() else { return Vec::new() };
    let [h, w] = win.plane;
    let places = s.g.iota(0, [h * w], DType::I32).reshape([1, 1, h, w]).broadcast(d);
    let (padded, places) = (win.pad(x, f64::NEG_INFINITY), win.pad(places, -1.0));
    let best = win.taps().map(|t| (win.tap(padded, t, count), win.tap(places, t, count))).reduce(|(y, at), (v, p)| {
        let larger = v.greater(y).logical_or(v.not_equal(v).logical_and(y.equal(y)));
        let wins = p.greater_equal(0.0).logical_and(at.less(0.0).logical_or(larger));
        (wins.select(v, y), wins.select(p, at))
    });
    best.map_or(Vec::new(), |(y, at)| vec![y, at])
}

/// The fields of the op that spreads over planes of x's size.
fn spread<'g>(s: &Site<'_, 'g>, up: Var<'g>, index: Var<'g>, hw: [usize; 2]) -> Var<'g> {
    s.g.emit1(Op::MAX_POOL2D_BACKWARD, &[up, index], &[Attr::Ints(&hw.map(|x| x as i64))])
}

/// See `doc`.
pub const MAX_POOL2D: OpDef = OpDef {
    infer: max_infer,
    deriv: Deriv::Rules(
        |s, t| vec![t[0].map(|t| s.g.emit1(Op::MAX_POOL2D_GATHER, &[t, s.outs[1]], &[])), None],
        |s, ct, _| vec![ct[0].map(|g| spread(s, g, s.outs[1], plane(&s.args[0].dims())))],
    ),
    decompose: Some(max_expand),
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
    lower: Lower::Kernel(lower::max_pool2d),
    ..row(
        "max_pool2d",
        "y = the largest of each window (the first of equals; NaN if there is one; the padding never wins), and its place h·W + w",
        1,
        MAX,
    )
};

/// Checks (a, index): rank 4, an `i32` index, equal dimensions but the last two.
fn indexed(cx: &Infer<'_>) -> Result<[Vec<usize>; 2], String> {
    cx.float(0)?;
    ensure!(cx.dtype(1) == DType::I32, "places are {}; i32 is needed", cx.dtype(1));
    let (a, i) = (cx.rank(0, "operand 0", 4)?, cx.rank(1, "places", 4)?);
    ensure!(a[..2] == i[..2], "places of shape {i} do not fit {a}");
    ensure!(!a[2..].contains(&0) && !i[2..].contains(&0), "a plane of {a} or {i} is empty");
    Ok([a.to_vec(), i.to_vec()])
}

/// `[N, C, h, w]` as rows of planes.
fn planes<'g>(x: Var<'g>) -> Var<'g> {
    let [n, c, h, w] = array::<4>(&x.dims());
    x.reshape([n * c, h * w])
}

/// See `doc`.
pub const MAX_POOL2D_BACKWARD: OpDef = OpDef {
    infer: |cx| {
        let [dy, index] = indexed(cx)?;
        cx.expect_dims(1, "places", &dy)?;
        let hw = sizes::<2>(cx, 0)?;
        countable(hw)?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &[index[0], index[1], hw[0], hw[1]])
    },
    deriv: Deriv::Linear(|s, i, g| (i == 0).then(|| s.g.emit1(Op::MAX_POOL2D_GATHER, &[g, s.args[1]], &[]))),
    decompose: Some(|s| {
        let (dy, index) = (s.args[0], s.args[1]);
        let (d, [h, w]) = (dy.dims(), array::<2>(&s.attrs.sizes(0)));
        let attrs = [Attr::Int(1), Attr::Int((h * w) as i64)];
        let dx = s.g.emit1(Op::SCATTER_ALONG_AXIS, &[planes(dy), planes(index)], &attrs);
        let [n, c, ..] = array::<4>(&d);
        vec![dx.reshape([n, c, h, w])]
    }),
    cases: &[
        Case { args: "f[2,3,2,3] i32[2,3,2,3]", attrs: "in_hw=[4,6]", domains: &[Real, Index(24)] },
        Case { args: "f[1,2,3,3] i32[1,2,3,3]", attrs: "in_hw=[2,2]", domains: &[Real, Index(4)] },
    ],
    lower: Lower::Kernel(lower::max_pool2d_backward),
    ..row(
        "max_pool2d_backward",
        "dx[n, c, index[n, c, i, j]] += dy[n, c, i, j] on planes of in_hw; the transpose of max_pool2d_gather",
        2,
        &[IN_HW],
    )
};

/// See `doc`.
pub const MAX_POOL2D_GATHER: OpDef = OpDef {
    infer: |cx| {
        let [x, index] = indexed(cx)?;
        countable(plane(&x))?;
        let dtype = cx.dtype(0);
        cx.result(dtype, &index)
    },
    deriv: Deriv::Linear(|s, i, g| (i == 0).then(|| spread(s, g, s.args[1], plane(&s.args[0].dims())))),
    decompose: Some(|s| {
        let index = s.args[1];
        vec![planes(s.args[0]).take_along_axis(planes(index), 1).reshape(index.dims())]
    }),
    cases: &[
        Case { args: "f[2,3,4,6] i32[2,3,2,3]", attrs: "", domains: &[Real, Index(24)] },
        Case { args: "f[1,2,2,2] i32[1,2,3,3]", attrs: "", domains: &[Real, Index(4)] },
    ],
    lower: Lower::Kernel(lower::max_pool2d_gather),
    ..row("max_pool2d_gather", "y[n, c, i, j] = x[n, c, index[n, c, i, j]] in each plane of x", 2, &[])
};

/// Checks an average pool over planes of this size, whose fields start at `at`: its windows and their number.
fn avg_count(cx: &Infer<'_>, plane: [usize; 2], at: usize) -> Result<[usize; 2], String> {
    sizes::<2>(cx, at)?;
    sizes::<2>(cx, at + 1)?;
    sizes::<4>(cx, at + 2)?;
    let win = avg_windows(plane, &cx.attrs, at);
    win.all_touch()?;
    win.count()
}

/// 1 over the number of elements that each window averages, `[1, 1, Ho, Wo]`.
fn shares<'g>(s: &Site<'_, 'g>, win: &Windows, count: [usize; 2], dtype: DType, counts_pad: bool) -> Var<'g> {
    let [h, w] = win.plane;
    if counts_pad {
        let n = (win.kernel[0] * win.kernel[1]) as f64;
        return s.g.full(1.0 / n, [1, 1, count[0], count[1]], dtype);
    }
    let ones = win.pad(s.g.full(1.0, [1, 1, h, w], dtype), 0.0);
    let seen = sum(win.taps().map(|t| win.tap(ones, t, count)));
    seen.map_or_else(|| s.g.full(1.0, [], dtype), Var::recip)
}

/// The other of the two average pools, on `v`.
fn avg_other<'g>(s: &Site<'_, 'g>, v: Var<'g>, op: Op, hw: [usize; 2], at: usize) -> Var<'g> {
    let hw = hw.map(|x| x as i64);
    let (kernel, stride, pad) = (s.attrs.ints(at), s.attrs.ints(at + 1), s.attrs.ints(at + 2));
    let lists = [&hw[..], &kernel, &stride, &pad].map(Attr::Ints);
    let all = [lists[0], lists[1], lists[2], lists[3], Attr::Bool(s.attrs.bool(at + 3))];
    s.g.emit1(op, &[v], if op == Op::AVG_POOL2D { &all[1..] } else { &all })
}

/// See `doc`.
pub const AVG_POOL2D: OpDef = OpDef {
    infer: |cx| {
        let dtype = cx.float(0)?;
        let d = cx.rank(0, "x", 4)?;
        let [ho, wo] = avg_count(cx, plane(&d), 0)?;
        cx.result(dtype, &[d[0], d[1], ho, wo])
    },
    deriv: Deriv::Linear(|s, _, g| Some(avg_other(s, g, Op::AVG_POOL2D_BACKWARD, plane(&s.args[0].dims()), 0))),
    decompose: Some(|s| {
        let x = s.args[0];
        let win = avg_windows(plane(&x.dims()), &s.attrs, 0);
        let Ok(count) = win.count() else { return Vec::new() };
        let padded = win.pad(x, 0.0);
        let total = sum(win.taps().map(|t| win.tap(padded, t, count)));
        total.map(|t| t * shares(s, &win, count, x.dtype(), s.attrs.bool(3))).into_iter().collect()
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
    lower: Lower::Kernel(lower::avg_pool2d),
    ..row("avg_pool2d", "y = Σ x / n over each window; n counts the padding only if count_include_pad", 1, AVG)
};

/// See `doc`.
pub const AVG_POOL2D_BACKWARD: OpDef = OpDef {
    infer: |cx| {
        let dtype = cx.float(0)?;
        let d = cx.rank(0, "dy", 4)?;
        let hw = sizes::<2>(cx, 0)?;
        let [ho, wo] = avg_count(cx, hw, 1)?;
        cx.expect_dims(0, "dy", &[d[0], d[1], ho, wo])?;
        cx.result(dtype, &[d[0], d[1], hw[0], hw[1]])
    },
    deriv: Deriv::Linear(|s, _, g| Some(avg_other(s, g, Op::AVG_POOL2D, [0, 0], 1))),
    decompose: Some(|s| {
        let dy = s.args[0];
        let win = avg_windows(array(&s.attrs.sizes(0)), &s.attrs, 1);
        let Ok(count) = win.count() else { return Vec::new() };
        let share = dy * shares(s, &win, count, dy.dtype(), s.attrs.bool(4));
        sum(win.taps().map(|t| win.untap(share, t))).map(|dx| win.crop(dx)).into_iter().collect()
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
    lower: Lower::Kernel(lower::avg_pool2d_backward),
    ..row(
        "avg_pool2d_backward",
        "dx[..] = Σ dy / n over the windows that see the element; the transpose of avg_pool2d",
        1,
        &[IN_HW, KERNEL, STRIDE, PAD, COUNT_PAD],
    )
};
