//! Products of codes: fixed numbers, gradients that pass through codes as through real numbers, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::conform_distance;
use arenagrad::graph::quant::{CodeProduct, ProductSte, Quantize};
use arenagrad::graph::window::Conv2d;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Missing, grad, vjp};
use arenagrad::session::{Elem, Program, Session};

fn program(g: &GraphBuf) -> Program {
    Session::new().compile(g).unwrap()
}

fn set<T: Elem>(p: &mut Program, name: &str, x: &[T]) {
    p.values_mut::<T>(name).unwrap().copy_from_slice(x);
}

/// x `[2, 3]` by w `[3, 2]` with a bias, as `y`.
fn example(options: CodeProduct) -> GraphBuf {
    let g = Builder::new("example");
    let (x, w) = (g.input("x", [2, 3], DType::I8), g.input("w", [3, 2], DType::I8));
    let bias = g.input("bias", [2], DType::I32);
    let y = x.q_matmul(w, bias, None, options.x_zp(3).w_zp(-1)).named("y");
    g.finish([y]).unwrap()
}

fn fill(p: &mut Program) {
    set(p, "x", &[1i8, -2, 3, 127, 0, -128]);
    set(p, "w", &[2i8, -1, 0, 5, -3, 4]);
    set(p, "bias", &[10i32, -20]);
}

#[test]
fn sums_codes_and_numbers_are_those_of_the_definition() {
    let mut p = program(&example(CodeProduct::to_i32()));
    fill(&mut p);
    p.step().unwrap();
    assert_eq!(p.values::<i32>("y").unwrap(), [-1, -50, 641, -693]);
    // −50·0.05 is −2.5, whose even neighbour is −2.
    let mut p = program(&example(CodeProduct::to_i8().out_zp(5).s_x(0.5).s_w(0.2).s_out(2.0)));
    fill(&mut p);
    p.step().unwrap();
    assert_eq!(p.values::<i8>("y").unwrap(), [5, 3, 37, -30]);
    let mut p = program(&example(CodeProduct::to_f32().s_x(0.5).s_w(0.25)));
    fill(&mut p);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("y").unwrap(), [-0.125, -6.25, 80.125, -86.625]);
}

/// The gradients of x, w and bias for the cotangent of [`example`].
fn gradients(options: CodeProduct) -> Vec<Vec<f32>> {
    let names = ["x", "w", "bias"];
    let g = vjp(example(options).view(), &["y"], &names, Missing::Error).unwrap();
    let mut p = program(&g);
    fill(&mut p);
    let cotangent = g.view().leaves().map(|l| l.name.to_string()).find(|n| n.contains('y')).unwrap();
    set(&mut p, &cotangent, &[1f32, 0.5, -2.0, 0.25]);
    p.step().unwrap();
    names.iter().map(|n| p.values::<f32>(&format!("grad.{n}")).unwrap().to_vec()).collect()
}

fn near(ours: &[f32], theirs: &[f64]) {
    let ours: Vec<f64> = ours.iter().map(|x| f64::from(*x)).collect();
    assert!(conform_distance(&ours, theirs) < 1e-6, "{ours:?}, not {theirs:?}");
}

#[test]
fn gradients_are_those_of_real_numbers_or_of_codes() {
    let options = CodeProduct::to_i8().out_zp(5).s_x(0.5).s_w(0.2).s_out(2.0);
    let of_codes = gradients(options.ste(ProductSte::Codes));
    near(&of_codes[0], &[0.15, 0.2, 0.025, -0.3, -0.025, 0.2625]);
    near(&of_codes[1], &[-12.5, 1.5, 0.05, -0.1625, 13.1, -1.6375]);
    near(&of_codes[2], &[-0.05, 0.0375]);
    for ste in [ProductSte::Plain, ProductSte::Masked] {
        let of_reals = gradients(options.ste(ste));
        near(&of_reals[0], &[0.6, 0.8, 0.1, -1.2, -0.1, 1.05]);
        near(&of_reals[1], &[-125.0, 15.0, 0.5, -1.625, 131.0, -16.375]);
        near(&of_reals[2], &[-1.0, 0.75]);
    }
}

#[test]
fn the_mask_stops_what_is_cut_off() {
    // Sums −1, −50, 641, −693 times 0.25: the last two are beyond the codes.
    let options = CodeProduct::to_i8().s_x(0.5).s_w(0.5);
    let (masked, plain) = (gradients(options), gradients(options.ste(ProductSte::Plain)));
    near(&masked[2], &[1.0, 0.5]);
    near(&plain[2], &[-1.0, 0.75]);
    assert_eq!(masked[0][3..], [0.0; 3]);
    near(&masked[0][..3], &[1.5, 2.0, 0.25]);
}

