//! What an optimiser adds to a step on request: the norm of the gradients, and projections of params.

use arenagrad::error::{Kind, Location};
use arenagrad::op::Op;
use arenagrad::optim::{GRAD_NORM, Rule};
use arenagrad::prelude::*;

const F32: DType = DType::F32;

/// Two layers; the loss has outputs beside it.
fn net(g: &Builder) -> GraphBuf {
    let (x, y) = (g.input("x", [6, 5], F32), g.input("y", [6, 2], F32));
    let h = nn::linear(g, "fc1", x, 7).tanh();
    g.finish([nn::linear(g, "fc2", h, 2).mse(y).named("loss"), h.named("h")]).unwrap()
}

fn program(step: &GraphBuf, threads: usize) -> Program {
    let mut p = Session::new().threads(threads).share(threads > 1).compile(step).unwrap();
    p.init(1).unwrap();
    for (name, k) in [("x", 0.7f32), ("y", 1.9)] {
        p.values_mut::<f32>(name).unwrap().iter_mut().enumerate().for_each(|(i, v)| *v = (i as f32 * k).sin());
    }
    p
}

const PARAMS: [&str; 4] = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"];

#[test]
fn the_norm_is_that_of_the_gradients_before_clipping() {
    let g = Builder::new("net");
    let graph = net(&g);
    let mut grads = program(&grad(&graph, "loss", &GradOptions::default()).unwrap(), 1);
    grads.step().unwrap();
    let squares = PARAMS.iter().flat_map(|n| grads.values::<f32>(&format!("grad.{n}")).unwrap());
    let want = squares.map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    for sgd in [optim::Sgd::new(0.1), optim::Sgd::new(0.1).clip_norm(1e-3)] {
        let mut p = program(&train(&graph, "loss", sgd.grad_norm(true)).unwrap(), 1);
        p.step().unwrap();
        let norm = f64::from(p.values::<f32>(GRAD_NORM).unwrap()[0]);
        assert!((norm - want).abs() < 1e-6 * want && want > 1e-2, "{norm} {want}");
    }
    let without = train(&graph, "loss", optim::Sgd::new(0.1)).unwrap();
    assert!(without.view().find_output(GRAD_NORM).is_none());
}

#[test]
fn the_norm_changes_no_weight_and_is_right_beyond_the_range_of_squares() {
    let g = Builder::new("net");
    let graph = net(&g);
    let after = |opt: Optimiser<optim::AdamW>| {
        let mut p = program(&train(&graph, "loss", opt).unwrap(), 1);
        (0..3).for_each(|_| p.step().unwrap());
        PARAMS.map(|n| p.values::<f32>(n).unwrap().to_vec())
    };
    let plain = || optim::AdamW::new(1e-2);
    assert_eq!(after(plain().grad_norm(true)), after(plain()));
    assert_eq!(after(plain().clip_norm(0.1).grad_norm(true)), after(plain().clip_norm(0.1)));
    let g = Builder::new("far");
    let w = g.param("w", [2], F32, Init::Ones);
    let far = g.finish([(w * g.constant(&[3e30, 4e30], [2])).sum(..).named("loss")]).unwrap();
    let mut p = Session::new().compile(&train(&far, "loss", optim::Sgd::new(0.0).grad_norm(true)).unwrap()).unwrap();
    p.init(0).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>(GRAD_NORM).unwrap(), [5e30]);
}

#[test]
fn the_norm_over_micro_batches_is_that_of_their_mean() {
    let g = Builder::new("mean");
    let (x, w) = (g.input("x", [2], F32), g.param("w", [2], F32, Init::Ones));
    let graph = g.finish([(w * x).sum(..).named("loss")]).unwrap();
    let step = train(&graph, "loss", optim::Sgd::new(0.1).accumulate(2).grad_norm(true)).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[2.0, 8.0, 4.0, 0.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>(GRAD_NORM).unwrap(), [5.0]);
    let g = Builder::new("taken");
    let w = g.param("w", [], F32, Init::Ones);
    let taken = g.finish([(w * w).named("loss"), w.exp().named(GRAD_NORM)]).unwrap();
    let e = train(&taken, "loss", optim::Sgd::new(0.1).grad_norm(true)).err().unwrap();
    assert!(e.message.contains("two outputs are called \"grad_norm\""), "{e}");
}

/// All rules at a rate at which params leave the box [−0.05, 0.05].
fn rules() -> Vec<(&'static str, Optimiser)> {
    vec![
        ("sgd", optim::Sgd::new(0.5).into()),
        ("momentum", optim::Sgd::new(0.5).momentum(0.9).into()),
        ("adam", optim::Adam::new(0.1).into()),
        ("adamw", optim::AdamW::new(0.1).into()),
        ("rmsprop", optim::RmsProp::new(0.1).into()),
        ("adagrad", optim::Adagrad::new(0.1).into()),
        ("adadelta", optim::Adadelta::new(1.0).into()),
        ("nadam", optim::NAdam::new(0.1).into()),
        ("lion", optim::Lion::new(0.1).into()),
        ("lamb", optim::Lamb::new(0.1).into()),
        ("adafactor", optim::Adafactor::new(0.1).into()),
    ]
}

