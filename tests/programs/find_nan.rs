//! Steps that look for NaN: the op that makes one is named, and what carries it on is not.

use arenagrad::error::{Error, Kind, Location};
use arenagrad::graph::Loop;
use arenagrad::prelude::*;
use arenagrad::tools::ir::text;

const F32: DType = DType::F32;

fn watched(graph: &GraphBuf) -> Program {
    let mut p = Session::new().threads(4).find_nan(true).compile(graph).unwrap();
    p.init(0).unwrap();
    p
}

fn fill(p: &mut Program, name: &str, f: impl Fn(usize) -> f32) {
    p.values_mut::<f32>(name).unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = f(i));
}

/// The error has all of `parts`, is of the right kind, and names line `line` of this file.
fn says(e: &Error, line: u32, parts: &[&str]) {
    assert_eq!(e.kind, Kind::Diverged, "{e}");
    assert_eq!(e.location, Location::Source(file!().to_string(), line), "{e}");
    parts.iter().for_each(|part| assert!(e.message.contains(part), "{part:?} is not in {e}"));
}

#[test]
fn the_seventh_layer_is_named_and_not_the_loss() {
    let g = Builder::new("deep");
    let mut x = g.input("x", [3, 4], F32);
    let mut line = 0;
    for layer in 0..10 {
        x = nn::linear(&g, &format!("fc{layer}"), x, 4).tanh();
        if layer == 6 {
            line = line!() + 1;
            x = (x - x).log().named("h7");
        }
    }
    let graph = g.finish([x.sum(..).named("loss"), x.exp().named("y")]).unwrap();
    let mut p = watched(&train(&graph, "loss", optim::Adam::new(0.1)).unwrap());
    assert_eq!(p.threads(), 1);
    fill(&mut p, "x", |i| i as f32 * 0.1);
    let e = p.step().unwrap_err();
    says(&e, line, &["log: 12 of 12 elements of its result \"h7\" f32[3,4] are not finite (0 NaN, 12 infinite)"]);
    says(&e, line, &["the first is element 0", "its operands: f32[3,4] of sub at", "in [0.0, 0.0]", "later ops carry"]);
    says(&e, line, &["outputs with such elements: \"loss\", \"y\"", "params and states are as before the step"]);
}

#[test]
fn a_nan_is_counted_and_placed_among_good_elements() {
    let g = Builder::new("roots");
    let x = g.input("x", [2, 600], F32);
    let y = x.sqrt();
    let line = line!() - 1;
    let graph = g.finish([(y * 0.0).amax(1).named("m"), x.sum(..).named("s")]).unwrap();
    let mut p = watched(&graph);
    fill(&mut p, "x", |i| if i == 701 || i == 900 { -4.0 } else { 9.0 });
    let e = p.step().unwrap_err();
    says(
        &e,
        line,
        &["sqrt: 2 of 1200", "(2 NaN, 0 infinite), the first is element 701", "input \"x\" f32[2,600] in [-4.0, 9.0]"],
    );
    says(&e, line, &["outputs with such elements: \"m\";"]);
    // Outputs of the failed step can be read.
    assert_eq!(p.values::<f32>("s").unwrap(), [9.0 * 1198.0 - 8.0]);
}

#[test]
fn the_mask_of_a_softmax_is_no_failure_but_a_row_without_a_key_is() {
    let g = Builder::new("mask");
    let (x, keep) = (g.input("x", [3, 4], F32), g.input("keep", [3, 4], F32));
    let scores = keep.greater(0.5).select(x, x.full_like(f64::NEG_INFINITY));
    let y = scores.softmax(-1);
    let line = line!() - 1;
    let graph = g.finish([y.named("y"), scores.named("scores")]).unwrap();
    let mut p = watched(&graph);
    fill(&mut p, "x", |i| i as f32);
    fill(&mut p, "keep", |i| if i % 4 < 2 { 1.0 } else { 0.0 });
    p.step().unwrap();
    assert!(p.values::<f32>("scores").unwrap()[3].is_infinite() && p.values::<f32>("y").unwrap()[3] == 0.0);
    fill(&mut p, "keep", |i| if i / 4 == 1 { 0.0 } else { 1.0 });
    let e = p.step().unwrap_err();
    says(
        &e,
        line,
        &["softmax: 4 of 12", "(4 NaN, 0 infinite), the first is element 4", "in [0.0, 11.0] (0 NaN, 4 infinite)"],
    );
    says(&e, line, &["; its operands: \"scores\" f32[3,4] in", "no later op carries them on"]);
    says(&e, line, &["outputs with such elements: \"y\", \"scores\";"]);
    // What an output holds from the failed step does not matter.
    fill(&mut p, "keep", |_| 1.0);
    p.step().unwrap();
}

