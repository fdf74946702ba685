//! Programs of several methods: one set of params and states, the bits of separate programs, no copies.

use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::nn;
use arenagrad::optim::{self, train};
use arenagrad::session::{Program, Session};
use arenagrad::tools::sched::areas::{Areas, Frame};
use arenagrad::tools::sched::checker::check_plan;
use arenagrad::tools::sched::plan::Plan;
use arenagrad::tools::sched::schedule;
use arenagrad::train::{Batches, Schedule, Trainer, copy_params};
use arenagrad::{Error, Precision};

/// The outputs of a small network for `rows` examples; with dropout only while it learns.
fn net(rows: usize, learn: bool) -> GraphBuf {
    let g = Builder::new("net");
    let x = g.input("x", [rows, 6], DType::F32);
    let h = nn::linear(&g, "fc1", x, 24).tanh();
    let out = nn::linear(&g, "fc2", if learn { h.dropout(0.25) } else { h }, 3).named("out");
    if !learn {
        return g.finish([out]).unwrap();
    }
    let y = g.input("y", [rows, 3], DType::F32);
    train(&g.finish([out.mse(y).named("loss")]).unwrap(), "loss", optim::AdamW::new(1e-2)).unwrap()
}

fn noise(seed: usize, i: usize) -> f32 {
    ((seed * 7919 + i * 104_729) % 1000) as f32 / 500.0 - 1.0
}

fn fill(values: &mut [f32], seed: usize) {
    values.iter_mut().enumerate().for_each(|(i, v)| *v = noise(seed, i));
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn persistent(p: &Program) -> Vec<(String, Vec<u8>)> {
    p.persistent().map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect()
}

fn three(session: &Session) -> Program {
    let graphs = [("learn", net(16, true)), ("act", net(1, false)), ("judge", net(5, false))];
    session.compile_all(&graphs.each_ref().map(|(name, g)| (*name, g))).unwrap()
}

#[test]
fn methods_have_the_bits_of_separate_programs() {
    let sessions = [
        Session::new(),
        Session::new().threads(2).share(true),
        Session::new().threads(3).share(true),
        Session::new().poison(true),
        Session::new().find_nan(true),
    ];
    for session in sessions {
        let mut all = three(&session);
        let mut alone = [net(16, true), net(1, false), net(5, false)].map(|g| session.compile(&g).unwrap());
        all.init(4).unwrap();
        alone.iter_mut().for_each(|p| p.init(4).unwrap());
        let other = [("act", 1), ("judge", 2)].map(|(name, k)| (all.method(name).unwrap(), k));
        for round in 0..4 {
            for name in ["x", "y"] {
                fill(all.values_mut(name).unwrap(), round);
                fill(alone[0].values_mut(name).unwrap(), round);
            }
            all.step().unwrap();
            alone[0].step().unwrap();
            for (m, k) in other {
                let (x, out) = (all.input_of::<f32>(m, "x").unwrap(), all.output_of::<f32>(m, "out").unwrap());
                fill(&mut all[x], 10 * round + k);
                all.run(m).unwrap();
                let [learn, rest @ ..] = &mut alone;
                let p = &mut rest[k - 1];
                copy_params(learn, p).unwrap();
                fill(p.values_mut("x").unwrap(), 10 * round + k);
                p.step().unwrap();
                assert_eq!(bits(&all[out]), bits(p.values("out").unwrap()), "round {round}, {session:?}");
            }
            assert_eq!(bits(all.values("loss").unwrap()), bits(alone[0].values("loss").unwrap()));
        }
        assert_eq!(persistent(&all), persistent(&alone[0]));
    }
}

#[test]
fn one_set_of_params_in_one_arena() {
    let mut p = three(&Session::new());
    p.init(1).unwrap();
    let methods: Vec<_> = ["learn", "act", "judge"].map(|m| p.method(m).unwrap()).into();
    // Every method's plan has the param at the bytes at which the program shows it.
    let w = p.param::<f32>("fc2.weight").unwrap();
    let before = p[w].as_ptr();
    let at = |p: &Program, m| {
        let report = p.plan_of(m).unwrap();
        let found = report.buffers.iter().find(|b| b.name == "fc2.weight").unwrap();
        (found.offset, report.arena_bytes)
    };
    let first = at(&p, methods[0]);
    assert!(methods.iter().all(|&m| at(&p, m) == first));
    assert_eq!(p.bindings().iter().filter(|b| b.name == "fc2.weight").count(), 1);
    // Inputs and outputs of different methods, and the params, take different bytes.
    let mut ranges: Vec<_> = p.bindings().iter().map(|b| (b.offset, b.offset + b.bytes)).collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0), "{ranges:?}");
    // The arena is less than the learner's and the others' inputs, outputs and spare lines: no second activations.
    let alone = |g: &GraphBuf| Session::new().plan(g).unwrap().arena_bytes;
    let (learn, act, judge) = (alone(&net(16, true)), alone(&net(1, false)), alone(&net(5, false)));
    assert!(first.1 < learn + 1024 && first.1 < learn + act + judge - 2048, "{} {learn} {act} {judge}", first.1);
    // Activations of two large methods share their bytes: the second adds its input (12 KiB) and output (6 KiB) only.
    let large = net(512, false);
    let both = Session::new().compile_all(&[("a", &large), ("b", &large)]).unwrap().plan().arena_bytes;
    assert!(both < alone(&large) + (19 << 10), "{both} {}", alone(&large));

    let (x, out) = (p.input_of::<f32>(methods[1], "x").unwrap(), p.output_of::<f32>(methods[1], "out").unwrap());
    fill(&mut p[x], 3);
    p.run(methods[1]).unwrap();
    let acted = bits(&p[out]);
    fill(p.values_mut("x").unwrap(), 5);
    fill(p.values_mut("y").unwrap(), 6);
    p.step().unwrap();
    // The learner leaves what is the actor's own, and the actor sees the new params.
    assert_eq!(bits(&p[out]), acted);
    p.run(methods[1]).unwrap();
    assert_ne!(bits(&p[out]), acted);
    assert_eq!(p[w].as_ptr(), before);
}

