//! Ops and functions of a user's own, from outside the crate: the examples, and an op definition that is run,
//! differentiated, trained, printed, parsed, drawn at random and tested by the conformance suite.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../examples/custom_op.rs"]
mod custom_op;
#[path = "../examples/pack.rs"]
mod pack;
#[path = "../examples/straight_through.rs"]
mod straight_through;

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, grad, hvp};
use arenagrad::op::{
    Args, Arity, Attr, Buf, Call, Case, Cause, CostClass, Deriv, Domain, Flags, Found, Lower, Match, Op, OpDef, Pack,
    Pattern, PatternFacts, Roots,
};
use arenagrad::session::Session;
use arenagrad::tools::arena::Node;
use arenagrad::tools::fuzz::{
    Array, OracleOps, RunOptions, check_any_graph, check_run, random_graph_with, seeded_draws,
};
use arenagrad::tools::ir::text;
use arenagrad::tools::passes::{Outcome, pipeline, report_pipeline};
use arenagrad::tools::testing::conform;
use arenagrad::tools::testing::tensor::{PLAIN, Tensor, TensorDraws, try_run_once};
use custom_op::{LEAKY_SUM, LeakySumAttrs, leaky_sum};

const F64: DType = DType::F64;

#[test]
fn the_examples_print_what_they_say() {
    let gain = custom_op::learn().unwrap();
    assert_eq!(format!("{gain:.4}"), "2.5000");
    let (weight, fault) = pack::learn().unwrap();
    assert_eq!(format!("{weight:.4}"), "1.3000");
    assert!(fault.starts_with("thin_plate: element 4 of x is 0 or less; it must be above 0, at "), "{fault}");
    let (weights, loss) = straight_through::learn(true).unwrap();
    assert_eq!(format!("weights {weights:?}, loss {loss:.4}"), "weights [2.0, -1.0, 3.0], loss 0.0000");
    let e = straight_through::learn(false).unwrap_err();
    assert!(e.message.contains("\"w\" gets no gradient"), "{e}");
}

