//! Numbers rounded as codes would be: values and derivatives against the formulas and torch, running and learned
//! scales, quantisation-aware graphs.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::quant::{FakeQuantize, FakeSte, Lsq, LsqFactor, Qat, QuantScale};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, LeafKind, Var};
use arenagrad::nn;
use arenagrad::optim::{Optimiser, Sgd, train};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ir::text;
use safetensors::SafeTensors;
use std::path::Path;

/// The numbers of the worked example, and the cotangents of the results.
const X: [f64; 6] = [-2.0, -0.33, 0.12, 0.9, 1.6, 3.0];
const DY: [f64; 6] = [1.0, 0.5, -1.0, 2.0, -0.25, 0.75];

fn close(have: &[f64], want: &[f64], most: f64) {
    assert_eq!(have.len(), want.len());
    for (a, b) in have.iter().zip(want) {
        assert!((a - b).abs() <= most, "{have:?}\n{want:?}");
    }
}

/// The results of `f` on [`X`] and a scale, and the gradients of both of Σ y·DY.
fn example(s: f64, f: impl for<'g> Fn(Var<'g>, Var<'g>) -> Var<'g>) -> [Vec<f64>; 3] {
    let g = Builder::new("example");
    let (x, s_in) = (g.input("x", [6], DType::F64), g.input("s", [], DType::F64));
    let y = f(x, s_in).named("y");
    let loss = (y * g.constant_f64(&DY, [6])).sum(..).named("loss");
    let options = GradOptions::wrt(&["x", "s"]).missing(arenagrad::graph::Missing::Zero);
    let graph = g.finish([loss, y]).unwrap().grad("loss", &options).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&X);
    p.values_mut::<f64>("s").unwrap()[0] = s;
    p.step().unwrap();
    ["y", "grad.x", "grad.s"].map(|name| p.values::<f64>(name).unwrap().to_vec())
}

#[test]
fn the_four_derivatives_of_the_worked_example() {
    let y = [-1.4, -0.4, 0.2, 0.8, 1.4, 1.4];
    for (ste, dx) in [
        (FakeSte::Identity, DY),
        (FakeSte::Clipped, [0.0, 0.5, -1.0, 2.0, 0.0, 0.0]),
        (FakeSte::Saturated, [0.0, 0.5, -1.0, 2.0, 0.0, 0.0]),
        (FakeSte::Tanh, [0.2054533, 0.4732169, -0.9926889, 1.3573807, -0.0837913, 0.0401778]),
        (FakeSte::Hardtanh, [0.0, 0.3821429, -0.9142857, 0.7142857, 0.0, 0.0]),
    ] {
        let [have_y, have_dx, ds] = example(0.2, |x, s| x.fake_quantize(s, None, FakeQuantize::bits(4).ste(ste)));
        close(&have_y, &y, 1e-12);
        close(&have_dx, &dx, 1e-7);
        assert_eq!(ds, [0.0]);
    }
    // The two kinds of clipping differ up to half a step outside.
    let of = |ste| example(0.2 * 1.6 / 1.45, |x, s| x.fake_quantize(s, None, FakeQuantize::bits(4).ste(ste)))[1][4];
    assert_eq!((of(FakeSte::Clipped), of(FakeSte::Saturated)), (0.0, DY[4]));
}

#[test]
fn scales_of_a_batch() {
    let of = |bits| {
        let hi = FakeQuantize::bits(bits).range.1;
        example(1.0, |x, _| x.fake_quantize(x.symmetric_scale(hi, None), None, FakeQuantize::bits(bits)))
    };
    let scale = 3.0 / 127.0;
    close(&of(8)[0][..1], &[-85.0 * scale], 1e-12);
    assert!((of(8)[0][0] + 2.0078740).abs() < 1e-7);
    close(&of(4)[0], &[-5.0, -1.0, 0.0, 2.0, 4.0, 7.0].map(|q| q * 3.0 / 7.0), 1e-12);
    close(&of(2)[0], &[-3.0, 0.0, 0.0, 0.0, 3.0, 3.0], 1e-12);
    // No gradient comes through the scale: the largest number has its own alone.
    close(&of(4)[1], &DY, 0.0);
}

