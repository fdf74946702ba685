//! What surrounds the update rules: one sweep a param, groups, accumulation, averages, tied weights, subnormals, bad
//! numbers.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::optim::{self, Group, MuonScale, Optimiser, Rule, train};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ir::text;
use arenagrad::train::{averages, copy_averages};

fn rules() -> [Rule; 11] {
    [
        Rule::RMSPROP,
        Rule::ADAGRAD,
        Rule::ADADELTA,
        Rule::NADAM,
        Rule::LION,
        Rule::ADAMAX,
        Rule::RADAM,
        optim::AdamW::new(0.1).betas((0.8, 0.9)).weight_decay(0.1).amsgrad(true).rule(),
        optim::RAdam::new(0.1).betas((0.8, 0.9)).weight_decay(0.1).decoupled_weight_decay(true).rule(),
        optim::RmsProp::new(0.1).alpha(0.5).eps(1e-3).momentum(0.9).centered(true).weight_decay(0.1).rule(),
        optim::Adagrad::new(0.1).lr_decay(0.1).initial_accumulator_value(0.1).eps(1e-3).weight_decay(0.1).rule(),
    ]
}

fn compile(g: &GraphBuf) -> Program {
    let mut p = Session::new().compile(g).unwrap();
    p.init(7).unwrap();
    p
}

/// `n` params whose gradients the caller writes.
fn given(n: usize) -> GraphBuf {
    let g = Builder::new("given");
    let term = |i: usize| {
        let p = g.param(&format!("p{i}"), [40], DType::F32, Init::Normal(1.0));
        (p * g.input(&format!("g{i}"), [40], DType::F32)).sum(..)
    };
    let loss = (1..n).fold(term(0), |sum, i| sum + term(i));
    g.finish([loss.named("loss")]).unwrap()
}

#[test]
fn an_element_wise_update_is_one_instruction_a_param() {
    for rule in rules() {
        let instructions = |n: usize| {
            let step = train(given(n).view(), "loss", Optimiser::new(rule, 0.1)).unwrap();
            compile(&step).plan().instructions
        };
        // What a third and a fourth param add: their term of the loss (a product, a sum, an addition), and the update.
        let plain = {
            let step = |n: usize| compile(&given(n)).plan().instructions;
            step(4) - step(2)
        };
        assert_eq!(instructions(4) - instructions(2), plain + 2, "{rule:?}");
    }
}

#[test]
fn an_element_wise_update_is_in_place() {
    const LEN: usize = 1 << 17;
    let beyond_leaves = |rule: Rule| {
        let g = Builder::new("long");
        let loss = (g.param("p", [LEN], DType::F32, Init::Ones) * g.input("g", [LEN], DType::F32)).sum(..);
        let graph = g.finish([loss.named("loss")]).unwrap();
        let step = train(&graph, "loss", Optimiser::new(rule, 0.1)).unwrap();
        let plan = Session::new().plan(&step).unwrap();
        plan.arena_bytes - plan.pinned_bytes
    };
    // The tiles of a sweep take some scratch, a second copy of the param would take 4·LEN bytes more than SGD needs.
    let least = beyond_leaves(Rule::SGD);
    for rule in rules() {
        assert!(beyond_leaves(rule) < least + LEN, "{rule:?}: {} and {least} bytes", beyond_leaves(rule));
    }
}

/// A regression with two layers, a running mean of its inputs, and a mean over the batch.
fn regression(batch: usize, tied: bool) -> GraphBuf {
    let g = Builder::new("regression");
    let (x, y) = (g.input("x", [batch, 5], DType::F64), g.input("y", [batch, 5], DType::F64));
    let w = g.param("fc1.weight", [5, 5], DType::F64, Init::Normal(0.4));
    let b = g.param("fc1.bias", [5], DType::F64, Init::Normal(0.4));
    let h = (x.matmul(w) + b).tanh();
    let out = match tied {
        true => h.matmul_t(w, false, true),
        false => h.matmul(g.param("fc2.weight", [5, 5], DType::F64, Init::Normal(0.4))),
    };
    let seen = g.state("seen", [5], DType::F64, Init::Zeros);
    g.update(seen, seen + x.sum(0));
    g.finish([out.mse(y).named("loss"), h.named("hidden")]).unwrap()
}

fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn feed(p: &mut Program, step: u64, rows: usize) {
    for (name, seed) in [("x", 2 * step + 1), ("y", 2 * step + 2)] {
        p.values_mut::<f64>(name).unwrap().copy_from_slice(&noise(rows * 5, seed));
    }
    p.values_mut::<f64>("lr").unwrap()[0] = 0.05;
    p.step().unwrap();
}

#[test]
fn four_micro_batches_are_one_batch() {
    let opt = optim::AdamW::new(0.05).clip_norm(0.1).ema(0.9);
    let whole = train(regression(12, false).view(), "loss", &opt).unwrap();
    let parts = train(regression(3, false).view(), "loss", opt.accumulate(4)).unwrap();
    let (mut a, mut b) = (compile(&whole), compile(&parts));
    for step in 0..5 {
        feed(&mut a, step, 12);
        feed(&mut b, step, 12);
        let near = |x: &[f64], y: &[f64]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-13);
        assert!(near(a.values("loss").unwrap(), b.values("loss").unwrap()), "step {step}");
        assert!(near(a.values("hidden").unwrap(), b.values("hidden").unwrap()), "step {step}");
        for name in ["fc1.weight", "fc1.bias", "fc2.weight"] {
            assert!(near(a.values(name).unwrap(), b.values(name).unwrap()), "step {step}: {name}");
        }
        // Every micro-batch moves the graph's own states on.
        assert!(near(a.values("seen").unwrap(), b.values("seen").unwrap()), "step {step}");
        for name in ["opt.exp_avg.fc1.weight", "ema.fc1.bias"] {
            assert!(near(a.values(name).unwrap(), b.values(name).unwrap()), "step {step}: {name}");
        }
    }
    assert_eq!(a.values::<i64>("opt.step").unwrap(), b.values::<i64>("opt.step").unwrap());
}

#[test]
fn micro_batches_draw_different_numbers() {
    let g = Builder::new("drop");
    let x = g.input("x", [64], DType::F32);
    let w = g.param("w", [64], DType::F32, Init::Ones);
    let out = (x * w).dropout(0.5).named("out");
    let graph = g.finish([out.sum(..).named("loss"), out]).unwrap();
    let mut p = compile(&train(&graph, "loss", optim::Sgd::new(0.0).accumulate(2)).unwrap());
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    let mut seen: Vec<Vec<f32>> = Vec::new();
    for _ in 0..2 {
        p.step().unwrap();
        seen.extend(p.values::<f32>("out").unwrap().chunks(64).map(<[f32]>::to_vec));
    }
    assert_eq!(seen.len(), 4);
    for i in 0..4 {
        assert!(seen[i + 1..].iter().all(|other| *other != seen[i]), "two micro-batches drew the same numbers");
    }
    // The random key moves on once a step, as without micro-batches.
    let mut whole = compile(&train(&graph, "loss", optim::Sgd::new(0.0)).unwrap());
    whole.values_mut::<f32>("x").unwrap().fill(1.0);
    whole.step().unwrap();
    assert_ne!(whole.values::<u32>("rng").unwrap(), p.values::<u32>("rng").unwrap());
    whole.step().unwrap();
    assert_eq!(whole.values::<u32>("rng").unwrap(), p.values::<u32>("rng").unwrap());
}

#[test]
fn tied_weights_get_the_sum_of_their_gradients() {
    // The same graph with two params, started and updated alike by hand, is what a tied one must equal.
    let mut tied = compile(&train(regression(4, true).view(), "loss", optim::Sgd::new(0.05)).unwrap());
    let before = tied.values::<f64>("fc1.weight").unwrap().to_vec();
    feed(&mut tied, 3, 4);
    let moved: Vec<f64> = tied.values::<f64>("fc1.weight").unwrap().iter().zip(&before).map(|(a, b)| a - b).collect();

    let mut free = compile(&train(regression(4, false).view(), "loss", optim::Sgd::new(0.05)).unwrap());
    let transposed: Vec<f64> = (0..25).map(|i| before[i % 5 * 5 + i / 5]).collect();
    free.values_mut::<f64>("fc1.weight").unwrap().copy_from_slice(&before);
    free.values_mut::<f64>("fc2.weight").unwrap().copy_from_slice(&transposed);
    feed(&mut free, 3, 4);
    let (w1, w2) = (free.values::<f64>("fc1.weight").unwrap(), free.values::<f64>("fc2.weight").unwrap());
    for i in 0..25 {
        let (first, second) = (w1[i] - before[i], w2[i % 5 * 5 + i / 5] - before[i]);
        assert!((moved[i] - (first + second)).abs() < 1e-14, "element {i}: {} is not {first} + {second}", moved[i]);
        assert!(first != 0.0 && second != 0.0);
    }
}

