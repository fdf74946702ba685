//! One test a defect that engines of this kind have had, at the point where it shows: ties, zeros, attributes that a
//! rule drops, element types that a cast loses. Each compares with a number worked out by hand or with the definition.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{PLAIN, Tensor, run};
use arenagrad::error::Location;
use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Builder, DType, GraphBuf, Init, Var};
use arenagrad::graph::{GradOptions, grad, hvp, jvp, nth_grad};
use arenagrad::op::Op;
use arenagrad::session::Session;
use arenagrad::tools::ops::blocks::attrs::{AttentionBlockAttrs, SwigluAttrs};
use arenagrad::tools::passes::ad::prepare::decompose_fully;
use arenagrad::tools::passes::{pipeline, unfuse};

const F64: DType = DType::F64;

/// A bool is a byte that is 0 or 1, wherever bytes come from.
#[test]
fn bytes_that_are_no_bool_are_refused() {
    let text = |byte: &str| format!("graph @g {{\n  %c = constant data=0x0001{byte} : bool[3]\n  return y=%c\n}}\n");
    assert!(arenagrad::tools::ir::text::parse(&text("01")).is_ok());
    let e = arenagrad::tools::ir::text::parse(&text("02")).err().unwrap().to_string();
    assert!(e.contains("element 2 is 2; a bool is 0 or 1"), "{e}");
    let g = Builder::new("g");
    let e = g.finish([g.constant_bytes(&[1, 7], [2], DType::Bool)]).err().unwrap().to_string();
    assert!(e.contains("element 1 is 7; a bool is 0 or 1"), "{e}");
    let g = Builder::new("g");
    let m = g.input("m", [2], DType::Bool);
    let mut p = Session::new().compile(&g.finish([m.logical_not().named("y")]).unwrap()).unwrap();
    let slot = p.input::<u8>("m").unwrap();
    let e = p.write(slot, &[0, 2]).unwrap_err().to_string();
    assert_eq!(e, "element 1 of input \"m\" is 2; a bool is 0 or 1");
    p.write(slot, &[0, 1]).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<u8>("y").unwrap(), [1, 0]);
}

/// The index −1 of a pool is no element, in the kernels and in what the ops decompose to.
#[test]
fn a_window_without_an_element_has_no_share() {
    let text = "graph @g {
  %x = input : f64[1,1,2,2]
  %dy = input : f64[1,1,1,3]
  %at = input : i32[1,1,1,3]
  %y = max_pool2d_gather %x, %at : f64[1,1,1,3]
  %dx = max_pool2d_backward %dy, %at in_hw=[2,2] : f64[1,1,2,2]
  return y=%y, dx=%dx
}
";
    let graph = arenagrad::tools::ir::text::parse(text).unwrap();
    let at = Tensor { dtype: DType::I32, dims: vec![1, 1, 1, 3], data: vec![3.0, -1.0, 0.0] };
    let inputs = [tensor(&[1, 1, 2, 2], &[5.0, 6.0, 7.0, 8.0]), tensor(&[1, 1, 1, 3], &[1.0, 2.0, 3.0]), at];
    for g in [&graph, &decompose_fully(&graph).unwrap()] {
        let outs = run(g, &inputs, PLAIN);
        assert_eq!((&outs[0].data[..], &outs[1].data[..]), (&[8.0, 0.0, 5.0][..], &[3.0, 0.0, 0.0, 1.0][..]));
    }
}

fn tensor(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: dims.to_vec(), data: data.to_vec() }
}

/// The graph of a scalar function of one f64 vector.
fn of_vector(n: usize, f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("f");
    let x = g.param("x", [n], F64, Init::Zeros);
    g.finish([f(x).named("loss")]).unwrap()
}

