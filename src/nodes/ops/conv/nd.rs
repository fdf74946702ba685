//! Convolutions over one and three axes, and transposed ones over one to three. All are written in `conv2d` and its
//! adjoints: one axis is a plane of height 1, and three axes are a sum over the taps in depth, each a 2-D convolution of
//! all depths at once.

use crate::ensure;
use crate::kernels::conv::ConvGeom;
use crate::nodes::build::axes::to_i64s;
use crate::nodes::ir::attrs::{Attr, Attrs, Field, Kind};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Cost, Deriv, Domain, Expand, Flags, Lower, Op, OpDef, Site};
use crate::nodes::ops::common::slide::{Slide, axis_name, pad_field, pairs, plane_of};
use crate::nodes::ops::common::window::{DILATION, PAD, STRIDE, array, sizes, sum};
use crate::nodes::ops::conv::check_groups;
use crate::nodes::ops::layout::dilate;
use Domain::Real;

const GROUPS: Field = Field::new("groups", Kind::Int);
const OUTPUT_PAD: Field = Field::new("output_pad", Kind::Ints);
const PLAIN: &[Field] = &[STRIDE, PAD, DILATION, GROUPS];
const TURNED: &[Field] = &[STRIDE, PAD, DILATION, GROUPS, OUTPUT_PAD];

const fn row(
    name: &'static str,
    doc: &'static str,
    attrs: &'static [Field],
    infer: fn(&mut Infer<'_>) -> Result<(), String>,
    expand: Expand,
    cost: Cost,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(2),
        attrs,
        flags: Flags::PURE,
        infer,
        deriv: Deriv::ViaDecompose,
        decompose: Some(expand),
        lower: Lower::Expand,
        cost,
        cases: &[],
    }
}

/// Checks two operands of rank `N` + 2 and one float type, and the lists at fields 0 to 2.
fn operands<const N: usize>(cx: &Infer<'_>) -> Result<[Vec<usize>; 2], String> {
    cx.float(0)?;
    cx.same_dtype(0, 1)?;
    sizes::<N>(cx, 0)?;
    pad_field::<N>(cx, 1)?;
    sizes::<N>(cx, 2)?;
    let (x, w) = (cx.rank(0, "x", N + 2)?.to_vec(), cx.rank(1, "w", N + 2)?.to_vec());
    ensure!(N < 3 || w[2] <= DEEPEST, "the kernel's depth {} is above {DEEPEST}: each is a convolution", w[2]);
    Ok([x, w])
}

/// Deepest kernel over three axes.
const DEEPEST: usize = 1 << 10;

/// The windows over axes of these sizes, with kernel and attributes as given.
fn windows<const N: usize>(size: &[usize], kernel: &[usize], a: &Attrs<'_>) -> Slide<N> {
    let (stride, dilation) = (array(&a.sizes(0)), array(&a.sizes(2)));
    Slide { size: array(size), kernel: array(kernel), stride, pad: pairs(&a.sizes(1)), dilation }
}

/// The 2-D convolution beneath: windows over the last axes of so many images, from and to `c` channels.
fn beneath<const N: usize>(images: usize, c: [usize; 2], groups: usize, win: &Slide<N>) -> ConvGeom {
    let Slide { size: [h, w], kernel: [kh, kw], stride, pad, dilation } = flat(win).tight();
    let pad = array(pad.as_flattened());
    ConvGeom { n: images, c_in: c[0], h, w, c_out: c[1], kh, kw, stride, pad, dilation, groups }
}

/// The last two axes of the windows; a plane of height 1 where there is one.
fn flat<const N: usize>(win: &Slide<N>) -> Slide<2> {
    plane_of(win, if N == 1 { [None, Some(0)] } else { [Some(N - 2), Some(N - 1)] })
}