/// Real numbers with steps of `s`.
fn on_grid(n: usize, s: f64, seed: usize) -> Vec<f32> {
    (0..n).map(|i| (((i * 73 + seed * 31) % 201) as f64 - 100.0) as f32 * s as f32).collect()
}

/// x `[5, 6]` and w `[6, 4]` quantised, multiplied, dequantised and squared; or the same in floats.
fn chain(by_codes: bool, (s_x, s_w, s_out): (f64, f64, f64)) -> GraphBuf {
    let g = Builder::new("chain");
    let (x, w) = (g.input("x", [5, 6], DType::F32), g.input("w", [6, 4], DType::F32));
    let scale = |s: f64| g.constant(&[s as f32], []);
    let y = if by_codes {
        let xq = x.quantize(scale(s_x), None, Quantize::i8()).reshape([6, 5]).reshape([5, 6]);
        let wq = w.quantize(scale(s_w), None, Quantize::i8());
        let options = CodeProduct::to_i8().s_x(s_x).s_w(s_w).s_out(s_out).ste(ProductSte::Plain);
        xq.q_matmul(wq, None, None, options).dequantize(scale(s_out), None, None)
    } else {
        x.matmul(w)
    };
    // The cotangent of y is 2·y of the codes in one, and of the floats in the other; a constant makes them equal.
    let weights = g.iota(0, [20], DType::F32).reshape([5, 4]) - 7.5;
    let loss = (y * weights).sum(..).named("loss");
    g.finish([loss]).unwrap()
}

#[test]
fn a_chain_through_codes_has_the_gradients_of_real_numbers() {
    for (s_x, s_w, s_out) in [(0.25, 0.5, 64.0), (1e-3, 2e-3, 0.5), (1e4, 2.0, 1e6)] {
        let (x, w) = (on_grid(30, s_x, 1), on_grid(24, s_w, 2));
        let run = |by_codes: bool| {
            let g = grad(&chain(by_codes, (s_x, s_w, s_out)), "loss", &GradOptions::wrt(&["x", "w"])).unwrap();
            let mut p = program(&g);
            set(&mut p, "x", &x);
            set(&mut p, "w", &w);
            p.step().unwrap();
            let read = |n: &str| -> Vec<f64> {
                p.values::<f32>(&format!("grad.{n}")).unwrap().iter().map(|x| f64::from(*x)).collect()
            };
            (read("x"), read("w"))
        };
        let (codes, reals) = (run(true), run(false));
        for (codes, reals) in [(codes.0, reals.0), (codes.1, reals.1)] {
            let most = reals.iter().fold(0f64, |m, x| m.max(x.abs()));
            assert!(most > 0.0);
            let far = codes.iter().zip(&reals).map(|(a, b)| (a - b).abs() / most).fold(0.0, f64::max);
            assert!(far < 1e-6, "{far}");
        }
    }
}

#[test]
fn an_i8_leaf_has_a_gradient_in_f32() {
    let options = CodeProduct::to_f32().s_x(1e-3).s_w(1e4);
    let g = Builder::new("leaf");
    let (x, w) = (g.input("x", [1, 2], DType::I8), g.param("w", [2, 1], DType::I8, Init::Zeros));
    let loss = x.q_matmul(w, None, None, options).sum(..).named("loss");
    let g = grad(&g.finish([loss]).unwrap(), "loss", &GradOptions::wrt(&["w", "x"])).unwrap();
    let mut p = program(&g);
    set(&mut p, "x", &[3i8, -120]);
    set(&mut p, "w", &[1i8, 2]);
    p.step().unwrap();
    near(p.values::<f32>("grad.w").unwrap(), &[3e-3, -0.12]);
    assert_eq!(p.values::<f32>("grad.x").unwrap(), [1e4, 2e4]);
}

#[test]
fn the_gradient_of_x_has_the_scale_of_each_column() {
    let g = Builder::new("scales");
    let (x, w) = (g.input("x", [1, 2], DType::I8), g.input("w", [2, 2], DType::I8));
    let scales = g.input("scales", [2], DType::F32);
    let loss = x.q_matmul(w, None, scales, CodeProduct::to_f32().s_x(0.5)).sum(..).named("loss");
    let g = grad(&g.finish([loss]).unwrap(), "loss", &GradOptions::wrt(&["x"])).unwrap();
    let mut p = program(&g);
    set(&mut p, "x", &[3i8, -120]);
    set(&mut p, "w", &[1i8, 2, 3, -4]);
    set(&mut p, "scales", &[2f32, 0.5]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("grad.x").unwrap(), [3.0, 4.0]);
}

