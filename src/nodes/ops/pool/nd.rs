//! Pools beside those of `pool`: over one and three axes, least elements, and sums. A pool over three axes is one over
//! height and width and then one over depth, both on planes that lie there already: no transposes, and of equal elements
//! the first in row-major order still wins.

use super::lower;
use crate::nodes::build::axes::to_i64s;
use crate::nodes::ir::attrs::{Attr, Attrs, Field, Kind};
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Expand, Flags, Lower, Op, OpDef, Site};
use crate::nodes::ops::common::slide::{Slide, ints, pad_field, pairs, plane_of};
use crate::nodes::ops::common::window::{DILATION, IN_HW, KERNEL, PAD, STRIDE, Windows, array, sizes, sum};
use crate::nodes::ops::pool::countable;
use Domain::{Distinct, Real};

const COUNT_PAD: Field = Field::new("count_include_pad", Kind::Bool);
const ORDER: &[Field] = &[KERNEL, STRIDE, PAD, DILATION];
const SUM: &[Field] = &[KERNEL, STRIDE, PAD];
const AVG: &[Field] = &[KERNEL, STRIDE, PAD, COUNT_PAD];

const fn row(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    infer: fn(&mut Infer<'_>) -> Result<(), String>,
    expand: Expand,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs,
        flags: Flags::PURE,
        infer,
        deriv: Deriv::ViaDecompose,
        decompose: Some(expand),
        lower: Lower::Expand,
        cost: |cx| 2 * cx.arg(0),
        cases: &[],
    }
}

/// The windows over axes of these sizes that the attributes from field `at` on say.
fn windows<const N: usize>(size: &[usize], a: &Attrs<'_>, at: usize) -> Slide<N> {
    let dilated = a.fields.get(at + 3) == Some(&DILATION);
    let dilation = if dilated { array(&a.sizes(at + 3)) } else { [1; N] };
    let (kernel, stride, pad) = (array(&a.sizes(at)), array(&a.sizes(at + 1)), pairs(&a.sizes(at + 2)));
    Slide { size: array(size), kernel, stride, pad, dilation }.tight()
}

fn infer<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let d = cx.rank(0, "x", N + 2)?;
    sizes::<N>(cx, 0)?;
    sizes::<N>(cx, 1)?;
    pad_field::<N>(cx, 2)?;
    if cx.attrs.fields.get(3) == Some(&DILATION) {
        sizes::<N>(cx, 3)?;
    }
    let win = windows::<N>(&d[2..], &cx.attrs, 0);
    let count = win.count()?;
    win.all_touch()?;
    if N == 3 {
        // Windows over depth slide over what those over height and width leave.
        let rest = count[1].checked_mul(count[2]).ok_or("the number of windows overflows")?;
        countable([d[2], rest])?;
        countable([d[3], d[4]])?;
        d[1].checked_mul(d[2]).ok_or("the number of planes overflows")?;
    } else {
        countable([d[2], d[3..].iter().product()])?;
    }
    cx.result(dtype, &[&d[..2], &count[..]].concat())
}

/// The pool of planes that an op over more or fewer axes is made of.
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
pub fn pool2d<'g>(g: &'g Builder, x: Var<'g>, kind: Plane, win: &Slide<2>) -> Var<'g> {
    let lists = win.lists();
    let [kernel, stride, pad, dilation] = ints(&lists);
    match kind {
        Plane::Max => g.emit1(Op::MAX_POOL2D, &[x], &[kernel, stride, pad, dilation]),
        Plane::Sum => g.emit1(Op::SUM_POOL2D, &[x], &[kernel, stride, pad]),
        Plane::Avg { count_pad } => g.emit1(Op::AVG_POOL2D, &[x], &[kernel, stride, pad, Attr::Bool(count_pad)]),
    }
}

/// A pool over the axes after the second, by pools of planes.
fn pool<'g, const N: usize>(g: &'g Builder, x: Var<'g>, kind: Plane, win: &Slide<N>) -> Var<'g> {
    let d = x.dims();
    match (N, win.count()) {
        (1, Ok(count)) => {
            let lying = x.reshape([d[0], d[1], 1, d[2]]);
            pool2d(g, lying, kind, &plane_of(win, [None, Some(0)])).reshape([d[0], d[1], count[0]])
        }
        (3, Ok(count)) => {
            let (planes, rest) = (x.reshape([d[0], d[1] * d[2], d[3], d[4]]), count[1] * count[2]);
            let flat = pool2d(g, planes, kind, &plane_of(win, [Some(1), Some(2)]));
            let deep = Slide { size: [d[2], rest], ..plane_of(win, [Some(0), None]) };
            let y = pool2d(g, flat.reshape([d[0], d[1], d[2], rest]), kind, &deep);
            y.reshape([&d[..2], &count[..]].concat())
        }
        _ => pool2d(g, x, kind, &plane_of(win, [Some(0), Some(1)])),
    }
}