#[test]
fn a_loop_tells_the_iteration() {
    for reverse in [false, true] {
        let g = Builder::new("loop");
        let x = g.input("x", [8, 2], F32);
        let how = Loop::default().reverse(reverse);
        let line = line!() + 1;
        let (_, y) = g.scan_with(how, &[x.amax(0)], &[x], |c, x| (vec![c[0] * 0.5], vec![x[0].recip() + c[0]]));
        let graph = g.finish([y[0].named("y")]).unwrap();
        let mut p = watched(&graph);
        fill(&mut p, "x", |i| if i == 11 { 0.0 } else { 2.0 });
        let e = p.step().unwrap_err();
        assert!(e.message.starts_with("recip: 1 of 2 elements of its result f32[2] are not finite"), "{e}");
        says(&e, line, &["the first is element 1, in iteration 5 of its loop", "in [0.0, 2.0]", "output"]);
        fill(&mut p, "x", |_| 2.0);
        p.step().unwrap();
    }
}

/// A net with a block, a norm, dropout and an optimiser.
fn step() -> GraphBuf {
    let g = Builder::new("net");
    let (x, y) = (g.input("x", [6, 5], F32), g.input("y", [6, 2], F32));
    let h = nn::layer_norm(&g, "norm", nn::linear(&g, "fc1", x, 7).gelu(), 1e-5).dropout(0.2);
    let loss = nn::linear(&g, "fc2", h, 2).mse(y).log().named("loss");
    train(&g.finish([loss]).unwrap(), "loss", optim::AdamW::new(1e-2).clip_norm(1.0).ema(0.9)).unwrap()
}

fn persistent(p: &Program) -> Vec<Vec<u8>> {
    p.persistent().map(|(_, bytes)| bytes.to_vec()).collect()
}

#[test]
fn a_failed_step_changes_nothing_and_good_steps_have_the_bits_of_plain_ones() {
    let graph = step();
    let (mut p, mut plain) = (watched(&graph), Session::new().compile(&graph).unwrap());
    plain.init(0).unwrap();
    let good = |p: &mut Program| {
        fill(p, "x", |i| (i as f32 * 0.7).sin());
        fill(p, "y", |i| (i as f32 * 1.3).cos());
    };
    for round in 0..3 {
        good(&mut p);
        good(&mut plain);
        p.step().unwrap();
        plain.step().unwrap();
        assert_eq!(persistent(&p), persistent(&plain), "{round}");
        let before = persistent(&p);
        p.values_mut::<f32>("x").unwrap()[7] = 3e38;
        p.values_mut::<f32>("y").unwrap()[1] = 3e38;
        let e = p.step().unwrap_err();
        assert!(e.kind == Kind::Diverged && matches!(e.location, Location::Source(..)), "{e}");
        assert_eq!(persistent(&p), before, "{e}");
    }
}

#[test]
fn bad_leaves_are_named_before_any_op_runs() {
    let graph = step();
    let mut p = watched(&graph);
    fill(&mut p, "x", |_| 1.0);
    fill(&mut p, "y", |i| if i == 5 { f32::NAN } else { 2.0 });
    let e = p.step().unwrap_err();
    assert_eq!(e.kind, Kind::Diverged);
    let want = "input \"y\" f32[6,2]: 1 of 12 elements are not finite before the step (1 NaN, 0 infinite), the first is element 5";
    assert_eq!(e.message, want);
    fill(&mut p, "y", |_| 2.0);
    p.values_mut::<f32>("fc1.bias").unwrap()[2] = f32::INFINITY;
    let e = p.step().unwrap_err();
    assert!(e.message.starts_with("param \"fc1.bias\" f32[7]: 1 of 7"), "{e}");
    // An input may be infinite: a mask is.
    let g = Builder::new("mask");
    let graph = g.finish([g.input("x", [2], F32).exp().named("y")]).unwrap();
    let mut p = watched(&graph);
    fill(&mut p, "x", |i| if i == 0 { f32::NEG_INFINITY } else { 0.0 });
    p.step().unwrap();
    assert_eq!(p.values::<f32>("y").unwrap(), [0.0, 1.0]);
}

#[test]
fn leaves_of_another_method_are_not_looked_at() {
    let graph = |name: &str| {
        let g = Builder::new(name);
        g.finish([g.input("x", [2], F32).exp().named("y")]).unwrap()
    };
    let mut p = Session::new().find_nan(true).compile_all(&[("a", &graph("a")), ("b", &graph("b"))]).unwrap();
    let [a, b] = ["a", "b"].map(|name| p.method(name).unwrap());
    let [x, bad] = [a, b].map(|m| p.input_of::<f32>(m, "x").unwrap());
    p[x].fill(1.0);
    p[bad].fill(f32::NAN);
    p.run(a).unwrap();
    let e = p.run(b).unwrap_err();
    assert!(e.message.contains("\"x\" f32[2]: 2 of 2 elements are not finite before the step"), "{e}");
}