#[test]
fn a_window_of_one_place_is_a_matrix_product() {
    let g = Builder::new("one");
    let (x, w) = (g.input("x", [1, 7, 4, 3], DType::I8), g.input("w", [5, 7, 1, 1], DType::I8));
    let options = CodeProduct::to_i8().x_zp(-4).w_zp(2).out_zp(1).s_out(40.0);
    let conv = x.q_conv2d(w, None, None, Conv2d::default(), options);
    let rows = x.reshape([7, 12]).transpose(&[1, 0]);
    let product = rows.q_matmul(w.reshape([5, 7]).transpose(&[1, 0]), None, None, options);
    let product = product.transpose(&[1, 0]).reshape([1, 5, 4, 3]);
    let mut p = program(&g.finish([conv.named("a"), product.named("b")]).unwrap());
    set(&mut p, "x", &(0..84).map(|i| (i * 37 % 256 - 128) as i8).collect::<Vec<_>>());
    set(&mut p, "w", &(0..35).map(|i| (i * 91 % 256 - 128) as i8).collect::<Vec<_>>());
    p.step().unwrap();
    assert_eq!(p.values::<i8>("a").unwrap(), p.values::<i8>("b").unwrap());
    assert!(p.values::<i8>("a").unwrap().iter().any(|y| y.unsigned_abs() < 100 && *y != 1));
}

/// Zero points of columns: exact sums in every type of result, in products whose units divide rows and columns, and in
/// convolutions; and the gradient of x has them.
#[test]
fn each_column_may_have_a_zero_point() {
    for (m, k, n) in [(2, 3, 2), (7, 33, 70), (1, 301, 300), (40, 2, 1)] {
        let code = |i: usize, seed: usize| (((i + seed) * 7919 + seed) % 256) as i64 - 128;
        let zero = |j: usize| [-128, 127, 0, 5][j % 4];
        let g = Builder::new("columns");
        let (x, w) = (g.input("x", [m, k], DType::I8), g.input("w", [k, n], DType::I8));
        let (zeros, bias) = (g.input("zeros", [n], DType::I8), g.input("bias", [n], DType::I32));
        let scales = g.input("scales", [n], DType::F32);
        let of = |options: CodeProduct<'static>| options.x_zp(3).w_zps(Some(zeros));
        g.output("sums", x.q_matmul(w, bias, None, of(CodeProduct::to_i32())));
        g.output("real", x.q_matmul(w, bias, scales, of(CodeProduct::to_f32().s_x(0.5))));
        g.output("codes", x.q_matmul(w, None, None, of(CodeProduct::to_i8().out_zp(-3).s_out(1000.0))));
        // One image whose pixels are the rows of x.
        let image = x.t().reshape([1, k, m, 1]);
        let y = image.q_conv2d(w.t().reshape([n, k, 1, 1]), bias, None, Conv2d::default(), of(CodeProduct::to_i32()));
        g.output("image", y.reshape([n, m]).t());
        let mut p = program(&g.finish([]).unwrap());
        set(&mut p, "x", &(0..m * k).map(|i| code(i, 1) as i8).collect::<Vec<_>>());
        set(&mut p, "w", &(0..k * n).map(|i| code(i, 2) as i8).collect::<Vec<_>>());
        set(&mut p, "zeros", &(0..n).map(|j| zero(j) as i8).collect::<Vec<_>>());
        set(&mut p, "bias", &(0..n).map(|j| j as i32 - 9).collect::<Vec<_>>());
        set(&mut p, "scales", &(0..n).map(|j| 0.25 * (1 + j % 3) as f32).collect::<Vec<_>>());
        p.step().unwrap();
        let plain = |i: usize, j: usize| -> i64 {
            (0..k).map(|t| (code(i * k + t, 1) - 3) * (code(t * n + j, 2) - zero(j))).sum()
        };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let (sum, at) = (plain(i, j), i * n + j);
            let biased = sum + j as i64 - 9;
            assert_eq!(i64::from(p.values::<i32>("sums").unwrap()[at]), biased, "{m} {k} {n}: {i} {j}");
            assert_eq!(i64::from(p.values::<i32>("image").unwrap()[at]), biased, "{m} {k} {n}: {i} {j}");
            let real = (biased as f64 * (0.5 * 0.25 * (1 + j % 3) as f64)) as f32;
            assert_eq!(p.values::<f32>("real").unwrap()[at], real);
            let rounded = (sum as f64 / 1000.0).round_ties_even() - 3.0;
            assert_eq!(f64::from(p.values::<i8>("codes").unwrap()[at]), rounded.clamp(-128.0, 127.0));
        }
    }
    let g = Builder::new("gradient");
    let x = g.input("x", [1, 2], DType::F32);
    let codes = x.quantize(g.constant(&[1.0f32], []), None, Quantize::i8());
    let (w, zeros) = (g.input("w", [2, 2], DType::I8), g.input("zeros", [2], DType::I8));
    let y = codes.q_matmul(w, None, None, CodeProduct::to_f32().w_zps(Some(zeros)));
    let graph = g.finish([(y * g.constant(&[1.0f32, 100.0], [1, 2])).sum(..).named("loss")]).unwrap();
    let mut p = program(&grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap());
    set(&mut p, "x", &[3.0f32, 4.0]);
    set(&mut p, "w", &[10i8, 20, 30, 40]);
    set(&mut p, "zeros", &[1i8, -2]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("loss").unwrap(), [3.0 * 9.0 + 4.0 * 29.0 + 100.0 * (3.0 * 22.0 + 4.0 * 42.0)]);
    assert_eq!(p.values::<f32>("grad.x").unwrap(), [9.0 + 2200.0, 29.0 + 4200.0]);
}

