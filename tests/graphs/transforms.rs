//! Transforms of graphs beyond gradients with respect to leaves: inner values, directions, halves of a vector-Jacobian
//! product.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{PLAIN, Tensor, TensorDraws, conform_distance, run, same_conform_bits};
use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Loop, Missing, Var};
use arenagrad::graph::{directional_nth_grad, grad, hvp, jacobian, jvp, nth_grad, split_vjp, vjp};
use arenagrad::op::Op;
use arenagrad::session::Session;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::ir::text;
use arenagrad::tools::ops::blocks::attrs::LinearAttrs;
use arenagrad::tools::ops::matmul::activation::Activation;
use arenagrad::tools::passes::pipeline;

const F64: DType = DType::F64;

/// The outputs of `g` on its leaves, drawn from `seed`, by name.
fn outputs(g: &GraphBuf, seed: u64) -> Vec<(String, Tensor)> {
    let (v, mut draw) = (g.view(), TensorDraws(seed));
    let inputs: Vec<Tensor> =
        v.leaves().map(|l| draw.tensor(v.ty(l.value).dtype, &v.dims(l.value), Domain::Real)).collect();
    let names = v.output_names.iter().map(|&s| v.str(s).to_string());
    names.zip(run(g, &inputs, PLAIN)).collect()
}

/// The numbers of the output called `name`.
fn data<'a>(all: &'a [(String, Tensor)], name: &str) -> &'a [f64] {
    &all.iter().find(|o| o.0 == name).unwrap_or_else(|| panic!("no output {name}: {all:?}")).1.data
}

/// A block: x·w (+ b).
fn linear<'g>(operands: &[Var<'g>]) -> Var<'g> {
    operands[0].builder().emit1(Op::LINEAR, operands, &LinearAttrs { act: Activation::None }.list())
}

// Inner values.

#[test]
fn an_inner_value_gets_its_own_gradient_and_passes_on_that_of_its_operands() {
    let g = Builder::new("inner");
    let (x, w) = (g.input("x", [3, 4], F64), g.param("w", [4, 2], F64, Init::Ones));
    let h = x.matmul(w).named("h");
    let graph = g.finish([(h * h).sum(..).named("loss"), h]).unwrap();
    let both = grad(&graph, "loss", &GradOptions::wrt(&["h", "w"])).unwrap();
    let names: Vec<&str> = both.view().output_names.iter().map(|&s| both.view().str(s)).collect();
    assert_eq!(names, ["loss", "h", "grad.h", "grad.w"]);
    let all = outputs(&both, 1);
    let twice: Vec<f64> = data(&all, "h").iter().map(|h| 2.0 * h).collect();
    assert!(conform_distance(data(&all, "grad.h"), &twice) < 1e-15);
    // xᵀ·2h, and the same as without `h` in the list.
    let alone = outputs(&grad(&graph, "loss", &GradOptions::wrt(&["w"])).unwrap(), 1);
    assert_eq!(data(&all, "grad.w"), data(&alone, "grad.w"));
    assert!(!text::print(both.view()).contains("optimization_barrier"));
}

#[test]
fn a_number_or_the_name_of_an_output_stands_for_an_inner_value() {
    let source = "graph @g {\n  %x = input : f64[3]\n  %1 = exp %x : f64[3]\n  %2 = mul %1, %1 : f64[3]\n  \
                  %3 = reduce_sum %2 axes=[0] keep=false : f64[]\n  return loss=%3, e=%1\n}\n";
    let graph = text::parse(source).unwrap();
    for (name, output) in [("%1", "grad.%1"), ("e", "grad.e"), ("%e", "grad.%e")] {
        let all = outputs(&grad(&graph, "loss", &GradOptions::wrt(&[name])).unwrap(), 2);
        let want: Vec<f64> = data(&all, "e").iter().map(|e| 2.0 * e).collect();
        assert_eq!(data(&all, output), want, "{name}");
    }
    // The loss itself is a value: its gradient is 1.
    assert_eq!(data(&outputs(&grad(&graph, "loss", &GradOptions::wrt(&["%3"])).unwrap(), 2), "grad.%3"), [1.0]);
}

