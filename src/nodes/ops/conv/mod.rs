//! 2-D convolution (cross-correlation, NCHW) and its two adjoints. Each is linear in both operands, and the transposes
//! of the three are one another, so derivatives of any order need no further op.

pub mod bias_act;
pub mod lower;
pub mod nd;

use crate::arena::ids::Id;
use crate::ensure;
use crate::kernels::conv::ConvGeom;
use crate::nodes::ir::attrs::{Attr, Attrs, Field, Kind};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef, Site};
use crate::nodes::ops::common::window::{DILATION, IN_HW, KERNEL, PAD, STRIDE, Windows, array, sizes, sum};
use Domain::Real;

const GROUPS: Field = Field::new("groups", Kind::Int);
/// Fields of `conv2d`. Those of the adjoints are the same after a leading one.
const FORWARD: &[Field] = &[STRIDE, PAD, DILATION, GROUPS];

const fn row(name: &'static str, doc: &'static str, attrs: &'static [Field]) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(2),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv: Deriv::Zero,
        decompose: None,
        lower: Lower::Expand,
        cost: |cx| cx.out(),
        cases: &[],
    }
}

/// The geometry, from the dimensions of x and w and the fields from `at` on.
pub fn geom(x: &[usize], w: &[usize], attrs: &Attrs<'_>, at: usize) -> ConvGeom {
    let size = |d: &[usize], i: usize| d.get(i).copied().unwrap_or(0);
    let win = Windows {
        plane: [size(x, 2), size(x, 3)],
        kernel: [size(w, 2), size(w, 3)],
        stride: array(&attrs.sizes(at)),
        pad: array(&attrs.sizes(at + 1)),
        dilation: array(&attrs.sizes(at + 2)),
    };
    let Windows { plane: [h, across], kernel: [kh, kw], stride, pad, dilation } = win.tight();
    let (n, c_in, c_out, groups) = (size(x, 0), size(x, 1), size(w, 0), attrs.size(at + 3));
    ConvGeom { n, c_in, h, w: across, c_out, kh, kw, stride, pad, dilation, groups }
}

/// The windows of a geometry.
fn windows(g: &ConvGeom) -> Windows {
    Windows { plane: [g.h, g.w], kernel: [g.kh, g.kw], stride: g.stride, pad: g.pad, dilation: g.dilation }
}

/// Groups, in a form that is a divisor of both channel counts.
pub(super) fn check_groups(cx: &Infer<'_>, at: usize, c_in: usize, c_out: usize) -> Result<usize, String> {
    let groups = cx.attrs.int(at);
    let g = usize::try_from(groups).map_err(|_| format!("groups is {groups}"))?;
    ensure!(g > 0, "groups is 0");
    ensure!(c_in.is_multiple_of(g) && c_out.is_multiple_of(g), "{g} groups do not divide {c_in} and {c_out} channels");
    Ok(g)
}

/// Checks the lists at fields `at..at + 3`, and two operands of rank 4 and one float type.
fn operands(cx: &Infer<'_>, at: usize, names: [&str; 2]) -> Result<[Vec<usize>; 2], String> {
    cx.float(0)?;
    cx.same_dtype(0, 1)?;
    sizes::<2>(cx, at)?;
    sizes::<4>(cx, at + 1)?;
    sizes::<2>(cx, at + 2)?;
    Ok([cx.rank(0, names[0], 4)?.to_vec(), cx.rank(1, names[1], 4)?.to_vec()])
}

/// Ho and Wo of a geometry that the kernels take.
fn count(g: &ConvGeom) -> Result<[usize; 2], String> {
    let count = windows(g).count()?;
    g.validate()?;
    Ok(count)
}

pub(super) fn forward_infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let [x, w] = operands(cx, 0, ["x", "w"])?;
    let groups = check_groups(cx, 3, x[1], w[0])?;
    ensure!(w[1] == x[1] / groups, "w takes {} channels a group, x has {} in {groups} groups", w[1], x[1]);
    let [ho, wo] = count(&geom(&x, &w, &cx.attrs, 0))?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &[x[0], w[0], ho, wo])
}

fn input_infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let [dy, w] = operands(cx, 1, ["dy", "w"])?;
    let [h, wd] = sizes::<2>(cx, 0)?;
    let groups = cx.attrs.size(4);
    let c_in = w[1].checked_mul(groups).ok_or("the number of channels overflows")?;
    check_groups(cx, 4, c_in, w[0])?;
    let x = [dy[0], c_in, h, wd];
    let [ho, wo] = count(&geom(&x, &w, &cx.attrs, 1))?;
    cx.expect_dims(0, "dy", &[dy[0], w[0], ho, wo])?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &x)
}

