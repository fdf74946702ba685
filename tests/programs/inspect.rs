//! Looking inside: inner values as outputs, graphs and plans and traces as text and pictures, gradients checked.

use arenagrad::error::{Kind, Location};
use arenagrad::graph::quant::{FakeQuantize, Quantize};
use arenagrad::op::{Op, OpDef};
use arenagrad::prelude::*;
use arenagrad::session::{GradientCheck, check_gradients};
use arenagrad::tools::ir::opdef::{Batch, Deriv};
use arenagrad::tools::ir::text;

const F32: DType = DType::F32;

// Inner values as outputs.

#[test]
fn tapped_values_are_outputs_of_the_net_and_of_its_training_step() {
    let g = Builder::new("net");
    let x = g.input("x", [2, 3], F32);
    let h = nn::linear(&g, "fc1", x, 4).tanh().tap("h");
    let graph = g.finish([nn::linear(&g, "fc2", h, 2).square_sum().named("loss")]).unwrap();
    let names: Vec<&str> = graph.view().output_names.iter().map(|&s| graph.view().str(s)).collect();
    assert_eq!(names, ["h", "loss"]);
    let mut p = Session::new().compile(&train(&graph, "loss", optim::Sgd::new(0.1)).unwrap()).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[0.5, -1.0, 2.0, 0.0, 0.25, 1.0]);
    let (w, x) = (p.values::<f32>("fc1.weight").unwrap().to_vec(), p.values::<f32>("x").unwrap().to_vec());
    let b = p.values::<f32>("fc1.bias").unwrap().to_vec();
    p.step().unwrap();
    assert_eq!(p.dims("h").unwrap(), [2, 4]);
    assert!(p.dims("k").unwrap_err().message.contains("there is no tensor \"k\""));
    for (i, h) in p.values::<f32>("h").unwrap().iter().enumerate() {
        let z: f32 = (0..3).map(|k| x[i / 4 * 3 + k] * w[i % 4 * 3 + k]).sum::<f32>() + b[i % 4];
        assert!((h - z.tanh()).abs() < 1e-6, "{i}");
    }
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
fn wrong_taps_are_errors_with_the_users_line() {
    let g = Builder::new("twice");
    let x = g.input("x", [2], F32);
    let (_, line) = (x.exp().tap("h"), line!() + 1);
    let y = x.sin().tap("h");
    let e = g.finish([y]).unwrap_err();
    assert!(e.message.contains("two outputs are called \"h\""), "{e}");
    assert_eq!(e.location, Location::Source(file!().into(), line));
    let g = Builder::new("loop");
    let x = g.input("x", [3, 2], F32);
    let (c, _) = g.scan(&[x.amax(0)], &[x], |c, x| (vec![(c[0] * x[0]).tap("h")], vec![]));
    assert!(g.finish(c).unwrap_err().message.contains("inside a region; yield it"));
    let (g, other) = (Builder::new("g"), Builder::new("other"));
    let y = other.input("y", [2], F32);
    let _ = g.input("x", [2], F32) + y.tap("h");
    assert!(g.finish([]).unwrap_err().message.contains("another builder"));
}

#[test]
fn kept_values_are_outputs_read_or_not() {
    let g = Builder::new("net");
    let x = g.input("x", [2], F32);
    let a = (x + 1.0).named("layers.0.h");
    let b = (a * 3.0).named("layers.1.h");
    let _unread = (a - 5.0).named("layers.2.h");
    let (c, _) = g.scan(&[b], &[g.input("xs", [3, 2], F32)], |c, x| (vec![(c[0] + x[0]).named("deep")], vec![]));
    let graph = g.finish([c[0].sum(..).named("loss"), b]).unwrap();
    let kept = graph.keep(&["layers.*"]).unwrap();
    let names: Vec<&str> = kept.view().output_names.iter().map(|&s| kept.view().str(s)).collect();
    assert_eq!(names, ["loss", "layers.1.h", "layers.0.h", "layers.2.h"]);
    let mut p = Session::new().compile(&kept).unwrap();
    p.values_mut::<f32>("x").unwrap().copy_from_slice(&[1.0, 2.0]);
    p.values_mut::<f32>("xs").unwrap().fill(0.0);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("layers.0.h").unwrap(), [2.0, 3.0]);
    assert_eq!(p.values::<f32>("layers.2.h").unwrap(), [-3.0, -2.0]);
    assert_eq!(graph.keep(&[]).unwrap().view().outputs().len(), 2);
    for (pattern, part) in
        [("layer.*", "matches no named value"), ("deep", "inside loops"), ("x", "matches no named value")]
    {
        let e = graph.keep(&["layers.*", pattern]).err().unwrap();
        assert!(e.kind == Kind::Name && e.message.contains(part), "{e}");
    }
    let g = Builder::new("same");
    let x = g.input("x", [2], F32);
    let graph = g.finish([x.exp().named("h") + x.sin().named("h")]).unwrap();
    let e = graph.keep(&["h"]).err().unwrap();
    assert!(e.message.contains("two values are called \"h\", %1 and %2"), "{e}");
    assert!(matches!(e.location, Location::Source(..)));
}