#[test]
fn equal_values_of_other_names_keep_gradients_of_their_own() {
    // Decomposed, `h` and `k` are equal nodes. Merged, the gradient of `h` would be that of both.
    let g = Builder::new("equal");
    let (x, w, b) = (g.input("x", [3, 4], F64), g.param("w", [4, 2], F64, Init::Ones), g.input("b", [2], F64));
    let h = linear(&[x, w, b]).named("h");
    let k = (x.matmul(w) + b).named("k");
    let graph = g.finish([((h * h).sum(..) + (k * k * k).sum(..)).named("loss"), h]).unwrap();
    for wrt in [&["h"][..], &["k", "h"]] {
        let all = outputs(&grad(&graph, "loss", &GradOptions::wrt(wrt)).unwrap(), 3);
        let twice: Vec<f64> = data(&all, "h").iter().map(|h| 2.0 * h).collect();
        assert!(conform_distance(data(&all, "grad.h"), &twice) < 1e-14);
        if wrt.len() == 2 {
            let thrice: Vec<f64> = data(&all, "h").iter().map(|h| 3.0 * h * h).collect();
            assert!(conform_distance(data(&all, "grad.k"), &thrice) < 1e-14);
        }
    }
}

#[test]
fn one_of_several_results_of_an_op_keeps_a_gradient_of_its_own() {
    // On the way from `a`, the first norm is written as the second. Merged, the gradient of `h` would be that of both.
    let graph = text::parse(
        "graph @norms {
            %a = input : f64[2,6]
            %b = input : f64[2,6]
            %g = input : f64[6]
            %s = input : f64[6]
            %h, %sum, %mean, %rstd = residual_layer_norm %a, %b, %g, %s eps=0.1
            %t = add %a, %b
            %k, %m, %r = layer_norm %t, %g, %s eps=0.1
            %h2 = mul %h, %h
            %k2 = mul %k, %k
            %k3 = mul %k2, %k
            %all = add %h2, %k3
            %loss = reduce_sum %all axes=[0,1] keep=false
            return loss=%loss, h=%h
        }",
    )
    .unwrap();
    let all = outputs(&grad(&graph, "loss", &GradOptions::wrt(&["h", "a"])).unwrap(), 3);
    let twice: Vec<f64> = data(&all, "h").iter().map(|h| 2.0 * h).collect();
    assert!(conform_distance(data(&all, "grad.h"), &twice) < 1e-14);
}

#[test]
fn a_value_that_preparation_decomposes_keeps_its_name() {
    let g = Builder::new("blocks");
    let (x, gain) = (g.input("x", [2, 6], F64), g.param("gain", [6], F64, Init::Ones));
    let h = linear(&[x, g.param("w", [6, 6], F64, Init::Ones)]).named("h");
    let n = h.rms_norm(gain, gain, 1e-5).named("n");
    let graph = g.finish([(n * n * n).sum(..).named("loss"), n]).unwrap();
    let all = outputs(&grad(&graph, "loss", &GradOptions::wrt(&["n", "h"])).unwrap(), 4);
    let want: Vec<f64> = data(&all, "n").iter().map(|n| 3.0 * n * n).collect();
    assert!(conform_distance(data(&all, "grad.n"), &want) < 1e-14);
    // As an input, `h` has the same gradient.
    let g = Builder::new("rest");
    let (h, gain) = (g.input("h", [2, 6], F64), g.param("gain", [6], F64, Init::Ones));
    let n = h.rms_norm(gain, gain, 1e-5);
    let rest = g.finish([(n * n * n).sum(..).named("loss")]).unwrap();
    let rest = grad(&rest, "loss", &GradOptions::wrt(&["h"])).unwrap();
    let whole = grad(&graph, "loss", &GradOptions::wrt(&["h"])).unwrap();
    let mut draw = TensorDraws(5);
    let [x, w, gain] = [&[2, 6][..], &[6, 6], &[6]].map(|d| draw.tensor(F64, d, Domain::Real));
    let leaves = |g: &GraphBuf| g.view().leaves().map(|l| l.name.to_string()).collect::<Vec<_>>();
    let h: Vec<f64> = (0..12).map(|i| (0..6).map(|j| x.data[i / 6 * 6 + j] * w.data[6 * j + i % 6]).sum()).collect();
    let h = Tensor { dtype: F64, dims: vec![2, 6], data: h };
    let of = |g: &GraphBuf| {
        let known = [("x", &x), ("w", &w), ("gain", &gain), ("h", &h)];
        let pick = |n: &String| known.iter().find(|k| k.0 == n).unwrap().1.clone();
        run(g, &leaves(g).iter().map(pick).collect::<Vec<_>>(), PLAIN).pop().unwrap().data
    };
    assert!(conform_distance(&of(&whole), &of(&rest)) < 1e-12);
}