#[test]
fn numbers_that_are_all_zero_stay_zero() {
    let g = Builder::new("zeros");
    let x = g.param("x", [2, 3], DType::F32, Init::Zeros);
    let y = g.fake_quantize("x", x, FakeQuantize::bits(8).axis(0), QuantScale::PerBatch);
    let graph = g.finish([y.sum(..).named("loss"), y.named("y")]).unwrap();
    let mut p = Session::new().compile(&graph.grad("loss", &GradOptions::wrt(&["x"])).unwrap()).unwrap();
    p.init(0).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("y").unwrap(), [0.0; 6]);
    assert_eq!(p.values::<f32>("grad.x").unwrap(), [1.0; 6]);
}

#[test]
fn bits_and_ranges_that_do_not_exist_are_refused() {
    let refused = |f: &dyn for<'g> Fn(Var<'g>, Var<'g>) -> Var<'g>| {
        let g = Builder::new("bad");
        let y = f(g.input("x", [6], DType::F32), g.input("s", [], DType::F32));
        g.finish([y]).unwrap_err().to_string()
    };
    for bits in [0, 1, 9, 64] {
        let e = refused(&|x, s| x.fake_quantize(s, None, FakeQuantize::bits(bits)));
        assert!(e.contains("bits go from 2 to 8") && e.contains("fake_quantize.rs"), "{e}");
        let e = refused(&|x, s| x.lsq(s, Lsq::bits(bits)));
        assert!(e.contains("bits go from 2 to 8"), "{e}");
    }
    for bits in [2, 8] {
        let codes = |lsq: Lsq| {
            let g = Builder::new("range");
            g.output("y", g.input("x", [2], DType::F32).lsq(g.constant(&[1.0], []), lsq));
            let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
            p.values_mut::<f32>("x").unwrap().copy_from_slice(&[-1e3, 1e3]);
            p.step().unwrap();
            p.values::<f32>("y").unwrap().to_vec()
        };
        let n = (1 << bits) as f32;
        assert_eq!(codes(Lsq::bits(bits)), [-n / 2.0, n / 2.0 - 1.0]);
        assert_eq!(codes(Lsq::unsigned_bits(bits)), [0.0, n - 1.0]);
    }
    for bits in [0, 1, 9] {
        let e = refused(&|x, s| x.lsq(s, Lsq::unsigned_bits(bits)));
        assert!(e.contains("bits go from 2 to 8"), "{e}");
    }
    let e = refused(&|x, s| x.lsq(s, Lsq::codes(1, 1)));
    assert!(e.contains("1..=1 is no range of codes"), "{e}");
    let e = refused(&|x, _| x.builder().fake_quantize("x", x, FakeQuantize::bits(9), QuantScale::PerBatch));
    assert!(e.contains("bits go from 2 to 8"), "{e}");
    let e = refused(&|x, s| x.fake_quantize(s, None, FakeQuantize::affine(3, 3)));
    assert!(e.contains("3..=3 is no range of codes"), "{e}");
    let e = refused(&|x, s| x.fake_quantize(s, None, FakeQuantize::affine(0, 3).ste(FakeSte::Tanh)));
    assert!(e.contains("tanh and hardtanh need a range −hi..=hi"), "{e}");
    let e = refused(&|x, s| x.lsq(s, Lsq::codes(-3, 0).factor(LsqFactor::Paper)));
    assert!(e.contains("needs a highest code above 0"), "{e}");
    for decay in [1.0, -0.5, f64::NAN] {
        let e = refused(&|x, _| x.builder().fake_quantize("x", x, FakeQuantize::bits(8), QuantScale::Ema(decay)));
        assert!(e.contains(&format!("running_scale(\"x\"): decay is {decay}; it is in [0, 1)")), "{e}");
    }
    for hi in [0, -7] {
        let e = refused(&|x, _| x.builder().running_scale("x", x, hi, None, 0.5));
        assert!(e.contains(&format!("running_scale(\"x\"): hi is {hi}; it is 1 or more")), "{e}");
        let e = refused(&|x, _| x.symmetric_scale(hi, None));
        assert!(e.starts_with("symmetric_scale(") && e.contains(&format!("hi is {hi}; it is 1 or more")), "{e}");
        let e = refused(&|x, _| x.lsq_scale(hi, None));
        assert!(e.starts_with("lsq_scale(") && e.contains(&format!("hi is {hi}; it is 1 or more")), "{e}");
    }
    let e = refused(&|x, _| x.symmetric_scale(7, 1));
    assert!(e.starts_with("symmetric_scale(") && e.contains("axis 1 is outside rank 1"), "{e}");
    let e = refused(&|x, _| x.lsq_scale(7, -2));
    assert!(e.starts_with("lsq_scale(") && e.contains("axis -2 is outside rank 1"), "{e}");
    for (lo, hi) in [(-8, 0), (5, 10), (1, 10), (-8, -3)] {
        for scale in [QuantScale::PerBatch, QuantScale::Ema(0.9)] {
            let e = refused(&|x, _| x.builder().fake_quantize("x", x, FakeQuantize::affine(lo, hi), scale));
            assert!(e.contains(&format!("codes {lo}..={hi}; with a scale of the batch")), "{e}");
        }
        let g = Builder::new("fixed");
        let (x, s) = (g.input("x", [6], DType::F32), g.input("s", [], DType::F32));
        let y = g.fake_quantize("x", x, FakeQuantize::affine(lo, hi), QuantScale::Fixed(s));
        g.finish([y]).unwrap();
    }
}