#[test]
fn halves_and_doubles_are_watched_and_a_bad_index_is_still_one() {
    for dtype in [DType::F64, DType::F16, DType::BF16] {
        let g = Builder::new("cast");
        let graph = g.finish([(g.input("x", [3], F32) * 3e38).cast(dtype).cast(F32).named("y")]).unwrap();
        let mut p = watched(&graph);
        fill(&mut p, "x", |i| i as f32);
        let e = p.step().unwrap_err();
        assert!(e.message.starts_with("mul: 1 of 3"), "{e}");
        fill(&mut p, "x", |i| i as f32 * 1e-2);
        let e = p.step().map_err(|e| e.message);
        assert_eq!(e.is_err(), dtype == DType::F16, "{dtype}: {e:?}");
        assert!(e.is_ok() || e.as_ref().is_err_and(|e| e.starts_with("cast: 2 of 3") && e.contains("f16[3]")), "{e:?}");
    }
    let g = Builder::new("index");
    let i = g.input("i", [2], DType::I32);
    let graph = g.finish([g.input("x", [3], F32).gather(i, 0).named("y")]).unwrap();
    let mut p = watched(&graph);
    fill(&mut p, "x", |i| i as f32);
    p.values_mut::<i32>("i").unwrap().copy_from_slice(&[0, 7]);
    let e = p.step().unwrap_err();
    assert!(e.kind == Kind::Data && e.message.contains("it must be in 0..3") && !e.message.contains("changed"), "{e}");
    p.values_mut::<i32>("i").unwrap().copy_from_slice(&[0, 2]);
    p.step().unwrap();
    // Leaves behind one of whole numbers are looked at, too.
    fill(&mut p, "x", |i| if i == 1 { f32::NAN } else { 0.0 });
    let e = p.step().unwrap_err().message;
    assert!(e.starts_with("input \"x\" f32[3]: 1 of 3 elements are not finite before the step"), "{e}");
}

#[test]
fn two_windows_of_one_tensor_are_two_operands() {
    let g = Builder::new("windows");
    let x = g.input("x", [2, 3], F32);
    let row = |i: usize| x.narrow(0, i, 1);
    let graph = g.finish([(row(0) + row(1)).named("sum"), (row(0) / row(1)).named("ratio")]).unwrap();
    let mut p = watched(&graph);
    fill(&mut p, "x", |i| if i < 3 { 1.0 } else { f32::NEG_INFINITY });
    p.step().unwrap();
    fill(&mut p, "x", |i| if i < 3 { 1.0 } else { 0.0 });
    let e = p.step().unwrap_err().message;
    assert!(e.starts_with("div: 3 of 3") && e.contains("in [1.0, 1.0]") && e.contains("in [0.0, 0.0]"), "{e}");
}

#[test]
fn a_program_looks_for_nan_or_records_steps() {
    let g = Builder::new("both");
    let graph = g.finish([g.input("x", [2], F32).exp().named("y")]).unwrap();
    let e = Session::new().find_nan(true).compile_traced(&graph).err().unwrap();
    assert!(e.kind == Kind::Plan && e.message.contains("choose find_nan or compile_traced"), "{e}");
}

#[test]
fn an_optimiser_that_divides_by_zero_is_named_with_the_ops_of_its_region() {
    let g = Builder::new("rate");
    let w = g.param("w", [4], F32, Init::Ones);
    let graph = g.finish([(w * w).sum(..).named("loss")]).unwrap();
    let line = line!() + 1;
    let step = train(&graph, "loss", optim::Sgd::new(0.1).project("w", |w| w / (w - w))).unwrap();
    let mut p = watched(&step);
    let e = p.step().unwrap_err();
    says(&e, line, &["div: 4 of 4", "(0 NaN, 4 infinite)"]);
    assert!(!e.message.contains("outputs with such elements"), "{e}");
    assert_eq!(p.values::<f32>("w").unwrap(), [1.0; 4]);
}

/// The sum over the last axis and that over the first are two calls: the first alone reads the operand.
#[test]
fn the_operands_of_an_op_of_several_calls_are_told() {
    let g = Builder::new("sums");
    let x = g.input("x", [2, 3, 4], F32);
    let line = line!() + 1;
    let y = x.sum([0, 2]);
    let mut p = watched(&g.finish([y.named("y")]).unwrap());
    fill(&mut p, "x", |_| 1e38);
    let e = p.step().unwrap_err();
    says(&e, line, &["reduce_sum: 3 of 3 elements of its result", "its operands: input \"x\" f32[2,3,4] in ["]);
}