/// The gradient at `x`, which forward mode must agree with along every axis.
fn gradient(g: &GraphBuf, x: &[f64]) -> Vec<f64> {
    let back = grad(g, "loss", &GradOptions::wrt(&["x"])).unwrap();
    let mut outs = run(&back, &[tensor(&[x.len()], x)], PLAIN);
    let forward = jvp(g, &["loss"], &["x"]).unwrap();
    let by_axis: Vec<f64> = (0..x.len())
        .map(|i| {
            let axis: Vec<f64> = (0..x.len()).map(|j| f64::from(u8::from(i == j))).collect();
            run(&forward, &[tensor(&[x.len()], x), tensor(&[x.len()], &axis)], PLAIN).pop().unwrap().data[0]
        })
        .collect();
    let reverse = outs.pop().unwrap().data;
    assert!(crate::common::conform_distance(&by_axis, &reverse) < 1e-14, "forward {by_axis:?}, reverse {reverse:?}");
    reverse
}

#[test]
fn products_have_gradients_at_zeros() {
    let g = of_vector(4, |x| x.prod(..));
    assert_eq!(gradient(&g, &[2.0, 0.0, 3.0, 4.0]), [0.0, 24.0, 0.0, 0.0]);
    assert_eq!(gradient(&g, &[0.0, 0.0, 3.0, 4.0]), [0.0; 4]);
    let g = of_vector(3, |x| x.cumprod(0, false, false).sum(..));
    assert_eq!(gradient(&g, &[0.0, 5.0, 7.0]), [41.0, 0.0, 0.0]);
}

#[test]
fn the_gradients_of_ties_sum_to_the_upstream() {
    for g in [of_vector(4, |x| x.amax(..) * 3.0), of_vector(4, |x| (-x).amin(..) * -3.0)] {
        let d = gradient(&g, &[1.0, 2.0, 2.0, 0.5]);
        assert_eq!(d, [0.0, 1.5, 1.5, 0.0]);
    }
    let g = of_vector(2, |x| x.narrow(0, 0, 1).maximum(x.narrow(0, 1, 1)).sum(..));
    assert_eq!(gradient(&g, &[2.0, 2.0]).iter().sum::<f64>(), 1.0);
}

#[test]
fn powers_of_zero_and_of_negative_bases() {
    let g = of_vector(3, |x| x.pow(2.0).sum(..));
    assert_eq!(gradient(&g, &[0.0, -3.0, 2.0]), [0.0, -6.0, 4.0]);
    let g = of_vector(2, |x| x.pow(x.full_like(3.0).stop_gradient()).sum(..));
    assert_eq!(gradient(&g, &[0.0, -2.0]), [0.0, 12.0]);
    // The exponent's own gradient at a zero base is zero where the base's power is.
    let g = of_vector(1, |x| x.full_like(0.0).pow(x).sum(..));
    assert_eq!(gradient(&g, &[2.0]), [0.0]);
}

#[test]
fn reductions_over_axes_that_are_not_neighbours() {
    let g = Builder::new("f");
    let x = g.input("x", [2, 3, 2], F64);
    let y = g.finish([x.sum([0, 2]).named("s"), x.amax([0, 2]).named("m")]).unwrap();
    let data: Vec<f64> = (0..12).map(f64::from).collect();
    let outs = run(&y, &[tensor(&[2, 3, 2], &data)], PLAIN);
    assert_eq!(outs[0].data, [14.0, 22.0, 30.0]);
    assert_eq!(outs[1].data, [7.0, 9.0, 11.0]);
}

#[test]
fn a_last_axis_of_one_broadcasts_by_rows() {
    let g = Builder::new("f");
    let (x, r) = (g.input("x", [2, 3], F64), g.input("r", [2, 1], F64));
    let y = g.finish([(x + r).named("y"), (x / r).tanh().named("z")]).unwrap();
    let outs = run(&y, &[tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), tensor(&[2, 1], &[10.0, 20.0])], PLAIN);
    assert_eq!(outs[0].data, [11.0, 12.0, 13.0, 24.0, 25.0, 26.0]);
    assert!((outs[1].data[3] - (4.0f64 / 20.0).tanh()).abs() < 1e-15);
}