// Text and pictures.

#[test]
fn graphs_print_as_their_text() {
    let g = Builder::new("g");
    let graph = g.finish([g.input("x", [2], F32).exp().named("y")]).unwrap();
    assert_eq!((graph.to_string(), graph.view().to_string()), (text::print(graph.view()), graph.to_string()));
    assert_eq!(text::parse(&graph.to_string()).unwrap(), graph);
}

#[test]
fn plans_are_drawn_and_names_are_escaped() {
    let g = Builder::new("g");
    let y = g.input("a<b", [600], F32).exp().named("y & z");
    let plan = Session::new().plan(&g.finish([y]).unwrap()).unwrap();
    let (svg, page) = (plan.svg(), plan.html("<title>"));
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && svg.contains("a&lt;b (input)"), "{svg}");
    assert!(page.starts_with("<!doctype html>") && page.contains("<h1>&lt;title&gt;</h1>") && page.contains(&svg));
    assert!(page.contains("y &amp; z") && !page.contains("<script") && page.contains("Largest buffers"));
    assert!(plan.to_string().contains("largest buffers"));
}

/// Of buffers that lie over each other at one time, the list has one; it has none without bytes.
#[test]
fn the_largest_buffers_have_bytes_of_their_own() {
    let g = Builder::new("g");
    let (x, none) = (g.input("x", [600], F32), g.input("none", [0], F32));
    let y = x.exp().sin().cos().named("y");
    let graph = g.finish([y, none.exp().named("nothing")]).unwrap();
    let plan = Session::new().optimise(false).plan(&graph).unwrap();
    let (all, buffers) = (plan.largest(usize::MAX), &plan.buffers);
    assert!(buffers.iter().any(|b| b.name == "none" && b.size == 0));
    assert!(buffers.iter().enumerate().any(|(i, b)| b.root as usize != i && b.size > 0));
    assert!(all.iter().all(|b| b.size > 0));
    for (i, a) in all.iter().enumerate() {
        for b in &all[..i] {
            let together = a.first <= b.last && b.first <= a.last;
            let apart = a.offset + a.size <= b.offset || b.offset + b.size <= a.offset;
            assert!(apart || !together, "{a} and {b}");
        }
    }
    assert_eq!(plan.largest(1)[0].size, 2400);
}