#[test]
fn wrong_use_is_refused() {
    let refused = |f: &dyn Fn(&Builder), part: &str| {
        let g = Builder::new("wrong");
        f(&g);
        let e = g.finish([]).unwrap_err().to_string();
        assert!(e.contains(part), "{e}");
    };
    let product = |k: usize, options: CodeProduct<'static>| {
        move |g: &Builder| {
            let (x, w) = (g.input("x", [1, k], DType::I8), g.input("w", [k, 1], DType::I8));
            g.output("y", x.q_matmul(w, None, None, options));
        }
    };
    refused(&product(33_001, CodeProduct::to_i8()), "33001 terms");
    refused(&product(2, CodeProduct::to_i8().x_zp(128)), "x_zp is 128");
    refused(&product(2, CodeProduct::to_i8().s_out(0.0)), "s_out is 0");
    refused(&product(2, CodeProduct::to_f32().s_out(2.0)), "has neither");
    refused(&product(2, CodeProduct::to_i8().s_x(f64::NAN)), "s_x is NaN");
    refused(
        &|g| {
            let (x, w) = (g.input("x", [1, 2], DType::I8), g.input("w", [2, 1], DType::U8));
            g.output("y", x.q_matmul(w, None, None, CodeProduct::to_i8()));
        },
        "w is u8",
    );
}

#[test]
fn a_scale_that_is_not_above_zero_ends_the_step() {
    let run = |conv: bool, options: CodeProduct<'static>, bad: f32| {
        let g = Builder::new("scales");
        let (bias, scales) = (g.input("bias", [2], DType::I32), g.input("scales", [2], DType::F32));
        let y = if conv {
            let (x, w) = (g.input("x", [1, 3, 2, 1], DType::I8), g.input("w", [2, 3, 1, 1], DType::I8));
            x.q_conv2d(w, bias, scales, Conv2d::default(), options)
        } else {
            let (x, w) = (g.input("x", [2, 3], DType::I8), g.input("w", [3, 2], DType::I8));
            x.q_matmul(w, bias, scales, options)
        };
        let mut p = program(&g.finish([y.named("y")]).unwrap());
        fill(&mut p);
        set(&mut p, "scales", &[0.5, bad]);
        p.step().map_err(|e| e.to_string())
    };
    for conv in [false, true] {
        for options in [CodeProduct::to_i8(), CodeProduct::to_f32()] {
            assert!(run(conv, options, 0.25).is_ok());
            for bad in [-1.0, 0.0, f32::NAN, f32::INFINITY] {
                let e = run(conv, options, bad).unwrap_err();
                assert!(e.contains("scale 1 is no normal number above 0") && e.contains("code_products.rs"), "{e}");
            }
        }
    }
}

