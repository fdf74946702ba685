//! Transposed convolutions over one to three axes. All decompose into the input gradient of `conv2d`. Over three axes,
//! one such gradient is computed for each position of the kernel in depth; they are dilated in depth and summed.

use crate::ensure;
use crate::kernels::window::{WindowGeometry, axis_name};
use crate::nodes::arguments::dilate::dilate;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Case, Deriv, Domain, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::window_geometry::{check_window_sizes, first_entries, sum_over_window_taps};
use crate::nodes::ops::conv::attrs::{ConvAttrs, ConvTransposeAttrs};
use crate::nodes::ops::conv::check_lists_and_operands;
use crate::nodes::ops::conv::conv_nd::{
    self, check_kernel_depth, conv1d_as_plane, flatten_windows, kernel_windows, move_depth_back, move_depth_first,
    plane_convolution, take_depth_tap,
};
use Domain::Real;

/// Each axis of a transposed convolution; `win.size` is its operand's.
fn transpose_axes<const N: usize>(
    win: &WindowGeometry<N>,
    output_pad: [usize; N],
) -> Result<[TransposedAxis; N], String> {
    let mut out = [TransposedAxis { size: 0, pad: [0; 2], zeros: 0 }; N];
    for (a, t) in out.iter_mut().enumerate() {
        let (s, d, [low, high], more) = (win.stride[a], win.dilation[a], win.pad[a], output_pad[a]);
        let (n, name) = (win.size[a], axis_name(N, a));
        let window = win.window(a)?;
        ensure!(n > 0, "the {name} of x is 0");
        ensure!(
            more == 0 || more < s.max(d),
            "output_pad {more} is not below stride {s} or dilation {d} on the {name}"
        );
        let full = (n - 1).checked_mul(s).and_then(|f| f.checked_add(window)).and_then(|f| f.checked_add(more));
        let full = full.filter(|&f| f <= i64::MAX as usize);
        let full = full.ok_or_else(|| format!("the {name} of the result overflows"))?;
        let size = low.checked_add(high).and_then(|cut| full.checked_sub(cut)).filter(|&n| n > 0);
        let size = size.ok_or_else(|| format!("padding {low} and {high} leave nothing of {name} {full}"))?;
        // The convolution gives the operand's size back while `more` is below the stride.
        let beyond = more - more.min(s - 1);
        let zeros = beyond.saturating_sub(high);
        ensure!(zeros < size, "padding {low} leaves nothing of {name} {full} but output_pad {more}");
        *t = TransposedAxis { size, pad: [low, high.saturating_sub(beyond)], zeros };
    }
    Ok(out)
}

/// A transposed convolution along one axis.
#[derive(Clone, Copy)]
struct TransposedAxis {
    /// Elements of the result.
    size: usize,
    /// Padding of the convolution whose transpose this is.
    pad: [usize; 2],
    /// Elements of `size` at the end that the transpose does not reach: they are zeros.
    zeros: usize,
}

fn infer_types<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let transpose = ConvTransposeAttrs::of(&cx.attrs);
    let a = ConvAttrs::from(transpose.clone());
    let [x, w] = check_lists_and_operands::<N>(cx, &a, ["x", "w"])?;
    check_kernel_depth::<N>(&w)?;
    let output_pad = check_window_sizes::<N>("output_pad", &transpose.output_pad)?;
    ensure!(w[0] == x[1], "w takes {} channels, x has {}", w[0], x[1]);
    let outputs = w[1].checked_mul(a.groups().max(1)).ok_or("the number of channels overflows")?;
    let groups = a.check_groups(x[1], outputs)?;
    let win = a.windows::<N>(first_entries(&x[2..]), first_entries(&w[2..]));
    let t = transpose_axes(&win, output_pad)?;
    let (size, pad) = (t.map(|t| t.size - t.zeros), t.map(|t| t.pad));
    plane_convolution(x[0], [outputs, x[1]], groups, &WindowGeometry { size, pad, ..win }).count()?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &[&[x[0], outputs], &t.map(|t| t.size)[..]].concat())
}

/// The transpose of `conv2d` with these windows, over planes of `win.size`.
fn conv_transpose2d_over<'g>(x: Var<'g>, w: Var<'g>, win: &WindowGeometry<2>, groups: i64) -> Var<'g> {
    x.g.emit1(Op::CONV2D_INPUT_GRAD, &[x, w], &ConvAttrs::new(win, groups).input_grad(win.size).list())
}