fn plain_infer<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let [x, w] = operands::<N>(cx)?;
    let groups = check_groups(cx, 3, x[1], w[0])?;
    ensure!(w[1] == x[1] / groups, "w takes {} channels a group, x has {} in {groups} groups", w[1], x[1]);
    let win = windows::<N>(&x[2..], &w[2..], &cx.attrs);
    let count = win.count()?;
    let images = if N == 3 { x[0].checked_mul(count[0]).ok_or("the number of planes overflows")? } else { x[0] };
    beneath(images, [x[1], w[0]], groups, &win).validate()?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &[&[x[0], w[0]], &count[..]].concat())
}

/// `conv2d` of a plane's windows.
fn conv2d<'g>(s: &Site<'_, 'g>, x: Var<'g>, w: Var<'g>, win: &Slide<2>) -> Var<'g> {
    let [_, stride, pad, dilation] = win.lists();
    let attrs = [Attr::Ints(&stride), Attr::Ints(&pad), Attr::Ints(&dilation), Attr::Int(s.attrs.int(3))];
    s.g.emit1(Op::CONV2D, &[x, w], &attrs)
}

/// A plane of height 1.
fn lie<'g>(x: Var<'g>) -> Var<'g> {
    let [a, b, l] = array::<3>(&x.dims());
    x.reshape([a, b, 1, l])
}

fn conv1d_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, w) = (s.args[0], s.args[1]);
    let win = windows::<1>(&x.dims()[2..], &w.dims()[2..], &s.attrs);
    let y = conv2d(s, lie(x), lie(w), &flat(&win));
    let [n, o, _, l] = array::<4>(&y.dims());
    vec![y.reshape([n, o, l])]
}

/// `[N, C, D, H, W]` as `[D, N·C·H·W]`: what one tap in depth sees is then a run of planes, no copy.
fn depth_first<'g>(x: Var<'g>) -> Var<'g> {
    let [n, c, d, h, w] = array::<5>(&x.dims());
    x.transpose(&[2, 0, 1, 3, 4]).reshape([d, n * c * h * w])
}

/// The inverse of [`depth_first`].
fn depth_back<'g>(x: Var<'g>, [n, c, h, w]: [usize; 4]) -> Var<'g> {
    let d = x.dims().first().copied().unwrap_or(0);
    x.reshape([d, n, c, h * w]).transpose(&[1, 2, 0, 3]).reshape([n, c, d, h, w])
}

/// The weights of one tap in depth.
fn depth_tap<'g>(w: Var<'g>, k: usize) -> Var<'g> {
    let [a, b, d, kh, kw] = array::<5>(&w.dims());
    w.transpose(&[2, 0, 1, 3, 4]).reshape([d, a * b * kh * kw]).narrow(0, k, 1).reshape([a, b, kh, kw])
}

fn conv3d_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, w) = (s.args[0], s.args[1]);
    let [n, c, d, h, wd] = array::<5>(&x.dims());
    let win = windows::<3>(&[d, h, wd], &w.dims()[2..], &s.attrs);
    let Ok([depth, ho, wo]) = win.count() else { return Vec::new() };
    let ([low, high], stride, plane) = (win.pad[0], win.stride[0], n * c * h * wd);
    let padded = depth_first(x).pad(&[low, 0], &[high, 0], 0.0);
    let start = |k: usize| k * win.dilation[0];
    let end = |k: usize| start(k) + (depth - 1) * stride + 1;
    // A tap that sees padding alone adds nothing.
    let seen = |k: &usize| end(*k) > low && start(*k) < low + d;
    let y = sum((0..win.kernel[0]).filter(seen).map(|k| {
        let part = padded.slice(&[start(k), 0], &[end(k), plane], &[stride, 1]);
        conv2d(s, part.reshape([depth * n, c, h, wd]), depth_tap(w, k), &flat(&win))
    }));
    let o = w.dims()[0];
    match y {
        Some(y) => vec![depth_back(y.reshape([depth, n * o * ho * wo]), [n, o, ho, wo])],
        None => vec![s.g.full(0.0, [n, o, depth, ho, wo], x.dtype())],
    }
}