#[test]
fn groups_are_found_by_pattern() {
    let g = regression(4, false);
    let sgd = || optim::Sgd::new(0.1);
    let fails = |o: Optimiser| train(&g, "loss", &o).unwrap_err().to_string();
    let none = fails(sgd().group("fc3*", Group::default()).into());
    assert!(none.contains("\"fc3*\" matches no trained param") && none.contains("fc1.bias"), "{none}");
    let frozen = fails(sgd().freeze("fc1*").group("fc1.bias", Group::default()).into());
    assert!(frozen.contains("\"fc1.bias\" matches no trained param"), "{frozen}");
    let flat = fails(Optimiser::new(Rule::MUON, 0.1));
    assert!(flat.contains("\"fc1.bias\" f64[5]") && !flat.contains("fc1.weight"), "{flat}");
    let scale = fails(sgd().group("*", Group::default().lr_scale(-1.0)).into());
    assert!(scale.contains("lr_scale is -1") && scale.contains("\"*\""), "{scale}");

    // A rate of 0 leaves the group where it is; the first pattern wins.
    let still = Group::default().lr_scale(0.0);
    let opt = optim::AdamW::new(0.1).group("fc1.b*", Group::default()).group("fc1*", still);
    let mut p = compile(&train(&g, "loss", &opt).unwrap());
    let start = |p: &Program| ["fc1.weight", "fc1.bias", "fc2.weight"].map(|n| p.values::<f64>(n).unwrap().to_vec());
    let before = start(&p);
    feed(&mut p, 1, 4);
    let after = start(&p);
    assert_eq!([0, 1, 2].map(|i| before[i] == after[i]), [true, false, false]);
    // Groups with the same number share a rate of their own, which is the optimiser's until it is written.
    let own = Group::default().rate(3);
    let mut p = compile(&train(&g, "loss", optim::Sgd::new(0.1).group("fc1.b*", own).group("fc2*", own)).unwrap());
    assert_eq!([p.values::<f64>("lr").unwrap()[0], p.values::<f64>("opt.lr.3").unwrap()[0]], [0.1, 0.1]);
    p.values_mut::<f64>("opt.lr.3").unwrap()[0] = 0.0;
    let before = start(&p);
    feed(&mut p, 1, 4);
    let after = start(&p);
    assert_eq!([0, 1, 2].map(|i| before[i] == after[i]), [false, true, true]);
    // A pattern may end alike, and the rest of the name may not overlap.
    let ends = |pattern: &str| train(&g, "loss", optim::Sgd::new(0.1).group(pattern, still));
    assert!(ends("*.bias").is_ok() && ends("fc*weight").is_ok() && ends("fc1.weight*weight").is_err());
}