fn decompose_node<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, w) = (s.args[0], s.args[1]);
    let transpose = ConvTransposeAttrs::of(&s.attrs);
    let output_pad = first_entries(&to_size_attrs(&transpose.output_pad));
    let a = ConvAttrs::from(transpose);
    let win = kernel_windows::<N>(&a, x, w);
    let Ok(t) = transpose_axes(&win, output_pad) else { return Vec::new() };
    let two = flatten_windows(&WindowGeometry { size: t.map(|t| t.size - t.zeros), pad: t.map(|t| t.pad), ..win });
    let y = match N {
        1 => {
            let y = conv_transpose2d_over(conv1d_as_plane(x), conv1d_as_plane(w), &two, a.groups);
            let [n, o, _, l] = first_entries::<4>(&y.dims());
            y.reshape([n, o, l])
        }
        2 => conv_transpose2d_over(x, w, &two, a.groups),
        _ => {
            let depth = Depth {
                planes: win.size[0],
                taps: win.kernel[0],
                stride: win.stride[0],
                dilation: win.dilation[0],
                transposed: t[0],
            };
            conv_transpose3d_over([x, w], &a, &two, &depth)
        }
    };
    let mut high = vec![0; 2 + N];
    high.iter_mut().skip(2).zip(&t).for_each(|(h, t)| *h = t.zeros);
    vec![if high.iter().any(|&h| h > 0) { y.pad(&vec![0; 2 + N], &high, 0.0) } else { y }]
}

/// The depth of a transposed 3-D convolution.
struct Depth {
    /// Planes of the operand.
    planes: usize,
    /// Taps of the kernel.
    taps: usize,
    /// Step between two planes of the operand in the result.
    stride: usize,
    /// Distance between taps.
    dilation: usize,
    /// The axis of the result.
    transposed: TransposedAxis,
}

/// The transposed 3-D convolution without the zeros at its end. `two` are its windows over height and width.
fn conv_transpose3d_over<'g>([x, w]: [Var<'g>; 2], a: &ConvAttrs, two: &WindowGeometry<2>, depth: &Depth) -> Var<'g> {
    let &Depth { planes: d, taps: k, stride: step, dilation: far, transposed: t } = depth;
    let [n, c, _, h, wd] = first_entries::<5>(&x.dims());
    let (o, [ho, wo]) = (w.dims()[1] * a.groups(), two.size);
    let planes = move_depth_first(x).reshape([d * n, c, h, wd]);
    let size = t.size - t.zeros;
    let (reach, full) = ((d - 1) * step + 1, ((d - 1) * step + 1 + (k - 1) * far).max(t.pad[0] + size));
    let y = sum_over_window_taps((0..k).map(|tap| {
        let part = conv_transpose2d_over(planes, take_depth_tap(w, tap), two, a.groups).reshape([d, n * o * ho * wo]);
        dilate(part, &[step, 1]).pad(&[tap * far, 0], &[full - tap * far - reach, 0], 0.0)
    }));
    let y = y.map_or_else(|| x.g.full(0.0, [full, n * o * ho * wo], x.dtype()), |y| y.narrow(0, t.pad[0], size));
    move_depth_back(y, [n, o, ho, wo])
}

/// An element of the operand is multiplied by the weights of one input channel.
fn count_flops(cx: &CostCx<'_>) -> u64 {
    conv_nd::count_products(cx, cx.arg(0))
}

/// The transposed 1-D convolution.
pub const CONV_TRANSPOSE1D: OpDef = OpDef {
    cases: &[
        Case {
            args: "f[2,4,5] f[4,3,3]",
            attrs: "stride=[3] pad=[1,0] dilation=[2] groups=2 output_pad=[2]",
            domains: &[Real],
        },
        Case {
            args: "f[1,2,4] f[2,2,2]",
            attrs: "stride=[1] pad=[1,0] dilation=[3] groups=1 output_pad=[2]",
            domains: &[Real],
        },
    ],
    ..conv_nd::define_op(
        "conv_transpose1d",
        "the transpose of conv1d in x, its length (L − 1)·s − p − q + d·(k − 1) + output_pad + 1; w [C, O/groups, k]",
        ConvTransposeAttrs::FIELDS,
        infer_types::<1>,
        decompose_node::<1>,
        count_flops,
        Deriv::ViaDecompose,
    )
};

/// The transposed 2-D convolution.
pub const CONV_TRANSPOSE2D: OpDef = OpDef {
    cases: &[
        Case {
            args: "f[2,4,3,2] f[4,3,3,2]",
            attrs: "stride=[2,3] pad=[1,1,0,0] dilation=[1,1] groups=2 output_pad=[1,2]",
            domains: &[Real],
        },
        Case {
            args: "f[1,2,3,4] f[2,3,2,3]",
            attrs: "stride=[1,2] pad=[0,0,1,2] dilation=[2,1] groups=1 output_pad=[1,0]",
            domains: &[Real],
        },
    ],
    ..conv_nd::define_op(
        "conv_transpose2d",
        "the transpose of conv2d in x, with output_pad rows and columns more at the end; w [C, O/groups, kh, kw]",
        ConvTransposeAttrs::FIELDS,
        infer_types::<2>,
        decompose_node::<2>,
        count_flops,
        Deriv::ViaDecompose,
    )
};

