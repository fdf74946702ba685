//! Adaptive pools: window i of `out` along an axis of n holds the elements from ⌊i·n/out⌋ to ⌈(i + 1)·n/out⌉, as in
//! torch. Each axis is pooled alone. Windows of equal length that do not overlap are an ordinary pool. Other windows
//! are first copied out side by side, each as long as the longest.

use crate::ensure;
use crate::kernels::window::{WindowGeometry, axis_name};
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Expand, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::positions::{numbers_by_position, take_elements_at};
use crate::nodes::ops::common::window_geometry::check_window_sizes;
use crate::nodes::ops::pool::attrs::AdaptivePoolAttrs;
use crate::nodes::ops::pool::pool_nd::{Plane, pool_one_plane};
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use Domain::{Distinct, Real};

/// The longest axis that is copied out by positions, which are i32.
const LONGEST: usize = 1 << 28;

const fn define_op(
    name: &'static str,
    doc: &'static str,
    infer: fn(&mut Infer<'_>) -> Result<(), String>,
    expand: Expand,
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs: AdaptivePoolAttrs::FIELDS,
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

fn infer_types<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let d = cx.rank(0, "x", N + 2)?;
    let out = check_window_sizes::<N>("output", &AdaptivePoolAttrs::of(&cx.attrs).output)?;
    let mut plane = [1usize; 2];
    for (a, (&n, &out)) in d[2..].iter().zip(&out).enumerate() {
        let name = axis_name(N, a);
        ensure!(out > 0, "output {name} 0 of an input of {n}; 1 is the least");
        ensure!(n > 0, "the {name} of x is 0; output {out} needs elements");
        ensure!(out <= LONGEST && n <= LONGEST, "{name} {n} to {out} is above {LONGEST}");
        // Copied out, an axis is at most n + 2·out long.
        let at = usize::from(a > 0 && a + 1 == N);
        plane[at] = plane[at].checked_mul(n + 2 * out).ok_or("the size of a plane overflows")?;
    }
    let places = plane[0].checked_mul(plane[1]).filter(|&p| p <= i32::MAX as usize);
    ensure!(places.is_some(), "planes of {d} to {out:?} have more places than i32");
    cx.result(dtype, &[&d[..2], &out[..]].concat())
}

/// The windows along one axis as those of an ordinary pool.
struct Even {
    /// Elements of each window, and so from one to the next.
    kernel: usize,
    /// The positions of the elements, window by window; `None` if they are in this order already.
    from: Option<Vec<usize>>,
    /// Elements of each window that count.
    count: Vec<f64>,
}

/// Elements that do not count come from position `filler(end of the window)`.
fn even_adaptive_windows(n: usize, out: usize, filler: impl Fn(usize) -> usize) -> Even {
    let bounds: Vec<[usize; 2]> = (0..out).map(|i| [i * n / out, ((i + 1) * n).div_ceil(out)]).collect();
    let kernel = bounds.iter().map(|[a, b]| b - a).max().unwrap_or(1);
    let count = bounds.iter().map(|[a, b]| (b - a) as f64).collect();
    let place = |&[a, b]: &[usize; 2]| (a..a + kernel).map(move |i| (i, b)).collect::<Vec<_>>();
    let from = || bounds.iter().flat_map(place).map(|(i, b)| if i < b { i } else { filler(b) }).collect();
    Even { kernel, from: (!n.is_multiple_of(out)).then(from), count }
}

/// A pool along one axis, whose windows do not overlap. The axes after it form one row of a plane.
fn pool_along_axis<'g>(x: Var<'g>, axis: usize, kernel: usize, kind: Plane) -> Var<'g> {
    let d = x.dims();
    let (before, n, after) = (d[2..axis].iter().product::<usize>(), d[axis], d[axis + 1..].iter().product::<usize>());
    let mut to = d.to_vec();
    to[axis] = n / kernel;
    let last = axis + 1 == d.len();
    let (planes, size) = if last { (1, [before, n]) } else { (before, [n, after]) };
    let kernel = if last { [1, kernel] } else { [kernel, 1] };
    let win = WindowGeometry { stride: kernel, ..WindowGeometry::new(size, kernel) };
    pool_one_plane(x.g, x.reshape([d[0], d[1] * planes, size[0], size[1]]), kind, &win).reshape(to)
}

/// The number of windows along each axis.
fn adaptive_output_size(s: &Site<'_, '_>) -> Vec<usize> {
    to_size_attrs(&AdaptivePoolAttrs::of(&s.attrs).output)
}

/// The result for an operand without elements.
fn empty_result<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, out) = (s.args[0], adaptive_output_size(s));
    vec![x.reshape([&x.dims()[..2], &out[..]].concat())]
}

/// The last axis first: of equal elements, the first in row-major order wins.
fn decompose_adaptive_max<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let mut x = s.args[0];
    if x.numel() == 0 {
        return empty_result(s);
    }
    for (a, &out) in adaptive_output_size(s).iter().enumerate().rev() {
        let n = x.dims()[2 + a];
        if n != out {
            // The last element of the window once more: it never wins over its first occurrence.
            let e = even_adaptive_windows(n, out, |end| end - 1);
            x = e.from.map_or(x, |from| take_elements_at(x, &from, 2 + a));
            x = pool_along_axis(x, 2 + a, e.kernel, Plane::Max);
        }
    }
    vec![x]
}