/// A bias is added exactly, though its sum with the products needs more than 32 bits.
#[test]
fn a_large_bias_does_not_wrap_but_in_i32() {
    let of = |k: usize, conv: bool, options: CodeProduct<'static>| {
        let g = Builder::new("large");
        let bias = g.input("bias", [1], DType::I32);
        let y = if conv {
            let (x, w) = (g.input("x", [1, k, 1, 1], DType::U8), g.input("w", [1, k, 1, 1], DType::I8));
            x.q_conv2d(w, bias, None, Conv2d::default(), options)
        } else {
            let (x, w) = (g.input("x", [1, k], DType::U8), g.input("w", [k, 1], DType::I8));
            x.q_matmul(w, bias, None, options)
        };
        let real = if options.to == DType::F32 { y } else { y.cast(DType::F32) };
        g.finish([y.named("y"), real.named("real")]).unwrap()
    };
    let run = |g: &GraphBuf, k: usize, code: u8| {
        let mut p = program(g);
        set(&mut p, "x", &vec![code; k]);
        set(&mut p, "w", &vec![if code == 1 { 1i8 } else { 127 }; k]);
        set(&mut p, "bias", &[i32::MAX]);
        p.step().unwrap();
        p.values::<f32>("real").unwrap()[0]
    };
    for conv in [false, true] {
        assert_eq!(run(&of(1, conv, CodeProduct::to_i8().s_out(1e7)), 1, 1), 127.0);
        assert_eq!(run(&of(1, conv, CodeProduct::to_i8().s_out(2e7)), 1, 1), 107.0);
        assert_eq!(run(&of(1, conv, CodeProduct::to_f32()), 1, 1), 2_147_483_648.0);
        assert_eq!(run(&of(1, conv, CodeProduct::to_i32()), 1, 1), -2_147_483_648.0);
    }
    // 31000·255·127 and the bias are 3.15e9, which is cut off; wrapped around they would be −1.14e9, and −114 is not.
    let k = 31_000;
    let g = Builder::new("masked");
    let (x, w) = (g.input("x", [1, k], DType::U8), g.input("w", [k, 1], DType::I8));
    let (bias, s) = (g.input("bias", [1], DType::I32), g.constant(&[1e7], []));
    let y = x.q_matmul(w, bias, None, CodeProduct::to_i8().s_out(1e7)).dequantize(s, None, None);
    let graph = g.finish([y.sum(..).named("loss"), y.named("real")]).unwrap();
    let graph = graph.grad("loss", &GradOptions::wrt(&["bias"])).unwrap();
    let mut p = program(&graph);
    set(&mut p, "x", &vec![255u8; k]);
    set(&mut p, "w", &vec![127i8; k]);
    set(&mut p, "bias", &[i32::MAX]);
    p.step().unwrap();
    assert_eq!((p.values::<f32>("real").unwrap(), p.values::<f32>("grad.bias").unwrap()), (&[1.27e9][..], &[0.0][..]));
}

/// Codes with a zero point of 1 are 127, 128, −126 and −127 before they are cut off; with one of −1, 125, 126, −128 and
/// −129.
#[test]
fn the_outermost_codes_are_not_cut_off() {
    for (zero, want) in [(1, [1.0, 0.0, 1.0, 1.0]), (-1, [1.0, 1.0, 1.0, 0.0])] {
        let g = Builder::new("ends");
        let (x, w) = (g.input("x", [4, 1], DType::I8), g.input("w", [1, 1], DType::I8));
        let y = x.q_matmul(w, None, None, CodeProduct::to_i8().out_zp(zero));
        let real = y.dequantize(g.constant(&[1f32], []), None, None);
        let graph = g.finish([real.sum(..).named("loss")]).unwrap();
        let mut p = program(&graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap());
        set(&mut p, "x", &[126i8, 127, -127, -128]);
        set(&mut p, "w", &[1i8]);
        p.step().unwrap();
        assert_eq!(p.values::<f32>("grad.x").unwrap(), want, "{zero}");
    }
}

/// Sums have no scale: the scales of columns are not in the derivative of the codes.
#[test]
fn the_derivative_of_sums_of_codes_has_no_scale() {
    let g = Builder::new("sums");
    let (x, w) = (g.input("x", [1, 2], DType::I8), g.input("w", [2, 2], DType::I8));
    let scales = g.input("scales", [2], DType::F32);
    let y = x.q_matmul(w, None, scales, CodeProduct::to_i32().ste(ProductSte::Codes));
    let real = y.dequantize(g.constant(&[1f32], []), None, None);
    let graph = g.finish([real.sum(..).named("loss")]).unwrap();
    let mut p = program(&graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap());
    set(&mut p, "x", &[3i8, -120]);
    set(&mut p, "w", &[1i8, 2, 3, -4]);
    set(&mut p, "scales", &[2f32, 0.5]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("grad.x").unwrap(), [3.0, -1.0]);
}
