//! Codes of quantised numbers: their values, and gradients that pass through them.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::quant::{CodeSte, Quantize};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Loop, Missing, Var};
use arenagrad::optim::{Sgd, train};
use arenagrad::session::{Program, Session};

/// The program of `g` with these `f32` inputs.
fn program(g: &GraphBuf, inputs: &[(&str, &[f32])]) -> Program {
    let mut p = Session::new().compile(g).unwrap();
    p.init(3).unwrap();
    inputs.iter().for_each(|(name, x)| p.values_mut::<f32>(name).unwrap().copy_from_slice(x));
    p
}

/// The codes of `x` with scale `s` and zero point `z`.
fn codes(x: &[f32], s: &[f32], z: &[i32], options: Quantize) -> Vec<i64> {
    let g = Builder::new("codes");
    let dims: Vec<usize> = if options.axis.is_some() { vec![x.len() / s.len(), s.len()] } else { vec![x.len()] };
    let per: &[usize] = if options.axis.is_some() { &[s.len()] } else { &[] };
    let (x_in, s_in) = (g.input("x", dims, DType::F32), g.input("s", per, DType::F32));
    let q = x_in.quantize(s_in, g.input("z", per, DType::I32), options).cast(DType::I64);
    let mut p = program(&g.finish([q.named("q")]).unwrap(), &[("x", x), ("s", s)]);
    p.values_mut::<i32>("z").unwrap().copy_from_slice(z);
    p.step().unwrap();
    p.values::<i64>("q").unwrap().to_vec()
}

#[test]
fn halves_go_to_the_even_code_and_ends_saturate() {
    let x = [0.25, 0.75, -0.25, 1.25, 63.7, 64.0, -64.2, -65.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    assert_eq!(codes(&x, &[0.5], &[0], Quantize::i8()), [0, 2, 0, 2, 127, 127, -128, -128, 127, -128, 0]);
    let shifted = codes(&x, &[0.5], &[128], Quantize::u8());
    assert_eq!(shifted, [128, 130, 128, 130, 255, 255, 0, 0, 255, 0, 128]);
    assert_eq!(codes(&x[..5], &[0.5], &[1], Quantize::i8().range((-2, 1))), [1, 1, 1, 1, 1]);
    let two = codes(&[1.0, 1.0, -3.0, 0.3], &[0.5, 0.1], &[0, -7], Quantize::i8().axis(-1));
    assert_eq!(two, [2, 3, -6, -4]);
}

#[test]
fn codes_stand_for_numbers_within_half_a_step() {
    let x: Vec<f32> = (0..501).map(|i| (i as f32 - 250.0) * 0.0131).collect();
    let g = Builder::new("back");
    let (v, s) = (g.input("x", [501], DType::F32), g.constant(&[0.03], []));
    let z = g.full(-5.0, [], DType::I32);
    let y = v.quantize(s, z, Quantize::i8()).dequantize(s, z, None).named("y");
    let mut p = program(&g.finish([y]).unwrap(), &[("x", &x)]);
    p.step().unwrap();
    let far = x.iter().zip(p.values::<f32>("y").unwrap()).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(far <= 0.015001 && far > 0.0149, "{far}");
}

#[test]
fn a_scale_that_is_not_above_zero_ends_the_step_and_names_itself() {
    let g = Builder::new("bad");
    let (x, s) = (g.input("x", [2, 3], DType::F32), g.input("s", [3], DType::F32));
    let y = x.quantize(s, None, Quantize::i8().axis(1)).dequantize(s, None, 1).named("y");
    let graph = g.finish([y]).unwrap();
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-39, 1e-45] {
        let e = program(&graph, &[("x", &[1.0; 6]), ("s", &[1.0, bad, 1.0])]).step().unwrap_err().to_string();
        assert!(e.contains("positive_scale") && e.contains("scale 1 is no normal number above 0"), "{e}");
    }
}

