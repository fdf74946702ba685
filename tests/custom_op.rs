//! Ops and functions of a user's own, from outside the crate: the examples, and an op definition that is run,
//! differentiated, trained, printed, parsed, drawn at random and tested by the conformance suite.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../examples/custom_op.rs"]
mod custom_op;
#[path = "../examples/straight_through.rs"]
mod straight_through;

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, OpDef, grad, hvp};
use arenagrad::session::Session;
use arenagrad::tools::fuzz::{check_random_graph, random_graph_with, seeded_draws};
use arenagrad::tools::ir::attrs::Attr;
use arenagrad::tools::ir::call::{Buf, Call};
use arenagrad::tools::ir::opdef::{Deriv, Flags, Lower};
use arenagrad::tools::ir::text;
use arenagrad::tools::kernels::abi::Args;
use arenagrad::tools::kernels::fault::Cause;
use arenagrad::tools::passes::pipeline;
use arenagrad::tools::testing::conform;
use arenagrad::tools::testing::tensor::{PLAIN, Tensor, TensorDraws, try_conform_run};
use custom_op::{LEAKY_SUM, leaky_sum};

const F64: DType = DType::F64;

#[test]
fn the_examples_print_what_they_say() {
    let gain = custom_op::learn().unwrap();
    assert_eq!(format!("{gain:.4}"), "2.5000");
    let (weights, loss) = straight_through::learn(true).unwrap();
    assert_eq!(format!("weights {weights:?}, loss {loss:.4}"), "weights [2.0, -1.0, 3.0], loss 0.0000");
    let e = straight_through::learn(false).unwrap_err();
    assert!(e.message.contains("\"w\" gets no gradient"), "{e}");
}

/// Σ (leaky_sum(x))³ with its pieces.
fn graph() -> GraphBuf {
    let g = Builder::new("g");
    let x = g.input("x", [2, 4], F64);
    let y = leaky_sum(x, 0.5);
    g.finish([(y * y * y).sum(..).named("loss"), y.named("y")]).unwrap()
}

/// The output called `name`.
fn at(g: &GraphBuf, inputs: &[Tensor], name: &str) -> Vec<f64> {
    let v = g.view();
    let i = v.output_names.iter().position(|&s| v.str(s) == name).unwrap();
    try_conform_run(g, inputs, PLAIN).unwrap()[i].data.clone()
}

fn leaky(x: &[f64]) -> Vec<f64> {
    let mut y = x.to_vec();
    y.chunks_mut(4).for_each(|row| (1..4).for_each(|i| row[i] += 0.5 * row[i - 1]));
    y
}

#[test]
fn an_op_is_run_and_differentiated() {
    let g = graph();
    let tensor = |data: Vec<f64>| Tensor { dtype: F64, dims: vec![2, 4], data };
    let x: Vec<f64> = (0..8).map(|i| f64::from(i) * 0.3 - 1.0).collect();
    let y = leaky(&x);
    assert_eq!(try_conform_run(&g, &[tensor(x.clone())], PLAIN).unwrap()[1].data, y);
    let back = |ct: Vec<f64>| {
        let mut ct = ct;
        ct.chunks_mut(4).for_each(|row| (0..3).rev().for_each(|i| row[i] += 0.5 * row[i + 1]));
        ct
    };
    let first = grad(&g, "loss", &GradOptions::wrt(&["x"])).unwrap();
    let got = at(&first, &[tensor(x.clone())], "grad.x");
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
    let want = back(y.iter().map(|y| 3.0 * y * y).collect());
    assert!(close(&got, &want), "{got:?} {want:?}");
    let v: Vec<f64> = (0..8).map(|i| f64::from(i % 3) - 0.7).collect();
    let second = hvp(&g, "loss", &["x"]).unwrap();
    let got = at(&second, &[tensor(x), tensor(v.clone())], "tangent.grad.x");
    let want = back(y.iter().zip(leaky(&v)).map(|(y, v)| 6.0 * y * v).collect());
    assert!(close(&got, &want), "{got:?} {want:?}");
}

#[test]
fn an_op_is_printed_and_parsed() {
    let g = graph();
    let printed = text::print(g.view());
    assert!(printed.contains("%y = leaky_sum %x decay=0.5 : f64[2,4]"), "{printed}");
    assert_eq!(text::parse_with(&printed, &[&LEAKY_SUM]).unwrap(), g);
    check_random_graph(&g);
    let e = text::parse(&printed).unwrap_err();
    let want = "there is no op leaky_sum; an op of your own is read by `parse_with`, given its definition";
    assert_eq!(e.message, want);
}

#[test]
fn wrong_use_names_op_and_line() {
    let error = |dims: &[usize], dtype: DType, decay: f64| {
        let g = Builder::new("wrong");
        let y = leaky_sum(g.input("x", dims, dtype), decay);
        g.finish([y]).unwrap_err().to_string()
    };
    for (e, want) in [
        (error(&[], F64, 0.5), "leaky_sum(f64[]): x is a scalar"),
        (error(&[3], F64, 1.5), "leaky_sum(f64[3]): decay is 1.5; it must be in 0..=1"),
        (error(&[3], DType::I32, 0.5), "leaky_sum(i32[3]): operand 0 is i32"),
    ] {
        assert!(e.starts_with(want) && e.contains("custom_op.rs:"), "{e}");
    }
}

/// A kernel's bad value, with a text of the op's own.
static NEGATIVE: Cause = Cause { name: "negative", text: |bad, f| write!(f, "mass {} is negative", bad.element) };

static MASSES: OpDef = OpDef {
    name: "masses",
    lower: Lower::Kernel(|cx| {
        let call = Call::new(masses, [], 1).reads_args(1).writes(Buf::Out(0), cx.arg_dims(0).numel());
        cx.call(call.faults());
        Ok(())
    }),
    ..LEAKY_SUM
};

