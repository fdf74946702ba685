//! Dynamic loss scaling, against the formulas of `torch.amp.GradScaler`.

use super::common::fixture::{Fixture, near};
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn;
use arenagrad::optim::{self, LOSS_SCALE, LossScale, Optimiser, train};
use arenagrad::session::{Keep, Program, Session};

const F32: DType = DType::F32;

/// A net whose loss is multiplied by the input `k`: an infinite one makes every gradient infinite or NaN.
fn net() -> GraphBuf {
    let g = Builder::new("net");
    let (x, k) = (g.input("x", [8, 4], F32), g.input("k", [], F32));
    let h = nn::linear(&g, "fc1", x, 6).tanh();
    let n = g.state("n", [], DType::I64, Init::Zeros);
    g.update(n, n + 1.0);
    g.finish([(nn::linear(&g, "fc2", h, 1).square().mean(..) * k).named("loss")]).unwrap()
}

fn program(opt: impl Into<Optimiser>) -> Program {
    let mut p = Session::new().compile(&train(&net(), "loss", opt).unwrap()).unwrap();
    p.init(2).unwrap();
    p.values_mut::<f32>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 7) as f32 / 3.0 - 1.0);
    p
}

/// A step with factor `k`. The loss.
fn step(p: &mut Program, k: f32) -> f32 {
    p.values_mut::<f32>("k").unwrap()[0] = k;
    p.step().unwrap();
    p.values::<f32>("loss").unwrap()[0]
}

/// All params and states whose names do not end in one of `but`.
fn kept(p: &Program, but: &[&str]) -> Vec<(String, Vec<u8>)> {
    let own = p.persistent().filter(|(b, _)| !but.iter().any(|end| b.name.ends_with(end)));
    own.map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect()
}

fn scale(p: &Program) -> f32 {
    p.values::<f32>(LOSS_SCALE).unwrap()[0]
}

/// The optimisers, whose states are of all kinds: moments, counts, schedules, histories, averages.
fn optimisers() -> Vec<Optimiser> {
    vec![
        optim::Sgd::new(0.1).momentum(0.9).into(),
        optim::AdamW::new(1e-2).clip_norm(0.5).ema(0.9).into(),
        optim::NAdam::new(1e-2).clip_value(0.1).into(),
        optim::Lbfgs::new(0.5).into(),
        optim::Lion::new(1e-3).into(),
        optim::Adafactor::new(1e-2).into(),
    ]
}

#[test]
fn a_step_without_a_finite_gradient_changes_the_scale_alone() {
    for opt in optimisers() {
        let name = opt.rule().name();
        let mut p = program(opt.loss_scale(LossScale::dynamic()));
        let first = step(&mut p, 1.0);
        let before = kept(&p, &[LOSS_SCALE, "n"]);
        for (bad, want) in [(f32::INFINITY, 32768.0), (f32::NAN, 16384.0), (f32::NEG_INFINITY, 8192.0)] {
            assert!(!step(&mut p, bad).is_finite());
            assert_eq!(scale(&p), want);
        }
        // The count of good steps goes back to zero; that of the graph itself runs on.
        let names = |p: &Program| kept(p, &[LOSS_SCALE, "n", "loss_scale_steps"]);
        let good = |all: &[(String, Vec<u8>)]| -> Vec<(String, Vec<u8>)> {
            all.iter().filter(|x| !x.0.ends_with("loss_scale_steps")).cloned().collect()
        };
        assert_eq!(good(&before), names(&p), "{name}");
        assert_eq!(p.values::<i64>("n").unwrap(), [4]);
        let next = step(&mut p, 1.0);
        assert!(next.is_finite() && next != first, "{name}: {first}, then {next}");
        assert_ne!(good(&before), names(&p), "{name}");
    }
}

/// GradScaler.update: grows after `interval` good steps in a row, and not beyond what is finite; shrinks at once.
#[test]
fn the_scale_follows_the_formula() {
    let how = LossScale::dynamic().init_scale(4.0).growth_factor(3.0).backoff_factor(0.25).growth_interval(2);
    let mut p = program(optim::Sgd::new(0.01).loss_scale(how));
    let (mut want, mut good) = (4.0f32, 0);
    for (i, bad) in [0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0].into_iter().enumerate() {
        step(&mut p, if bad == 1 { f32::NAN } else { 1.0 });
        good = if bad == 1 { 0 } else { good + 1 };
        if bad == 1 {
            want *= 0.25;
        } else if good == 2 {
            (want, good) = (want * 3.0, 0);
        }
        assert_eq!((scale(&p), p.values::<i64>("opt.loss_scale_steps").unwrap()[0]), (want, good), "step {i}");
    }
    p.values_mut::<f32>(LOSS_SCALE).unwrap()[0] = 2e38;
    for _ in 0..2 {
        step(&mut p, 1e-30);
    }
    assert_eq!(scale(&p), 2e38);
}