#[test]
fn torchs_fake_quantisation_has_these_values_and_gradients() {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/quantized.safetensors")).unwrap();
    let fixture = SafeTensors::deserialize(&bytes).unwrap();
    let f32s = |key: &str| -> Vec<f32> {
        fixture.tensor(key).unwrap().data().as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
    };
    let i32s = |key: &str| -> Vec<i32> {
        fixture.tensor(key).unwrap().data().as_chunks().0.iter().map(|&b| i32::from_le_bytes(b)).collect()
    };
    let agrees = |names: [&str; 4], dims: &[usize], scale: &[f32], zero: &[i32], options: FakeQuantize| {
        let g = Builder::new("torch");
        let per: &[usize] = if options.axis.is_some() { &[scale.len()] } else { &[] };
        let x = g.input("x", dims, DType::F32);
        let y = x.fake_quantize(g.constant(scale, per), g.input("z", per, DType::I32), options).named("y");
        let loss = (y * g.input("dy", dims, DType::F32)).sum(..).named("loss");
        let graph = g.finish([loss, y]).unwrap().grad("loss", &GradOptions::wrt(&["x"])).unwrap();
        let mut p = Session::new().compile(&graph).unwrap();
        p.values_mut::<f32>("x").unwrap().copy_from_slice(&f32s(names[0]));
        p.values_mut::<f32>("dy").unwrap().copy_from_slice(&f32s(names[1]));
        p.values_mut::<i32>("z").unwrap().copy_from_slice(zero);
        p.step().unwrap();
        assert_eq!(p.values::<f32>("y").unwrap(), f32s(names[2]), "{names:?}");
        assert_eq!(p.values::<f32>("grad.x").unwrap(), f32s(names[3]), "{names:?}");
    };
    for (name, scale, zero, lo, hi) in [
        ("int8", 0.03, 0, -128, 127),
        ("uint8", 0.021, 117, 0, 255),
        ("narrow", 0.25, -3, -7, 8),
        ("zero_at_end", 0.25, 8, -7, 8),
        ("wide", 0.001, 5, -1000, 900),
    ] {
        let (y, dx) = (format!("{name}.y"), format!("{name}.dx"));
        agrees(["x", "dy", &y, &dx], &[281], &[scale], &[zero], FakeQuantize::affine(lo, hi));
    }
    for axis in 0..3 {
        let (y, dw) = (format!("axis{axis}.y"), format!("axis{axis}.dw"));
        let (scale, zero) = (f32s(&format!("axis{axis}.scale")), i32s(&format!("axis{axis}.zero")));
        let options = FakeQuantize::affine(-8, 7).axis(axis);
        agrees(["w", "dw", &y, &dw], &[4, 3, 5], &scale, &zero, options);
    }
}

