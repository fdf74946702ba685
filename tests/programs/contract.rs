//! What a program asks for before a step, and what it leaves behind when a step fails.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn;
use arenagrad::optim::{self, LR, Optimiser, Rule, train};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ir::text;
use arenagrad::tools::ops::index::attrs::Scatter;
use arenagrad::train::{Batches, Schedule, Trainer, averages, copy_params};

const F32: DType = DType::F32;

/// w·x summed, with w ones.
fn line() -> GraphBuf {
    let g = Builder::new("line");
    let loss = (g.param("w", [3], F32, Init::Ones) * g.input("x", [3], F32)).sum(..);
    g.finish([loss.named("loss")]).unwrap()
}

fn ready(graph: &GraphBuf, opt: impl Into<Optimiser>) -> Program {
    let mut p = Session::new().compile(&train(graph, "loss", opt).unwrap()).unwrap();
    p.init(0).unwrap();
    p
}

#[test]
fn the_rate_of_the_optimiser_is_that_of_its_step() {
    let mut p = ready(&line(), optim::Sgd::new(0.5));
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("w").unwrap(), [0.5; 3]);
    p.values_mut::<f32>(LR).unwrap().fill(0.25);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("w").unwrap(), [0.25; 3]);
    // Micro-batches leave defaults of inputs what they are.
    let g = Builder::new("scaled");
    let k = g.input_or("k", [], F32, 2.0);
    let loss = (g.param("w", [3], F32, Init::Ones) * g.input("x", [3], F32) * k).sum(..);
    let graph = g.finish([loss.named("loss")]).unwrap();
    let mut p = ready(&graph, optim::Sgd::new(0.5).accumulate(2));
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("w").unwrap(), [0.0; 3]);
}

