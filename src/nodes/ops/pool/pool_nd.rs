//! Pools over one axis or three axes, min pools and sum pools. A pool over three axes is one over height and width and
//! then one over depth. Both read planes in their order in memory, so nothing is transposed, and of equal elements the
//! first in row-major order still wins.

use super::lower;
use crate::kernels::window::WindowGeometry;
use crate::nodes::arguments::size_attrs::{size_attrs_to_i64, to_size_attrs};
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Expand, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::window_attrs::WindowAttrs;
use crate::nodes::ops::common::window_geometry::{PlaneTaps, check_window_sizes, first_entries, sum_over_window_taps};
use crate::nodes::ops::pool::attrs::{AvgPoolAttrs, SumPoolAttrs, SumPoolBackwardAttrs};
use crate::nodes::ops::pool::{check_i32_plane, last_two_dims};
use Domain::{Distinct, Real};

const fn define_op(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    infer: fn(&mut Infer<'_>) -> Result<(), String>,
    expand: Expand,
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs,
        flags: Flags::PURE,
        infer,
        deriv,
        batch: Batch::Rule(|s| s.merged()),
        decompose: Some(expand),
        lower: Lower::Expand,
        cost: |cx| 2 * cx.arg(0),
        cases: &[],
        ..OpDef::BLANK
    }
}

/// Checks a pool with these windows over the axes after the second, and adds its result.
fn infer_windows<const N: usize>(cx: &mut Infer<'_>, windows: &WindowAttrs) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let d = cx.rank(0, "x", N + 2)?;
    windows.check::<N>()?;
    let win = windows.over::<N>(first_entries(&d[2..]));
    let count = win.count()?;
    win.all_touch()?;
    if N == 3 {
        // Windows over depth slide over the results of those over height and width.
        let rest = count[1].checked_mul(count[2]).ok_or("the number of windows overflows")?;
        check_i32_plane([d[2], rest])?;
        check_i32_plane([d[3], d[4]])?;
        d[1].checked_mul(d[2]).ok_or("the number of planes overflows")?;
    } else {
        check_i32_plane([d[2], d[3..].iter().product()])?;
    }
    cx.result(dtype, &[&d[..2], &count[..]].concat())
}

fn infer_extreme<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = WindowAttrs::of(&cx.attrs);
    infer_windows::<N>(cx, &a)
}

fn infer_sum<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = SumPoolAttrs::of(&cx.attrs);
    infer_windows::<N>(cx, &a.windows())
}

fn infer_avg<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = AvgPoolAttrs::of(&cx.attrs);
    infer_windows::<N>(cx, &a.windows())
}

/// The pool of planes that computes pools over one to three axes.
#[derive(Clone, Copy, PartialEq)]
pub enum Plane {
    /// The largest element.
    Max,
    /// The sum.
    Sum,
    /// The sum over the number of elements.
    Avg {
        /// Whether the padding counts.
        count_pad: bool,
    },
}

/// The first result of a 2-D pool.
pub fn pool_one_plane<'g>(g: &'g Builder, x: Var<'g>, kind: Plane, win: &WindowGeometry<2>) -> Var<'g> {
    let windows = WindowAttrs::from(*win);
    match kind {
        Plane::Max => g.emit1(Op::MAX_POOL2D, &[x], &windows.list()),
        Plane::Sum => g.emit1(Op::SUM_POOL2D, &[x], &SumPoolAttrs::new(windows).list()),
        Plane::Avg { count_pad } => g.emit1(Op::AVG_POOL2D, &[x], &AvgPoolAttrs::new(windows, count_pad).list()),
    }
}

/// A pool over the axes after the second, by pools of planes.
fn pool_by_planes<'g, const N: usize>(x: Var<'g>, kind: Plane, windows: &WindowAttrs) -> Var<'g> {
    let (g, d) = (x.g, x.dims());
    let win = windows.over::<N>(first_entries(&d[2..]));
    match (N, win.count()) {
        (1, Ok(count)) => {
            let flat = x.reshape([d[0], d[1], 1, d[2]]);
            pool_one_plane(g, flat, kind, &win.on_plane([None, Some(0)])).reshape([d[0], d[1], count[0]])
        }
        (3, Ok(count)) => {
            let (planes, rest) = (x.reshape([d[0], d[1] * d[2], d[3], d[4]]), count[1] * count[2]);
            let flat = pool_one_plane(g, planes, kind, &win.on_plane([Some(1), Some(2)]));
            let deep = WindowGeometry { size: [d[2], rest], ..win.on_plane([Some(0), None]) };
            let y = pool_one_plane(g, flat.reshape([d[0], d[1], d[2], rest]), kind, &deep);
            y.reshape([&d[..2], &count[..]].concat())
        }
        _ => pool_one_plane(g, x, kind, &win.on_plane([Some(0), Some(1)])),
    }
}

fn decompose_max<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    vec![pool_by_planes::<N>(s.args[0], Plane::Max, &WindowAttrs::of(&s.attrs))]
}