#[test]
fn learned_scales_of_the_worked_example() {
    let [y, dx, ds] = example(0.2, |x, s| x.lsq(s, Lsq::codes(-7, 7)));
    close(&y, &[-1.4, -0.4, 0.2, 0.8, 1.4, 1.4], 1e-12);
    close(&dx, &[0.0, 0.5, -1.0, 2.0, 0.0, 0.0], 0.0);
    close(&ds, &[-5.075], 1e-9);
    let ds = &example(0.2, |x, s| x.lsq(s, Lsq::codes(-7, 7).factor(LsqFactor::Paper)))[2];
    close(ds, &[-0.7830895], 1e-7);
    // The end of the range is inside: x/s is ±hi there.
    let dx = &example(0.5, |x, s| x.lsq(s, Lsq::codes(-4, 6)))[1];
    close(dx, &DY, 0.0);
    let of = example(0.25, |x, _| x.lsq(x.lsq_scale(7, None), Lsq::codes(-7, 7)));
    let scale = 2.0 * X.iter().map(|x| x.abs()).sum::<f64>() / 6.0 / 7f64.sqrt();
    close(&of[0][..1], &[(-2.0 / scale).round_ties_even() * scale], 1e-12);
}

#[test]
fn a_scale_for_each_channel_is_learned_as_if_alone() {
    let run = |columns: std::ops::Range<usize>| {
        let n = columns.len();
        let g = Builder::new("channels");
        let (x, s) = (g.input("x", [40, n], DType::F32), g.input("s", [n], DType::F32));
        let y = x.lsq(s, Lsq::bits(3).axis(1).factor(LsqFactor::Paper));
        let w = (g.iota(0, [40, n], DType::F32) - 17.3) * 0.1;
        let graph = g.finish([(y * w).sum(..).named("loss")]).unwrap();
        let mut p = Session::new().compile(&graph.grad("loss", &GradOptions::wrt(&["x", "s"])).unwrap()).unwrap();
        for (i, x) in p.values_mut::<f32>("x").unwrap().iter_mut().enumerate() {
            let (row, c) = (i / n, columns.start + i % n);
            *x = ((row * 29 + c * 13) % 37) as f32 * 0.05 - 0.8;
        }
        p.values_mut::<f32>("s").unwrap().iter_mut().zip(columns).for_each(|(s, c)| *s = 0.1 + 0.07 * c as f32);
        p.step().unwrap();
        p.values::<f32>("grad.s").unwrap().to_vec()
    };
    let all = run(0..5);
    for c in 0..5 {
        let one = run(c..c + 1)[0];
        assert!((all[c] - one).abs() <= 1e-5 * one.abs().max(1.0) && one != 0.0, "{all:?} {one}");
    }
}

/// Codes 0 to 3 with the zero point 1 stand for −½ to 1: the derivative is 1 between these.
#[test]
fn a_zero_point_moves_the_ends_of_the_range() {
    let options = FakeQuantize::affine(0, 3).ste(FakeSte::Clipped);
    let [y, dx, _] = example(0.5, |x, s| x.fake_quantize(s, x.builder().full(1.0, [], DType::I32), options));
    close(&y, &[-0.5, -0.5, 0.0, 1.0, 1.0, 1.0], 1e-12);
    close(&dx, &[0.0, 0.5, -1.0, 2.0, 0.0, 0.0], 0.0);
}

#[test]
fn ranges_of_one_code_or_from_zero_on_have_scales_of_the_batch() {
    let of = |options| example(1.0, |x, _| x.builder().fake_quantize("x", x, options, QuantScale::PerBatch));
    // The largest |x|, 3, has the code 1.
    close(&of(FakeQuantize::bits(2))[0], &[-3.0, 0.0, 0.0, 0.0, 3.0, 3.0], 1e-12);
    // Codes 0 to 3 have the scale 1.
    close(&of(FakeQuantize::affine(0, 3))[0], &[0.0, 0.0, 0.0, 1.0, 2.0, 3.0], 1e-12);
    let g = Builder::new("running");
    let x = g.input("x", [6], DType::F32);
    g.finish([g.fake_quantize("x", x, FakeQuantize::bits(2), QuantScale::Ema(0.0))]).unwrap();
}