/// A transposed convolution along one axis.
#[derive(Clone, Copy)]
struct Turned {
    /// Elements of the result.
    size: usize,
    /// Padding of the convolution that it is the transpose of.
    pad: [usize; 2],
    /// Elements of `size` at the end that the transpose does not reach: they are zeros.
    zeros: usize,
}

/// Each axis of a transposed convolution; `win.size` is its operand's.
fn turned<const N: usize>(win: &Slide<N>, output_pad: [usize; N]) -> Result<[Turned; N], String> {
    let mut out = [Turned { size: 0, pad: [0; 2], zeros: 0 }; N];
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
        *t = Turned { size, pad: [low, high.saturating_sub(beyond)], zeros };
    }
    Ok(out)
}

fn turned_infer<const N: usize>(cx: &mut Infer<'_>) -> Result<(), String> {
    let [x, w] = operands::<N>(cx)?;
    let output_pad = sizes::<N>(cx, 4)?;
    ensure!(w[0] == x[1], "w takes {} channels, x has {}", w[0], x[1]);
    let groups = usize::try_from(cx.attrs.int(3)).unwrap_or(0);
    let outputs = w[1].checked_mul(groups.max(1)).ok_or("the number of channels overflows")?;
    check_groups(cx, 3, x[1], outputs)?;
    let win = windows::<N>(&x[2..], &w[2..], &cx.attrs);
    let t = turned(&win, output_pad)?;
    let (size, pad) = (t.map(|t| t.size - t.zeros), t.map(|t| t.pad));
    let images = if N == 3 { x[0].checked_mul(x[2]).ok_or("the number of planes overflows")? } else { x[0] };
    beneath(images, [outputs, x[1]], groups, &Slide { size, pad, ..win }).validate()?;
    let dtype = cx.dtype(0);
    cx.result(dtype, &[&[x[0], outputs], &t.map(|t| t.size)[..]].concat())
}

/// The transpose of `conv2d` with these windows, over planes of `win.size`.
fn conv2d_back<'g>(s: &Site<'_, 'g>, x: Var<'g>, w: Var<'g>, win: &Slide<2>) -> Var<'g> {
    let ([_, stride, pad, dilation], size) = (win.lists(), to_i64s(&win.size));
    let lists = [&size, &stride, &pad, &dilation].map(|l| Attr::Ints(l));
    s.g.emit1(Op::CONV2D_INPUT_GRAD, &[x, w], &[&lists[..], &[Attr::Int(s.attrs.int(3))]].concat())
}

fn turned_expand<'g, const N: usize>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, w) = (s.args[0], s.args[1]);
    let win = windows::<N>(&x.dims()[2..], &w.dims()[2..], &s.attrs);
    let Ok(t) = turned(&win, array(&s.attrs.sizes(4))) else { return Vec::new() };
    let two = flat(&Slide { size: t.map(|t| t.size - t.zeros), pad: t.map(|t| t.pad), ..win });
    let y = match N {
        1 => {
            let y = conv2d_back(s, lie(x), lie(w), &two);
            let [n, o, _, l] = array::<4>(&y.dims());
            y.reshape([n, o, l])
        }
        2 => conv2d_back(s, x, w, &two),
        _ => turned3d(s, &two, [win.size[0], win.kernel[0], win.stride[0], win.dilation[0]], &t[0]),
    };
    let mut high = vec![0; 2 + N];
    high.iter_mut().skip(2).zip(&t).for_each(|(h, t)| *h = t.zeros);
    vec![if high.iter().any(|&h| h > 0) { y.pad(&vec![0; 2 + N], &high, 0.0) } else { y }]
}