#[test]
fn casts_convert_between_every_pair_of_types() {
    use DType::{Bool, F32, I8, I32, I64, U8, U32};
    let all = [F32, F64, I8, U8, I32, I64, U32, Bool];
    for from in all {
        for to in all {
            let g = Builder::new("f");
            let y = g.input("x", [4], from).cast(to).named("y");
            let y = g.finish([y]).unwrap();
            let data: &[f64] = if from == Bool { &[0.0, 1.0, 1.0, 0.0] } else { &[0.0, 1.0, 7.0, 100.0] };
            let got = run(&y, &[Tensor { dtype: from, dims: vec![4], data: data.to_vec() }], PLAIN);
            let want: Vec<f64> =
                data.iter().map(|&x| if to == Bool { f64::from(u8::from(x != 0.0)) } else { x }).collect();
            assert_eq!(got[0].data, want, "{from} to {to}");
        }
    }
}

/// Comparisons make bytes; gradients through them must not read the bytes as floats.
#[test]
fn element_wise_extremes_pass_their_gradients_on() {
    let g = of_vector(4, |x| x.maximum(0.0).minimum(2.0).sum(..));
    assert_eq!(gradient(&g, &[-1.0, 0.5, 1.5, 3.0]), [0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn wide_integers_stay_exact() {
    let g = Builder::new("f");
    let x = g.input("x", [2], DType::I64);
    let y = g.finish([(x + x.full_like(1.0)).named("y"), x.equal(x + x.full_like(1.0)).named("same")]).unwrap();
    let big = f64::from(1 << 24);
    let outs = run(&y, &[Tensor { dtype: DType::I64, dims: vec![2], data: vec![big, 3.0 * big] }], PLAIN);
    assert_eq!(outs[0].data, [big + 1.0, 3.0 * big + 1.0]);
    assert_eq!(outs[1].data, [0.0, 0.0]);
}

/// A factor kept in f32 would show in the ninth digit.
#[test]
fn constants_have_the_type_of_what_they_meet() {
    let g = of_vector(3, |x| x.mean(..) * 0.1);
    let d = gradient(&g, &[1.0, 2.0, 3.0]);
    assert!((d[0] - 0.1 / 3.0).abs() < 1e-17, "{}", d[0]);
}

#[test]
fn second_derivatives_of_convolutions_reach_the_weights() {
    let g = Builder::new("conv");
    let x = g.param("x", [1, 1, 3, 3], F64, Init::Zeros);
    let w = g.param("w", [1, 1, 2, 2], F64, Init::Zeros);
    let y = x.conv2d(w, Conv2d::default().stride([2, 2]).pad([0, 1, 1, 0]));
    let f = g.finish([(y * y * y).sum(..).named("loss")]).unwrap();
    let both = hvp(&f, "loss", &["x", "w"]).unwrap();
    let xs: Vec<f64> = (0..9).map(|i| 0.3 * f64::from(i) - 1.0).collect();
    let ws = [0.5, -0.7, 0.2, 0.9];
    let tangent = |k: usize, n: usize| (0..n).map(|i| ((i * 7 + k) % 5) as f64 - 2.0).collect::<Vec<f64>>();
    let (dx, dw) = (tangent(1, 9), tangent(2, 4));
    let grads = |s: f64| {
        let moved = |a: &[f64], d: &[f64]| a.iter().zip(d).map(|(a, d)| a + s * d).collect::<Vec<f64>>();
        let first = grad(&f, "loss", &GradOptions::wrt(&["x", "w"])).unwrap();
        let at = [tensor(&[1, 1, 3, 3], &moved(&xs, &dx)), tensor(&[1, 1, 2, 2], &moved(&ws, &dw))];
        let mut outs = run(&first, &at, PLAIN);
        let gw = outs.pop().unwrap().data;
        (outs.pop().unwrap().data, gw)
    };
    let h = 1e-5;
    let ((xu, wu), (xl, wl)) = (grads(h), grads(-h));
    let centre = |u: Vec<f64>, l: Vec<f64>| u.iter().zip(l).map(|(u, l)| (u - l) / (2.0 * h)).collect::<Vec<f64>>();
    let at = [
        tensor(&[1, 1, 3, 3], &xs),
        tensor(&[1, 1, 2, 2], &ws),
        tensor(&[1, 1, 3, 3], &dx),
        tensor(&[1, 1, 2, 2], &dw),
    ];
    let mut outs = run(&both, &at, PLAIN);
    let (hw, hx) = (outs.pop().unwrap().data, outs.pop().unwrap().data);
    assert!(crate::common::conform_distance(&hx, &centre(xu, xl)) < 1e-7, "by x: {hx:?}");
    assert!(crate::common::conform_distance(&hw, &centre(wu, wl)) < 1e-7, "by w: {hw:?}");
}

#[test]
fn average_pools_count_the_padding_when_asked() {
    for (count, want) in [(true, [0.25, 0.5, 0.5, 1.0]), (false, [1.0, 1.0, 1.0, 1.0])] {
        let g = Builder::new("pool");
        let x = g.input("x", [1, 1, 3, 3], F64);
        let pool = Pool2d::new([2, 2]).pad([1, 0, 1, 0]).stride([2, 2]).count_include_pad(count);
        let y = g.finish([x.avg_pool2d(pool).named("y")]).unwrap();
        assert_eq!(run(&y, &[tensor(&[1, 1, 3, 3], &[1.0; 9])], PLAIN)[0].data, want, "{count}");
    }
}

/// Nodes that preparation drops or adds must not move what "with respect to" means.
#[test]
fn leaves_are_found_by_name_after_preparation() {
    let g = Builder::new("f");
    let unused = g.param("unused", [2], F64, Init::Zeros);
    let _dead = (unused * 3.0).exp();
    let (a, b) = (g.param("a", [2], F64, Init::Zeros), g.param("b", [2], F64, Init::Zeros));
    let f = g.finish([((a * 2.0).layer_norm_like() + b * 5.0).sum(..).named("loss")]).unwrap();
    let d = grad(&f, "loss", &GradOptions::wrt(&["b"])).unwrap();
    let zero = tensor(&[2], &[0.5, 1.0]);
    assert_eq!(run(&d, &[zero.clone(), zero.clone(), zero], PLAIN).pop().unwrap().data, [5.0, 5.0]);
}

trait Normed<'g> {
    fn layer_norm_like(self) -> Var<'g>;
}

impl<'g> Normed<'g> for Var<'g> {
    /// An op that preparation may take apart.
    fn layer_norm_like(self) -> Var<'g> {
        self.layer_norm(self.full_like(1.0), self.full_like(0.0), 1e-5)
    }
}