#[test]
fn params_stay_in_their_box_under_every_rule_and_others_are_as_they_were() {
    let g = Builder::new("net");
    let graph = net(&g);
    for (name, opt) in rules() {
        let boxed = opt.clone().project("fc1.*", |p| p.clamp(-0.05, 0.05));
        let (mut p, mut plain) =
            (program(&train(&graph, "loss", boxed).unwrap(), 1), program(&train(&graph, "loss", opt).unwrap(), 1));
        p.step().unwrap();
        plain.step().unwrap();
        for n in PARAMS {
            // After one step the rule has seen the same gradients.
            let want = plain.values::<f32>(n).unwrap().iter().map(|&x| match n.starts_with("fc1") {
                true => x.clamp(-0.05, 0.05),
                false => x,
            });
            let want: Vec<f32> = want.collect();
            assert_eq!(p.values::<f32>(n).unwrap(), want, "{name}: {n}");
        }
        (0..5).for_each(|_| p.step().unwrap());
        assert!(p.values::<f32>("fc1.weight").unwrap().iter().all(|x| x.abs() <= 0.05), "{name}");
    }
}

#[test]
fn a_clamp_is_in_place_and_needs_no_copy() {
    let g = Builder::new("net");
    let graph = net(&g);
    for (name, opt) in rules() {
        let step = train(&graph, "loss", opt.project("*", |p| p.clamp(-0.05, 0.05))).unwrap();
        let mut p = Session::new().compile_traced(&step).unwrap();
        p.init(0).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(0.5);
        p.values_mut::<f32>("y").unwrap().fill(0.5);
        let trace = p.step_traced().unwrap();
        let copies: Vec<_> = trace.calls.iter().filter(|c| c.op == "update" && c.bytes > 64).collect();
        assert!(copies.is_empty(), "{name}: {copies:?}");
    }
}

#[test]
fn rows_of_unit_norm_keep_the_same_bits_on_any_number_of_threads() {
    let g = Builder::new("net");
    let graph = net(&g);
    let unit =
        || optim::Adam::new(0.1).project("*.weight", |w| w / (w * w).reduce(Op::REDUCE_SUM, 1, true).sqrt()).ema(0.5);
    let step = train(&graph, "loss", unit()).unwrap();
    let after = |threads: usize| {
        let mut p = program(&step, threads);
        (0..4).for_each(|_| p.step().unwrap());
        ["fc1.weight", "fc2.weight", "ema.fc1.weight", "fc1.bias"].map(|n| p.values::<f32>(n).unwrap().to_vec())
    };
    let one = after(1);
    for row in one[0].chunks(5).chain(one[1].chunks(7)) {
        assert!((row.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
    }
    for threads in [2, 3, 7] {
        assert_eq!(after(threads), one, "{threads}");
    }
    // The average is one of projected params: after a step it is the param.
    let mut p = program(&step, 1);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("ema.fc1.weight").unwrap(), p.values::<f32>("fc1.weight").unwrap());
}

#[test]
fn projections_apply_in_order_and_wrong_ones_are_errors() {
    let g = Builder::new("line");
    let w = g.param("w", [3], F32, Init::Ones);
    let graph = g.finish([(w * w).sum(..).named("loss")]).unwrap();
    let rule = Rule::SGD;
    let twice = Optimiser::new(rule, 0.0).project("w", |w| w + 1.0).project("*", |w| w * 3.0);
    let mut p = Session::new().compile(&train(&graph, "loss", twice.clone()).unwrap()).unwrap();
    p.init(0).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("w").unwrap(), [6.0; 3]);
    assert!(twice == twice.clone() && twice != Optimiser::new(rule, 0.0).project("w", |w| w + 1.0));
    let e = train(&graph, "loss", optim::Sgd::new(0.1).project("v", |w| w)).err().unwrap();
    assert!(e.kind == Kind::Name && e.message.contains("\"v\" matches no trained param"), "{e}");
    let wrong = optim::Sgd::new(0.1).project("w", |w| w.sum(..));
    let e = train(&graph, "loss", wrong).err().unwrap();
    assert!(e.kind == Kind::Shape && e.message.contains("param \"w\" is f32[3], its projection f32[]"), "{e}");
    assert!(matches!(&e.location, Location::Source(file, _) if file == file!()), "{e}");
    let bad = optim::Sgd::new(0.1).project("w", |w| w.matmul(w.reshape([1, 3])));
    assert!(train(&graph, "loss", bad).err().unwrap().message.starts_with("matmul"));
}