#[test]
fn momentum_that_is_an_input() {
    let weights = |p: &Program| ["fc1.weight", "fc1.bias", "fc2.weight"].map(|n| p.values::<f64>(n).unwrap().to_vec());
    let near = |a: &Program, b: &Program| {
        let (a, b) = (weights(a).concat(), weights(b).concat());
        a.iter().zip(&b).all(|(x, y)| (x - y).abs() <= 1e-12 * y.abs().max(1.0))
    };
    let rules: [Optimiser; 6] = [
        optim::Sgd::new(0.05).momentum(0.9).weight_decay(0.1).into(),
        optim::Sgd::new(0.05).momentum(0.9).dampening(0.3).into(),
        optim::Sgd::new(0.05).momentum(0.9).nesterov(true).into(),
        optim::Adam::new(0.05).weight_decay(0.1).into(),
        optim::AdamW::new(0.05).betas((0.3, 0.99)).weight_decay(0.1).into(),
        optim::Adam::new(0.05).amsgrad(true).into(),
    ];
    for opt in rules {
        let mut fixed = compile(&train(&regression(4, false), "loss", &opt).unwrap());
        let mut moving = compile(&train(&regression(4, false), "loss", opt.clone().moving_momentum(true)).unwrap());
        for i in 0..4 {
            feed(&mut fixed, i, 4);
            feed(&mut moving, i, 4);
            assert!(near(&fixed, &moving), "{opt:?}, step {i}");
        }
        moving.values_mut::<f64>(optim::MOMENTUM).unwrap()[0] = 0.5;
        feed(&mut fixed, 4, 4);
        feed(&mut moving, 4, 4);
        assert!(!near(&fixed, &moving), "{opt:?}");
    }
    // Groups with a rate of their own have a momentum of their own.
    let sgd = optim::Sgd::new(0.1).momentum(0.9);
    let group = Group::default().rate(2).rule(optim::Sgd::new(0.1).momentum(0.8).rule());
    let p = compile(
        &train(&regression(4, false), "loss", sgd.clone().group("*.bias", group).moving_momentum(true)).unwrap(),
    );
    assert_eq!([optim::MOMENTUM, "opt.momentum.2"].map(|n| p.values::<f64>(n).unwrap()[0]), [0.9, 0.8]);
    let fails = |opt: Optimiser, why: &str| {
        let e = train(&regression(4, false), "loss", opt).unwrap_err().to_string();
        assert!(e.contains("moving_momentum: the rule of \"fc1.") && e.contains(why), "{e}");
    };
    fails(optim::Sgd::new(0.1).moving_momentum(true).into(), "no momentum that moves");
    fails(optim::Lion::new(0.1).moving_momentum(true).into(), "no momentum that moves");
    fails(
        sgd.group("*.bias", group.rate(None)).moving_momentum(true).into(),
        "momentum 0.8, and others of its rate at 0.9",
    );
}

#[test]
fn decay_leaves_vectors_alone() {
    let step = |decay: f64, rank: usize| {
        let opt = optim::AdamW::new(0.1).weight_decay(decay).decay_from_rank(rank);
        let mut p = compile(&train(regression(4, false).view(), "loss", &opt).unwrap());
        feed(&mut p, 1, 4);
        (p.values::<f64>("fc1.weight").unwrap().to_vec(), p.values::<f64>("fc1.bias").unwrap().to_vec())
    };
    let (with, without, matrices) = (step(0.3, 0), step(0.0, 0), step(0.3, 2));
    assert_eq!((&matrices.0, &matrices.1), (&with.0, &without.1));
    assert!(with.0 != without.0 && with.1 != without.1);
}

#[test]
fn averages_are_weights_under_the_params_names() {
    let step = train(regression(4, false).view(), "loss", optim::Sgd::new(0.05).freeze("fc1.bias").ema(0.5)).unwrap();
    let mut p = compile(&step);
    let mut other = compile(&regression(4, false));
    let mut want = vec![0.0; 25];
    for i in 0..3 {
        feed(&mut p, i, 4);
        let now = p.values::<f64>("fc2.weight").unwrap();
        want.iter_mut().zip(now).for_each(|(w, x)| *w = if i == 0 { *x } else { 0.5 * *w + 0.5 * x });
    }
    let names: Vec<&str> = averages(&p).iter().map(|e| e.name).collect();
    assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight"]);
    copy_averages(&p, &mut other).unwrap();
    assert_eq!(other.values::<f64>("fc2.weight").unwrap(), want);
    assert_eq!(other.values::<f64>("fc1.bias").unwrap(), p.values::<f64>("fc1.bias").unwrap());
    assert!(copy_averages(&compile(&regression(4, false)), &mut p).unwrap_err().to_string().contains("no moving"));
}