/// The transposed 3-D convolution without the zeros at its end: `[depths, taps, step, distance]` in depth.
fn turned3d<'g>(s: &Site<'_, 'g>, two: &Slide<2>, [d, k, step, far]: [usize; 4], t: &Turned) -> Var<'g> {
    let (x, w) = (s.args[0], s.args[1]);
    let [n, c, _, h, wd] = array::<5>(&x.dims());
    let (o, [ho, wo]) = (w.dims()[1] * s.attrs.size(3), two.size);
    let planes = depth_first(x).reshape([d * n, c, h, wd]);
    let size = t.size - t.zeros;
    let (reach, full) = ((d - 1) * step + 1, ((d - 1) * step + 1 + (k - 1) * far).max(t.pad[0] + size));
    let y = sum((0..k).map(|tap| {
        let part = conv2d_back(s, planes, depth_tap(w, tap), two).reshape([d, n * o * ho * wo]);
        dilate(part, &[step, 1]).pad(&[tap * far, 0], &[full - tap * far - reach, 0], 0.0)
    }));
    let y = y.map_or_else(|| s.g.full(0.0, [full, n * o * ho * wo], x.dtype()), |y| y.narrow(0, t.pad[0], size));
    depth_back(y, [n, o, ho, wo])
}

fn dims(cx: &CostCx<'_>, i: usize) -> Vec<usize> {
    cx.graph.dims(cx.graph.args_of(cx.node)[i]).to_vec()
}

/// 2 operations for each product of an element, of which there are so many, and the weights that it meets.
fn products(cx: &CostCx<'_>, elements: u64) -> u64 {
    let met = dims(cx, 1)[1..].iter().fold(2u64, |n, &d| n.saturating_mul(d as u64));
    elements.saturating_mul(met)
}

/// An element of the result meets the weights of one output.
fn plain_cost(cx: &CostCx<'_>) -> u64 {
    products(cx, cx.out())
}

/// An element of the operand meets the weights of one input.
fn turned_cost(cx: &CostCx<'_>) -> u64 {
    products(cx, cx.arg(0))
}

/// See `doc`.
pub const CONV1D: OpDef = OpDef {
    cases: &[
        Case { args: "f[2,4,9] f[6,2,3]", attrs: "stride=[2] pad=[1,2] dilation=[2] groups=2", domains: &[Real] },
        Case { args: "f[2,3,5] f[4,3,1]", attrs: "stride=[1] pad=[0,0] dilation=[1] groups=1", domains: &[Real] },
    ],
    ..row(
        "conv1d",
        "y[n, o, i] = Σ x[n, c, i·s − p + k·d]·w[o, c, k] (cross-correlation; x [N, C, L], w [O, C/groups, k])",
        PLAIN,
        plain_infer::<1>,
        conv1d_expand,
        plain_cost,
    )
};

/// See `doc`.
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
    ..row(
        "conv3d",
        "y[n, o, h, i, j] = Σ x[n, c, h·s − p + k·d, …]·w[o, c, k, …] (x [N, C, D, H, W], w [O, C/groups, kd, kh, kw])",
        PLAIN,
        plain_infer::<3>,
        conv3d_expand,
        plain_cost,
    )
};

/// See `doc`.
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
    ..row(
        "conv_transpose1d",
        "the transpose of conv1d in x, its length (L − 1)·s − p − q + d·(k − 1) + output_pad + 1; w [C, O/groups, k]",
        TURNED,
        turned_infer::<1>,
        turned_expand::<1>,
        turned_cost,
    )
};

/// See `doc`.
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
    ..row(
        "conv_transpose2d",
        "the transpose of conv2d in x, with output_pad rows and columns more at the end; w [C, O/groups, kh, kw]",
        TURNED,
        turned_infer::<2>,
        turned_expand::<2>,
        turned_cost,
    )
};

/// See `doc`.
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
    ..row(
        "conv_transpose3d",
        "the transpose of conv3d in x, with output_pad planes, rows and columns more at the end; w [C, O/groups, kd, kh, kw]",
        TURNED,
        turned_infer::<3>,
        turned_expand::<3>,
        turned_cost,
    )
};