#[test]
fn the_example_of_a_pack_has_no_gaps_and_agrees_with_its_oracle() {
    let report = conform(&[&pack::THIN_PLATE]).unwrap();
    assert!(!report.has_gaps(), "{report}");
    let g = Builder::new("g");
    g.pack(&pack::PACK);
    let x = g.input("x", [70, 100], F64);
    let y = pack::thin_plate(x * x + 0.5);
    let graph = g.finish([y.named("y"), y.sum(..).named("loss")]).unwrap();
    let graph = grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap();
    for how in RunOptions::all() {
        let agreement = check_run(&graph, 7, &how).unwrap();
        assert!(agreement.compared > 14_000 && agreement.unknown == 0, "{}", agreement.unknown);
    }
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
    try_run_once(g, inputs, PLAIN).unwrap()[i].data.clone()
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
    assert_eq!(try_run_once(&g, &[tensor(x.clone())], PLAIN).unwrap()[1].data, y);
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
    check_any_graph(&g);
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
static NEGATIVE: Cause = Cause::new("negative", |bad, f| write!(f, "mass {} is negative", bad.element));

static MASSES: OpDef = LEAKY_SUM.named("masses").lower(Lower::Kernel(|cx| {
    let call = Call::new(masses, [], 1).reads_args(1).writes(Buf::Out(0), cx.arg_dims(0).numel());
    cx.call(call.faults());
    Ok(())
}));

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

/// A leaky sum of a product, which the pattern of its pack writes.
static LEAKY_DOT: OpDef = OpDef::new("leaky_dot", "yᵢ = decay·yᵢ₋₁ + aᵢ·xᵢ along the last axis")
    .arity(Arity::Exactly(2))
    .attrs(LeakySumAttrs::FIELDS)
    .infer(|cx| {
        cx.same(0, 1)?;
        cx.same_as(0)
    })
    .deriv(Deriv::ViaDecompose)
    .decompose(|s| vec![leaky_sum(s.args[0] * s.args[1], LeakySumAttrs::of(&s.attrs).decay)])
    .lower(Lower::Kernel(|cx| {
        let LeakySumAttrs { decay } = LeakySumAttrs::of(&cx.attrs());
        let call = Call::new(leaky_dot, [decay.to_bits(), cx.arg_dims(0).last().map_or(1, |&n| n as u64)], 1);
        let call = call.reads_args(2).writes(Buf::Out(0), cx.arg_dims(0).numel());
        cx.call(call.flops(cx.flops()).cost_class(CostClass::new(80, 900_000, 30_000)));
        Ok(())
    }))
    .cost(|cx| 3 * cx.out())
    .cases(&[Case::new("f64[3,7] f64[3,7]", "decay=0.5", &[Domain::Real])])
    .pack(&LEAKY_PACK);

static LEAKY_PACK: Pack = Pack::new("leaky").ops(&[&LEAKY_DOT]).patterns(&[Pattern::new(
    "leaky-dot",
    Roots::Named(&["leaky_sum"]),
    find_leaky_dot,
)]);

fn leaky_dot(args: &mut Args<'_>) {
    let [decay, n] = *args.params() else { return };
    let (decay, n) = (f64::from_bits(decay), n as usize);
    let (a, x) = (args.read::<f64>(0), args.read::<f64>(1));
    for (i, y) in args.write::<f64>(0).chunks_mut(n.max(1)).enumerate() {
        let mut sum = 0.0;
        for (j, y) in y.iter_mut().enumerate() {
            sum = decay * sum + a[i * n + j] * x[i * n + j];
            *y = sum;
        }
    }
}

fn find_leaky_dot(f: &PatternFacts<'_>, root: Node) -> Found {
    let x = f.args(root)[0];
    let Some(product) = f.is(x, Op::MUL) else { return Found::No };
    if !f.alone(x) {
        return Found::Missed(f.reads_of("the product", x));
    }
    let attrs = LeakySumAttrs::of(&f.attrs(root));
    let operands = f.args(product).to_vec();
    Found::Fired(Match::one(f.g.out(root), operands, vec![product], move |g, a| {
        g.custom(&LEAKY_DOT, a, &attrs.list())[0]
    }))
}

#[test]
fn the_pack_of_an_op_has_patterns_and_a_cost() {
    let graph = |pack: bool, twice: bool| {
        let g = Builder::new("g");
        if pack {
            g.pack(&LEAKY_PACK);
        }
        let (a, x) = (g.input("a", [2, 4], F64), g.input("x", [2, 4], F64));
        let product = a * x;
        let y = leaky_sum(product, 0.5).named("y");
        g.finish(if twice { vec![y, product.named("p")] } else { vec![y] }).unwrap()
    };
    let step = |g: &GraphBuf| {
        let mut p = Session::new().compile(g).unwrap();
        p.values_mut::<f64>("a").unwrap().copy_from_slice(&[1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 0.0, 2.0]);
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&[0.5, 1.0, -1.0, 2.0, 3.0, 4.0, 1.0, 1.0]);
        p.step().unwrap();
        let lowered = pipeline::run_whole_pipeline(g).unwrap();
        let v = lowered.view();
        let ops: Vec<&str> =
            v.op.iter().map(|op| v.ops[op.0 as usize].name).filter(|op| op.starts_with("leaky")).collect();
        (p.values::<f64>("y").unwrap().to_vec(), ops)
    };
    let (plain, plain_ops) = step(&graph(false, false));
    let (fused, fused_ops) = step(&graph(true, false));
    assert_eq!(plain, fused);
    assert_eq!((plain_ops, fused_ops), (vec!["leaky_sum"], vec!["leaky_dot"]));
    // Something else reads the product: the report says why the rule missed.
    let fusions = report_pipeline(&graph(true, true)).unwrap();
    let missed = Outcome::Missed { reason: "the product is an output too".to_string() };
    assert!(fusions.iter().any(|f| f.rule == "leaky-dot" && f.outcome == missed), "{fusions:?}");
    // A graph that is printed and read again keeps the rule.
    let again = text::parse_with(&text::print(graph(true, false).view()), &[&LEAKY_SUM, &LEAKY_DOT]).unwrap();
    assert_eq!(step(&again).1, ["leaky_dot"]);
}

#[test]
fn a_pattern_that_gives_another_type_is_an_error_with_its_name() {
    static SHORT: Pack = Pack::new("short").ops(&[&SHORTENS]).patterns(&[Pattern::new(
        "shortens",
        Roots::Picked(|op| op == Op::EXP),
        |f, n| Found::Fired(Match::one(f.g.out(n), f.args(n).to_vec(), vec![], |_, a| a[0].narrow(0, 0, 1))),
    )]);
    static SHORTENS: OpDef = LEAKY_SUM.named("shortens").pack(&SHORT);
    let g = Builder::new("g");
    g.pack(&SHORT);
    let y = g.input("x", [4], F64).exp().named("y");
    let e = pipeline::run_whole_pipeline(&g.finish([y]).unwrap()).unwrap_err().to_string();
    assert!(e.contains("pattern \"shortens\" gives other types than exp"), "{e}");
}