/// A layer of 4 bits with learned scales, fitted to a target.
#[test]
fn training_a_layer_of_four_bits_with_learned_scales_lowers_its_loss() {
    let g = Builder::new("lsq");
    let x = g.input("x", [16, 8], DType::F32);
    let w = g.param("w", [8, 3], DType::F32, Init::Uniform(0.5));
    let (sw, sx) = (g.param("sw", [3], DType::F32, Init::Constant(0.1)), g.param("sx", [], DType::F32, Init::Ones));
    let paper = |l: Lsq| l.factor(LsqFactor::Paper);
    let y = x.lsq(sx, paper(Lsq::bits(4))).matmul(w.lsq(sw, paper(Lsq::bits(4).axis(1))));
    let loss = y.mse(g.input("t", [16, 3], DType::F32)).named("loss");
    let graph = g.finish([loss]).unwrap();
    assert_eq!(graph.quantized_weight_bits("w").unwrap(), Some(4));
    assert_eq!(graph.quantized_weight_bits("sw").unwrap(), None);
    assert!(graph.quantized_weight_bits("v").is_err());
    let mut p = Session::new().compile(&train(&graph, "loss", Sgd::new(0.05).momentum(0.9)).unwrap()).unwrap();
    p.init(5).unwrap();
    let x: Vec<f32> = (0..128).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&x);
    let t: Vec<f32> = x.chunks(8).flat_map(|r| [r[0] - 0.5 * r[3], 0.8 * r[1] + 0.3 * r[7], r[2] - r[5]]).collect();
    p.values_mut::<f32>("t").unwrap().copy_from_slice(&t);
    let mut losses = Vec::new();
    for _ in 0..200 {
        p.step().unwrap();
        losses.push(p.values::<f32>("loss").unwrap()[0]);
    }
    assert!(losses[199] < 0.15 * losses[0], "{} {}", losses[0], losses[199]);
    assert!(p.values::<f32>("sx").unwrap()[0] != 1.0);
}

/// A net with a running scale, for training or for evaluation.
fn running(training: bool) -> GraphBuf {
    let g = Builder::new("running");
    g.training(training);
    let x = g.input("x", [4, 2], DType::F32);
    let y = g.fake_quantize("in", x, FakeQuantize::bits(4), QuantScale::Ema(0.9)).named("y");
    let loss = nn::linear(&g, "fc", y, 1).square().mean(..).named("loss");
    g.finish([loss, y]).unwrap()
}

fn step_at(p: &mut Program, largest: f32) {
    for (i, x) in p.values_mut::<f32>("x").unwrap().iter_mut().enumerate() {
        *x = largest * [0.1, -0.6, 1.0, 0.3][i % 4];
    }
    p.step().unwrap();
}

#[test]
fn a_running_scale_is_updated_once_a_step_and_evaluation_reads_it() {
    let scale = |p: &Program| p.values::<f32>("in.scale").unwrap()[0];
    let plain = train(&running(true), "loss", Sgd::new(0.1)).unwrap();
    let budget = Session::new().memory_budget(1); // the least memory that can be: values are computed again
    let lean = budget.compile(&plain).or_else(|_| Session::new().compile(&plain)).unwrap();
    for mut p in [Session::new().compile(&plain).unwrap(), Session::new().threads(3).compile(&plain).unwrap(), lean] {
        p.init(1).unwrap();
        for (largest, want) in [(1.4, 0.2), (0.7, 0.19), (2.1, 0.201)] {
            step_at(&mut p, largest);
            assert!((scale(&p) - want).abs() < 1e-6, "{}", scale(&p));
        }
        // Training sees the scale of this step, evaluation the last one.
        let mut eval = Session::new().compile(&running(false)).unwrap();
        eval.init(1).unwrap();
        eval.values_mut::<f32>("in.scale").unwrap()[0] = 0.5;
        step_at(&mut eval, 10.0);
        assert_eq!(scale(&eval), 0.5);
        assert_eq!(eval.values::<f32>("y").unwrap()[2], 3.5);
    }
    let mut fresh = Session::new().compile(&running(false)).unwrap();
    fresh.init(1).unwrap();
    fresh.values_mut::<f32>("x").unwrap().fill(1.0);
    let e = fresh.step().unwrap_err().to_string();
    assert!(e.contains("scale 0 is no normal number above 0"), "{e}");
}