#[test]
fn wrong_use_names_op_and_operands() {
    let refused = |f: &dyn for<'g> Fn(&'g Builder, Var<'g>, Var<'g>) -> Var<'g>| {
        let g = Builder::new("bad");
        let y = f(&g, g.input("x", [2, 3], DType::F32), g.input("s", [], DType::F32));
        g.finish([y]).unwrap_err().to_string()
    };
    let e = refused(&|g, x, _| x.quantize(g.full(1.0, [], DType::F64), None, Quantize::i8()));
    assert!(e.contains("quantize") && e.contains("f64") && e.contains("codes.rs"), "{e}");
    let e = refused(&|_, x, s| x.quantize(s, None, Quantize::i8().axis(1)));
    assert!(e.contains("the scale has shape []"), "{e}");
    let e = refused(&|_, x, s| x.quantize(s, None, Quantize::i8().axis(2)));
    assert!(e.contains("axis 2 is outside rank 2"), "{e}");
    let e = refused(&|_, x, s| x.quantize(s, None, Quantize::i8().range((0, 200))));
    assert!(e.contains("0..=200 is no range of i8"), "{e}");
    let e = refused(&|g, x, s| x.quantize(s, g.full(1.0, [], DType::F32), Quantize::i8()));
    assert!(e.contains("the zero point is f32"), "{e}");
    let e = refused(&|_, x, s| x.dequantize(s, None, None));
    assert!(e.contains("codes are i8, u8 or i32, not f32"), "{e}");
}

/// Moves that codes may go through.
fn moved<'g>(q: Var<'g>, more: Var<'g>) -> Var<'g> {
    let q = q.reshape([3, 4]).transpose(&[1, 0]).narrow(0, 1, 3);
    q.concat(&[more], 1).pad(&[0, 1], &[1, 0], 0.0).flip(1).checkpoint()
}