/// The numbers of `torch.amp.GradScaler`, step by step: scales exactly, params of f64 within rounding. The scale grows
/// after three good steps and shrinks after a bad one, whose updates are skipped.
#[test]
fn scales_and_params_are_those_of_torch() {
    let torch = Fixture::read("loss_scale");
    let g = Builder::new("net");
    let (x, k) = (g.input("x", [8, 4], DType::F64), g.input("k", [], DType::F64));
    let h = nn::linear(&g, "fc1", x, 6).tanh();
    let net = g.finish([(nn::linear(&g, "fc2", h, 1).square().mean(..) * k).named("loss")]).unwrap();
    let how = LossScale::dynamic().init_scale(1024.0).growth_factor(4.0).backoff_factor(0.25).growth_interval(3);
    let optimisers: [(&str, Optimiser); 2] = [
        ("sgd", optim::Sgd::new(0.1).momentum(0.9).loss_scale(how).into()),
        ("adamw", optim::AdamW::new(0.01).weight_decay(0.1).loss_scale(how).into()),
    ];
    let params = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"];
    for (name, opt) in optimisers {
        let mut p = Session::new().compile(&train(&net, "loss", opt).unwrap()).unwrap();
        p.init(0).unwrap();
        for param in params {
            let start = torch.get(&format!("start.{param}")).unwrap();
            p.values_mut::<f64>(param).unwrap().copy_from_slice(&start.data);
        }
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&torch.get("x").unwrap().data);
        p.values_mut::<f64>("lr").unwrap()[0] = if name == "sgd" { 0.1 } else { 0.01 };
        let (factors, scales) = (torch.get("factors").unwrap(), torch.get(&format!("{name}.scales")).unwrap());
        assert!(factors.data.iter().filter(|k| !k.is_finite()).count() == 3 && scales.data.len() == factors.data.len());
        for (i, (k, want)) in factors.data.iter().zip(&scales.data).enumerate() {
            p.values_mut::<f64>("k").unwrap()[0] = *k;
            p.step().unwrap();
            assert_eq!(f64::from(scale(&p)), *want, "{name}, step {i}");
            for param in params {
                let want = torch.get(&format!("{name}.{i}.{param}")).unwrap().data;
                near(&format!("{name}, step {i}, {param}"), p.values::<f64>(param).unwrap(), &want, 1e-12);
            }
        }
    }
}

/// A power of two scales without rounding, so unscaled gradients have the bits of those without a scale.
#[test]
fn good_steps_are_those_without_a_scale() {
    for opt in optimisers() {
        let (mut plain, mut scaled) = (program(opt.clone()), program(opt.clone().loss_scale(LossScale::dynamic())));
        for _ in 0..5 {
            assert_eq!(step(&mut plain, 1.0), step(&mut scaled, 1.0), "{}", opt.rule().name());
        }
        assert_eq!(kept(&plain, &[]), kept(&scaled, &[LOSS_SCALE, "loss_scale_steps"]), "{}", opt.rule().name());
    }
}

#[test]
fn micro_batches_are_scaled_too() {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [3], F32), g.param("w", [3], F32, Init::Ones));
    let graph = g.finish([(x * w).sum(..).named("loss")]).unwrap();
    let opt = optim::Sgd::new(1.0).accumulate(2).loss_scale(LossScale::dynamic()).grad_norm(true);
    let mut p = Session::new().compile(&train(&graph, "loss", opt).unwrap()).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[0.0, 1.0, 2.0, 0.0, 3.0, 2.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("w").unwrap(), [1.0, -1.0, -1.0]);
    assert_eq!(p.values::<f32>("grad_norm").unwrap(), [8f32.sqrt()]);
    p.values_mut::<f32>("x").unwrap()[4] = f32::INFINITY;
    p.step().unwrap();
    assert_eq!((p.values::<f32>("w").unwrap(), scale(&p)), (&[1.0, -1.0, -1.0][..], 32768.0));
}

