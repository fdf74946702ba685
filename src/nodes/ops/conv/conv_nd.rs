//! Convolutions over one and three axes, and what they share with transposed ones. All decompose into `conv2d`. A 1-D
//! convolution is a 2-D one of height 1. A 3-D convolution is a sum over the kernel's positions in depth; each term is
//! one 2-D convolution, with the depths as part of the batch.

use crate::ensure;
use crate::kernels::conv::ConvGeom;
use crate::kernels::window::WindowGeometry;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Cost, Deriv, Domain, Expand, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::window_geometry::{first_entries, sum_over_window_taps};
use crate::nodes::ops::conv::attrs::ConvAttrs;
use crate::nodes::ops::conv::{check_input_channels, check_lists_and_operands};
use Domain::Real;

pub(super) const fn define_op(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    infer: fn(&mut Infer<'_>) -> Result<(), String>,
    expand: Expand,
    cost: Cost,
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(2),
        attrs,
        flags: Flags::PURE,
        infer,
        deriv,
        batch: Batch::ViaDecompose,
        decompose: Some(expand),
        lower: Lower::Expand,
        cost,
        cases: &[],
        ..OpDef::BLANK
    }
}

/// Checks the depth of a kernel over three axes.
pub(super) fn check_kernel_depth<const N: usize>(w: &[usize]) -> Result<(), String> {
    ensure!(N < 3 || w[2] <= DEEPEST, "the kernel's depth {} is above {DEEPEST}: each is a convolution", w[2]);
    Ok(())
}

/// Deepest kernel over three axes.
const DEEPEST: usize = 1 << 10;

/// The 2-D convolution that computes it: windows over the last axes of `n` images, from and to `c` channels.
pub(super) fn plane_convolution<const N: usize>(
    n: usize,
    c: [usize; 2],
    groups: usize,
    win: &WindowGeometry<N>,
) -> ConvGeom {
    ConvGeom { n, c_in: c[0], c_out: c[1], groups, windows: flatten_windows(win).tight(), winograd: false }
}

/// The last two axes of the windows; a plane of height 1 where there is one.
pub(super) fn flatten_windows<const N: usize>(win: &WindowGeometry<N>) -> WindowGeometry<2> {
    win.on_plane(if N == 1 { [None, Some(0)] } else { [Some(N - 2), Some(N - 1)] })
}

fn infer_types<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = ConvAttrs::of(&cx.attrs);
    let [x, w] = check_lists_and_operands::<N>(cx, &a, ["x", "w"])?;
    check_kernel_depth::<N>(&w)?;
    check_input_channels(&a, &x, &w)?;
    let win = a.windows::<N>(first_entries(&x[2..]), first_entries(&w[2..]));
    let count = win.count()?;
    plane_convolution(x[0], [x[1], w[0]], a.groups(), &win).count()?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &[&[x[0], w[0]], &count[..]].concat())
}

/// The windows of the kernel `w` over the axes of `x`.
pub(super) fn kernel_windows<const N: usize>(a: &ConvAttrs, x: Var<'_>, w: Var<'_>) -> WindowGeometry<N> {
    a.windows(first_entries(&x.dims()[2..]), first_entries(&w.dims()[2..]))
}

/// `conv2d` with these windows.
fn convolve_plane<'g>(x: Var<'g>, w: Var<'g>, win: &WindowGeometry<2>, groups: i64) -> Var<'g> {
    x.g.emit1(Op::CONV2D, &[x, w], &ConvAttrs::new(win, groups).list())
}

/// `[a, b, l]` as planes of height 1.
pub(super) fn conv1d_as_plane<'g>(x: Var<'g>) -> Var<'g> {
    let [a, b, l] = first_entries::<3>(&x.dims());
    x.reshape([a, b, 1, l])
}

fn decompose_conv1d<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, w) = (s.args[0], s.args[1]);
    let a = ConvAttrs::of(&s.attrs);
    let y = convolve_plane(
        conv1d_as_plane(x),
        conv1d_as_plane(w),
        &flatten_windows(&kernel_windows::<1>(&a, x, w)),
        a.groups,
    );
    let [n, o, _, l] = first_entries::<4>(&y.dims());
    vec![y.reshape([n, o, l])]
}

/// `[N, C, D, H, W]` as `[D, N·C·H·W]`: the planes under one tap in depth are then contiguous.
pub(super) fn move_depth_first<'g>(x: Var<'g>) -> Var<'g> {
    let [n, c, d, h, w] = first_entries::<5>(&x.dims());
    x.transpose(&[2, 0, 1, 3, 4]).reshape([d, n * c * h * w])
}

/// The inverse of [`move_depth_first`].
pub(super) fn move_depth_back<'g>(x: Var<'g>, [n, c, h, w]: [usize; 4]) -> Var<'g> {
    let d = x.dims().first().copied().unwrap_or(0);
    x.reshape([d, n, c, h * w]).transpose(&[1, 2, 0, 3]).reshape([n, c, d, h, w])
}

/// The weights of one tap in depth.
pub(super) fn take_depth_tap<'g>(w: Var<'g>, k: usize) -> Var<'g> {
    let [a, b, d, kh, kw] = first_entries::<5>(&w.dims());
    w.transpose(&[2, 0, 1, 3, 4]).reshape([d, a * b * kh * kw]).narrow(0, k, 1).reshape([a, b, kh, kw])
}