#[test]
fn micro_batches_update_a_running_scale_once_each() {
    let opt: Optimiser = Sgd::new(0.1).accumulate(3).into();
    let mut p = Session::new().compile(&train(&running(true), "loss", opt).unwrap()).unwrap();
    p.init(1).unwrap();
    let x = p.values_mut::<f32>("x").unwrap();
    for (x, largest) in x.chunks_exact_mut(8).zip([1.4, 0.7, 2.1]) {
        x.fill(0.1);
        x[3] = largest;
    }
    p.step().unwrap();
    assert!((p.values::<f32>("in.scale").unwrap()[0] - 0.201).abs() < 1e-6);
}

#[test]
fn a_run_that_is_stopped_and_goes_on_has_the_same_scales() {
    let plain = train(&running(true), "loss", Sgd::new(0.1).momentum(0.9)).unwrap();
    let mut whole = Session::new().compile(&plain).unwrap();
    whole.init(1).unwrap();
    let batches = [1.0, 0.3, 2.0, 0.9, 1.7];
    batches[..3].iter().for_each(|&b| step_at(&mut whole, b));
    let mut later = Session::new().compile(&plain).unwrap();
    let kept: Vec<(String, Vec<u8>)> = whole.persistent().map(|(b, x)| (b.name.to_string(), x.to_vec())).collect();
    kept.iter().for_each(|(name, x)| later.write_bytes(name, x).unwrap());
    batches[3..].iter().for_each(|&b| step_at(&mut whole, b));
    batches[3..].iter().for_each(|&b| step_at(&mut later, b));
    let bits = |p: &Program| p.persistent().map(|(_, x)| x.to_vec()).collect::<Vec<_>>();
    assert_eq!(bits(&whole), bits(&later));
}

#[test]
fn rounding_costs_no_sweep_of_its_own() {
    let g = Builder::new("fused");
    let x = g.input("x", [1000], DType::F32);
    let y = (x * 2.0).fake_quantize(g.constant(&[0.1], []), None, FakeQuantize::bits(8)).tanh() + 1.0;
    let p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    // The check of the scale, its reciprocal, and one pointwise sweep.
    assert_eq!(p.plan().instructions, 3);
}

/// A small net of a user, with a tied weight and a named activation.
fn net() -> GraphBuf {
    let g = Builder::new("net");
    let x = g.input("x", [4, 1, 6, 6], DType::F32);
    let c = nn::conv2d(&g, "conv", x, 2, 3, arenagrad::graph::window::Conv2d::default()).relu().named("relu1");
    let h = nn::linear(&g, "fc1", c.reshape([4, 32]), 5).relu().named("relu2");
    let y = nn::linear(&g, "fc2", h, 3).named("y");
    let e = h.matmul(g.param("proj", [5, 2], DType::F32, Init::Uniform(1.0)));
    let loss = (y.square().mean(..) + e.sum(..) * 0.01).named("loss");
    g.finish([loss, y]).unwrap()
}

fn states(g: &GraphBuf) -> Vec<(String, Vec<usize>)> {
    let v = g.view();
    let of = v.leaves().filter(|l| l.name.ends_with(".scale"));
    of.map(|l| (l.name.to_string(), v.dims(l.value).to_vec())).collect()
}

fn count(g: &GraphBuf, op: &str) -> usize {
    (0..g.view().nodes()).filter(|&n| g.view().def_of(arenagrad::tools::arena::Node(n as u32)).name == op).count()
}