#[test]
fn moments_of_idle_params_end_at_zero_and_never_as_subnormals() {
    for rule in rules().into_iter().chain([Rule::LAMB, Rule::ADAFACTOR]) {
        let step = train(given(1).view(), "loss", Optimiser::new(rule.with_weight_decay(0.0), 0.1)).unwrap();
        let mut p = compile(&step);
        let small: Vec<f32> = (0..40).map(|i| 1e-19 * (i as f32 - 20.0)).collect();
        p.values_mut::<f32>("g0").unwrap().copy_from_slice(&small);
        p.values_mut::<f32>("lr").unwrap()[0] = 0.1;
        for i in 0..3000 {
            p.step().unwrap();
            if i == 3 {
                p.values_mut::<f32>("g0").unwrap().fill(0.0);
            }
            let names: Vec<String> = p.persistent().map(|(b, _)| b.name.clone()).collect();
            for name in names.iter().filter(|n| n.ends_with(".p0")) {
                let worst = p.values::<f32>(name).unwrap().iter().find(|x| x.is_subnormal());
                assert_eq!(worst, None, "{}: {name} after step {i}", rule.name());
            }
        }
        assert!(p.values::<f32>("p0").unwrap().iter().all(|x| x.is_finite()), "{}", rule.name());
    }
}

#[test]
fn numbers_that_no_formula_takes_are_named() {
    let says = |rule: Rule, text: &str| {
        let e = train(given(1).view(), "loss", Optimiser::new(rule, 0.1)).unwrap_err().to_string();
        assert!(e.contains(text), "{e}");
    };
    says(optim::Adadelta::new(0.1).rho(1.0).rule(), "adadelta: rho is 1");
    says(Rule::RMSPROP.with_weight_decay(f64::NAN), "rmsprop: weight_decay is NaN");
    says(optim::Lion::new(0.1).betas((0.9, -0.1)).rule(), "lion: beta2 is -0.1");
    says(optim::Adafactor::new(0.1).beta2_decay(0.5).rule(), "beta2_decay is 0.5");
    says(optim::Adamax::new(0.1).betas((1.0, 0.9)).rule(), "adamax: beta1 is 1; it must lie in [0, 1)");
    says(optim::Adamax::new(0.1).eps(-1.0).rule(), "adamax: eps is -1");
    says(Rule::RADAM.with_weight_decay(-1.0), "radam: weight_decay is -1");
    says(optim::Lbfgs::new(0.1).history_size(0).rule(), "lbfgs: history_size is 0; it goes from 1 to 10000");
    says(optim::Lbfgs::new(0.1).history_size(20_000).rule(), "history_size is 20000");
    let clips = |o: Optimiser<optim::Sgd>, text: &str| {
        let e = train(given(1).view(), "loss", o).unwrap_err().to_string();
        assert!(e.contains(text), "{e}");
    };
    let sgd = || optim::Sgd::new(0.1);
    clips(sgd().clip_value(0.0), "clip_value is 0; it must be finite and above 0");
    clips(sgd().clip_value(f64::NAN), "clip_value is NaN");
    clips(sgd().clip_norm(-1.0), "clip_norm is -1");
    clips(sgd().clip_norm(1.0).norm_type(0.0), "norm_type is 0; it must be above 0, or infinite");
    clips(sgd().clip_norm(1.0).norm_type(f64::NEG_INFINITY), "norm_type is -inf");
    clips(sgd().norm_type(1.0), "norm_type is given without clip_norm");
    clips(sgd().clip_value(1.0).clip_each(true), "clip_each is given without clip_norm");
    let e = train(given(1).view(), "loss", optim::Sgd::new(0.1).ema(1.0)).unwrap_err().to_string();
    assert!(e.contains("ema is 1; it is a decay, in [0, 1)"), "{e}");
    let g = Builder::new("closed");
    let w = g.param("w", [2], DType::F32, Init::Ones);
    let graph = g.finish([(w * w).sum(..).named("loss")]).unwrap();
    let e = train(&graph, "loss", optim::Sgd::new(0.1).accumulate(2)).unwrap_err().to_string();
    assert!(e.contains("no input"), "{e}");
}