fn weight_infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let [x, dy] = operands(cx, 1, ["x", "dy"])?;
    let [kh, kw] = sizes::<2>(cx, 0)?;
    let groups = check_groups(cx, 4, x[1], dy[1])?;
    let w = [dy[1], x[1] / groups, kh, kw];
    let [ho, wo] = count(&geom(&x, &w, &cx.attrs, 1))?;
    cx.expect_dims(1, "dy", &[x[0], w[0], ho, wo])?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &w)
}

/// The geometry of a conv2d node, of its input gradient (`lead` 1, x from `in_hw`) or its weight gradient.
pub fn site_geom(op: Op, a: &[usize], b: &[usize], attrs: &Attrs<'_>) -> ConvGeom {
    let size = |d: &[usize], i: usize| d.get(i).copied().unwrap_or(0);
    match op {
        Op::CONV2D | Op::CONV2D_BIAS_ACT => geom(a, b, attrs, 0),
        Op::CONV2D_INPUT_GRAD => {
            let hw = array::<2>(&attrs.sizes(0));
            geom(&[size(a, 0), size(b, 1) * attrs.size(4), hw[0], hw[1]], b, attrs, 1)
        }
        _ => {
            let k = array::<2>(&attrs.sizes(0));
            let c_in = size(a, 1).checked_div(attrs.size(4)).unwrap_or(0);
            geom(a, &[size(b, 1), c_in, k[0], k[1]], attrs, 1)
        }
    }
}

fn of_site(s: &Site<'_, '_>) -> ConvGeom {
    site_geom(s.op, &s.args[0].dims(), &s.args[1].dims(), &s.attrs)
}

/// One of the three ops of geometry `g` on (a, b).
fn emit<'g>(s: &Site<'_, 'g>, op: Op, g: &ConvGeom, a: Var<'g>, b: Var<'g>) -> Option<Var<'g>> {
    let to_i64s = |l: &[usize]| l.iter().map(|&x| x as i64).collect::<Vec<_>>();
    let (stride, pad, dilation) = (to_i64s(&g.stride), to_i64s(&g.pad), to_i64s(&g.dilation));
    let lead = to_i64s(&if op == Op::CONV2D_INPUT_GRAD { [g.h, g.w] } else { [g.kh, g.kw] });
    let all =
        [Attr::Ints(&lead), Attr::Ints(&stride), Attr::Ints(&pad), Attr::Ints(&dilation), Attr::Int(g.groups as i64)];
    Some(s.g.emit1(op, &[a, b], if op == Op::CONV2D { &all[1..] } else { &all }))
}

/// 2 operations for each product.
pub(super) fn flops(cx: &CostCx<'_>) -> u64 {
    let d = |i: usize| cx.graph.dims(cx.graph.args_of(cx.node)[i]);
    let g = site_geom(cx.graph.op[cx.node.at()], &d(0), &d(1), &cx.graph.attrs(cx.node));
    2 * (g.y_len() * g.taps()) as u64
}

/// Channels of `x` apart by group: `[N, C, h, w]` as `[N, G, C/G, h·w]`.
fn split<'g>(x: Var<'g>, groups: usize) -> Var<'g> {
    let d = x.dims();
    let [n, c, h, w] = array::<4>(&d);
    x.reshape([n, groups, c / groups.max(1), h * w])
}

/// The weights of one tap by group: `[1, G, O/G, C/G]`.
fn tap_weights<'g>(w: Var<'g>, tap: [usize; 2], groups: usize) -> Var<'g> {
    let [o, c, _, _] = array::<4>(&w.dims());
    w.narrow(2, tap[0], 1).narrow(3, tap[1], 1).reshape([1, groups, o / groups.max(1), c])
}

fn forward_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let g = of_site(s);
    let (win, out) = (windows(&g), [g.out_h(), g.out_w()]);
    let padded = win.pad(s.args[0], 0.0);
    let y = sum(win.taps().map(|tap| {
        let seen = split(win.tap(padded, tap, out), g.groups);
        tap_weights(s.args[1], tap, g.groups).matmul(seen)
    }));
    y.map(|y| y.reshape([g.n, g.c_out, out[0], out[1]])).into_iter().collect()
}

fn input_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let g = of_site(s);
    let (win, out) = (windows(&g), [g.out_h(), g.out_w()]);
    let dy = split(s.args[0], g.groups);
    let dx = sum(win.taps().map(|tap| {
        let part = tap_weights(s.args[1], tap, g.groups).matmul_t(dy, true, false);
        win.untap(part.reshape([g.n, g.c_in, out[0], out[1]]), tap)
    }));
    dx.map(|dx| win.crop(dx)).into_iter().collect()
}