/// The last axis last: before it, whole rows are added.
fn decompose_adaptive_avg<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (mut x, out) = (s.args[0], adaptive_output_size(s));
    let rank = 2 + out.len();
    if x.numel() == 0 {
        return empty_result(s);
    }
    if out.iter().all(|&n| n == 1) {
        let axes: Vec<i64> = (2..rank as i64).collect();
        return vec![s.g.emit1(Op::REDUCE_MEAN, &[x], &ReduceAttrs { axes, keep: true }.list())];
    }
    for (a, &out) in out.iter().enumerate() {
        let n = x.dims()[2 + a];
        if n == out {
            continue;
        }
        // Elements that do not count are the zero after the last element.
        let e = even_adaptive_windows(n, out, |_| n);
        if let Some(from) = e.from {
            if from.contains(&n) {
                let mut high = vec![0; rank];
                high[2 + a] = 1;
                x = x.pad(&vec![0; rank], &high, 0.0);
            }
            x = take_elements_at(x, &from, 2 + a);
        }
        let whole = e.count.iter().all(|&c| c == e.kernel as f64);
        x = match whole {
            true => pool_along_axis(x, 2 + a, e.kernel, Plane::Avg { count_pad: true }),
            false => {
                pool_along_axis(x, 2 + a, e.kernel, Plane::Sum)
                    / numbers_by_position(s.g, &e.count, rank - 2 - a, x.dtype())
            }
        };
    }
    vec![x]
}

/// The largest element of each of a given number of 1-D windows.
pub const ADAPTIVE_MAX_POOL1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,8]", attrs: "output=[4]", domains: &[Distinct] },
        Case { args: "f[2,2,7]", attrs: "output=[3]", domains: &[Distinct] },
    ],
    ..define_op(
        "adaptive_max_pool1d",
        "y[.., i] = the largest of x[.., ⌊i·L/out⌋ .. ⌈(i + 1)·L/out⌉]",
        infer_types::<1>,
        decompose_adaptive_max,
        Deriv::ViaDecompose,
    )
};

/// The largest element of each of a given number of 2-D windows.
pub const ADAPTIVE_MAX_POOL2D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,4,6]", attrs: "output=[2,3]", domains: &[Distinct] },
        Case { args: "f[1,2,5,7]", attrs: "output=[3,4]", domains: &[Distinct] },
        Case { args: "f[1,2,3,4]", attrs: "output=[5,1]", domains: &[Distinct] },
    ],
    ..define_op(
        "adaptive_max_pool2d",
        "y[.., i, j] = the largest of rows ⌊i·H/out⌋ .. ⌈(i + 1)·H/out⌉, and columns in the same way",
        infer_types::<2>,
        decompose_adaptive_max,
        Deriv::ViaDecompose,
    )
};

/// The largest element of each of a given number of 3-D windows.
pub const ADAPTIVE_MAX_POOL3D: OpDef = OpDef {
    cases: &[Case { args: "f[1,2,4,5,3]", attrs: "output=[2,3,2]", domains: &[Distinct] }],
    ..define_op(
        "adaptive_max_pool3d",
        "y[.., h, i, j] = the largest of planes ⌊h·D/out⌋ .. ⌈(h + 1)·D/out⌉, and rows and columns in the same way",
        infer_types::<3>,
        decompose_adaptive_max,
        Deriv::ViaDecompose,
    )
};

/// The mean of each of a given number of 1-D windows.
pub const ADAPTIVE_AVG_POOL1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,8]", attrs: "output=[4]", domains: &[Real] },
        Case { args: "f[2,2,7]", attrs: "output=[3]", domains: &[Real] },
        Case { args: "f[2,2,3]", attrs: "output=[2]", domains: &[Real] },
    ],
    ..define_op(
        "adaptive_avg_pool1d",
        "y[.., i] = the mean of x[.., ⌊i·L/out⌋ .. ⌈(i + 1)·L/out⌉]",
        infer_types::<1>,
        decompose_adaptive_avg,
        Deriv::ViaDecompose,
    )
};

/// The mean of each of a given number of 2-D windows.
pub const ADAPTIVE_AVG_POOL2D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,3,4,6]", attrs: "output=[1,1]", domains: &[Real] },
        Case { args: "f[1,2,5,7]", attrs: "output=[3,4]", domains: &[Real] },
        Case { args: "f[1,2,3,4]", attrs: "output=[5,2]", domains: &[Real] },
    ],
    ..define_op(
        "adaptive_avg_pool2d",
        "y[.., i, j] = the mean of rows ⌊i·H/out⌋ .. ⌈(i + 1)·H/out⌉, and columns in the same way",
        infer_types::<2>,
        decompose_adaptive_avg,
        Deriv::ViaDecompose,
    )
};

/// The mean of each of a given number of 3-D windows.
pub const ADAPTIVE_AVG_POOL3D: OpDef = OpDef {
    cases: &[Case { args: "f[1,2,4,5,3]", attrs: "output=[2,3,2]", domains: &[Real] }],
    ..define_op(
        "adaptive_avg_pool3d",
        "y[.., h, i, j] = the mean of planes ⌊h·D/out⌋ .. ⌈(h + 1)·D/out⌉, and rows and columns in the same way",
        infer_types::<3>,
        decompose_adaptive_avg,
        Deriv::ViaDecompose,
    )
};