#[test]
fn two_leaves_of_one_name_are_an_error() {
    let g = Builder::new("f");
    let (a, b) = (g.input("x", [2], F64), g.input("x", [2], F64));
    let e = g.finish([(a + b).named("y")]).unwrap_err().to_string();
    assert!(e.contains("\"x\"") || e.contains("x"), "{e}");
}

#[test]
fn a_user_leaf_with_the_name_of_a_derivative_input_is_renamed_first() {
    let g = Builder::new("f");
    let (x, t) = (g.param("x", [2], F64, Init::Zeros), g.input("tangent.x", [2], F64));
    let f = g.finish([(x * t).sum(..).named("loss")]).unwrap();
    let e = jvp(&f, &["loss"], &["x"]).unwrap_err().to_string();
    assert!(e.contains("\"tangent.x\""), "{e}");
    let d = jvp(&f.rename("tangent.x", "t").unwrap(), &["loss"], &["x"]).unwrap();
    let at = [tensor(&[2], &[1.0, 1.0]), tensor(&[2], &[3.0, 4.0]), tensor(&[2], &[1.0, 10.0])];
    assert_eq!(run(&d, &at, PLAIN).pop().unwrap().data, [43.0]);
}

#[test]
fn nth_derivatives_by_vectors_are_refused() {
    let e = nth_grad(of_vector(2, |x| x.sum(..)).view(), "loss", "x", 2).unwrap_err().to_string();
    assert!(e.contains("scalar"), "{e}");
}