/// A resumed run goes on with the scale, the count and the bits of the run that it continues.
#[test]
fn a_resumed_run_keeps_the_scale() {
    let opt = || optim::AdamW::new(1e-2).loss_scale(LossScale::dynamic().growth_interval(3));
    let mut p = program(opt());
    for k in [1.0, 1.0, f32::NAN, 1.0, 1.0] {
        step(&mut p, k);
    }
    let mut q = program(opt());
    for (name, bytes) in kept(&p, &[]) {
        q.persistent_mut(&name).unwrap().1.copy_from_slice(&bytes);
    }
    for k in [1.0, f32::INFINITY, 1.0] {
        step(&mut p, k);
        step(&mut q, k);
    }
    assert_eq!(kept(&p, &[]), kept(&q, &[]));
    assert_eq!(scale(&p), 32768.0);
}

#[test]
fn a_step_that_overflows_in_f16_is_skipped() {
    let g = Builder::new("big");
    let (x, w) = (g.input("x", [64, 32], F32), g.param("w", [32, 32], F32, Init::Normal(0.3)));
    let mut h = x.matmul(w).square() * 1e-6;
    for i in 0..3 {
        h = nn::linear(&g, &format!("fc{i}"), h, 32).sigmoid();
    }
    let graph = g.finish([h.mean(..).named("loss")]).unwrap();
    let step = train(&graph, "loss", optim::Adam::new(1e-3).loss_scale(LossScale::dynamic())).unwrap();
    let mut p = Session::new().keep(Keep::F16).compile(&step).unwrap();
    p.init(1).unwrap();
    let before = p.values::<f32>("w").unwrap().to_vec();
    for (x, changes) in [(1e6, false), (1.0, true)] {
        p.values_mut::<f32>("x").unwrap().fill(x);
        p.step().unwrap();
        assert!(p.values::<f32>("loss").unwrap()[0].is_finite());
        assert_eq!(p.values::<f32>("w").unwrap() != &before[..], changes, "{x}");
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refused = |how: LossScale, text: &str| {
        let e = train(&net(), "loss", optim::Sgd::new(0.1).loss_scale(how)).err().unwrap().to_string();
        assert!(e.contains(text), "{e}");
    };
    let d = LossScale::dynamic;
    refused(d().init_scale(0.0), "loss_scale: init is 0; it must be a normal number of f32 above 0");
    refused(d().init_scale(1e39), "loss_scale: init is 1");
    refused(d().init_scale(f64::NAN), "loss_scale: init is NaN");
    refused(d().init_scale(-4.0), "loss_scale: init is -4");
    refused(d().init_scale(f64::INFINITY), "loss_scale: init is inf");
    // A subnormal number of f32.
    refused(d().init_scale(1e-39), "loss_scale: init is 0.000");
    refused(d().growth_factor(1.0), "loss_scale: growth is 1; it must be finite and above 1");
    refused(d().growth_factor(f64::INFINITY), "loss_scale: growth is inf");
    refused(d().backoff_factor(1.0), "loss_scale: backoff is 1; it must be between 0 and 1");
    refused(d().backoff_factor(0.0), "loss_scale: backoff is 0;");
    refused(d().backoff_factor(f64::NAN), "loss_scale: backoff is NaN;");
    refused(d().growth_interval(0), "loss_scale: interval is 0; it must be at least 1");
}

#[test]
fn the_defaults_are_those_of_torch() {
    let scale = LossScale::dynamic();
    assert_eq!((scale.init, scale.growth, scale.backoff, scale.interval), (65536.0, 2.0, 0.5, 2000));
}

/// A scale of 0 would make every later gradient infinite or NaN, and skip every later step.
#[test]
fn many_bad_steps_in_a_row_leave_a_scale_to_go_on_with() {
    let mut p = program(optim::Sgd::new(0.1).loss_scale(LossScale::dynamic().backoff_factor(1e-6)));
    (0..12).for_each(|_| {
        step(&mut p, f32::INFINITY);
    });
    assert_eq!(scale(&p), f32::MIN_POSITIVE);
    let before = kept(&p, &["loss_scale", "loss_scale_steps", "n"]);
    step(&mut p, 1e6);
    assert_ne!(kept(&p, &["loss_scale", "loss_scale_steps", "n"]), before);
}