/// The new values of both are copied, which is no node of the graph.
#[test]
fn a_step_that_swaps_its_states_is_watched() {
    let g = Builder::new("swap");
    let (a, b) = (g.state("a", [3], F32, Init::Ones), g.state("b", [3], F32, Init::Zeros));
    g.update(a, b);
    g.update(b, a);
    let mut p = watched(&g.finish([g.input("x", [3], F32).log().named("y")]).unwrap());
    let swapped =
        |p: &Program| ["a", "b"].map(|name| p.values::<f32>(name).unwrap().to_vec()) == [[0.0f32; 3], [1.0; 3]];
    fill(&mut p, "x", |_| 1.0);
    p.step().unwrap();
    assert!(swapped(&p));
    fill(&mut p, "x", |_| -1.0);
    assert!(p.step().unwrap_err().message.starts_with("log: 3 of 3"));
    assert!(swapped(&p));
}

#[test]
fn a_loop_with_nothing_before_it_is_watched() {
    let g = Builder::new("first");
    let x = g.input("x", [4, 2], F32);
    let line = line!() + 1;
    let (_, y) = g.scan(&[], &[x], |_, x| (vec![], vec![x[0].log()]));
    let mut p = watched(&g.finish([y[0].named("y")]).unwrap());
    fill(&mut p, "x", |i| if i == 5 { -1.0 } else { 1.0 });
    says(&p.step().unwrap_err(), line, &["log: 1 of 2", "the first is element 1, in iteration 2 of its loop"]);
    fill(&mut p, "x", |_| 1.0);
    p.step().unwrap();
}

/// y of x by the operations `body`, which the graph has in one region.
fn in_one_region(body: &str) -> Program {
    let graph = "graph @g {\n  %x = input : f32[4]\n  %y = map %x body=@f\n  return y=%y\n}\n";
    let mut p = watched(&text::parse(&format!("region @f(%0: f32[4]) {{\n{body}}}\n{graph}")).unwrap());
    fill(&mut p, "x", |_| 0.0);
    p
}

#[test]
fn a_region_of_a_graph_is_named_with_its_first_ops() {
    for (n, label) in [
        (2, "map (neg, recip)"),
        (8, "map (neg, neg, neg, neg, neg, neg, neg, recip)"),
        (9, "map (neg, neg, neg, neg, neg, neg, neg, neg, …)"),
    ] {
        let steps: String = (1..n).map(|i| format!("  %{i} = neg %{}\n", i - 1)).collect();
        let e = in_one_region(&format!("{steps}  %{n} = recip %{}\n  yield %{n}\n", n - 1)).step().unwrap_err().message;
        let want = format!("{label}: 4 of 4 elements of its result \"y\" f32[4] are not finite (0 NaN, 4 infinite)");
        assert!(e.starts_with(&want), "{e}");
    }
    // An infinity that the region asks for is no failure.
    let mut p = in_one_region("  %1 = full value=-inf : f32[4]\n  %2 = add %0, %1\n  yield %2\n");
    p.step().unwrap();
    assert_eq!(p.values::<f32>("y").unwrap(), [f32::NEG_INFINITY; 4]);
}

/// One op that has a call for each of its results.
#[test]
fn a_later_op_of_several_calls_counts_once() {
    let graph = "graph @later {
  %a = input : f32[2,3]
  %x = input : f32[2,3]
  %gamma = input : f32[3]
  %mean = input : f32[2]
  %rstd = input : f32[2]
  %c = log %a
  %dx, %dg, %db = layer_norm_backward %c, %x, %gamma, %mean, %rstd
  return dx=%dx, dg=%dg, db=%db
}
";
    let mut p = watched(&text::parse(graph).unwrap());
    ["a", "x", "gamma", "mean", "rstd"].iter().for_each(|name| fill(&mut p, name, |_| -1.0));
    let e = p.step().unwrap_err().message;
    assert!(e.starts_with("log: 6 of 6") && e.contains("; 1 later op carries them on;"), "{e}");
    assert!(e.contains("outputs with such elements: \"dx\", \"dg\", \"db\";"), "{e}");
}

#[test]
fn a_mean_of_nothing_has_an_operand_without_elements() {
    let g = Builder::new("empty");
    let y = g.input("x", [0, 3], F32).mean(0);
    let line = line!() - 1;
    let e = watched(&g.finish([y.named("m")]).unwrap()).step().unwrap_err();
    says(&e, line, &["reduce_mean: 3 of 3 elements of its result \"m\" f32[3] are not finite (3 NaN, 0 infinite)"]);
    says(&e, line, &["; its operands: input \"x\" f32[0,3] without elements; no later op carries them on"]);
}