#[test]
fn traces_print_and_are_written_for_viewers() {
    let g = Builder::new("g");
    let y = g.input("x 1", [64, 64], F32).matmul(g.input("y", [64, 64], F32)).named("y");
    let mut p = Session::new().compile_traced(&g.finish([y]).unwrap()).unwrap();
    ["x 1", "y"].iter().for_each(|n| p.values_mut::<f32>(n).unwrap().fill(1.0));
    let trace = p.step_traced().unwrap();
    let table = trace.to_string();
    assert!(
        table.contains("matmul") && table.contains("(between instructions)") && table.contains("GFLOP/s"),
        "{table}"
    );
    let mut file = Vec::new();
    trace.write_chrome(&mut file, "a \"step\"").unwrap();
    let file = String::from_utf8(file).unwrap();
    assert!(file.contains(r#""name":"arenagrad a \"step\"""#) && file.contains(r#""ph":"X""#), "{file}");
    assert!(file.contains("\"name\":\"matmul\"") && file.contains("f32[64,64]"), "{file}");
    assert_eq!(file.matches('{').count(), file.matches('}').count());
    let full = Error::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
    assert_eq!(trace.write_chrome(Full, "x").unwrap_err().kind, full.kind);
}

/// A disk without space.
struct Full;

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// Gradients.

#[test]
fn right_gradients_pass_at_given_and_drawn_values() {
    let g = Builder::new("net");
    let (x, i) = (g.input("x", [3, 4], F32), g.input("i", [2], DType::I32));
    let h = nn::linear(&g, "fc", x, 4).sigmoid();
    let graph = g.finish([h.gather(i, 0).softmax(-1).named("y"), i]).unwrap();
    let report = check_gradients(&graph, &[("i", &[2.0, 0.0])]).unwrap();
    let names: Vec<&str> = report.leaves.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["x", "fc.weight", "fc.bias"]);
    assert!(report.leaves.iter().all(|l| l.fine && l.worst < 1e-6 && l.compared == l.elements.min(16)), "{report}");
    assert!(report.to_string().contains("gradient of fc.weight: 16 of 16 elements"), "{report}");
    check_gradients(&graph, &[]).unwrap();
    // √x has no finite value at most drawn points, but has at positive ones.
    let g = Builder::new("root");
    let graph = g.finish([g.input("x", [20], F32).sqrt().named("y")]).unwrap();
    check_gradients(&graph, &[]).unwrap();
    assert_eq!(check_gradients(&graph, &[("x", &[-1.0; 20])]).unwrap_err().kind, Kind::Diverged);
}

/// 3x with the derivative `deriv`.
const fn tripled(name: &'static str, deriv: Deriv) -> OpDef {
    OpDef::new(name, "3x, whose derivative is told to be another one")
        .infer(|cx| cx.same_as(0))
        .deriv(deriv)
        .batch(Batch::Leading)
        .decompose(|s| vec![s.args[0] * 3.0])
        .cost(|_| 1)
        .cases(&[])
}

/// With the derivative 2.
static WRONG: OpDef = tripled("wrong", Deriv::Pointwise(|s, _| Some(s.args[0].full_like(2.0))));

/// With a derivative of another shape.
static BROKEN: OpDef = tripled("broken", Deriv::Pointwise(|s, _| Some(s.args[0].reshape([7]))));

#[test]
fn a_wrong_gradient_is_an_error_that_names_leaf_and_element() {
    let g = Builder::new("wrong");
    let (x, w) = (g.input("x", [3], F32), g.param("w", [3], F32, Init::Ones));
    let y = g.custom(&WRONG, &[x], &[])[0] * w;
    let graph = g.finish([y.named("y")]).unwrap();
    let e = check_gradients(&graph, &[]).unwrap_err();
    assert_eq!(e.kind, Kind::Derivative);
    assert!(e.message.contains("gradient of x: 3 of 3 elements, relative error 3.3e-1: WRONG at element"), "{e}");
    assert!(e.message.contains("gradient of w: 3 of 3 elements") && e.message.ends_with("ok"), "{e}");
    let loose = GradientCheck::default().tolerance(0.5).elements(2);
    let report = loose.run(&graph, &[]).unwrap();
    assert!(report.leaves.iter().all(|l| l.fine && l.compared == 2), "{report}");
}

/// An op without a derivative gives a report that says so. A derivative that cannot be written is an error.
#[test]
fn a_derivative_that_does_not_exist_is_told_apart_from_one_that_is_wrong() {
    let g = Builder::new("none");
    let graph = g.finish([g.input("x", [3], F32).nextafter(2.0).named("y")]).unwrap();
    let report = GradientCheck::default().run(&graph, &[]).unwrap();
    assert!(report.leaves.is_empty() && report.none.contains("nextafter"), "{report}");
    let g = Builder::new("broken");
    let graph = g.finish([g.custom(&BROKEN, &[g.input("x", [3], F32)], &[])[0].named("y")]).unwrap();
    let e = GradientCheck::default().run(&graph, &[]).unwrap_err();
    assert!(e.kind == Kind::Shape && e.message.contains("derivative of broken"), "{e}");
}

/// w rounded to four bits, between other layers.
fn rounded<'g>(g: &'g Builder, w: Var<'g>) -> Var<'g> {
    w.fake_quantize(g.constant(&[0.21], []), None, FakeQuantize::bits(4))
}

#[test]
fn a_derivative_by_definition_is_no_wrong_gradient_and_is_named() {
    // The bias is behind the rounding: its gradient agrees. That of the weight cannot.
    let g = Builder::new("rounded");
    let (x, w, b) =
        (g.input("x", [3, 4], F32), g.param("w", [4, 2], F32, Init::Normal(0.5)), g.param("b", [2], F32, Init::Zeros));
    let graph = g.finish([(x.matmul(rounded(&g, w)) + b).tanh().named("y")]).unwrap();
    let report = check_gradients(&graph, &[]).unwrap();
    let leaf = |name: &str| report.leaves.iter().find(|l| l.name == name).unwrap();
    assert!(leaf("b").fine && leaf("b").conventions.is_empty() && leaf("x").fine, "{report}");
    assert!(!leaf("w").fine && !leaf("w").wrong() && leaf("w").conventions == ["fake_quantize"], "{report}");
    assert!(report.to_string().contains("cannot be compared, as it passes fake_quantize"), "{report}");
    // Where nothing can be compared, a check that passes would say what it does not know.
    let g = Builder::new("alone");
    let graph = g.finish([rounded(&g, g.input("x", [9], F32)).square().named("y")]).unwrap();
    let e = check_gradients(&graph, &[]).unwrap_err();
    assert!(
        e.kind == Kind::Derivative && e.message.contains("passes fake_quantize") && !e.message.contains("WRONG"),
        "{e}"
    );
    // Codes, and a constant by definition; in a loop; what no output reads does not count.
    let g = Builder::new("codes");
    let (x, s, b) = (g.input("x", [9], F32), g.constant(&[0.3], []), g.param("b", [9], F32, Init::Ones));
    let y = x.quantize(s, None, Quantize::i8()).dequantize(s, None, None);
    let (_, z) = g.scan(&[], &[(y * b).unsqueeze(0)], |_, x| (vec![], vec![rounded(&g, x[0]) * x[0].stop_gradient()]));
    let _unread = rounded(&g, b).named("unread");
    let graph = g.finish([z[0].named("z"), (b * b).named("bb")]).unwrap();
    let report = GradientCheck::default().run(&graph, &[]).unwrap();
    assert_eq!(report.leaves[0].conventions, ["dequantize", "fake_quantize", "quantize", "stop_gradient"], "{report}");
    let g = Builder::new("unread");
    let b = g.param("b", [9], F32, Init::Ones);
    rounded(&g, b);
    let graph = g.finish([(b * b).named("bb")]).unwrap();
    assert!(check_gradients(&graph, &[]).unwrap().leaves[0].conventions.is_empty());
    // A wrong rule beside a convention is still wrong.
    let g = Builder::new("both");
    let (x, w) = (g.input("x", [3], F32), g.param("w", [3], F32, Init::Ones));
    let graph = g.finish([(g.custom(&WRONG, &[x], &[])[0] * rounded(&g, w)).named("y")]).unwrap();
    let e = check_gradients(&graph, &[]).unwrap_err();
    assert!(e.message.contains("gradient of x: 3 of 3 elements, relative error 3.3e-1: WRONG"), "{e}");
}

#[test]
fn checks_that_check_nothing_and_wrong_inputs_are_errors() {
    let g = Builder::new("ints");
    let i = g.input("i", [2], DType::I32);
    let ints = g.finish([i.pair(Op::ADD, i)]).unwrap();
    assert!(check_gradients(&ints, &[]).unwrap_err().message.contains("none, no output is a float"));
    let g = Builder::new("g");
    let (x, i) = (g.input("x", [2], F32), g.input("i", [2], DType::I32));
    let graph = g.finish([x.gather(i, 0).named("y")]).unwrap();
    let refused = |inputs: &[(&str, &[f64])], part: &str| {
        let e = check_gradients(&graph, inputs).unwrap_err();
        assert!(e.message.contains(part), "{part:?} is not in {e}");
    };
    refused(&[("z", &[1.0])], "no leaf is called \"z\"");
    refused(&[("x", &[1.0])], "\"x\" is f64[2]; 1 elements are given");
    refused(&[("i", &[0.0, 0.5])], "\"i\": 0.5 is no i32");
    refused(&[("i", &[0.0, 2.0])], "it must be in 0..2");
    let bad = GradientCheck::default().tolerance(f64::NAN);
    assert!(bad.run(&graph, &[]).unwrap_err().message.contains("tolerance is NaN"));
}

#[test]
fn bytes_are_written_by_name() {
    let g = Builder::new("g");
    let (x, m) = (g.input("x", [2], F32), g.input("m", [2], DType::Bool));
    let graph = g.finish([m.select(x, -x).named("y")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.write_bytes("x", &[1.0f32, 2.0].map(f32::to_le_bytes).concat()).unwrap();
    assert!(p.write_bytes("m", &[1, 2]).unwrap_err().message.contains("a bool is 0 or 1"));
    assert!(p.step().is_err(), "a refused write writes nothing");
    p.write_bytes("m", &[1, 0]).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("y").unwrap(), [1.0, -2.0]);
    assert!(p.write_bytes("x", &[0; 4]).unwrap_err().message.contains("has 8 bytes; 4 are written"));
    assert!(p.write_bytes("y", &[0; 8]).unwrap_err().message.contains("there is no input, param or state \"y\""));
}

/// A picture names a buffer by its value; one whose value has no name, by the op that makes it.
#[test]
fn labels_name_values_or_ops() {
    let g = Builder::new("labels");
    let (x, w) = (g.input("x", [4, 8], DType::F32), g.input("w", [8, 8], DType::F32));
    let h = x.matmul(w).named("hidden");
    let graph = g.finish([h.matmul(w).softmax(-1).named("y")]).unwrap();
    let plan = Session::new().threads(1).plan(&graph).unwrap();
    let labels = |value: &str| {
        let b = plan.buffers.iter().find(|b| b.value.is_some() && b.name == value).unwrap();
        b.labels()
    };
    let at = |value: &str| format!("{value} inspect.rs:");
    for (value, op) in [("hidden", "matmul"), ("y", "softmax")] {
        let all = labels(value);
        assert!(all[0].starts_with(&format!("{value}, {op} inspect.rs:")), "{all:?}");
        assert!(all[1].starts_with(&at(value)) && all[2..] == [value], "{all:?}");
    }
    let unnamed = plan.buffers.iter().find(|b| b.value.is_some() && b.name == b.value.to_string()).unwrap();
    let all = unnamed.labels();
    assert!(all.len() == 2 && all[0].starts_with(&at("matmul")) && all[1] == "matmul", "{all:?}");
}

#[test]
fn the_peak_is_the_first_instruction_with_most_bytes() {
    let g = Builder::new("g");
    let y = g.input("x", [600], F32).exp().sin().cos().named("y");
    let mut plan = Session::new().optimise(false).plan(&g.finish([y]).unwrap()).unwrap();
    assert!(plan.instructions >= 3);
    plan.buffers.truncate(1);
    (plan.buffers[0].root, plan.buffers[0].size) = (0, 4096);
    for (first, last) in [(0, 0), (0, 1), (1, 2)] {
        (plan.buffers[0].first, plan.buffers[0].last) = (first, last);
        assert_eq!(plan.peak(), (first as usize, 4096), "{first} to {last}");
    }
}

/// Scratch is for the threads that run, not for all that may.
#[cfg(feature = "linalg")]
#[test]
fn threads_that_are_not_worth_it_take_no_memory() {
    let g = Builder::new("small");
    let [q, r] = g.input("x", [2, 6, 6], F32).qr();
    let graph = g.finish([q.named("q"), r.named("r")]).unwrap();
    let [one, many] = [1, 64].map(|threads| Session::new().threads(threads).plan(&graph).unwrap());
    assert!(one.buffers.iter().any(|b| b.what() == "scratch" && b.size > 0));
    assert_eq!((many.threads, many.arena_bytes), (1, one.arena_bytes));
}