/// An output may have any name, a leaf may not.
#[test]
fn cotangents_of_outputs_with_odd_names_have_names_of_leaves() {
    let g = Builder::new("g");
    let x = g.input("x", [2], F64);
    let outputs = ["a\"b", "a\\b", "a_b"];
    let graph = g.finish([x.sin().named(outputs[0]), x.cos().named(outputs[1]), x.exp().named(outputs[2])]).unwrap();
    let v = vjp(&graph, &outputs, &["x"], Missing::Error).unwrap();
    let leaves: Vec<&str> = v.view().leaves().map(|l| l.name).collect();
    assert_eq!(leaves, ["x", "cotangent.a_b", "cotangent.a_b.2", "cotangent.a_b.3"]);
}

#[test]
fn inner_values_work_in_vjp_and_across_loops() {
    let g = Builder::new("loop");
    let (x, w) = (g.input("x", [5, 2], F64), g.param("w", [2], F64, Init::Ones));
    let s = (w * 3.0).named("s");
    let (last, _) = g.scan(&[w.full_like(0.0)], &[x], |c, x| (vec![(c[0] * s + x[0]).tanh()], vec![]));
    let graph = g.finish([last[0].named("y")]).unwrap();
    let all = outputs(&vjp(&graph, &["y"], &["s", "w"], Missing::Error).unwrap(), 6);
    let thrice: Vec<f64> = data(&all, "grad.s").iter().map(|s| 3.0 * s).collect();
    assert!(conform_distance(data(&all, "grad.w"), &thrice) < 1e-14 && thrice.iter().all(|x| *x != 0.0));
}

#[test]
fn leaves_win_and_ambiguous_or_unknown_names_are_errors() {
    let g = Builder::new("names");
    let x = g.input("x", [3], F64);
    let (a, b) = (x.exp().named("h"), x.sin().named("h"));
    let y = (a * b).named("x");
    let (in_loop, _) = g.scan(&[x], &[g.input("xs", [2, 3], F64)], |c, x| (vec![(c[0] * x[0]).named("deep")], vec![]));
    let graph = g.finish([(y + in_loop[0]).sum(..).named("loss")]).unwrap();
    let refused = |name: &str| grad(&graph, "loss", &GradOptions::wrt(&[name])).err().unwrap();
    let e = refused("h");
    assert!(e.kind == Kind::Name && e.message.contains("ambiguous") && e.message.contains('%'), "{e}");
    assert!(refused("%999").message.contains("no value is %999"), "{}", refused("%999"));
    assert!(refused("deep").message.contains("inside a loop"), "{}", refused("deep"));
    let e = refused("los").message;
    assert!(e.contains("no leaf or value is called \"los\"") && e.ends_with("did you mean loss?"), "{e}");
    assert!(refused("%0").message.contains("is the leaf \"x\""), "{}", refused("%0"));
    // `x` is the leaf, not the value of that name.
    let by_leaf = grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap();
    assert_eq!(by_leaf.view().dims(*by_leaf.view().outputs().last().unwrap())[..], [3]);
    let e = grad(&graph, "loss", &GradOptions::wrt(&["x", "h"])).err().unwrap();
    assert!(e.message.contains("ambiguous"));
}