#[test]
fn weights_and_inputs_of_their_products_are_rounded_by_pattern() {
    let names = |g: &GraphBuf| states(g).into_iter().map(|s| s.0).collect::<Vec<_>>();
    let all = net().qat(&Qat::int8().weights("*.weight")).unwrap();
    assert_eq!(names(&all), ["conv.input.scale", "fc1.input.scale", "fc2.input.scale"]);
    assert_eq!(count(&all, "fake_quantize"), 6);
    assert_eq!(all.quantized_weight_bits("fc1.weight").unwrap(), Some(8));
    assert_eq!(all.quantized_weight_bits("fc1.bias").unwrap(), None);
    // A scale for each output channel, if that is asked for.
    let axes =
        |g: &GraphBuf| text::print(g.view()).lines().filter(|l| l.contains("axis=0") && l.contains("= fake_q")).count();
    assert_eq!((axes(&all), axes(&net().qat(&Qat::int8().weights("*.weight").per_channel(false)).unwrap())), (3, 0));
    let one = net().qat(&Qat::with_bits(4).weights("fc*.weight").inputs(false)).unwrap();
    assert_eq!((names(&one).len(), count(&one, "fake_quantize")), (0, 2));
    assert_eq!(one.quantized_weight_bits("fc2.weight").unwrap(), Some(4));
    // Named activations, and inputs of the graph; what is rounded already is not rounded again.
    let acts = net().qat(&Qat::int8().weights("*.weight").activations("relu*").activations("x")).unwrap();
    assert_eq!(names(&acts), ["x.scale", "relu1.scale", "relu2.scale"]);
    assert_eq!(count(&acts, "fake_quantize"), 6);
    let right = net().qat(&Qat::int8().weights("proj")).unwrap();
    assert_eq!(names(&right), ["proj.input.scale"]);
}

#[test]
fn a_running_scale_takes_a_name_that_is_free() {
    let g = Builder::new("taken");
    let x = g.input("x", [2], DType::F32);
    let taken = ["x.scale", "x.2.scale"].map(|name| g.param(name, [], DType::F32, Init::Ones));
    let y = taken.into_iter().fold(x * 2.0, |y, s| y * s);
    let graph = g.finish([y.named("y")]).unwrap().qat(&Qat::int8().activations("x")).unwrap();
    let states = graph.view().leaves().filter(|l| l.kind == LeafKind::State).map(|l| l.name.to_string());
    assert_eq!(states.collect::<Vec<_>>(), ["x.3.scale"]);
}

#[test]
fn patterns_that_match_nothing_are_errors() {
    let e = net().qat(&Qat::int8().weights("fc3*")).unwrap_err().to_string();
    assert!(e.contains("weights: \"fc3*\" matches no param"), "{e}");
    let e = net().qat(&Qat::int8().activations("gelu*")).unwrap_err().to_string();
    assert!(e.contains("activations: \"gelu*\" matches no named value or input"), "{e}");
    let e = net().qat(&Qat::with_bits(9).weights("*.weight")).unwrap_err().to_string();
    assert!(e.contains("bits is 9"), "{e}");
}

#[test]
fn a_graph_for_training_and_one_for_evaluation_agree_after_training() {
    let options = Qat::int8().weights("*.weight");
    let step = train(&net().qat(&options).unwrap(), "loss", Sgd::new(0.05)).unwrap();
    let eval = net().qat(&options.clone().training(false)).unwrap();
    assert_eq!(states(&eval), states(&net().qat(&options).unwrap()));
    let (mut p, mut q) = (Session::new().compile(&step).unwrap(), Session::new().compile(&eval).unwrap());
    p.init(2).unwrap();
    let x: Vec<f32> = (0..144).map(|i| ((i * 31) % 47) as f32 / 23.0 - 1.0).collect();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&x);
    for _ in 0..5 {
        p.step().unwrap();
    }
    let names: Vec<String> = q.persistent().map(|(b, _)| b.name.clone()).collect();
    for name in names {
        let x = p.persistent().find(|(b, _)| b.name == name).unwrap().1;
        q.write_bytes(&name, x).unwrap();
    }
    q.values_mut::<f32>("x").unwrap().copy_from_slice(&x);
    q.step().unwrap();
    let scale = q.values::<f32>("fc1.input.scale").unwrap()[0];
    assert!(scale > 0.0 && q.values::<f32>("y").unwrap().iter().all(|y| y.is_finite()));
    q.step().unwrap();
    assert_eq!(q.values::<f32>("fc1.input.scale").unwrap()[0], scale);
}