fn of_site<'g, const N: usize>(s: &Site<'_, 'g>, x: Var<'g>, kind: Plane) -> Var<'g> {
    pool::<N>(s.g, x, kind, &windows(&x.dims()[2..], &s.attrs, 0))
}

fn max_expand<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    vec![of_site::<N>(s, s.args[0], Plane::Max)]
}

fn min_expand<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    vec![-of_site::<N>(s, -s.args[0], Plane::Max)]
}

fn sum_expand<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    vec![of_site::<N>(s, s.args[0], Plane::Sum)]
}

fn avg_expand<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    // The divisor of a window is a product over its axes, so that means of means are means.
    vec![of_site::<N>(s, s.args[0], Plane::Avg { count_pad: s.attrs.bool(3) })]
}

/// See `doc`.
pub const MAX_POOL1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,9]", attrs: "kernel=[2] stride=[2] pad=[0,0] dilation=[1]", domains: &[Distinct] },
        Case { args: "f[2,2,7]", attrs: "kernel=[3] stride=[2] pad=[1,2] dilation=[2]", domains: &[Distinct] },
    ],
    ..row(
        "max_pool1d",
        "y = the largest of each window of x [N, C, L] (the first of equals; NaN if there is one; padding never wins)",
        ORDER,
        infer::<1>,
        max_expand::<1>,
    )
};

/// See `doc`.
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
    ..row(
        "max_pool3d",
        "y = the largest of each window of x [N, C, D, H, W] (the first of equals; NaN if there is one; padding never wins)",
        ORDER,
        infer::<3>,
        max_expand::<3>,
    )
};

/// See `doc`.
pub const MIN_POOL1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,9]", attrs: "kernel=[2] stride=[2] pad=[0,0] dilation=[1]", domains: &[Distinct] },
        Case { args: "f[2,2,7]", attrs: "kernel=[3] stride=[2] pad=[1,1] dilation=[2]", domains: &[Distinct] },
    ],
    ..row(
        "min_pool1d",
        "y = the least of each window of x [N, C, L] (the first of equals; NaN if there is one; padding never wins)",
        ORDER,
        infer::<1>,
        min_expand::<1>,
    )
};

/// See `doc`.
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
    ..row(
        "min_pool2d",
        "y = the least of each window of x [N, C, H, W] (the first of equals; NaN if there is one; padding never wins)",
        ORDER,
        infer::<2>,
        min_expand::<2>,
    )
};

/// See `doc`.
pub const MIN_POOL3D: OpDef = OpDef {
    cases: &[Case {
        args: "f[2,1,4,5,3]",
        attrs: "kernel=[3,2,2] stride=[1,2,1] pad=[1,1,1,0,0,1] dilation=[1,2,1]",
        domains: &[Distinct],
    }],
    ..row(
        "min_pool3d",
        "y = the least of each window of x [N, C, D, H, W] (the first of equals; NaN if there is one; padding never wins)",
        ORDER,
        infer::<3>,
        min_expand::<3>,
    )
};

/// See `doc`.
pub const SUM_POOL1D: OpDef = OpDef {
    cases: &[Case { args: "f[2,2,7]", attrs: "kernel=[3] stride=[2] pad=[1,2]", domains: &[Real] }],
    ..row("sum_pool1d", "y = Σ x over each window of x [N, C, L]", SUM, infer::<1>, sum_expand::<1>)
};

/// The other of the two 2-D sums, on `v`.
fn sum_other<'g>(s: &Site<'_, 'g>, v: Var<'g>, op: Op, hw: &[usize], at: usize) -> Var<'g> {
    let lists = [to_i64s(hw), s.attrs.ints(at), s.attrs.ints(at + 1), s.attrs.ints(at + 2)];
    let all = ints(&lists);
    s.g.emit1(op, &[v], if op == Op::SUM_POOL2D { &all[1..] } else { &all })
}

/// The windows as the taps of decompositions have them.
fn taps(hw: &[usize], a: &Attrs<'_>, at: usize) -> Windows {
    let Slide { size, kernel, stride, pad, dilation } = windows::<2>(hw, a, at);
    Windows { plane: size, kernel, stride, pad: array(pad.as_flattened()), dilation }
}