#[test]
fn an_output_may_not_have_the_mark_of_an_inner_value() {
    let g = Builder::new("mark");
    let h = g.input("x", [3], F64).exp();
    let graph = g.finish([h.sum(..).named("loss"), h.named("wrt\u{1}h")]).unwrap();
    let e = grad(&graph, "loss", &GradOptions::wrt(&["%1"])).err().unwrap();
    assert!(e.kind == Kind::Name && e.message.contains("the prefix is reserved"), "{e}");
}

#[test]
fn outputs_of_integers_have_no_derivative() {
    let g = Builder::new("whole");
    let graph = g.finish([g.input("x", [3], F64).cast(DType::I32).named("y")]).unwrap();
    for e in [jvp(&graph, &["y"], &["x"]), jacobian(&graph, "y", "x"), vjp(&graph, &["y"], &["x"], Missing::Zero)] {
        let e = e.err().unwrap();
        assert!(e.kind == Kind::Derivative && e.message.contains("output \"y\" is i32[3]: no derivative"), "{e}");
    }
}

// Directions.

#[test]
fn a_leaf_that_is_named_twice_has_the_sum_of_its_tangents() {
    let g = Builder::new("twice");
    let graph = g.finish([(g.input("x", [], F64) * 3.0).named("y")]).unwrap();
    let mut p = Session::new().compile(&jvp(&graph, &["y"], &["x", "x"]).unwrap()).unwrap();
    for (name, x) in [("x", 1.0), ("tangent.x", 2.0), ("tangent.x.2", 5.0)] {
        p.values_mut::<f64>(name).unwrap()[0] = x;
    }
    p.step().unwrap();
    assert_eq!(p.values::<f64>("tangent.y").unwrap(), [21.0]);
}

/// A second derivative by one leaf would hide behind a number, and the name would go on meaning the first.
#[test]
fn names_of_earlier_derivatives_are_refused_until_they_are_renamed() {
    let g = Builder::new("cube");
    let x = g.input("x", [], F64);
    let graph = g.finish([(x * x * x).named("y")]).unwrap();
    let once = jvp(&graph, &["y"], &["x"]).unwrap();
    let refused = |e: Result<GraphBuf, arenagrad::error::Error>, name: &str| {
        let e = e.err().unwrap();
        assert!(e.kind == Kind::Name && e.message.contains(&format!("rename({name:?}")), "{e}");
    };
    refused(jvp(&once, &["tangent.y"], &["x"]), "tangent.x");
    refused(hvp(&once, "y", &["x"]), "tangent.x");
    let by = jacobian(&graph, "y", "x").unwrap();
    refused(jacobian(&by, "jacobian.x", "x"), "jacobian.x");
    // Both directions have names of their own, and the second derivative is 6x·d·e.
    let twice = jvp(&once.rename("tangent.x", "d").unwrap(), &["tangent.y"], &["x"]).unwrap();
    let mut p = Session::new().compile(&twice).unwrap();
    for (name, x) in [("x", 5.0), ("d", 2.0), ("tangent.x", 7.0)] {
        p.values_mut::<f64>(name).unwrap()[0] = x;
    }
    p.step().unwrap();
    assert_eq!(p.values::<f64>("tangent.tangent.y").unwrap(), [30.0 * 14.0]);
    let second = jacobian(&by.rename("jacobian.x", "slope").unwrap(), "slope", "x").unwrap();
    let mut p = Session::new().compile(&second).unwrap();
    p.values_mut::<f64>("x").unwrap()[0] = 5.0;
    p.step().unwrap();
    assert_eq!((p.values::<f64>("slope").unwrap(), p.values::<f64>("jacobian.x").unwrap()), (&[75.0][..], &[30.0][..]));
    let e = once.rename("tangent.x", "a\"b").err().unwrap();
    assert!(e.kind == Kind::Name && e.message.contains("cannot be called"), "{e}");
    assert!(once.rename("x", "tangent.y").is_err() && once.rename("none", "z").is_err());
}