#[test]
fn a_parameter_without_a_gradient_is_an_error_that_names_it() {
    let g = Builder::new("f");
    let (x, lost) = (g.param("x", [2], F64, Init::Zeros), g.param("lost", [2], F64, Init::Zeros));
    let f = g.finish([(x + lost.stop_gradient()).sum(..).named("loss")]).unwrap();
    let e = grad(&f, "loss", &GradOptions::wrt(&["x", "lost"])).unwrap_err().to_string();
    assert!(e.contains("lost"), "{e}");
}

#[test]
fn forward_mode_of_gelu_is_its_derivative() {
    // Φ(−1) − φ(−1), where φ is the normal density.
    let want = 0.158_655_253_931_457_05 - (-0.5f64).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let d = gradient(&of_vector(1, |x| x.gelu().sum(..)), &[-1.0]);
    assert!((d[0] - want).abs() < 1e-12, "{} and {want}", d[0]);
}

/// Softmax and normalisation act on the axis they are given, and prefix sums on any.
#[test]
fn axes_other_than_the_last_are_honoured() {
    let g = Builder::new("f");
    let x = g.input("x", [2, 3], F64);
    let y = g.finish([x.softmax(0).named("s"), x.cumsum(0, false, false).named("c")]).unwrap();
    let data = [0.0, 1.0, 2.0, 0.0, 1.0, 2.0];
    let outs = run(&y, &[tensor(&[2, 3], &data)], PLAIN);
    assert!(outs[0].data.iter().all(|&p| (p - 0.5).abs() < 1e-15), "{:?}", outs[0].data);
    assert_eq!(outs[1].data, [0.0, 1.0, 2.0, 0.0, 2.0, 4.0]);
}

/// Equal text is not equal meaning: nodes that differ in one attribute alone stay two nodes.
#[test]
fn nodes_that_differ_in_an_attribute_are_not_merged() {
    let g = Builder::new("f");
    let x = g.input("x", [3], F64);
    let outs = [x.cumsum(0, false, false), x.cumsum(0, true, false), x.cumsum(0, false, true), x.leaky_relu(0.1)];
    let names = ["a", "b", "c", "d"];
    let f = g.finish(outs.into_iter().zip(names).map(|(v, n)| v.named(n))).unwrap();
    let got = run(&f, &[tensor(&[3], &[1.0, -2.0, 4.0])], PLAIN);
    assert_eq!(got[0].data, [1.0, -1.0, 3.0]);
    assert_eq!(got[1].data, [0.0, 1.0, -1.0]);
    assert_eq!(got[2].data, [3.0, 2.0, 4.0]);
    assert_eq!(got[3].data, [1.0, -0.2, 4.0]);
}

/// The operands of a sum may be exchanged: written both ways, it is one node. Those of a difference may not.
#[test]
fn operations_of_exchanged_operands_are_one_node() {
    let g = Builder::new("f");
    let (x, y) = (g.input("x", [3], F64), g.input("y", [3], F64));
    assert_eq!((x + y).value(), (y + x).value());
    assert_eq!((x * y).value(), (y * x).value());
    assert_eq!(x.maximum(y).value(), y.maximum(x).value());
    assert_eq!(x.equal(y).value(), y.equal(x).value());
    assert_ne!((x - y).value(), (y - x).value());
    assert_ne!((x / y).value(), (y / x).value());
    assert_ne!(x.less(y).value(), y.less(x).value());
}