/// The numbers of the codes of `x` with scale ¼, with the same derivative, and no code on the way of it.
fn rounded(x: Var<'_>, options: Quantize) -> Var<'_> {
    let s = x.builder().constant(&[0.25], []);
    let y = x.quantize(s, None, options).dequantize(s, None, None).stop_gradient();
    let through = match options.ste {
        CodeSte::Clip => (x / 0.25).round().abs().less_equal(options.range.1 as f64).select(x, x.stop_gradient()),
        CodeSte::Identity => x,
        other => panic!("{other:?}"),
    };
    y + (through - through.stop_gradient())
}

/// Σ w·(moved code)², with codes or without.
fn through_moves(with_codes: bool, clip: CodeSte) -> GraphBuf {
    let g = Builder::new("moves");
    let (x, s) = (g.input("x", [12], DType::F32), g.constant(&[0.25], []));
    let more = g.input("more", [3, 2], DType::F32);
    let options = Quantize::i8().range((-9, 9)).ste(clip);
    let y = match with_codes {
        true => moved(x.quantize(s, None, options), more.quantize(s, None, options)).dequantize(s, None, None),
        false => moved(rounded(x, options), rounded(more, options)),
    };
    let w = g.input("w", y.dims(), DType::F32);
    g.finish([(w * y.square()).sum(..).named("loss")]).unwrap()
}

#[test]
fn gradients_pass_through_moves_of_codes_as_through_the_numbers() {
    let x: Vec<f32> = (0..12).map(|i| i as f32 * 0.53 - 3.0).collect();
    for clip in [CodeSte::Clip, CodeSte::Identity] {
        for size in [1e-3, 1.0, 1e4] {
            let w: Vec<f32> = (0..24).map(|i| size * (i as f32 - 7.3)).collect();
            let inputs: &[(&str, &[f32])] = &[("x", &x), ("more", &x[2..8]), ("w", &w)];
            let [a, b] = [true, false].map(|with| {
                let graph = through_moves(with, clip).grad("loss", &GradOptions::wrt(&["x", "more"])).unwrap();
                let mut p = program(&graph, inputs);
                p.step().unwrap();
                [p.values::<f32>("grad.x").unwrap(), p.values::<f32>("grad.more").unwrap()].concat()
            });
            assert!(a.iter().any(|g| *g != 0.0));
            for (a, b) in a.iter().zip(&b) {
                assert!((a - b).abs() <= 1e-6 * b.abs(), "{a} {b}");
            }
            let cut = a.iter().filter(|g| **g == 0.0).count();
            assert_eq!(cut > 4, clip == CodeSte::Clip, "{a:?}");
        }
    }
}

#[test]
fn the_gradient_of_a_leaf_of_codes_is_f32() {
    let g = Builder::new("leaf");
    let w = g.param("w", [2, 2], DType::I8, Init::Constant(3.0));
    let s = g.constant(&[0.5, 2.0], [2]);
    let loss = w.transpose(&[1, 0]).dequantize(s, None, 0).square().sum(..).named("loss");
    let graph = g.finish([loss]).unwrap();
    let mut p = program(&graph.grad("loss", &GradOptions::wrt(&["w"])).unwrap(), &[]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("grad.w").unwrap(), [3.0, 12.0, 3.0, 12.0]); // 2·s·q
}

#[test]
fn a_leaf_of_codes_that_branches_alone_read_has_a_gradient() {
    let g = Builder::new("branches");
    let w = g.param("w", [2], DType::I8, Init::Constant(3.0));
    let (s, on) = (g.input("s", [], DType::F32), g.input("on", [], DType::Bool));
    let real = || w.dequantize(s, None, None);
    let y = g.cond(on, || vec![real().square()], || vec![real() * 5.0]);
    let graph = g.finish([y[0].sum(..).named("loss")]).unwrap();
    let mut p = program(&graph.grad("loss", &GradOptions::wrt(&["w"])).unwrap(), &[("s", &[0.5])]);
    for (on, want) in [(1, 3.0), (0, 5.0)] {
        p.values_mut::<u8>("on").unwrap()[0] = on;
        p.step().unwrap();
        assert_eq!(p.values::<f32>("grad.w").unwrap(), [want; 2]);
    }
}

/// A function is no op of codes, but the operands of one that reads codes are codes.
#[test]
fn a_leaf_of_codes_that_a_function_alone_reads_is_one_of_codes() {
    let graph = |ruled: bool| {
        let g = Builder::new("function");
        let (w, s) = (g.param("w", [2], DType::I8, Init::Constant(3.0)), g.input("s", [], DType::F32));
        let f = g.custom_fn("real", &[w, s], |a| vec![a[0].dequantize(a[1], None, None).square()]);
        let f = if ruled { f.vjp(|_, _, _, d| vec![None, Some(d[0].sum(..))]) } else { f };
        let y = f.call();
        g.finish([y[0].sum(..).named("loss")]).unwrap()
    };
    let mut p = program(&graph(false).grad("loss", &GradOptions::wrt(&["w"])).unwrap(), &[("s", &[0.5])]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("grad.w").unwrap(), [3.0; 2]); // 2·s·q
    let e = graph(true).grad("loss", &GradOptions::wrt(&["w"])).unwrap_err().to_string();
    assert!(e.contains("custom_fn: operand 0 is i8[2], codes that stand for real numbers"), "{e}");
    for ruled in [false, true] {
        let e = train(&graph(ruled), "loss", Sgd::new(0.1)).unwrap_err().to_string();
        assert!(e.contains("\"w\" is i8[2], codes of real numbers, which no optimiser steps"), "{e}");
    }
}

#[test]
fn no_optimiser_steps_codes() {
    let g = Builder::new("leaf");
    let w = g.param("w", [2, 2], DType::I8, Init::Constant(3.0));
    let (v, s) = (g.param("v", [], DType::F32, Init::Ones), g.constant(&[0.5], []));
    let graph = g.finish([(w.dequantize(s, None, None) * v).square().sum(..).named("loss")]).unwrap();
    let e = train(&graph, "loss", Sgd::new(0.1)).unwrap_err().to_string();
    assert!(e.contains("\"w\" is i8[2,2], codes of real numbers, which no optimiser steps: freeze it"), "{e}");
    train(&graph, "loss", Sgd::new(0.1).freeze("w")).unwrap();
}

/// Whether `f`, on codes, is refused as a way of the derivative, with a message that says why.
fn refusal(f: impl for<'g> Fn(Var<'g>, Var<'g>) -> Var<'g>) -> String {
    let g = Builder::new("bad");
    let (x, s) = (g.input("x", [4], DType::F32), g.constant(&[0.5], []));
    let y = f(x.quantize(s, None, Quantize::i8()), s);
    let graph = g.finish([y.sum(..).named("loss")]).unwrap();
    let reverse = graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap_err().to_string();
    let forward = graph.jvp(&["loss"], &["x"]).unwrap_err().to_string();
    assert_eq!(reverse, forward);
    reverse
}

#[test]
fn an_op_that_is_no_move_on_codes_has_no_derivative_and_says_so() {
    for (name, e) in [
        ("add", refusal(|q, s| (q + q).dequantize(s, None, None))),
        ("cast", refusal(|q, _| q.cast(DType::F32))),
        ("bitwise_and", refusal(|q, s| q.bitwise_and(3.0).dequantize(s, None, None))),
    ] {
        assert!(e.contains(name) && e.contains("codes that stand for real numbers") && e.contains("codes.rs"), "{e}");
    }
    // A cast to codes that a quantised op reads is no rounding with a derivative.
    let g = Builder::new("cast");
    let (x, s) = (g.input("x", [4], DType::F32), g.constant(&[0.5], []));
    let y = (x * 3.0).cast(DType::I8).dequantize(s, None, None);
    let graph = g.finish([y.sum(..).named("loss")]).unwrap();
    let e = graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap_err().to_string();
    assert!(e.contains("cast: result 0 is i8[4], codes"), "{e}");
    assert!(graph.jvp(&["loss"], &["x"]).unwrap_err().to_string().contains("cast: result 0"));
    // A gradient that is stopped passes through nothing.
    let g = Builder::new("stop");
    let (x, s) = (g.input("x", [4], DType::F32), g.constant(&[0.5], []));
    let q = x.quantize(s, None, Quantize::i8()).stop_gradient();
    let y = (q + q).dequantize(s, None, None) * x;
    g.finish([y.sum(..).named("loss")]).unwrap().grad("loss", &GradOptions::wrt(&["x"])).unwrap();
}

/// What one branch makes is a code outside the choice, and what an iteration makes is one in the next iteration.
#[test]
fn codes_stay_codes_outside_the_region_that_makes_them() {
    fn quantized(x: Var<'_>) -> Var<'_> {
        x.quantize(x.builder().constant(&[0.5], []), None, Quantize::i8())
    }
    let g = Builder::new("branch");
    let (x, on) = (g.input("x", [4], DType::F32), g.input("on", [], DType::Bool));
    let q = g.cond(on, || vec![quantized(x)], || vec![g.full(0.0, [4], DType::I8)]);
    let branch = g.finish([q[0].cast(DType::F32).sum(..).named("loss")]).unwrap();
    let g = Builder::new("loop");
    let x = g.input("x", [3, 4], DType::F32);
    let start = g.full(0.0, [4], DType::I8);
    let (_, y) = g.scan(&[start], &[x], |c, x| (vec![quantized(x[0])], vec![c[0].cast(DType::F32)]));
    let looped = g.finish([y[0].sum(..).named("loss")]).unwrap();
    for graph in [branch, looped] {
        let e = graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap_err().to_string();
        assert!(e.contains("cast: operand 0 is i8[4], codes that stand for real numbers"), "{e}");
    }
}

#[test]
fn a_leaf_of_codes_that_the_loss_does_not_read_has_zeros() {
    let g = Builder::new("zeros");
    let (w, s) = (g.param("w", [2], DType::I8, Init::Constant(3.0)), g.constant(&[0.5], []));
    let v = g.param("v", [], DType::F32, Init::Ones);
    let graph = g.finish([(v * v).named("loss"), w.dequantize(s, None, None).named("real")]).unwrap();
    let zeros = GradOptions::wrt(&["w"]).missing(Missing::Zero);
    let mut p = program(&graph.grad("loss", &zeros).unwrap(), &[]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("grad.w").unwrap(), [0.0; 2]);
}

#[test]
fn stopped_codes_end_the_derivative_in_both_modes() {
    let g = Builder::new("stop");
    let (x, s) = (g.input("x", [2], DType::F32), g.constant(&[0.5], []));
    let y = x.quantize(s, None, Quantize::i8()).stop_gradient().dequantize(s, None, None) * x;
    let graph = g.finish([y.sum(..).named("loss")]).unwrap();
    let x = [1.0f32, -1.5];
    let mut r = program(&graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap(), &[("x", &x)]);
    r.step().unwrap();
    assert_eq!(r.values::<f32>("grad.x").unwrap(), x);
    let mut f = program(&graph.jvp(&["loss"], &["x"]).unwrap(), &[("x", &x), ("tangent.x", &[2.0, 4.0])]);
    f.step().unwrap();
    assert_eq!(f.values::<f32>("tangent.loss").unwrap(), [-4.0]);
}

#[test]
fn integers_that_are_no_codes_have_no_derivative_as_before() {
    let g = Builder::new("index");
    let (x, i) = (g.input("x", [4], DType::F32), g.input("i", [2], DType::I32));
    let s = g.constant(&[0.5], []);
    let y = x.quantize(s, None, Quantize::i8()).dequantize(s, None, None).gather(i + i, 0);
    let graph = g.finish([y.sum(..).named("loss")]).unwrap();
    graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap();
    let e = graph.grad("loss", &GradOptions::wrt(&["i"])).unwrap_err().to_string();
    assert!(e.contains("\"i\" is i32[2]: no derivative"), "{e}");
}

/// A loop whose carry is a code, made and read in the body; a choice that hands codes out; a loop that only moves
/// codes.
fn in_regions<'g>(g: &'g Builder, x: Var<'g>, unrolled: bool) -> Var<'g> {
    let s = g.full(0.125, [], DType::F32);
    let quantize = |x: Var<'g>| x.quantize(s, None, Quantize::i8());
    let real = |q: Var<'g>| q.dequantize(s, None, None);
    let body = |q: Var<'g>, x: Var<'g>| (real(q) * x + x).quantize(s, None, Quantize::i8());
    if unrolled {
        let mut q = quantize(x.narrow(0, 0, 1).reshape([5]));
        for i in 0..3 {
            q = body(q, x.narrow(0, i, 1).reshape([5]));
        }
        return real(q.flip(0).flip(0).flip(0)) * 3.0;
    }
    let first = quantize(x.narrow(0, 0, 1).reshape([5]));
    let xs = x.narrow(0, 0, 3);
    let (after, _) = g.scan(&[first], &[xs], |c, x| {
        let s = g.full(0.125, [], DType::F32);
        let next = (c[0].dequantize(s, None, None) * x[0] + x[0]).quantize(s, None, Quantize::i8());
        (vec![next], vec![])
    });
    let turned = g.scan_with(Loop::default().length(3), &after, &[], |c, _| (vec![c[0].flip(0)], vec![])).0;
    let chosen = g.cond(x.sum(..).greater(1e9), || vec![after[0]], || vec![turned[0]]);
    real(chosen[0]) * 3.0
}

#[test]
fn loops_and_choices_hand_codes_and_their_gradients_on() {
    let x: Vec<f32> = (0..20).map(|i| ((i * 7) % 11) as f32 * 0.17 - 0.9).collect();
    let graph = |unrolled: bool| {
        let g = Builder::new("regions");
        let v = g.input("x", [4, 5], DType::F32);
        let y = in_regions(&g, v, unrolled);
        g.finish([(y.square()).sum(..).named("loss")]).unwrap()
    };
    let grads = [true, false].map(|unrolled| {
        let graph = graph(unrolled).grad("loss", &GradOptions::wrt(&["x"])).unwrap();
        let mut p = program(&graph, &[("x", &x)]);
        p.step().unwrap();
        p.values::<f32>("grad.x").unwrap().to_vec()
    });
    assert_eq!(grads[0], grads[1]);
    assert!(grads[0][..15].iter().all(|g| *g != 0.0), "{:?}", grads[0]);
    let tangents = [true, false].map(|unrolled| {
        let mut p = program(&graph(unrolled).jvp(&["loss"], &["x"]).unwrap(), &[("x", &x), ("tangent.x", &x)]);
        p.step().unwrap();
        p.values::<f32>("tangent.loss").unwrap()[0]
    });
    assert_eq!(tangents[0], tangents[1]);
    let dot: f32 = grads[0].iter().zip(&x).map(|(a, b)| a * b).sum();
    assert!((dot - tangents[0]).abs() <= 1e-4 * dot.abs(), "{dot} {tangents:?}");
}

/// A zero point is a constant: one that is made of x ends no derivative, in either mode.
#[test]
fn zero_points_that_are_made_of_x_are_constants() {
    let g = Builder::new("zero");
    let (x, s) = (g.input("x", [4], DType::F32), g.constant(&[0.5], []));
    let z = (x.amin(..) / s).cast(DType::I32);
    let y = x.quantize(s, -z, Quantize::u8()).dequantize(s, -z, None);
    let graph = g.finish([(y * y).sum(..).named("loss")]).unwrap();
    let x = [-1.0f32, 0.2, 0.6, 1.3];
    let mut r = program(&graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap(), &[("x", &x)]);
    r.step().unwrap();
    assert_eq!(r.values::<f32>("grad.x").unwrap(), [-2.0, 0.0, 1.0, 3.0]);
    let mut f = program(&graph.jvp(&["loss"], &["x"]).unwrap(), &[("x", &x), ("tangent.x", &[1.0, 1.0, 2.0, 4.0])]);
    f.step().unwrap();
    assert_eq!(f.values::<f32>("tangent.loss").unwrap(), [12.0]);
}