fn weight_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let g = of_site(s);
    let (win, out) = (windows(&g), [g.out_h(), g.out_w()]);
    let padded = win.pad(s.args[0], 0.0);
    let dy = split(s.args[1], g.groups);
    let parts: Vec<_> = win
        .taps()
        .map(|tap| {
            let seen = split(win.tap(padded, tap, out), g.groups);
            dy.matmul_t(seen, false, true).sum(0).reshape([g.c_out, g.c_in / g.groups, 1])
        })
        .collect();
    let Some((first, rest)) = parts.split_first() else { return Vec::new() };
    vec![first.concat(rest, 2).reshape([g.c_out, g.c_in / g.groups, g.kh, g.kw])]
}

/// See `doc`.
pub const CONV2D: OpDef = OpDef {
    infer: forward_infer,
    deriv: Deriv::Multilinear(|s, i, up| {
        let g = of_site(s);
        match i {
            0 => emit(s, Op::CONV2D_INPUT_GRAD, &g, up, s.args[1]),
            _ => emit(s, Op::CONV2D_WEIGHT_GRAD, &g, s.args[0], up),
        }
    }),
    decompose: Some(forward_expand),
    cost: flops,
    cases: &[
        Case {
            args: "f[2,3,5,6] f[4,3,3,2]",
            attrs: "stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1",
            domains: &[Real],
        },
        Case {
            args: "f[2,4,7,6] f[6,2,3,3]",
            attrs: "stride=[2,1] pad=[1,0,2,1] dilation=[1,2] groups=2",
            domains: &[Real],
        },
        Case {
            args: "f[1,3,5,5] f[3,1,3,3]",
            attrs: "stride=[2,2] pad=[1,1,1,1] dilation=[1,1] groups=3",
            domains: &[Real],
        },
        Case {
            args: "f[3,2,4,4] f[5,2,1,1]",
            attrs: "stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1",
            domains: &[Real],
        },
    ],
    lower: Lower::Kernel(lower::conv2d),
    ..row(
        "conv2d",
        "y[n, o, i, j] = Σ x[n, c, i·s − p + k·d, …]·w[o, c, k, l] (cross-correlation; x NCHW, w [O, C/groups, kh, kw])",
        FORWARD,
    )
};

/// See `doc`.
pub const CONV2D_INPUT_GRAD: OpDef = OpDef {
    infer: input_infer,
    deriv: Deriv::Multilinear(|s, i, up| {
        let g = of_site(s);
        match i {
            0 => emit(s, Op::CONV2D, &g, up, s.args[1]),
            _ => emit(s, Op::CONV2D_WEIGHT_GRAD, &g, up, s.args[0]),
        }
    }),
    decompose: Some(input_expand),
    cost: flops,
    cases: &[
        Case {
            args: "f[2,4,3,5] f[4,3,3,2]",
            attrs: "in_hw=[5,6] stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1",
            domains: &[Real],
        },
        Case {
            args: "f[2,6,3,5] f[6,2,3,3]",
            attrs: "in_hw=[7,6] stride=[2,1] pad=[1,0,2,1] dilation=[1,2] groups=2",
            domains: &[Real],
        },
        Case {
            args: "f[1,3,3,3] f[3,1,2,2]",
            attrs: "in_hw=[7,7] stride=[2,2] pad=[0,0,0,0] dilation=[1,1] groups=3",
            domains: &[Real],
        },
    ],
    lower: Lower::Kernel(lower::conv2d_input_grad),
    ..row(
        "conv2d_input_grad",
        "the adjoint of conv2d in x: dx of shape [N, C, in_hw] from dy and w",
        &[IN_HW, STRIDE, PAD, DILATION, GROUPS],
    )
};

/// See `doc`.
pub const CONV2D_WEIGHT_GRAD: OpDef = OpDef {
    infer: weight_infer,
    deriv: Deriv::Multilinear(|s, i, up| {
        let g = of_site(s);
        match i {
            0 => emit(s, Op::CONV2D_INPUT_GRAD, &g, s.args[1], up),
            _ => emit(s, Op::CONV2D, &g, s.args[0], up),
        }
    }),
    decompose: Some(weight_expand),
    cost: flops,
    cases: &[
        Case {
            args: "f[2,3,5,6] f[2,4,3,5]",
            attrs: "kernel=[3,2] stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1",
            domains: &[Real],
        },
        Case {
            args: "f[2,4,7,6] f[2,6,3,5]",
            attrs: "kernel=[3,3] stride=[2,1] pad=[1,0,2,1] dilation=[1,2] groups=2",
            domains: &[Real],
        },
        Case {
            args: "f[1,3,7,7] f[1,3,3,3]",
            attrs: "kernel=[2,2] stride=[2,2] pad=[0,0,0,0] dilation=[1,1] groups=3",
            domains: &[Real],
        },
    ],
    lower: Lower::Kernel(lower::conv2d_weight_grad),
    ..row(
        "conv2d_weight_grad",
        "the adjoint of conv2d in w: dw of shape [O, C/groups, kernel] from x and dy",
        &[KERNEL, STRIDE, PAD, DILATION, GROUPS],
    )
};