#[test]
fn hvp_takes_all_params_where_none_are_named() {
    let g = Builder::new("all");
    let w = g.param("w", [3], F64, Init::Ones);
    let graph = g.finish([(w * w * w).sum(..).named("loss")]).unwrap();
    assert_eq!(hvp(&graph, "loss", &[]).unwrap(), hvp(&graph, "loss", &["w"]).unwrap());
}

#[test]
fn hvp_gives_the_slope_along_the_tangent() {
    let g = Builder::new("net");
    let (x, w) = (g.input("x", [4, 3], F64), g.param("w", [3, 2], F64, Init::Ones));
    let graph = g.finish([linear(&[x, w]).tanh().square_sum().named("loss")]).unwrap();
    let both = hvp(&graph, "loss", &["x", "w"]).unwrap();
    let v = both.view();
    let mut draw = TensorDraws(7);
    let inputs: Vec<Tensor> = v.leaves().map(|l| draw.tensor(F64, &v.dims(l.value), Domain::Real)).collect();
    let leaf = |name: &str| inputs[v.leaves().position(|l| l.name == name).unwrap()].data.clone();
    let names: Vec<String> = v.output_names.iter().map(|&s| v.str(s).to_string()).collect();
    let all: Vec<(String, Tensor)> = names.into_iter().zip(run(&both, &inputs, PLAIN)).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let want = dot(data(&all, "grad.x"), &leaf("tangent.x")) + dot(data(&all, "grad.w"), &leaf("tangent.w"));
    assert!(conform_distance(data(&all, "tangent.loss"), &[want]) < 1e-13 && want != 0.0);
}

/// The sum of squares.
trait SquareSum<'g> {
    fn square_sum(self) -> Var<'g>;
}

impl<'g> SquareSum<'g> for Var<'g> {
    fn square_sum(self) -> Var<'g> {
        (self * self).sum(..)
    }
}

#[test]
fn third_derivatives_along_directions() {
    let g = Builder::new("cubes");
    let x = g.input("x", [5], F64);
    let graph = g.finish([(x * x * x).sum(..).named("f")]).unwrap();
    let third = directional_nth_grad(&graph, "f", "x", 3).unwrap();
    let leaves: Vec<&str> = third.view().leaves().map(|l| l.name).collect();
    assert_eq!(leaves, ["x", "dir_0", "dir_1", "dir_2"]);
    let mut draw = TensorDraws(8);
    let t: Vec<Tensor> = (0..4).map(|_| draw.tensor(F64, &[5], Domain::Real)).collect();
    let want: f64 = (0..5).map(|i| 6.0 * t[1].data[i] * t[2].data[i] * t[3].data[i]).sum();
    for order in [[1, 2, 3], [2, 1, 3], [3, 2, 1], [2, 3, 1]] {
        let inputs: Vec<Tensor> = [0].iter().chain(&order).map(|&i: &usize| t[i].clone()).collect();
        let got = run(&third, &inputs, PLAIN).pop().unwrap().data;
        assert!(conform_distance(&got, &[want]) < 1e-13, "{order:?}: {got:?} {want}");
    }
    let names: Vec<&str> = third.view().output_names.iter().map(|&s| third.view().str(s)).collect();
    assert_eq!(names, ["f", "tangent3.f"]);
}