/// What the oracle knows of two ops without a decomposition: the sums, with a bound of their rounding.
static LEAKY_ORACLE: OracleOps = OracleOps {
    names: &["kernel_only", "forgets_a_row"],
    run: |node| {
        let x = node.args[0];
        node.spend(2 * x.len() as u64)?;
        let LeakySumAttrs { decay } = LeakySumAttrs::of(&node.attrs);
        let mut sums = Vec::new();
        for i in 0..x.len() {
            let before = if i % 4 == 0 { 0.0 } else { sums[i - 1] };
            sums.push(decay * before + x.number(i));
        }
        let bounded = sums.into_iter().map(|y: f64| (y, 1e-12 * (1.0 + y.abs())));
        Ok(vec![Array::reals(node.dtypes[0], &node.dims[0], bounded)])
    },
};

#[test]
fn the_oracle_knows_an_op_by_its_pack() {
    static KNOWN: Pack = Pack::new("kernel-only").oracle(&LEAKY_ORACLE);
    static RIGHT: OpDef = LEAKY_SUM.named("kernel_only").pack(&KNOWN);
    static WRONG: OpDef = RIGHT.named("forgets_a_row").lower(Lower::Kernel(|cx| {
        cx.call(Call::new(copies, [], 1).reads_args(1).writes(Buf::Out(0), cx.arg_dims(0).numel()));
        Ok(())
    }));
    fn copies(args: &mut Args<'_>) {
        let x = args.read::<f64>(0);
        args.write::<f64>(0).copy_from_slice(x);
    }
    let check = |def: &'static OpDef| {
        let g = Builder::new("g");
        let y = g.custom(def, &[g.input("x", [3, 4], F64)], &LeakySumAttrs { decay: 0.5 }.list())[0];
        check_run(&g.finish([y.named("y")]).unwrap(), 7, &RunOptions::default())
    };
    assert_eq!(check(&RIGHT).unwrap().compared, 12);
    assert!(check(&WRONG).unwrap_err().to_string().contains("y"));
    // Without a pack and a decomposition there is nothing to compare with.
    assert_eq!(check(&LEAKY_SUM).unwrap().without_reference, 1);
}

#[test]
fn the_suite_passes_the_op_and_finds_what_is_wrong() {
    let report = conform(&[&LEAKY_SUM]).unwrap();
    assert!(report.answers() >= 50 && !report.has_gaps(), "{report}");
    let faults = |def: &'static OpDef| conform(&[def]).unwrap_err().message;
    // The cotangent of a sum that forgets the decay.
    static VJP: OpDef = LEAKY_SUM.named("wrong_vjp").deriv(Deriv::Linear(|_, _, ct| Some(ct)));
    let e = faults(&VJP);
    assert!(e.contains("wrong_vjp#0 f64 vjp: d/dx0[0] is") && e.contains("wrong_vjp#0 f64 jvp: <Jv,w>"), "{e}");
    static ZERO: OpDef = LEAKY_SUM.named("wrong_zero").deriv(Deriv::Zero);
    assert!(faults(&ZERO).contains("wrong_zero#0 f64 zero: the derivative is Zero"));
    static PLAIN_SUM: OpDef = LEAKY_SUM.named("wrong_kernel").decompose(|s| s.args.to_vec());
    assert!(faults(&PLAIN_SUM).contains("wrong_kernel#0 f32 kernel: "));
    static PANICS: OpDef = LEAKY_SUM.named("panics").infer(|cx| cx.same_as(7));
    assert!(faults(&PANICS).contains("panics: panicked: index out of bounds"));
    static BARE: OpDef = LEAKY_SUM.named("bare").cases(&[]);
    assert!(faults(&BARE).contains("bare: an op needs conformance cases"));
    static STEP: OpDef = LEAKY_SUM.named("step").flags(Flags::STEP);
    assert!(faults(&STEP).contains("step: an op that is a step function"));
    let g = Builder::new("step");
    g.custom(&STEP, &[g.input("x", [3], F64)], &[Attr::F64(0.5)]);
    assert!(g.error().is_some_and(|e| e.message.contains("op \"step\": an op that is a step function")));
    // Not differentiable, and it says so.
    static REFUSES: OpDef = LEAKY_SUM.named("refuses").deriv(Deriv::Error("it is a counter"));
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
        check_any_graph(&g);
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
        .map(|name| &*Box::leak(Box::new(LEAKY_SUM.named(format!("leaky_{name}").leak()))))
        .collect();
    let g = Builder::new("made");
    let x = g.input("x", [2, 4], F64);
    let y = ops.iter().fold(x, |x, op| g.custom(op, &[x], &[Attr::F64(0.5)])[0]);
    let graph = g.finish([y.named("y")]).unwrap();
    let x = TensorDraws(1).tensor(F64, &[2, 4], Domain::Real);
    assert_eq!(try_run_once(&graph, std::slice::from_ref(&x), PLAIN).unwrap()[0].data, leaky(&leaky(&x.data)));
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