fn decompose_min<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    vec![-pool_by_planes::<N>(-s.args[0], Plane::Max, &WindowAttrs::of(&s.attrs))]
}

fn decompose_sum<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    vec![pool_by_planes::<N>(s.args[0], Plane::Sum, &SumPoolAttrs::of(&s.attrs).windows())]
}

fn decompose_avg<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let a = AvgPoolAttrs::of(&s.attrs);
    // The divisor of a window is a product over its axes, so that means of means are means.
    vec![pool_by_planes::<N>(s.args[0], Plane::Avg { count_pad: a.count_include_pad }, &a.windows())]
}

/// The largest element of each 1-D window.
pub const MAX_POOL1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,9]", attrs: "kernel=[2] stride=[2] pad=[0,0] dilation=[1]", domains: &[Distinct] },
        Case { args: "f[2,2,7]", attrs: "kernel=[3] stride=[2] pad=[1,2] dilation=[2]", domains: &[Distinct] },
    ],
    ..define_op(
        "max_pool1d",
        "y = the largest of each window of x [N, C, L] (the first of equals; NaN if there is one; padding never wins)",
        WindowAttrs::FIELDS,
        infer_extreme::<1>,
        decompose_max::<1>,
        Deriv::ViaDecompose,
    )
};

/// The largest element of each 3-D window.
pub const MAX_POOL3D: OpDef = OpDef {
    cases: &[
        Case {
            args: "f[1,2,4,4,6]",
            attrs: "kernel=[2,2,2] stride=[2,2,2] pad=[0,0,0,0,0,0] dilation=[1,1,1]",
            domains: &[Distinct],
        },
        Case {
            args: "f[2,1,4,5,3]",
            attrs: "kernel=[3,2,2] stride=[1,2,1] pad=[1,1,1,0,0,1] dilation=[1,2,1]",
            domains: &[Distinct],
        },
    ],
    ..define_op(
        "max_pool3d",
        "y = the largest of each window of x [N, C, D, H, W] (the first of equals; NaN if there is one; padding never \
        wins)",
        WindowAttrs::FIELDS,
        infer_extreme::<3>,
        decompose_max::<3>,
        Deriv::ViaDecompose,
    )
};

/// The smallest element of each 1-D window.
pub const MIN_POOL1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,9]", attrs: "kernel=[2] stride=[2] pad=[0,0] dilation=[1]", domains: &[Distinct] },
        Case { args: "f[2,2,7]", attrs: "kernel=[3] stride=[2] pad=[1,1] dilation=[2]", domains: &[Distinct] },
    ],
    ..define_op(
        "min_pool1d",
        "y = the smallest of each window of x [N, C, L] (the first of equals; NaN if there is one; padding never wins)",
        WindowAttrs::FIELDS,
        infer_extreme::<1>,
        decompose_min::<1>,
        Deriv::ViaDecompose,
    )
};

/// The smallest element of each 2-D window.
pub const MIN_POOL2D: OpDef = OpDef {
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
    ],
    ..define_op(
        "min_pool2d",
        "y = the smallest of each window of x [N, C, H, W] (the first of equals; NaN if there is one; padding never \
        wins)",
        WindowAttrs::FIELDS,
        infer_extreme::<2>,
        decompose_min::<2>,
        Deriv::ViaDecompose,
    )
};

/// The smallest element of each 3-D window.
pub const MIN_POOL3D: OpDef = OpDef {
    cases: &[Case {
        args: "f[2,1,4,5,3]",
        attrs: "kernel=[3,2,2] stride=[1,2,1] pad=[1,1,1,0,0,1] dilation=[1,2,1]",
        domains: &[Distinct],
    }],
    ..define_op(
        "min_pool3d",
        "y = the smallest of each window of x [N, C, D, H, W] (the first of equals; NaN if there is one; padding \
        never wins)",
        WindowAttrs::FIELDS,
        infer_extreme::<3>,
        decompose_min::<3>,
        Deriv::ViaDecompose,
    )
};

/// The sum of each 1-D window.
pub const SUM_POOL1D: OpDef = OpDef {
    cases: &[Case { args: "f[2,2,7]", attrs: "kernel=[3] stride=[2] pad=[1,2]", domains: &[Real] }],
    ..define_op(
        "sum_pool1d",
        "y = Σ x over each window of x [N, C, L]",
        SumPoolAttrs::FIELDS,
        infer_sum::<1>,
        decompose_sum::<1>,
        Deriv::ViaDecompose,
    )
};