#[test]
fn muon_treats_rows_and_columns_alike() {
    // The one scale that does not tell the sides apart.
    let scale = MuonScale::MatchRmsAdamw;
    let rule = optim::Muon::new(0.1).scale(scale).rule();
    let run = |rows: usize, columns: usize| {
        let g = Builder::new("matrix");
        let w = g.param("w", [rows, columns], DType::F64, Init::Zeros);
        let loss = (w * g.input("g", [rows, columns], DType::F64)).sum(..);
        let graph = g.finish([loss.named("loss")]).unwrap();
        let mut p = compile(&train(&graph, "loss", Optimiser::new(rule, 0.1)).unwrap());
        p.values_mut::<f64>("lr").unwrap()[0] = 0.1;
        let wide = |seed| noise(12, seed);
        let turned = |x: Vec<f64>| (0..12).map(|i| x[i % rows * columns + i / rows]).collect::<Vec<f64>>();
        for step in 0..4 {
            // The tall matrix gets the transpose of what the wide one gets.
            let given = wide(step + 1);
            let here = if rows < columns { given } else { (0..12).map(|i| given[i % 3 * 4 + i / 3]).collect() };
            p.values_mut::<f64>("g").unwrap().copy_from_slice(&here);
            p.step().unwrap();
        }
        let w = p.values::<f64>("w").unwrap().to_vec();
        if rows < columns { w } else { turned(w) }
    };
    let (wide, tall) = (run(3, 4), run(4, 3));
    assert!(wide.iter().zip(&tall).all(|(a, b)| (a - b).abs() < 1e-13), "{wide:?} {tall:?}");
    assert!(wide.iter().all(|x| x.abs() > 1e-3));
}

/// Scalars, single elements and empty tensors, with and without passes, and through the text form.
#[test]
fn every_rule_takes_every_shape() {
    let lbfgs = optim::Lbfgs::new(0.1).history_size(2).weight_decay(0.1).rule();
    let all = rules().into_iter().chain([Rule::LAMB, Rule::ADAFACTOR, Rule::ADAMW, lbfgs]);
    for rule in all {
        for dims in [&[][..], &[1], &[0], &[2, 0], &[1, 1], &[3, 2, 2]] {
            let g = Builder::new("shapes");
            let p = g.param("p", dims, DType::F64, Init::Normal(1.0));
            let loss = (p * g.input("g", dims, DType::F64)).sum(..);
            let graph = g.finish([loss.named("loss")]).unwrap();
            let step = train(&graph, "loss", Optimiser::new(rule, 0.1)).unwrap();
            let again = text::parse(&text::print(step.view())).unwrap();
            let after = |session: Session, graph: &GraphBuf| {
                let mut p = session.compile(graph).unwrap();
                p.init(7).unwrap();
                p.values_mut::<f64>("lr").unwrap()[0] = 0.1;
                let n = dims.iter().product();
                for i in 0..3 {
                    p.values_mut::<f64>("g").unwrap().copy_from_slice(&noise(n, i + 1));
                    p.step().unwrap();
                }
                p.values::<f64>("p").unwrap().to_vec()
            };
            let want = after(Session::new(), &step);
            assert!(want.iter().all(|x| x.is_finite()), "{rule:?} {dims:?}");
            assert_eq!(after(Session::new(), &again), want, "{rule:?} {dims:?}: through text");
            let plain = after(Session::new().optimise(false), &step);
            let near = plain.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-13);
            assert!(near, "{rule:?} {dims:?}: {plain:?} without passes, {want:?} with");
        }
    }
}

/// Every rule, in a group of its own beside others, on threads: the same bits.
#[test]
fn threads_change_no_bit() {
    let bits = |threads: usize| {
        let own = |rule| Group::default().rule(rule);
        let opt = Optimiser::new(Rule::NADAM, 0.1).group("fc1.weight", own(Rule::MUON));
        let opt = opt.group("fc1.bias", own(Rule::ADAFACTOR)).ema(0.9).accumulate(3);
        let step = train(regression(4, false).view(), "loss", &opt).unwrap();
        let mut p = Session::new().threads(threads).share(true).compile(&step).unwrap();
        p.init(7).unwrap();
        for i in 0..3 {
            feed(&mut p, i, 12);
        }
        p.persistent().flat_map(|(_, bytes)| bytes.to_vec()).collect::<Vec<u8>>()
    };
    let one = bits(1);
    assert!([2, 3].into_iter().all(|n| bits(n) == one));
}
