//! 2-D convolution (cross-correlation, NCHW) and its two adjoints. Each of the three is linear in each operand, and its
//! transposes are the other two. So derivatives of any order need no further op.

use super::attrs::{ConvAttrs, ConvInputGradAttrs, ConvWeightGradAttrs};
use super::convolution;
use super::lower;
use super::{check_input_channels, check_lists_and_operands};
use crate::arena::ids::Id;
use crate::kernels::conv::ConvGeom;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::window_geometry::{PlaneTaps, check_window_sizes, first_entries, sum_over_window_taps};
use Domain::Real;

const fn define_op(name: &'static str, doc: &'static str, attrs: &'static [Field], deriv: Deriv) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(2),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv,
        batch: Batch::Members,
        lower: Lower::Expand,
        cost: |cx| cx.out(),
        cases: &[],
        ..OpDef::BLANK
    }
}

pub(super) fn infer_output_image(cx: &mut Infer<'_>, a: &ConvAttrs) -> Result<(), String> {
    let [x, w] = check_lists_and_operands::<2>(cx, a, ["x", "w"])?;
    check_input_channels(a, &x, &w)?;
    let [ho, wo] = convolution::of_dims(&x, &w, a).count()?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &[x[0], w[0], ho, wo])
}

fn infer_input_grad(cx: &mut Infer<'_>) -> Result<(), String> {
    let grad = ConvInputGradAttrs::of(&cx.attrs);
    let in_hw = grad.in_hw.clone();
    let a = ConvAttrs::from(grad);
    let [dy, w] = check_lists_and_operands::<2>(cx, &a, ["dy", "w"])?;
    let [h, wd] = check_window_sizes::<2>("in_hw", &in_hw)?;
    let c_in = w[1].checked_mul(a.groups()).ok_or("the number of channels overflows")?;
    a.check_groups(c_in, w[0])?;
    let x = [dy[0], c_in, h, wd];
    let [ho, wo] = convolution::of_dims(&x, &w, &a).count()?;
    cx.expect_dims(0, "dy", &[dy[0], w[0], ho, wo])?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &x)
}

fn infer_weight_grad(cx: &mut Infer<'_>) -> Result<(), String> {
    let grad = ConvWeightGradAttrs::of(&cx.attrs);
    let kernel = grad.kernel.clone();
    let a = ConvAttrs::from(grad);
    let [x, dy] = check_lists_and_operands::<2>(cx, &a, ["x", "dy"])?;
    let [kh, kw] = check_window_sizes::<2>("kernel", &kernel)?;
    let groups = a.check_groups(x[1], dy[1])?;
    let w = [dy[1], x[1] / groups, kh, kw];
    let [ho, wo] = convolution::of_dims(&x, &w, &a).count()?;
    cx.expect_dims(1, "dy", &[x[0], w[0], ho, wo])?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &w)
}

/// 2 operations for each product.
pub(super) fn count_flops(cx: &CostCx<'_>) -> u64 {
    let d = |i: usize| cx.graph.dims(cx.graph.args_of(cx.node)[i]);
    let c = convolution::of_node(cx.graph.op[cx.node.at()], &d(0), &d(1), &cx.graph.attrs(cx.node));
    (c.y_len() as u64).saturating_mul(2).saturating_mul(c.taps() as u64)
}

/// Channels of `x` apart by group: `[N, C, h, w]` as `[N, G, C/G, h·w]`.
fn split_groups<'g>(x: Var<'g>, groups: usize) -> Var<'g> {
    let d = x.dims();
    let [n, c, h, w] = first_entries::<4>(&d);
    x.reshape([n, groups, c / groups.max(1), h * w])
}

/// The weights of one tap by group: `[1, G, O/G, C/G]`.
fn take_tap_weights<'g>(w: Var<'g>, tap: [usize; 2], groups: usize) -> Var<'g> {
    let [o, c, _, _] = first_entries::<4>(&w.dims());
    w.narrow(2, tap[0], 1).narrow(3, tap[1], 1).reshape([1, groups, o / groups.max(1), c])
}

fn decompose_forward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let ConvGeom { n, c_out, groups, windows, .. } = convolution::of_site(s);
    let Ok(count) = windows.count() else { return Vec::new() };
    let padded = windows.pad(s.args[0], 0.0);
    let y = sum_over_window_taps(windows.taps().map(|tap| {
        let seen = split_groups(windows.tap(padded, tap, count), groups);
        take_tap_weights(s.args[1], tap, groups).matmul(seen)
    }));
    y.map(|y| y.reshape([n, c_out, count[0], count[1]])).into_iter().collect()
}