/// See `doc`.
pub const SUM_POOL2D: OpDef = OpDef {
    deriv: Deriv::Linear(|s, _, g| Some(sum_other(s, g, Op::SUM_POOL2D_BACKWARD, &s.args[0].dims()[2..], 0))),
    cases: &[
        Case { args: "f[2,3,4,6]", attrs: "kernel=[2,2] stride=[2,2] pad=[0,0,0,0]", domains: &[Real] },
        Case { args: "f[1,2,5,7]", attrs: "kernel=[3,2] stride=[2,1] pad=[1,2,1,0]", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::sum_pool2d),
    ..row("sum_pool2d", "y = Σ x over each window of x [N, C, H, W]", SUM, infer::<2>, |s| {
        let x = s.args[0];
        let win = taps(&x.dims()[2..], &s.attrs, 0);
        let Ok(count) = win.count() else { return Vec::new() };
        let padded = win.pad(x, 0.0);
        sum(win.taps().map(|t| win.tap(padded, t, count))).into_iter().collect()
    })
};

/// See `doc`.
pub const SUM_POOL2D_BACKWARD: OpDef = OpDef {
    deriv: Deriv::Linear(|s, _, g| Some(sum_other(s, g, Op::SUM_POOL2D, &[], 1))),
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "f[2,3,2,3]", attrs: "in_hw=[4,6] kernel=[2,2] stride=[2,2] pad=[0,0,0,0]", domains: &[Real] },
        Case { args: "f[1,2,3,7]", attrs: "in_hw=[5,7] kernel=[3,2] stride=[2,1] pad=[1,2,1,0]", domains: &[Real] },
    ],
    lower: Lower::Kernel(lower::sum_pool2d_backward),
    ..row(
        "sum_pool2d_backward",
        "dx[..] = Σ dy over the windows that see the element; the transpose of sum_pool2d",
        &[IN_HW, KERNEL, STRIDE, PAD],
        |cx| {
            let dtype = cx.float(0)?;
            let d = cx.rank(0, "dy", 4)?;
            let hw = sizes::<2>(cx, 0)?;
            sizes::<2>(cx, 1)?;
            sizes::<2>(cx, 2)?;
            pad_field::<2>(cx, 3)?;
            let win = windows::<2>(&hw, &cx.attrs, 1);
            let count = win.count()?;
            win.all_touch()?;
            countable(hw)?;
            cx.expect_dims(0, "dy", &[d[0], d[1], count[0], count[1]])?;
            cx.result(dtype, &[d[0], d[1], hw[0], hw[1]])
        },
        |s| {
            let win = taps(&s.attrs.sizes(0), &s.attrs, 1);
            sum(win.taps().map(|t| win.untap(s.args[0], t))).map(|dx| win.crop(dx)).into_iter().collect()
        },
    )
};

/// See `doc`.
pub const SUM_POOL3D: OpDef = OpDef {
    cases: &[Case { args: "f[2,1,4,5,3]", attrs: "kernel=[3,2,2] stride=[1,2,1] pad=[1,1,1,0,0,1]", domains: &[Real] }],
    ..row("sum_pool3d", "y = Σ x over each window of x [N, C, D, H, W]", SUM, infer::<3>, sum_expand::<3>)
};

/// See `doc`.
pub const AVG_POOL1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,8]", attrs: "kernel=[2] stride=[2] pad=[0,0] count_include_pad=true", domains: &[Real] },
        Case { args: "f[2,2,7]", attrs: "kernel=[3] stride=[2] pad=[1,2] count_include_pad=false", domains: &[Real] },
    ],
    ..row(
        "avg_pool1d",
        "y = Σ x / n over each window of x [N, C, L]; n counts the padding only if count_include_pad",
        AVG,
        infer::<1>,
        avg_expand::<1>,
    )
};

/// See `doc`.
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
    ..row(
        "avg_pool3d",
        "y = Σ x / n over each window of x [N, C, D, H, W]; n counts the padding only if count_include_pad",
        AVG,
        infer::<3>,
        avg_expand::<3>,
    )
};

/// One number for each place along an axis that `after` − 1 axes follow.
pub fn along<'g>(g: &'g Builder, values: &[f64], after: usize, dtype: DType) -> Var<'g> {
    let mut dims = vec![1; after];
    dims[..1].copy_from_slice(&[values.len()]);
    match dtype {
        DType::F32 => g.constant(&values.iter().map(|&v| v as f32).collect::<Vec<_>>(), dims),
        _ => g.constant_f64(values, dims),
    }
}