#[test]
fn leaves_that_differ_are_refused_with_both_places() {
    let with = |kind: &str, dtype: DType, dims: [usize; 2], init: Init| {
        let g = Builder::new("g");
        let w = match kind {
            "param" => g.param("w", dims, dtype, init),
            "state" => g.state("w", dims, dtype, init),
            _ => g.input("w", dims, dtype),
        };
        g.finish([w.tanh().named("y")]).unwrap()
    };
    let first = with("param", DType::F32, [3, 4], Init::Zeros);
    for (other, part) in [
        (with("param", DType::F32, [4, 3], Init::Zeros), "f32[4,3]"),
        (with("param", DType::F64, [3, 4], Init::Zeros), "f64[3,4]"),
        (with("param", DType::F32, [3, 4], Init::Ones), "ones"),
        (with("state", DType::F32, [3, 4], Init::Zeros), "a state"),
        (with("input", DType::F32, [3, 4], Init::Zeros), "an input"),
    ] {
        for graphs in [[("a", &first), ("b", &other)], [("a", &other), ("b", &first)]] {
            let e = Session::new().compile_all(&graphs).err().unwrap().message;
            let all = ["\"w\" is a param", part, "f32[3,4]", "method \"a\"", "method \"b\"", "methods.rs:"];
            assert!(all.iter().all(|part| e.contains(part)), "{e}");
            assert_eq!(e.matches("methods.rs:").count(), 2, "{e}");
        }
    }
    let same = with("param", DType::F32, [3, 4], Init::Zeros);
    assert!(Session::new().compile_all(&[("a", &first), ("b", &same)]).is_ok());
}

#[test]
fn wrong_names_and_foreign_methods_are_refused() {
    let (mut p, mut q) = (three(&Session::new()), three(&Session::new()));
    let error = |e: Option<Error>| e.unwrap().message;
    let none: &[(&str, &GraphBuf)] = &[];
    assert!(error(Session::new().compile_all(none).err()).contains("no graph"));
    let g = net(1, false);
    assert!(error(Session::new().compile_all(&[("a", &g), ("a", &g)]).err()).contains("two methods are called \"a\""));
    assert!(error(p.method("atc").err()).contains("did you mean act?"));
    let act = p.method("act").unwrap();
    assert!(error(q.run(act).err()).contains("another program"));
    assert!(error(q.input_of::<f32>(act, "x").err()).contains("another program"));
    let e = error(p.input_of::<f32>(act, "y").err());
    assert!(e.contains("no input \"y\"") && e.contains("method \"learn\" has one"), "{e}");
    assert!(error(p.run(act).err()).contains("input \"x\" (f32[1,6]) was never written"));
    let x = p.input_of::<f32>(act, "x").unwrap();
    fill(&mut p[x], 1);
    assert!(error(p.run(act).err()).contains("fc1.weight"));
    // The actor needs neither the learner's inputs nor its moments.
    p.init(0).unwrap();
    p.run(act).unwrap();
    assert!(error(p.step().err()).contains("f32[16,6]"));
    assert_eq!(p.methods().collect::<Vec<_>>(), ["learn", "act", "judge"]);
    assert_eq!(p.bindings_of(act).unwrap().filter(|b| b.name == "x").map(|b| b.dims.numel()).sum::<usize>(), 6);
}