#[test]
fn a_scalar_along_ones_is_the_nth_derivative() {
    let g = Builder::new("scalar");
    let x = g.input("x", [], F64);
    let graph = g.finish([((x * 2.0).sin() * x.exp()).named("f")]).unwrap();
    let one = |data: f64| Tensor { dtype: F64, dims: vec![], data: vec![data] };
    for n in 0..4 {
        let a = run(
            &directional_nth_grad(&graph, "f", "x", n).unwrap(),
            &[one(0.7), one(1.0), one(1.0), one(1.0)][..=n],
            PLAIN,
        );
        let b = run(&nth_grad(&graph, "f", "x", n).unwrap(), &[one(0.7)], PLAIN);
        assert!(conform_distance(&a[1].data, &b[1].data) < 1e-13, "{n}: {a:?} {b:?}");
    }
    let e = directional_nth_grad(&graph, "f", "y", 1).err().unwrap();
    assert!(e.message.contains("no leaf is called \"y\""), "{e}");
}

// Halves.

/// A net with a loop, a block, dropout and a fill whose values both halves need.
fn net(g: &Builder) -> GraphBuf {
    let (x, w) = (g.input("x", [3, 4], DType::F32), g.param("w", [4, 4], DType::F32, Init::Normal(0.5)));
    let h = linear(&[x, w]).tanh().dropout(0.25).named("h");
    let three = Loop::default().length(3);
    let (last, _) = g.scan_with(three, &[h], &[], |c, _| (vec![(c[0].matmul(w) + 1.0).sigmoid()], vec![]));
    g.finish([last[0].named("y"), h.sum(..).named("z")]).unwrap()
}

#[test]
fn halves_have_the_bits_of_the_whole_for_many_cotangents() {
    let g = Builder::new("net");
    let graph = net(&g);
    let whole = vjp(&graph, &["y", "z"], &["x", "w"], Missing::Error).unwrap();
    let halves = split_vjp(&graph, &["y", "z"], &["x", "w"], Missing::Error).unwrap();
    let leaves: Vec<&str> = halves.backward.view().leaves().map(|l| l.name).collect();
    assert!(!leaves.contains(&"x") && leaves.contains(&"cotangent.y") && !halves.saved.is_empty());
    let [mut p, mut a, mut b] =
        [&whole, &halves.forward, &halves.backward].map(|g| Session::new().threads(2).compile(g).unwrap());
    for p in [&mut p, &mut a] {
        p.init(3).unwrap();
        p.values_mut::<f32>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 * 0.7).sin());
    }
    ["cotangent.y", "cotangent.z"].iter().for_each(|c| b.values_mut::<f32>(c).unwrap().fill(1.0));
    assert!(b.step().unwrap_err().message.contains("saved."), "saved values are not there yet");
    a.step().unwrap();
    b.take_saved(&a).unwrap();
    for k in 0..10 {
        for p in [&mut p, &mut b] {
            let ct = p.values_mut::<f32>("cotangent.y").unwrap();
            ct.iter_mut().enumerate().for_each(|(i, c)| *c = ((i + 5 * k) as f32 * 1.3).cos());
            p.values_mut::<f32>("cotangent.z").unwrap()[0] = k as f32 - 4.0;
        }
        // The same masks: each whole step starts from the same random key.
        p.init(3).unwrap();
        p.step().unwrap();
        b.step().unwrap();
        for name in ["grad.x", "grad.w"] {
            assert_eq!(p.values::<f32>(name).unwrap(), b.values::<f32>(name).unwrap(), "{name}, cotangent {k}");
        }
    }
    assert_eq!(a.values::<f32>("y").unwrap(), p.values::<f32>("y").unwrap());
}