#[test]
fn maximum_pools_and_reductions_keep_nan() {
    let g = Builder::new("f");
    let x = g.input("x", [1, 1, 2, 2], F64);
    let f = g.finish([x.amax(..).named("m"), x.max_pool2d(Pool2d::new([2, 2])).named("p")]).unwrap();
    let outs = run(&f, &[tensor(&[1, 1, 2, 2], &[1.0, f64::NAN, 3.0, 2.0])], PLAIN);
    assert!(outs[0].data[0].is_nan() && outs[1].data[0].is_nan());
}

fn gate(x: Var<'_>, first: bool) -> Var<'_> {
    x.builder().emit1(Op::SWIGLU, &[x], &SwigluAttrs { gate_first: first, to: F64 }.list())
}

/// The halves of a gate are not exchanged by its kernel, by un-fusing, nor by its derivative.
#[test]
fn the_gate_comes_first_where_it_is_said_to() {
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let x = [1.0, 2.0, 3.0, 4.0];
    for (first, want) in [(true, [silu(1.0) * 3.0, silu(2.0) * 4.0]), (false, [silu(3.0), silu(4.0) * 2.0])] {
        let g = Builder::new("f");
        let y = gate(g.input("x", [4], F64), first);
        let g = g.finish([y]).unwrap();
        for g in [unfuse(&g).unwrap(), g] {
            let got = run(&g, &[tensor(&[4], &x)], PLAIN)[0].data.clone();
            assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-14), "{first}: {got:?}");
        }
        // The gradient of the value half is the gate's activation.
        let sum = of_vector(4, |x| gate(x, first).sum(..));
        let d = gradient(&sum, &x);
        let (value, gates) = if first { (&d[2..], &x[..2]) } else { (&d[..2], &x[2..]) };
        assert!(value.iter().zip(gates).all(|(a, b)| (a - silu(*b)).abs() < 1e-14), "{first}: {d:?}");
    }
}

/// q = k = v = x, two heads of two: a block with a mask of keys or rotation.
fn attention_block(rope: bool, mask: Option<&[usize]>) -> arenagrad::error::Result<GraphBuf> {
    let g = Builder::new("f");
    let mut args = vec![g.input("x", [1, 2, 4], F64), g.input("qkv", [4, 12], F64), g.input("out", [4, 4], F64)];
    args.extend(mask.map(|d| g.input("mask", d, F64)));
    if rope {
        args.extend(["cos", "sin"].map(|name| g.input(name, [2, 1], F64)));
    }
    let attrs = AttentionBlockAttrs { heads: 2, causal: false, padding: mask.is_some(), bias: false, rope };
    let y = g.emit1(Op::ATTENTION_BLOCK, &args, &attrs.list());
    g.finish([y])
}

const ROWS: [f64; 8] = [0.3, -1.2, 0.8, 0.1, 1.1, 0.4, -0.6, 0.9];

fn identities() -> [Tensor; 3] {
    let eye = |cols: usize| -> Vec<f64> { (0..4 * cols).map(|i| f64::from(i / cols == i % cols % 4)).collect() };
    [tensor(&[1, 2, 4], &ROWS), tensor(&[4, 12], &eye(12)), tensor(&[4, 4], &eye(4))]
}

/// Positions run along the sequence, whatever the layout that the kernel works in.
#[test]
fn an_attention_block_turns_by_the_place_in_the_sequence() {
    let angles = [0.0, 1.0];
    let table = |f: fn(f64) -> f64| tensor(&[2, 1], &angles.map(f));
    let g = attention_block(true, None).unwrap();
    let inputs = [&identities()[..], &[table(f64::cos), table(f64::sin)]].concat();
    let mut want = [0.0; 8];
    for head in 0..2 {
        let row = |s: usize| [ROWS[4 * s + 2 * head], ROWS[4 * s + 2 * head + 1]];
        let turned = |s: usize| {
            let ([a, b], (sin, cos)) = (row(s), f64::sin_cos(angles[s]));
            [a * cos - b * sin, b * cos + a * sin]
        };
        for i in 0..2 {
            let dot = |j: usize| (turned(i)[0] * turned(j)[0] + turned(i)[1] * turned(j)[1]) / f64::sqrt(2.0);
            let weights = [dot(0).exp(), dot(1).exp()];
            for e in 0..2 {
                let sum = weights[0] * row(0)[e] + weights[1] * row(1)[e];
                want[4 * i + 2 * head + e] = sum / (weights[0] + weights[1]);
            }
        }
    }
    for g in [unfuse(&g).unwrap(), g] {
        let got = run(&g, &inputs, PLAIN)[0].data.clone();
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-14), "{got:?}\n{want:?}");
    }
}