/// The least budget that would do, in bytes, as the error of a smaller one tells it.
pub fn least_of(e: &Error) -> usize {
    e.message.split("would do is ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_budget_bounds_the_arena_of_all_methods() {
    let (learn, act) = (net(64, true), net(1, false));
    let graphs = [("learn", &learn), ("act", &act)];
    let free = Session::new().compile_all(&graphs).unwrap().plan().arena_bytes;
    let least = least_of(&Session::new().memory_budget(1).compile_all(&graphs).err().unwrap());
    assert!(least <= free);
    let mut p = Session::new().memory_budget(least).compile_all(&graphs).unwrap();
    assert_eq!(p.plan().arena_bytes, least);
    for short in [1, 64] {
        let e = Session::new().memory_budget(least - short).compile_all(&graphs).err().unwrap().message;
        assert!(e.contains(&format!("of {} bytes is too small", least - short)) && e.contains(&format!("is {least} ")));
    }
    let mut q = Session::new().compile_all(&graphs).unwrap();
    for p in [&mut p, &mut q] {
        p.init(2).unwrap();
        fill(p.values_mut("x").unwrap(), 1);
        fill(p.values_mut("y").unwrap(), 2);
        p.step().unwrap();
    }
    assert_eq!(persistent(&p), persistent(&q));
}

/// A step of three layers whose values may be computed twice, or its first layer for one example.
fn deep(learn: bool) -> GraphBuf {
    let g = Builder::new("deep");
    let x = g.input("x", [if learn { 256 } else { 1 }, 8], DType::F32);
    let h = nn::linear(&g, "fc1", x, 64).gelu();
    if !learn {
        return g.finish([h.named("h")]).unwrap();
    }
    let h = nn::linear(&g, "fc2", h, 64).gelu();
    let loss = nn::linear(&g, "fc3", h, 1).mean(..).named("loss");
    train(&g.finish([loss]).unwrap(), "loss", optim::Sgd::new(0.1)).unwrap()
}

#[test]
fn under_a_tight_budget_the_method_that_does_not_fit_computes_values_twice() {
    let (act, learn) = (deep(false), deep(true));
    let graphs = [("act", &act), ("learn", &learn)];
    let within = |budget: usize| Session::new().memory_budget(budget).compile_all(&graphs);
    let mut free = Session::new().compile_all(&graphs).unwrap();
    let bytes = free.plan().arena_bytes;
    let mut tight = within(bytes * 95 / 100).unwrap();
    assert!(tight.plan().arena_bytes <= bytes * 95 / 100);
    let nodes = |p: &Program| ["act", "learn"].map(|m| p.plan_of(p.method(m).unwrap()).unwrap().recomputed.nodes);
    assert!(nodes(&free) == [0, 0] && nodes(&tight)[0] == 0 && nodes(&tight)[1] > 0);
    for p in [&mut free, &mut tight] {
        p.init(3).unwrap();
        let learn = p.method("learn").unwrap();
        let x = p.input_of::<f32>(learn, "x").unwrap();
        fill(&mut p[x], 1);
        p.run(learn).unwrap();
    }
    assert_eq!(persistent(&free), persistent(&tight));
    // Less is possible, and a budget that is too small names it.
    let least = least_of(&within(1).err().unwrap());
    assert!(least < bytes, "{least} of {bytes}");
    assert_eq!(within(least).unwrap().plan().arena_bytes, least);
}

#[test]
fn a_precision_is_for_the_params_of_any_method() {
    let one = |name: &str| {
        let g = Builder::new(name);
        let w = g.param(name, [3, 4], DType::F32, Init::Ones);
        g.finish([g.input("x", [2, 3], DType::F32).matmul(w).named("y")]).unwrap()
    };
    let (a, b) = (one("a"), one("b"));
    let graphs = [("a", &a), ("b", &b)];
    let half = Session::new().precision_of("a", Precision::Bf16);
    let p = half.compile_all(&graphs).unwrap();
    let products = |name: &str| p.plan_of(p.method(name).unwrap()).unwrap().products;
    assert_eq!(products("a"), half.plan(&a).unwrap().products);
    assert_eq!(products("b"), Session::new().plan(&b).unwrap().products);
    let e = Session::new().precision_of("c", Precision::Bf16).compile_all(&graphs).err().unwrap().message;
    assert!(e.contains("\"c\" matches no param"), "{e}");
}

#[test]
fn plans_may_not_touch_the_bytes_of_others() {
    let g = net(4, false);
    let s = schedule(arenagrad::tools::passes::pipeline::run_whole_pipeline(g.view()).unwrap().view(), 1).unwrap();
    for start in (0..s.plan.bytes).step_by(64) {
        let foreign = std::iter::once(start..start + 64).collect();
        let used = (0..s.plan.offset.len()).any(|b| {
            let at = s.plan.offset[b];
            at < start + 64 && start < at + s.plan.code.bytes[b]
        });
        let done = check_plan(Plan { foreign, ..(*s.plan).clone() });
        assert_eq!(done.is_err(), used, "{start}");
    }
    // Own areas that lie in the leaves of the plan are refused, too.
    let areas = Areas::new(&s, false).unwrap();
    assert!(
        areas.workspace < Areas::new(&s, true).unwrap().workspace,
        "lines stay free only if red zones are asked for"
    );
    let lines = 10_000;
    let leaves: Vec<(u32, u64)> = Vec::new();
    assert!(areas.place(s, &Frame { leaves: &leaves, own: 0, workspace: 1, lines }).is_err());
}

#[test]
fn a_trainer_learns_while_another_method_acts_and_resumes_to_the_same_bits() {
    let trainer = || {
        let p = three(&Session::new());
        Trainer::new(p, "loss", Schedule::Constant { lr: 1e-2 }, Batches::new(64, 16, 3).unwrap(), 3).unwrap()
    };
    let learn = |t: &mut Trainer| {
        t.step(&mut |p, indices| {
            for (k, name) in ["x", "y"].iter().enumerate() {
                fill(p.values_mut(name)?, indices[0] as usize + k);
            }
            Ok(())
        })
        .unwrap();
        let p = t.program_mut();
        let act = p.method("act").unwrap();
        let x = p.input_of::<f32>(act, "x").unwrap();
        fill(&mut p[x], 1);
        p.run(act).unwrap();
        let out = p.output_of::<f32>(act, "out").unwrap();
        bits(&p[out])
    };
    let path = std::env::temp_dir().join(format!("arenagrad-methods-{}.safetensors", std::process::id()));
    let (mut a, mut b) = (trainer(), trainer());
    for _ in 0..3 {
        learn(&mut a);
    }
    a.save(&path).unwrap();
    b.restore(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    for _ in 0..3 {
        assert_eq!(learn(&mut a), learn(&mut b));
    }
    assert_eq!(persistent(a.program()), persistent(b.program()));
}

/// A step of the layer `own` of a net of two layers; the other one is frozen.
fn step_of(own: &str, opt: impl Into<optim::Optimiser>) -> GraphBuf {
    let g = Builder::new("net");
    let h = nn::linear(&g, "fc1", g.input("x", [4, 6], DType::F32), 8).tanh();
    let loss = nn::linear(&g, "fc2", h, 3).square().mean(..).named("loss");
    let other = if own == "fc1" { "fc2.*" } else { "fc1.*" };
    train(&g.finish([loss]).unwrap(), "loss", opt.into().freeze(other)).unwrap()
}

#[test]
fn two_optimisers_count_their_steps_apart() {
    let adam = || optim::Adam::new(1e-2);
    let both = |first: &GraphBuf, second: &GraphBuf| Session::new().compile_all(&[("a", first), ("b", second)]);
    let (a, b) = (step_of("fc1", adam()), step_of("fc2", adam()));
    let told = both(&a, &b).err().unwrap().to_string();
    let want = "methods \"a\" and \"b\" train other params (fc1.bias, fc1.weight and fc2.bias, fc2.weight), but both \
                advance \"opt.step\"; give one of the steps its own: graph.rename(\"opt.step\", \"opt.b.step\")";
    assert_eq!(told, want);

    let b = b.rename("opt.step", "opt.b.step").unwrap();
    let mut p = both(&a, &b).unwrap();
    let mut alone = Session::new().compile(&b).unwrap();
    p.init(0).unwrap();
    alone.init(0).unwrap();
    fill(p.values_mut::<f32>("x").unwrap(), 1);
    (0..3).for_each(|_| p.step().unwrap());
    copy_params(&p, &mut alone).unwrap();
    let (method, x) = (p.method("b").unwrap(), alone.input::<f32>("x").unwrap());
    let of_b = p.input_of::<f32>(method, "x").unwrap();
    fill(&mut p[of_b], 2);
    fill(&mut alone[x], 2);
    p.run(method).unwrap();
    alone.step().unwrap();
    let counts = ["opt.step", "opt.b.step"].map(|name| p.values::<i64>(name).unwrap()[0]);
    assert_eq!(counts, [3, 1]);
    let weights = [&p, &alone].map(|p| bits(p.values::<f32>("fc2.weight").unwrap()));
    assert_eq!(weights[0], weights[1]);

    // All that such a rule keeps for its params together; two steps of the same params are of one optimiser.
    let [a, b] = ["fc1", "fc2"].map(|own| step_of(own, optim::NAdam::new(1e-2)));
    let told = both(&a, &b.rename("opt.step", "opt.b.step").unwrap()).err().unwrap().to_string();
    assert!(told.contains("both advance \"opt.mu_product\""), "{told}");
    assert!(both(&net(16, true), &net(8, true)).is_ok());
    assert!(both(&step_of("fc1", optim::Sgd::new(0.1)), &step_of("fc2", optim::Sgd::new(0.1))).is_ok());
}