fn masses(args: &mut Args<'_>) {
    let x = args.read::<f64>(0);
    if let Some(i) = x.iter().position(|&x| x < 0.0) {
        args.report(&NEGATIVE, i, None);
    }
    args.write::<f64>(0).copy_from_slice(x);
}

#[test]
fn a_fault_of_an_op_has_a_text_of_its_own() {
    let g = Builder::new("g");
    let x = g.input("x", [3], F64);
    let y = g.custom(&MASSES, &[x], &[Attr::F64(0.5)])[0];
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[1.0, -2.0, -3.0]);
    let e = p.step().unwrap_err().to_string();
    assert!(e.contains("masses") && e.contains("mass 1 is negative") && e.contains("custom_op.rs:"), "{e}");
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[1.0, 2.0, 3.0]);
    p.step().unwrap();
    assert_eq!(p.values::<f64>("y").unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn the_suite_passes_the_op_and_finds_what_is_wrong() {
    let report = conform(&[&LEAKY_SUM]).unwrap();
    assert!(report.answers() >= 50 && !report.has_gaps(), "{report}");
    let faults = |def: &'static OpDef| conform(&[def]).unwrap_err().message;
    // The cotangent of a sum that forgets the decay.
    static VJP: OpDef = OpDef { name: "wrong_vjp", deriv: Deriv::Linear(|_, _, ct| Some(ct)), ..LEAKY_SUM };
    let e = faults(&VJP);
    assert!(e.contains("wrong_vjp#0 f64 vjp: d/dx0[0] is") && e.contains("wrong_vjp#0 f64 jvp: <Jv,w>"), "{e}");
    static ZERO: OpDef = OpDef { name: "wrong_zero", deriv: Deriv::Zero, ..LEAKY_SUM };
    assert!(faults(&ZERO).contains("wrong_zero#0 f64 zero: the derivative is Zero"));
    static PLAIN_SUM: OpDef = OpDef { name: "wrong_kernel", decompose: Some(|s| s.args.to_vec()), ..LEAKY_SUM };
    assert!(faults(&PLAIN_SUM).contains("wrong_kernel#0 f32 kernel: "));
    static PANICS: OpDef = OpDef { name: "panics", infer: |cx| cx.same_as(7), ..LEAKY_SUM };
    assert!(faults(&PANICS).contains("panics: panicked: index out of bounds"));
    static BARE: OpDef = OpDef { name: "bare", cases: &[], ..LEAKY_SUM };
    assert!(faults(&BARE).contains("bare: an op needs conformance cases"));
    static STEP: OpDef = OpDef { name: "step", flags: Flags::STEP, ..LEAKY_SUM };
    assert!(faults(&STEP).contains("step: an op that is a step function"));
    let g = Builder::new("step");
    g.custom(&STEP, &[g.input("x", [3], F64)], &[Attr::F64(0.5)]);
    assert!(g.error().is_some_and(|e| e.message.contains("op \"step\": an op that is a step function")));
    // Not differentiable, and it says so.
    static REFUSES: OpDef = OpDef { name: "refuses", deriv: Deriv::Error("it is a counter"), ..LEAKY_SUM };
    assert!(conform(&[&REFUSES]).unwrap().to_string().contains("- refused"));
    let g = Builder::new("refuses");
    let y = g.custom(&REFUSES, &[g.input("x", [3], F64)], &[Attr::F64(0.5)])[0];
    let graph = g.finish([y.sum(..).named("loss")]).unwrap();
    let e = grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap_err();
    assert!(e.message.contains("refuses: it is a counter"), "{e}");
}

#[test]
fn random_graphs_hold_the_op() {
    let mut draw = seeded_draws(11);
    let mut seen = 0;
    for i in 0..300 {
        let g = random_graph_with(40, &[&LEAKY_SUM], &mut draw).unwrap();
        check_random_graph(&g);
        let v = g.view();
        let holds = v.op.iter().filter(|op| v.ops[op.0 as usize].name == "leaky_sum").count();
        seen += holds;
        if holds > 0 {
            pipeline::run_whole_pipeline(&g).unwrap_or_else(|e| panic!("graph {i}: {e}\n{g:?}"));
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn a_definition_may_be_made_at_run_time() {
    let ops: Vec<&'static OpDef> = ["a", "b"]
        .into_iter()
        .map(|name| &*Box::leak(Box::new(OpDef { name: format!("leaky_{name}").leak(), ..LEAKY_SUM })))
        .collect();
    let g = Builder::new("made");
    let x = g.input("x", [2, 4], F64);
    let y = ops.iter().fold(x, |x, op| g.custom(op, &[x], &[Attr::F64(0.5)])[0]);
    let graph = g.finish([y.named("y")]).unwrap();
    let x = TensorDraws(1).tensor(F64, &[2, 4], arenagrad::tools::ir::opdef::Domain::Real);
    assert_eq!(try_conform_run(&graph, std::slice::from_ref(&x), PLAIN).unwrap()[0].data, leaky(&leaky(&x.data)));
    let printed = text::print(graph.view());
    assert_eq!(text::parse_with(&printed, &ops).unwrap(), graph);
    // Two definitions of one name are an error.
    let twin: &'static OpDef = Box::leak(Box::new(*ops[0]));
    let g = Builder::new("twins");
    let x = g.input("x", [2, 4], F64);
    let y = g.custom(ops[0], &[x], &[Attr::F64(0.5)])[0];
    let y = g.custom(twin, &[y], &[Attr::F64(0.5)])[0];
    let e = g.finish([y]).unwrap_err();
    assert!(e.message.contains("an op called leaky_a exists already"), "{e}");
}