#[test]
fn halves_of_values_with_unusual_names() {
    let g = Builder::new("names");
    let h = g.input("x", [3], F64).exp().named("a \"b\"");
    let graph = g.finish([(h * h).sum(..).named("loss")]).unwrap();
    let halves = split_vjp(&graph, &["loss"], &["x"], Missing::Zero).unwrap();
    assert!(halves.saved.iter().any(|s| s == "saved.0"), "{:?}", halves.saved);
}

#[test]
fn halves_of_a_gradient_of_zero_and_of_unlike_programs() {
    let g = Builder::new("zero");
    let (x, w) = (g.input("x", [2], F64), g.param("w", [2], F64, Init::Ones));
    let graph = g.finish([x.exp().named("y"), w]).unwrap();
    let halves = split_vjp(&graph, &["y"], &["x", "w"], Missing::Zero).unwrap();
    let all = outputs(&halves.backward, 9);
    assert_eq!(data(&all, "grad.w"), [0.0, 0.0]);
    let other = Session::new().compile(&graph).unwrap();
    let mut b = Session::new().compile(&halves.backward).unwrap();
    assert!(b.take_saved(&other).unwrap_err().message.contains("no output"));
    assert!(split_vjp(&graph, &["y"], &["w"], Missing::Error).err().unwrap().message.contains("gets no gradient"));
}

#[test]
fn the_forward_half_moves_states_on() {
    let g = Builder::new("seen");
    let (x, seen) = (g.input("x", [2], F64), g.state("seen", [2], F64, Init::Zeros));
    g.update(seen, seen + x);
    let graph = g.finish([(x * seen).exp().named("y")]).unwrap();
    let halves = split_vjp(&graph, &["y"], &["x"], Missing::Error).unwrap();
    let mut p = Session::new().compile(&halves.forward).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[1.0, -2.0]);
    p.step().unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f64>("seen").unwrap(), [2.0, -4.0]);
    assert!(halves.backward.view().updates.is_empty());
}

// Methods and passes.

#[test]
fn methods_are_the_functions() {
    let g = Builder::new("g");
    let x = g.input("x", [], F64);
    let graph = g.finish([(x.sin() * x).named("f")]).unwrap();
    assert_eq!(
        graph.grad("f", &GradOptions::wrt(&["x"])).unwrap(),
        grad(&graph, "f", &GradOptions::wrt(&["x"])).unwrap()
    );
    assert_eq!(graph.hvp("f", &["x"]).unwrap(), hvp(&graph, "f", &["x"]).unwrap());
    assert_eq!(graph.vjp(&["f"], &["x"], Missing::Zero).unwrap(), vjp(&graph, &["f"], &["x"], Missing::Zero).unwrap());
    assert_eq!(graph.nth_grad("f", "x", 2).unwrap(), nth_grad(&graph, "f", "x", 2).unwrap());
    assert_eq!(graph.jvp(&["f"], &["x"]).unwrap(), jvp(&graph, &["f"], &["x"]).unwrap());
    assert_eq!(graph.jacobian("f", "x").unwrap(), jacobian(&graph, "f", "x").unwrap());
    let two = graph.directional_nth_grad("f", "x", 2).unwrap();
    assert_eq!(two, directional_nth_grad(&graph, "f", "x", 2).unwrap());
    assert!(same_conform_bits(
        &outputs(&graph, 1)[0].1,
        &outputs(&graph.split_vjp(&["f"], &["x"], Missing::Zero).unwrap().forward, 1)[0].1
    ));
}

#[test]
fn the_pass_prepare_writes_what_derivatives_see() {
    let g = Builder::new("net");
    let (x, w) = (g.input("x", [3, 4], DType::F32), g.param("w", [4, 2], DType::F32, Init::Ones));
    let graph = g.finish([linear(&[x, w]).gelu().named("y")]).unwrap();
    let (done, _) = pipeline::run_pipeline(&graph, &["prepare"], true).unwrap();
    let text = text::print(done.view());
    assert!(text.contains("matmul") && !text.contains("linear") && text.contains("y="), "{text}");
}