/// A mask of keys has a row a sequence; one of another rank is refused and not read as something else.
#[test]
fn a_block_takes_a_mask_of_keys_of_rank_two() {
    let e = attention_block(false, Some(&[1, 1, 1, 2])).unwrap_err().to_string();
    assert!(e.contains("attention_block(") && e.contains("the mask of keys has shape [1,1,1,2], not [1,2]"), "{e}");
    let g = attention_block(false, Some(&[1, 2])).unwrap();
    let inputs = [&identities()[..], &[tensor(&[1, 2], &[1.0, 0.0])]].concat();
    let got = run(&g, &inputs, PLAIN)[0].data.clone();
    assert_eq!(got, [&ROWS[..4], &ROWS[..4]].concat());
}

/// What fusion takes in and others read is still there; a bias of one element is added to all, not read as a row.
#[test]
fn fusion_respects_other_readers_and_the_shape_of_a_bias() {
    let g = Builder::new("f");
    let (x, w, one) = (g.input("x", [2, 2], F64), g.input("w", [2, 3], F64), g.input("one", [1], F64));
    let p = x.matmul(w);
    let h = p + one;
    let g = g.finish([p.named("p"), h.named("h"), h.relu().named("y"), h.sum(..).named("s")]).unwrap();
    let fused = pipeline::run_whole_pipeline(&g).unwrap();
    assert!(fused.view().op.iter().all(|&op| op != Op::MATMUL_BIAS_ACT));
    let inputs = [
        tensor(&[2, 2], &[1.0, 0.0, 0.0, -1.0]),
        tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        tensor(&[1], &[4.5]),
    ];
    let outs = run(&g, &inputs, PLAIN);
    assert_eq!(outs[0].data, [1.0, 2.0, 3.0, -4.0, -5.0, -6.0]);
    assert_eq!(outs[1].data, [5.5, 6.5, 7.5, 0.5, -0.5, -1.5]);
    assert_eq!(outs[2].data, [5.5, 6.5, 7.5, 0.5, 0.0, 0.0]);
    assert_eq!(outs[3].data, [18.0]);
}

/// Start values are numbers: an infinite one would train to NaN without a word.
#[test]
fn start_values_are_finite_and_not_negative() {
    for scale in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        for init in [Init::Uniform(scale), Init::Normal(scale)] {
            let made: [fn(&Builder, Init) -> Var<'_>; 3] = [
                |g, init| g.param("p", [2], F64, init),
                |g, init| g.frozen_param("p", [2], F64, init),
                |g, init| g.state("p", [2], F64, init),
            ];
            for make in made {
                let g = Builder::new("g");
                let e = g.finish([make(&g, init)]).unwrap_err();
                assert!(e.message.contains(&format!("scale is {scale}")), "{e}");
                assert!(matches!(&e.location, Location::Source(file, _) if file.contains("pitfalls.rs")), "{e:?}");
            }
        }
    }
    let large = |dtype| {
        let g = Builder::new("g");
        g.finish([g.param("p", [2], dtype, Init::Normal(1e39))]).map(|_| ())
    };
    assert!(large(F64).is_ok() && large(DType::F32).unwrap_err().message.contains("the largest f32"));
    assert!(large(DType::F16).is_err() && large(DType::BF16).is_err());
}