fn decompose_conv3d<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, w) = (s.args[0], s.args[1]);
    let [n, c, d, h, wd] = first_entries::<5>(&x.dims());
    let a = ConvAttrs::of(&s.attrs);
    let win = kernel_windows::<3>(&a, x, w);
    let Ok([depth, ho, wo]) = win.count() else { return Vec::new() };
    let ([low, high], stride, plane) = (win.pad[0], win.stride[0], n * c * h * wd);
    let padded = move_depth_first(x).pad(&[low, 0], &[high, 0], 0.0);
    let start = |k: usize| k * win.dilation[0];
    let end = |k: usize| start(k) + (depth - 1) * stride + 1;
    // A tap that sees padding alone adds nothing.
    let seen = |k: &usize| end(*k) > low && start(*k) < low + d;
    let y = sum_over_window_taps((0..win.kernel[0]).filter(seen).map(|k| {
        let part = padded.slice(&[start(k), 0], &[end(k), plane], &[stride, 1]);
        convolve_plane(part.reshape([depth * n, c, h, wd]), take_depth_tap(w, k), &flatten_windows(&win), a.groups)
    }));
    let o = w.dims()[0];
    match y {
        Some(y) => vec![move_depth_back(y.reshape([depth, n * o * ho * wo]), [n, o, ho, wo])],
        None => vec![s.g.full(0.0, [n, o, depth, ho, wo], x.dtype())],
    }
}

fn operand_dims(cx: &CostCx<'_>, i: usize) -> Vec<usize> {
    cx.graph.dims(cx.graph.args_of(cx.node)[i]).to_vec()
}

/// 2 operations for each product of one of `elements` elements and a weight.
pub(super) fn count_products(cx: &CostCx<'_>, elements: u64) -> u64 {
    let met = operand_dims(cx, 1)[1..].iter().fold(2u64, |n, &d| n.saturating_mul(d as u64));
    elements.saturating_mul(met)
}

/// An element of the result is multiplied by the weights of one output channel.
fn count_flops(cx: &CostCx<'_>) -> u64 {
    count_products(cx, cx.out())
}

/// The 1-D convolution, by way of the 2-D one.
pub const CONV1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,4,9] f[6,2,3]", attrs: "stride=[2] pad=[1,2] dilation=[2] groups=2", domains: &[Real] },
        Case { args: "f[2,3,5] f[4,3,1]", attrs: "stride=[1] pad=[0,0] dilation=[1] groups=1", domains: &[Real] },
    ],
    ..define_op(
        "conv1d",
        "y[n, o, i] = Σ x[n, c, i·s − p + k·d]·w[o, c, k] (cross-correlation; x [N, C, L], w [O, C/groups, k])",
        ConvAttrs::FIELDS,
        infer_types::<1>,
        decompose_conv1d,
        count_flops,
        Deriv::ViaDecompose,
    )
};

/// The 3-D convolution, as a sum of 2-D ones over the taps in depth.
pub const CONV3D: OpDef = OpDef {
    cases: &[
        Case {
            args: "f[2,2,3,4,3] f[3,2,2,3,2]",
            attrs: "stride=[1,1,1] pad=[0,0,0,0,0,0] dilation=[1,1,1] groups=1",
            domains: &[Real],
        },
        Case {
            args: "f[2,4,5,4,5] f[2,2,2,2,3]",
            attrs: "stride=[2,1,2] pad=[1,2,0,1,1,1] dilation=[2,1,1] groups=2",
            domains: &[Real],
        },
        Case {
            args: "f[1,2,1,3,3] f[2,1,3,2,2]",
            attrs: "stride=[1,1,2] pad=[1,1,0,0,0,0] dilation=[1,1,1] groups=2",
            domains: &[Real],
        },
    ],
    ..define_op(
        "conv3d",
        "y[n, o, h, i, j] = Σ x[n, c, h·s − p + k·d, …]·w[o, c, k, …] (x [N, C, D, H, W], w [O, C/groups, kd, kh, kw])",
        ConvAttrs::FIELDS,
        infer_types::<3>,
        decompose_conv3d,
        count_flops,
        Deriv::ViaDecompose,
    )
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::ids::Id;
    use crate::nodes::ir::attrs::Attr;
    use crate::nodes::ir::builder::Builder;
    use crate::nodes::ir::dtype::DType;
    use crate::nodes::ops::conv::attrs::ConvTransposeAttrs;

    fn cost_of(op: Op, x: &[usize], w: &[usize], attrs: &[Attr<'_>]) -> u64 {
        let g = Builder::new("cost");
        let y = g.emit1(op, &[g.input("x", x, DType::F32), g.input("w", w, DType::F32)], attrs);
        let graph = g.finish([y]).unwrap();
        let view = graph.view();
        let node = view.region_nodes(view.entry()).find(|n| view.op[n.at()] == op).unwrap();
        (view.def_of(node).cost)(&CostCx { graph: view, node })
    }

    #[test]
    fn a_multiplication_and_an_addition_count_for_each_product() {
        let plain = ConvAttrs { stride: vec![2], pad: vec![1, 2], dilation: vec![2], groups: 2 };
        // 2·6·4 results of 2·3 products each.
        assert_eq!(cost_of(Op::CONV1D, &[2, 4, 9], &[6, 2, 3], &plain.list()), 2 * 48 * 6);
        let three = ConvAttrs { stride: vec![1; 3], pad: vec![0; 6], dilation: vec![1; 3], groups: 1 };
        // 2·3·2·2·2 results of 2·2·3·2 products each.
        assert_eq!(cost_of(Op::CONV3D, &[2, 2, 3, 4, 3], &[3, 2, 2, 3, 2], &three.list()), 2 * 48 * 24);
        let ConvAttrs { pad, dilation, groups, .. } = plain;
        let transposed = ConvTransposeAttrs { stride: vec![2], pad, dilation, groups, output_pad: vec![0] };
        // 2·4·5 elements meet 3·3 weights each.
        assert_eq!(cost_of(Op::CONV_TRANSPOSE1D, &[2, 4, 5], &[4, 3, 3], &transposed.list()), 2 * 40 * 9);
    }
}