/// The transposed 3-D convolution.
pub const CONV_TRANSPOSE3D: OpDef = OpDef {
    cases: &[
        Case {
            args: "f[2,2,3,2,3] f[2,2,2,3,2]",
            attrs: "stride=[1,1,1] pad=[0,0,0,0,0,0] dilation=[1,1,1] groups=1 output_pad=[0,0,0]",
            domains: &[Real],
        },
        Case {
            args: "f[2,4,2,3,2] f[4,1,3,2,2]",
            attrs: "stride=[2,3,1] pad=[1,1,0,1,0,0] dilation=[1,1,2] groups=2 output_pad=[1,2,1]",
            domains: &[Real],
        },
    ],
    ..conv_nd::define_op(
        "conv_transpose3d",
        "the transpose of conv3d in x, with output_pad planes, rows and columns more at the end; w [C, O/groups, kd, \
        kh, kw]",
        ConvTransposeAttrs::FIELDS,
        infer_types::<3>,
        decompose_node::<3>,
        count_flops,
        Deriv::ViaDecompose,
    )
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A transposed convolution of `n` elements along one axis: elements of the result, padding of the convolution
    /// beneath, zeros at the end.
    fn axis(
        [n, k, s, d]: [usize; 4],
        pad: [usize; 2],
        output_pad: usize,
    ) -> Result<(usize, [usize; 2], usize), String> {
        let win = WindowGeometry { size: [n], kernel: [k], stride: [s], pad: [pad], dilation: [d] };
        transpose_axes(&win, [output_pad]).map(|[t]| (t.size, t.pad, t.zeros))
    }

    #[test]
    fn elements_that_no_window_reaches_are_zeros_at_the_end() {
        for (numbers, pad, output_pad, want) in [
            // (n − 1)·s + d·(k − 1) + 1 + output_pad, less the padding.
            ([4, 3, 2, 1], [1, 1], 1, (8, [1, 1], 0)),
            ([2, 1, 3, 1], [0, 0], 2, (6, [0, 0], 0)),
            ([5, 2, 1, 1], [0, 0], 0, (6, [0, 0], 0)),
            // Of an output_pad of 2, no stride of 1 reaches an element; padding at the end takes them first.
            ([4, 2, 1, 3], [1, 0], 2, (8, [1, 0], 2)),
            ([4, 2, 1, 3], [0, 1], 2, (8, [0, 0], 1)),
            ([4, 2, 1, 3], [0, 5], 2, (4, [0, 3], 0)),
            // A stride of 2 reaches one element of three.
            ([2, 2, 2, 4], [0, 0], 3, (10, [0, 0], 2)),
            ([1, 1, 1, 3], [0, 0], 2, (3, [0, 0], 2)),
        ] {
            assert_eq!(axis(numbers, pad, output_pad), Ok(want), "{numbers:?} {pad:?} {output_pad}");
        }
        let most = i64::MAX as usize;
        assert_eq!(axis([1, 2, 1, most - 1], [0, 0], 0), Ok((most, [0, 0], 0)));
    }

    #[test]
    fn axes_that_do_not_fit_say_why() {
        for (numbers, pad, output_pad, why) in [
            ([0, 2, 1, 1], [0, 0], 0, "the length of x is 0"),
            ([3, 2, 2, 1], [0, 0], 2, "output_pad 2 is not below stride 2 or dilation 1 on the length"),
            ([3, 2, 1, 1], [0, 0], 1, "output_pad 1 is not below stride 1 or dilation 1 on the length"),
            ([2, 3, 1, 1], [2, 2], 0, "padding 2 and 2 leave nothing of length 4"),
            ([2, 3, 1, 1], [4, 3], 0, "padding 4 and 3 leave nothing of length 4"),
            ([1, 1, 1, 3], [1, 0], 2, "padding 1 leaves nothing of length 3 but output_pad 2"),
            ([1, 2, 1, i64::MAX as usize], [0, 0], 0, "the length of the result overflows"),
            ([3, 2, 1 << 63, 1], [0, 0], 0, "the length of the result overflows"),
        ] {
            assert_eq!(axis(numbers, pad, output_pad), Err(why.to_string()));
        }
    }
}