fn decompose_input_grad<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let ConvGeom { n, c_in, groups, windows, .. } = convolution::of_site(s);
    let Ok([ho, wo]) = windows.count() else { return Vec::new() };
    let dy = split_groups(s.args[0], groups);
    let dx = sum_over_window_taps(windows.taps().map(|tap| {
        let part = take_tap_weights(s.args[1], tap, groups).matmul_t(dy, true, false);
        windows.untap(part.reshape([n, c_in, ho, wo]), tap)
    }));
    dx.map(|dx| windows.crop(dx)).into_iter().collect()
}

fn decompose_weight_grad<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let ConvGeom { c_in, c_out, groups, windows, .. } = convolution::of_site(s);
    let Ok(count) = windows.count() else { return Vec::new() };
    let padded = windows.pad(s.args[0], 0.0);
    let dy = split_groups(s.args[1], groups);
    let parts: Vec<_> = windows
        .taps()
        .map(|tap| {
            let seen = split_groups(windows.tap(padded, tap, count), groups);
            dy.matmul_t(seen, false, true).sum(0).reshape([c_out, c_in / groups, 1])
        })
        .collect();
    let Some((first, rest)) = parts.split_first() else { return Vec::new() };
    let [kh, kw] = windows.kernel;
    vec![first.concat(rest, 2).reshape([c_out, c_in / groups, kh, kw])]
}

/// The 2-D convolution (cross-correlation).
pub const CONV2D: OpDef = OpDef {
    infer: |cx| {
        let a = ConvAttrs::of(&cx.attrs);
        infer_output_image(cx, &a)
    },
    batch: Batch::Rule(super::batch::convolve_members),
    decompose: Some(decompose_forward),
    cost: count_flops,
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
    flags: Flags::PURE.and(Flags::HEAVY),
    lower: Lower::Kernel(lower::emit_conv2d),
    ..define_op(
        "conv2d",
        "y[n, o, i, j] = Σ x[n, c, i·s − p + k·d, …]·w[o, c, k, l] (cross-correlation; x NCHW, w [O, C/groups, kh, \
        kw])",
        ConvAttrs::FIELDS,
        Deriv::Multilinear(|s, i, up| {
            let c = convolution::of_site(s);
            Some(match i {
                0 => convolution::input_grad(&c, up, s.args[1]),
                _ => convolution::weight_grad(&c, s.args[0], up),
            })
        }),
    )
};

/// The adjoint of [`CONV2D`] in its input.
pub const CONV2D_INPUT_GRAD: OpDef = OpDef {
    infer: infer_input_grad,
    batch: Batch::Rule(super::batch::input_grad_of_members),
    decompose: Some(decompose_input_grad),
    cost: count_flops,
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
    lower: Lower::Kernel(lower::emit_conv2d_input_grad),
    ..define_op(
        "conv2d_input_grad",
        "the adjoint of conv2d in x: dx of shape [N, C, in_hw] from dy and w",
        ConvInputGradAttrs::FIELDS,
        Deriv::Multilinear(|s, i, up| {
            let c = convolution::of_site(s);
            Some(match i {
                0 => convolution::forward(&c, up, s.args[1]),
                _ => convolution::weight_grad(&c, up, s.args[0]),
            })
        }),
    )
};

/// The adjoint of [`CONV2D`] in its weights.
pub const CONV2D_WEIGHT_GRAD: OpDef = OpDef {
    infer: infer_weight_grad,
    batch: Batch::Rule(super::batch::weight_grad_of_members),
    decompose: Some(decompose_weight_grad),
    cost: count_flops,
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
    lower: Lower::Kernel(lower::emit_conv2d_weight_grad),
    ..define_op(
        "conv2d_weight_grad",
        "the adjoint of conv2d in w: dw of shape [O, C/groups, kernel] from x and dy",
        ConvWeightGradAttrs::FIELDS,
        Deriv::Multilinear(|s, i, up| {
            let c = convolution::of_site(s);
            Some(match i {
                0 => convolution::input_grad(&c, s.args[1], up),
                _ => convolution::forward(&c, s.args[0], up),
            })
        }),
    )
};