/// The sum of each 2-D window.
pub const SUM_POOL2D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,4,6]", attrs: "kernel=[2,2] stride=[2,2] pad=[0,0,0,0]", domains: &[Real] },
        Case { args: "f[1,2,5,7]", attrs: "kernel=[3,2] stride=[2,1] pad=[1,2,1,0]", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::emit_sum_pool2d),
    ..define_op(
        "sum_pool2d",
        "y = Σ x over each window of x [N, C, H, W]",
        SumPoolAttrs::FIELDS,
        infer_sum::<2>,
        |s| {
            let x = s.args[0];
            let win = SumPoolAttrs::of(&s.attrs).windows().over(last_two_dims(&x.dims()));
            let Ok(count) = win.count() else { return Vec::new() };
            let padded = win.pad(x, 0.0);
            sum_over_window_taps(win.taps().map(|t| win.tap(padded, t, count))).into_iter().collect()
        },
        Deriv::Linear(|s, _, g| {
            let SumPoolAttrs { kernel, stride, pad } = SumPoolAttrs::of(&s.attrs);
            let attrs = SumPoolBackwardAttrs {
                in_hw: size_attrs_to_i64(&last_two_dims(&s.args[0].dims())),
                kernel,
                stride,
                pad,
            };
            Some(s.g.emit1(Op::SUM_POOL2D_BACKWARD, &[g], &attrs.list()))
        }),
    )
};

/// The transpose of [`SUM_POOL2D`].
pub const SUM_POOL2D_BACKWARD: OpDef = OpDef {
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "f[2,3,2,3]", attrs: "in_hw=[4,6] kernel=[2,2] stride=[2,2] pad=[0,0,0,0]", domains: &[Real] },
        Case { args: "f[1,2,3,7]", attrs: "in_hw=[5,7] kernel=[3,2] stride=[2,1] pad=[1,2,1,0]", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::emit_sum_pool2d_backward),
    ..define_op(
        "sum_pool2d_backward",
        "dx[..] = Σ dy over the windows that contain the element; the transpose of sum_pool2d",
        SumPoolBackwardAttrs::FIELDS,
        |cx| {
            let dtype = cx.float(0)?;
            let d = cx.rank(0, "dy", 4)?;
            let a = SumPoolBackwardAttrs::of(&cx.attrs);
            let hw = check_window_sizes::<2>("in_hw", &a.in_hw)?;
            a.windows().check::<2>()?;
            let win = a.windows().over(hw);
            let count = win.count()?;
            win.all_touch()?;
            check_i32_plane(hw)?;
            cx.expect_dims(0, "dy", &[d[0], d[1], count[0], count[1]])?;
            cx.result(dtype, &[d[0], d[1], hw[0], hw[1]])
        },
        |s| {
            let a = SumPoolBackwardAttrs::of(&s.attrs);
            let win = a.windows().over(first_entries(&to_size_attrs(&a.in_hw)));
            sum_over_window_taps(win.taps().map(|t| win.untap(s.args[0], t)))
                .map(|dx| win.crop(dx))
                .into_iter()
                .collect()
        },
        Deriv::Linear(|s, _, g| {
            let SumPoolBackwardAttrs { in_hw: _, kernel, stride, pad } = SumPoolBackwardAttrs::of(&s.attrs);
            Some(s.g.emit1(Op::SUM_POOL2D, &[g], &SumPoolAttrs { kernel, stride, pad }.list()))
        }),
    )
};

/// The sum of each 3-D window.
pub const SUM_POOL3D: OpDef = OpDef {
    cases: &[Case { args: "f[2,1,4,5,3]", attrs: "kernel=[3,2,2] stride=[1,2,1] pad=[1,1,1,0,0,1]", domains: &[Real] }],
    ..define_op(
        "sum_pool3d",
        "y = Σ x over each window of x [N, C, D, H, W]",
        SumPoolAttrs::FIELDS,
        infer_sum::<3>,
        decompose_sum::<3>,
        Deriv::ViaDecompose,
    )
};

/// The mean of each 1-D window.
pub const AVG_POOL1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,8]", attrs: "kernel=[2] stride=[2] pad=[0,0] count_include_pad=true", domains: &[Real] },
        Case { args: "f[2,2,7]", attrs: "kernel=[3] stride=[2] pad=[1,2] count_include_pad=false", domains: &[Real] },
    ],
    ..define_op(
        "avg_pool1d",
        "y = Σ x / n over each window of x [N, C, L]; n counts the padding only if count_include_pad",
        AvgPoolAttrs::FIELDS,
        infer_avg::<1>,
        decompose_avg::<1>,
        Deriv::ViaDecompose,
    )
};

/// The mean of each 3-D window.
pub const AVG_POOL3D: OpDef = OpDef {
    cases: &[
        Case {
            args: "f[1,2,4,4,6]",
            attrs: "kernel=[2,2,2] stride=[2,2,2] pad=[0,0,0,0,0,0] count_include_pad=true",
            domains: &[Real],
        },
        Case {
            args: "f[2,1,4,5,3]",
            attrs: "kernel=[3,2,2] stride=[1,2,1] pad=[1,1,1,0,0,1] count_include_pad=false",
            domains: &[Real],
        },
    ],
    ..define_op(
        "avg_pool3d",
        "y = Σ x / n over each window of x [N, C, D, H, W]; n counts the padding only if count_include_pad",
        AvgPoolAttrs::FIELDS,
        infer_avg::<3>,
        decompose_avg::<3>,
        Deriv::ViaDecompose,
    )
};