#[test]
fn a_step_names_the_input_that_was_never_written() {
    let mut p = ready(&line(), optim::Sgd::new(0.5));
    let e = p.step().unwrap_err();
    assert_eq!(e.kind, Kind::Data);
    assert!(e.to_string().starts_with(r#"input "x" (f32[3]) was never written: "#), "{e}");
    assert_eq!(p.values::<f32>("w").unwrap(), [1.0; 3]);
    let x = p.input::<f32>("x").unwrap();
    p.write(x, &[0.0; 3]).unwrap();
    p.step().unwrap();
    // An input that no instruction reads need not be written.
    let g = Builder::new("unread");
    let (x, _) = (g.input("x", [2], F32), g.input("y", [2], F32));
    let mut p = Session::new().compile(&g.finish([x.exp().named("out")]).unwrap()).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(0.0);
    p.step().unwrap();
    let mut traced = Session::new().compile_traced(&line()).unwrap();
    assert!(traced.step_traced().unwrap_err().to_string().starts_with(r#"input "x""#));
}

#[test]
fn defaults_of_inputs_are_text() {
    let read = "graph @g {\n  %a = input default=0.5 : f32[2]\n  %b = input : i32[]\n  return a=%a, b=%b\n}\n";
    let graph = text::parse(read).unwrap();
    assert_eq!(text::print(graph.view()), read);
    let mut p = Session::new().compile(&graph).unwrap();
    p.values_mut::<i32>("b").unwrap().fill(7);
    p.step().unwrap();
    let (a, b) = (p.output::<f32>("a").unwrap(), p.output::<i32>("b").unwrap());
    assert_eq!((&p[a], &p[b]), (&[0.5; 2][..], &[7][..]));
    let e = p.values::<f32>("a").unwrap_err().to_string();
    assert_eq!(e, r#"an input and an output are called "a": ask for input(..) or output(..)"#);
    for (dtype, bad) in [(DType::I32, 0.5), (DType::U8, 256.0), (F32, 1e39), (DType::I64, 2f64.powi(63))] {
        let g = Builder::new("g");
        let e = g.finish([g.input_or("x", [1], dtype, bad)]).unwrap_err();
        assert!(e.message.contains("is no default of"), "{dtype}: {e}");
        assert!(e.to_string().contains(file!()), "{e}");
    }
    for (dtype, good) in [(DType::I64, -(2f64.powi(63))), (DType::Bool, 1.0), (DType::F16, 0.1)] {
        let g = Builder::new("g");
        let graph = g.finish([g.input_or("x", [1], dtype, good)]).unwrap();
        assert_eq!(text::parse(&text::print(graph.view())).unwrap(), graph);
    }
}

#[test]
fn params_that_nobody_set_do_not_train() {
    let step = train(line().view(), "loss", optim::Adam::new(0.1)).unwrap();
    let compiled = || {
        let mut p = Session::new().compile(&step).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(1.0);
        p
    };
    let e = compiled().step().unwrap_err();
    assert!(e.to_string().starts_with(r#"param "w" (f32[3]) was neither initialised nor loaded"#), "{e}");
    assert!(e.to_string().contains("init(seed)"), "{e}");
    // States that start with zeros hold them; a param that is written is set.
    let mut p = compiled();
    p.values_mut::<f32>("w").unwrap().fill(2.0);
    p.step().unwrap();
    let mut from = compiled();
    from.init(0).unwrap();
    let mut p = compiled();
    copy_params(&from, &mut p).unwrap();
    p.step().unwrap();
    let g = Builder::new("decay");
    let s = g.state("s", [2], F32, Init::Ones);
    g.update(s, s * 0.5);
    let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
    assert!(p.step().unwrap_err().to_string().starts_with(r#"state "s""#));
    p.init(0).unwrap();
    p.step().unwrap();
}

fn trainer(p: Program, lr: f64) -> Trainer {
    Trainer::new(p, "loss", Schedule::Constant { lr }, Batches::new(4, 2, 0).unwrap(), 5).unwrap()
}

#[test]
fn a_trainer_starts_only_what_was_not_loaded() {
    let g = Builder::new("two");
    let (w, v) = (g.param("w", [3], F32, Init::Normal(1.0)), g.param("v", [3], F32, Init::Normal(1.0)));
    let loss = (w * v * g.input("x", [3], F32)).sum(..);
    let step = train(g.finish([loss.named("loss")]).unwrap().view(), "loss", optim::Adam::new(0.1)).unwrap();
    let compile = || Session::new().compile(&step).unwrap();
    let mut seeded = compile();
    seeded.init(5).unwrap();
    let fresh = trainer(compile(), 0.1);
    assert_eq!(fresh.program().values::<f32>("w").unwrap(), seeded.values::<f32>("w").unwrap());
    let mut p = compile();
    p.values_mut::<f32>("w").unwrap().copy_from_slice(&[1.0, 2.0, 3.0]);
    let t = trainer(p, 0.1);
    assert_eq!(t.program().values::<f32>("w").unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(t.program().values::<f32>("v").unwrap(), seeded.values::<f32>("v").unwrap());
}

#[test]
fn a_loss_that_is_no_number_ends_training() {
    let mut t = trainer(ready(&line(), optim::Sgd::new(0.1)), 0.1);
    let mut feed = |x: f32| {
        t.step(&mut |p, _| {
            p.values_mut::<f32>("x")?.fill(x);
            Ok(())
        })
    };
    assert_eq!(feed(1.0).unwrap().step, 1);
    for step in 2..4 {
        let e = feed(f32::NAN).unwrap_err();
        assert_eq!(e.kind, Kind::Diverged);
        for part in [&format!("the loss of step {step} is NaN"), "\"loss\"", "lower rate", "checkpoint"] {
            assert!(e.to_string().contains(part), "{e}");
        }
    }
}

/// Everything that a step may keep: moments, averages, running statistics, a count, a random key, a cache.
fn everything(batch: usize) -> GraphBuf {
    let g = Builder::new("everything");
    let tokens = g.input("tokens", [batch], DType::I32);
    let labels = g.input("labels", [batch], DType::I32);
    let h = nn::embedding(&g, "embed", tokens, 11, 40, F32).dropout(0.5);
    let h = nn::batch_norm(&g, "norm", nn::linear(&g, "fc1", h, 600), nn::BatchNorm::default()).relu();
    let cache = g.state("cache", [11, 40], F32, Init::Zeros);
    g.update(cache, cache.scatter_slices(labels, h.narrow(1, 0, 40), 0, Scatter::Add));
    let seen = g.state("seen", [11], F32, Init::Zeros);
    g.update(seen, seen + g.full(1.0, [batch], F32).scatter_add(labels, 0, 11));
    let loss = nn::linear(&g, "fc2", h, 11).cross_entropy(labels).mean(..);
    g.finish([loss.named("loss")]).unwrap()
}

fn kept(p: &Program) -> Vec<(String, Vec<u8>)> {
    p.persistent().map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect()
}

fn differing(a: &[(String, Vec<u8>)], b: &[(String, Vec<u8>)]) -> Vec<String> {
    a.iter().zip(b).filter(|(a, b)| a != b).map(|(a, _)| a.0.clone()).collect()
}

#[test]
fn a_step_that_fails_changes_nothing() {
    const BATCH: usize = 64;
    let sgd = Optimiser::from(optim::Sgd::new(0.1));
    let adam = Optimiser::from(optim::AdamW::new(0.1).ema(0.9));
    let nadam = Optimiser::new(Rule::NADAM, 0.1);
    let all = [sgd, adam.clone(), adam.clone().clip_norm(1.0), adam.accumulate(3), nadam];
    for (k, opt) in all.iter().enumerate() {
        let step = train(everything(BATCH).view(), "loss", opt).unwrap();
        for (threads, optimise) in [(1, true), (2, true), (3, true), (1, false)] {
            let mut p = Session::new().threads(threads).optimise(optimise).compile(&step).unwrap();
            p.init(3).unwrap();
            let write = |p: &mut Program, name: &str, bad: Option<(usize, i32)>| {
                let to = p.values_mut::<i32>(name).unwrap();
                to.iter_mut().enumerate().for_each(|(i, t)| *t = (i * 7 % 11) as i32);
                bad.into_iter().for_each(|(i, x)| to[i] = x);
            };
            write(&mut p, "tokens", None);
            write(&mut p, "labels", None);
            p.step().unwrap();
            let before = kept(&p);
            let last = p.values_mut::<i32>("tokens").unwrap().len() - 1;
            for (name, at, x) in [("tokens", last, 11), ("tokens", 0, -1), ("labels", last, 11), ("labels", 3, -7)] {
                write(&mut p, name, Some((at, x)));
                let e = p.step().unwrap_err();
                let what = format!("rule {k}, {threads} threads, optimised: {optimise}: {name}[{at}] = {x}");
                assert!(e.to_string().contains("of the index operand"), "{what}: {e}");
                assert!(!e.to_string().contains("changed"), "{what}: {e}");
                assert_eq!(differing(&before, &kept(&p)), [""; 0], "{what}");
                write(&mut p, name, None);
            }
            p.step().unwrap();
            // All of it moves with a step: the test would see what it looks for.
            let moved = differing(&before, &kept(&p));
            let still: Vec<&String> = before.iter().map(|b| &b.0).filter(|name| !moved.contains(name)).collect();
            assert_eq!(still, [""; 0], "rule {k}");
        }
    }
}

#[test]
fn a_divisor_of_zero_is_found_before_anything_lands() {
    for len in [1, 7, 9000] {
        let g = Builder::new("g");
        let w = g.param("w", [len], DType::I64, Init::Ones);
        let n = g.state("n", [], DType::F32, Init::Zeros);
        let by = g.input("by", [len], DType::I64);
        // Both may take the place of the param; the second divides.
        g.update(n, n + 1.0);
        g.update(w, (w + 6.0).remainder(by));
        let graph = g.finish([(w * 2.0).named("twice")]).unwrap();
        for threads in [1, 3] {
            let mut p = Session::new().threads(threads).compile(&graph).unwrap();
            p.init(0).unwrap();
            p.values_mut::<i64>("by").unwrap().fill(4);
            p.values_mut::<i64>("by").unwrap()[len - 1] = 0;
            let e = p.step().unwrap_err();
            assert!(e.message.contains(&format!("element {} of the divisor is 0", len - 1)), "{e}");
            assert!(e.kind == Kind::Data && !e.message.contains("changed"), "{e}");
            assert!(p.values::<i64>("w").unwrap().iter().all(|w| *w == 1));
            assert_eq!(p.values::<f32>("n").unwrap(), [0.0]);
            p.values_mut::<i64>("by").unwrap()[len - 1] = 4;
            p.step().unwrap();
            assert!(p.values::<i64>("w").unwrap().iter().all(|w| *w == 3));
        }
    }
}

/// Sums that take the place of what they add to: a state and an input, a product, a number.
#[test]
fn sums_land_in_place() {
    for len in [1, 700, 9000] {
        let g = Builder::new("g");
        let state = |name: &str| g.state(name, [len], F32, Init::Zeros);
        let (all, squares, n) = (state("all"), state("squares"), state("n"));
        let x = g.input("x", [len], F32);
        g.update(all, x + all);
        g.update(squares, squares + x * x);
        g.update(n, n + 1.0);
        let graph = g.finish([(all * 2.0).named("before")]).unwrap();
        for threads in [1, 3] {
            let mut p = Session::new().threads(threads).compile(&graph).unwrap();
            p.init(0).unwrap();
            for step in 1..=3u8 {
                p.values_mut::<f32>("x").unwrap().fill(f32::from(step));
                p.step().unwrap();
            }
            for (name, want) in [("all", 6.0), ("squares", 14.0), ("n", 3.0), ("before", 6.0)] {
                assert_eq!(p.values::<f32>(name).unwrap(), vec![want; len], "{name}");
            }
        }
    }
}

#[test]
fn an_index_that_needs_the_next_value_is_looked_at_before_it_lands() {
    let g = Builder::new("pointer");
    let (table, at) = (g.param("table", [4, 2], F32, Init::Ones), g.state("at", [1], DType::I32, Init::Zeros));
    let next = at + g.input("by", [1], DType::I32);
    g.update(at, next);
    let graph = g.finish([table.gather(next, 0).named("row")]).unwrap();
    for threads in [1, 2] {
        let mut p = Session::new().threads(threads).compile(&graph).unwrap();
        p.init(0).unwrap();
        p.values_mut::<i32>("by").unwrap().fill(3);
        p.step().unwrap();
        assert!(p.step().is_err());
        assert_eq!(p.values::<i32>("at").unwrap(), [3]);
    }
}

#[test]
fn a_trainer_whose_step_failed_is_where_it_was() {
    let g = Builder::new("small");
    let rows = nn::embedding(&g, "e", g.input("x", [2], DType::I32), 4, 3, F32);
    let step = train(g.finish([rows.sum(..).named("loss")]).unwrap().view(), "loss", optim::Adam::new(0.1)).unwrap();
    let mut t = trainer(Session::new().compile(&step).unwrap(), 0.1);
    let mut seen: Vec<Vec<u32>> = Vec::new();
    let mut step = |by: i32| {
        t.step(&mut |p, which| {
            seen.push(which.to_vec());
            p.values_mut::<i32>("x")?.iter_mut().zip(which).for_each(|(x, &i)| *x = i as i32 + by);
            Ok(())
        })
    };
    step(0).unwrap();
    assert!(step(4).is_err());
    step(0).unwrap();
    assert_eq!(t.steps_done(), 2);
    assert!(seen[1..].windows(2).all(|w| w[0] == w[1]), "{seen:?}");
}

#[test]
fn patterns_that_match_nothing_are_errors() {
    let graph = everything(4);
    let fails = |opt: Optimiser<optim::Sgd>| train(&graph, "loss", opt).unwrap_err();
    let e = fails(optim::Sgd::new(0.1).freeze("fc1.wieght"));
    assert_eq!(e.kind, Kind::Name);
    assert!(e.message.contains(r#""fc1.wieght" matches no param"#), "{e}");
    assert!(e.message.contains("fc2.bias") && e.message.ends_with("did you mean fc1.weight?"), "{e}");
    assert!(
        fails(optim::Sgd::new(0.1).freeze("typo.*")).message.contains(r#""typo.*" matches no param; there are embed"#)
    );
    let options = GradOptions::default().frozen(&["nothing*"]);
    assert!(grad(&graph, "loss", &options).unwrap_err().message.contains("matches no param"));
    let options = GradOptions::wrt(&["fc1.bias"]).frozen(&["fc1.*"]);
    assert!(grad(&graph, "loss", &options).unwrap_err().message.contains("asked for and frozen"));
    let group = optim::Group::default().lr_scale(0.5);
    let e = fails(optim::Sgd::new(0.1).group("fc1.*", group).group("*1.bias", group));
    assert!(e.message.contains(r#"group "*1.bias" has no param: earlier groups"#), "{e}");
}

#[test]
fn a_users_state_is_no_average() {
    let g = Builder::new("g");
    let w = g.param("w", [2], F32, Init::Ones);
    let (s, d) = (g.state("ema.mine", [2], F32, Init::Zeros), g.state("ema.w", [5], F32, Init::Zeros));
    g.update(s, s + w);
    g.update(d, d + 1.0);
    let graph = g.finish([(w * w).sum(..).named("loss")]).unwrap();
    let names = |p: &Program| averages(p).iter().map(|e| e.name.to_string()).collect::<Vec<_>>();
    let step = train(&graph, "loss", optim::Sgd::new(0.1)).unwrap();
    assert_eq!(names(&Session::new().compile(&step).unwrap()), [""; 0]);
    // Those of the optimiser are told from it, in text, too.
    let step = train(line().view(), "loss", optim::Sgd::new(0.1).ema(0.9)).unwrap();
    let again = text::parse(&text::print(step.view())).unwrap();
    assert_eq!(again, step);
    assert_eq!(names(&Session::new().compile(&again).unwrap()), ["w"]);
}

/// What takes milliseconds if each param takes as long as any other, and minutes if each looks at all.
#[test]
fn many_params_take_no_longer_each() {
    const N: usize = 30_000;
    let g = Builder::new("many");
    let x = g.input("x", [2], F32);
    let terms = (0..N).map(|i| (g.param(&format!("p{i}"), [2], F32, Init::Ones) * x).sum(..));
    let loss = terms.reduce(|a, b| a + b).unwrap();
    let graph = g.finish([loss.named("loss")]).unwrap();
    let grads = grad(&graph, "loss", &GradOptions::default()).unwrap();
    assert_eq!(grads.view().outputs().len(), 1 + N);
    let opt = optim::Adam::new(0.1).clip_norm(1.0).ema(0.9);
    assert_eq!(train(&graph, "loss", &opt).unwrap().view().updates.len(), 4 * N + 1);
    assert_eq!(train(&graph, "loss", optim::Sgd::new(0.1).accumulate(2)).unwrap().view().updates.len(), N);
    let g = Builder::new("leaves");
    for i in 0..4 * N {
        g.param(&format!("p{i}"), [1], F32, Init::Ones);
    }
    let graph = g.finish([]).unwrap();
    let [mut from, mut to] = [0, 1].map(|_| Session::new().compile(&graph).unwrap());
    from.init(0).unwrap();
    copy_params(&from, &mut to).unwrap();
    assert_eq!(to.values::<f32>("p77").unwrap(), [1.0]);
}

fn clipped(dtype: DType, x: [f64; 2], max: f64) -> Vec<f64> {
    let g = Builder::new("clip");
    let w = g.param("w", [2], dtype, Init::Zeros);
    let graph = g.finish([(w * g.input("x", [2], dtype)).sum(..).named("loss")]).unwrap();
    let mut p = ready(&graph, optim::Sgd::new(1.0).clip_norm(max));
    if dtype == DType::F64 {
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&x);
        p.step().unwrap();
        return p.values::<f64>("w").unwrap().iter().map(|w| -w).collect();
    }
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&x.map(|x| x as f32));
    p.step().unwrap();
    p.values::<f32>("w").unwrap().iter().map(|&w| f64::from(-w)).collect()
}

#[test]
fn clipping_holds_where_squares_leave_the_range() {
    let near = |got: &[f64], want: [f64; 2]| got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-5 * w.abs());
    for (dtype, size) in [(F32, 1e20), (F32, 5e37), (DType::F64, 1e200)] {
        let got = clipped(dtype, [3.0 * size, -4.0 * size], 2.0);
        assert!(near(&got, [1.2, -1.6]), "{dtype} {size}: {got:?}");
    }
    // The length itself is beyond the type.
    let got = clipped(F32, [3.4e38, 3.4e38], 2.0);
    assert!(near(&got, [2f64.sqrt(); 2]), "{got:?}");
    // 1e-6 is added to the length, as in torch: tiny gradients are scaled by max / 1e-6.
    let got = clipped(F32, [3e-30, -4e-30], 1e-7);
    assert!(near(&got, [3e-31, -4e-31]), "{got:?}");
    assert_eq!(clipped(F32, [0.0, 0.0], 1.0), [0.0, 0.0]);
    assert!(clipped(F32, [f64::INFINITY, 1.0], 1.0)[0].is_nan(), "as torch: 0 times infinity");
    assert_eq!(clipped(F32, [f64::INFINITY, 1.0], 1.0)[1], 0.0);
    assert!(clipped(F32, [f64::NAN, 1.0], 1.0).iter().all(|x| x.is_nan()));
}
