//! The engine against the oracle: every conformance case of every op, and random graphs.

use arenagrad::graph::{Builder, DType, GraphBuf, Var};
use arenagrad::tools::fuzz::{
    Agreement, GraphOptions, LeafValues, RunOptions, Stop, check_on_leaves, check_pass, check_run, check_transform,
    check_with_oracle, compare_graphs, draw_graph, interpret,
};
use arenagrad::tools::fuzz::{random_graph, seeded_draws};
use arenagrad::tools::ir::attrs::Attr;
use arenagrad::tools::ir::opdef::{Batch, Case, Deriv, Lower, Op, OpDef};
use arenagrad::tools::ir::text;
use arenagrad::tools::ops::table::{FAMILIES, OPS};
use arenagrad::tools::passes::pipeline;
use arenagrad::tools::testing::add_case_region;

/// The graph of a conformance case: inputs x0, x1 …, outputs y0, y1 ….
fn case_graph(def: &'static OpDef, case: &Case, float: DType) -> GraphBuf {
    let g = Builder::new("case");
    let types = g.with(|e| text::parse_types(case.args, float, e)).unwrap();
    let input = |(i, ty): (usize, &arenagrad::tools::ir::dtype::Ty)| {
        let dims = g.with(|e| e.shapes.dims(ty.shape));
        g.input(&format!("x{i}"), dims, ty.dtype)
    };
    let x: Vec<Var<'_>> = types.iter().enumerate().map(input).collect();
    g.with(|e| add_case_region(e, case, &types));
    let owned = g.with(|e| text::parse_attrs(def.attrs, case.attrs, e)).unwrap();
    let attrs: Vec<Attr<'_>> = owned.iter().map(|a| a.as_attr()).collect();
    for (i, y) in g.custom(def, &x, &attrs).into_iter().enumerate() {
        g.output(&format!("y{i}"), y);
    }
    g.finish([]).unwrap_or_else(|e| panic!("{} {case:?}: {e}", def.name))
}

/// All conformance cases of an op, as graphs, in both float types.
fn case_graphs(def: &'static OpDef) -> impl Iterator<Item = (DType, GraphBuf)> {
    def.cases.iter().flat_map(move |case| {
        let floats = case.floats(&[DType::F32]);
        floats.iter().map(move |&float| (float, case_graph(def, case, float)))
    })
}

/// Ops that the oracle does not know.
const UNSUPPORTED: &[&str] = &[];

#[test]
fn the_oracle_knows_all_ops() {
    let unknown = |def: &&&'static OpDef| {
        case_graphs(def).any(|(_, g)| {
            let reference = interpret(g.view(), &LeafValues::draw(g.view(), 0).unwrap());
            assert!(!matches!(reference, Err(Stop::Broken(_) | Stop::TooLarge)), "{}: {reference:?}", def.name);
            matches!(reference, Err(Stop::Unsupported(_)))
        })
    };
    let names: Vec<&str> = OPS.iter().filter(unknown).map(|d| d.name).collect();
    assert_eq!(names, UNSUPPORTED);
}

/// Bounds are tight enough to mean something, and few elements are left open.
fn assert_tight(all: &Agreement, median: f64, open: f64) {
    let unknown = all.unknown as f64 / (all.compared + all.unknown) as f64;
    assert!(
        all.compared > 10_000 && all.median_bound() < median,
        "{} compared, {:e}",
        all.compared,
        all.median_bound()
    );
    assert!(unknown < open, "{unknown} of {} are unknown", all.compared);
}

#[test]
fn every_case_of_every_op_is_what_the_oracle_says() {
    let (mut single, mut double) = (Agreement::default(), Agreement::default());
    let mut findings = Vec::new();
    for def in OPS {
        for (float, graph) in case_graphs(def) {
            match check_with_oracle(graph.view(), 1, &[RunOptions::default()]) {
                Ok(seen) => {
                    if float == DType::F32 {
                        single.join(seen)
                    } else {
                        double.join(seen)
                    }
                }
                Err(e) => findings.push(e.to_string()),
            }
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
    assert_tight(&single, 1e-5, 0.01);
    assert_tight(&double, 1e-13, 0.01);
}

/// Zeros of either sign, NaN, infinities and the least numbers, in each element-wise op and each op that moves or
/// orders elements.
#[test]
fn special_values_are_what_the_oracle_says() {
    let families = ["pointwise", "layout", "sort", "index", "constant"];
    let mut all = Agreement::default();
    let mut findings = Vec::new();
    for (def, _) in OPS.iter().zip(FAMILIES).filter(|(_, family)| families.contains(family)) {
        for (_, graph) in case_graphs(def) {
            let leaves = LeafValues::draw(graph.view(), 2).unwrap().with_special_values(2, 3);
            match check_on_leaves(graph.view(), &leaves, 2, &RunOptions::all()[..2]) {
                Ok(seen) => all.join(seen),
                Err(e) => findings.push(e.to_string()),
            }
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
    assert!(all.compared > 100_000 && all.unknown < all.compared / 10, "{} and {}", all.compared, all.unknown);
}

#[test]
fn random_graphs_run_as_the_oracle_says() {
    let mut draw = seeded_draws(11);
    let mut all = Agreement::default();
    let mut findings = Vec::new();
    for seed in 0..400 {
        let graph = random_graph(24, &mut draw).unwrap();
        match check_with_oracle(graph.view(), seed, &[RunOptions::all()[seed as usize % RunOptions::all().len()]]) {
            Ok(seen) => all.join(seen),
            Err(e) => findings.push(e.to_string()),
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
    assert_tight(&all, 1e-4, 0.5);
}

/// Graphs of choices and loops in one another: the engine and its passes against the oracle, and derivatives.
#[test]
fn random_choices_run_as_the_oracle_says() {
    let options = GraphOptions::default().nodes(12).ops("if=40,scan=10,gt=4,tanh=4,mul=4,softmax=2").unwrap();
    let (mut draw, mut choices) = (seeded_draws(21), 0);
    let mut findings = Vec::new();
    for seed in 0..160 {
        let graph = draw_graph(&options, &mut draw).unwrap();
        choices += graph.view().op.iter().filter(|op| **op == Op::IF).count();
        let how = RunOptions::all()[seed as usize % RunOptions::all().len()];
        findings.extend(check_with_oracle(graph.view(), seed, &[how]).err().map(|e| e.to_string()));
        findings.extend(check_transform(&graph, seed, 1).err().map(|e| e.to_string()));
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
    assert!(choices > 400, "{choices}");
}

#[test]
fn passes_keep_what_random_graphs_compute() {
    let mut draw = seeded_draws(12);
    let all = pipeline::pipeline_passes();
    for seed in 0..60 {
        let graph = random_graph(16, &mut draw).unwrap();
        let passes = &all[..=draw(all.len() as u32) as usize];
        let pass = |g: &GraphBuf| Ok(pipeline::run_pipeline(g, passes, true)?.0);
        check_pass(&pass, &graph, seed).unwrap_or_else(|e| panic!("{passes:?}: {e}"));
    }
}

#[test]
fn derivatives_of_every_op_are_adjoint_and_agree_with_differences() {
    let mut all = Agreement::default();
    let mut findings = Vec::new();
    for def in OPS {
        for case in def.cases.iter().filter(|c| !c.floats(&[]).is_empty()).take(2) {
            match check_transform(&case_graph(def, case, DType::F64), 3, 1) {
                Ok(seen) => all.join(seen),
                Err(e) => findings.push(e.to_string()),
            }
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
    assert!(all.compared > 5000 && all.unknown < all.compared / 4, "{} and {}", all.compared, all.unknown);
}

/// A graph with outputs `a` and `b` of the given functions.
fn wrong(f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("g");
    let x = g.input("x", [3, 4], DType::F32);
    g.finish([f(x).named("y")]).unwrap()
}

#[test]
fn wrong_passes_and_other_graphs_are_found() {
    let right = wrong(|x| x.exp());
    let other = |_: &GraphBuf| Ok(wrong(|x| x.exp() * 1.00001));
    let finding = check_pass(&other, &right, 5).unwrap_err();
    assert!(finding.difference.is_some() && finding.graph.contains("exp"), "{finding}");
    let transposed = |_: &GraphBuf| Ok(wrong(|x| x.exp().t()));
    assert!(check_pass(&transposed, &right, 5).unwrap_err().what.contains("output \"y\" is f32[3,4]"));
    // Equal in numbers, not in bits.
    let near = compare_graphs(&right, &wrong(|x| (x * 0.5).exp() * (x * 0.5).exp()), 5).unwrap();
    assert!(near.agrees() && near.outputs[0].worst.is_some(), "{near:?}");
    assert!(!compare_graphs(&right, &wrong(|x| x.exp() + 1e-3), 5).unwrap().agrees());
}

/// A graph text.
fn parsed(text: &str) -> GraphBuf {
    text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn what_nothing_reads_does_not_fault() {
    let g = parsed(
        "region @r(%a : i32[2]) {
  %zero = full value=0 : i32[2]
  %q = div %a, %zero : i32[2]
  yield %q, %a
}
graph @g {
  %x = input : i32[2]
  %u, %y = call %x body=@r : i32[2], i32[2]
  return y=%y
}
",
    );
    let seen = check_run(&g, 1, &RunOptions::default()).unwrap();
    assert_eq!((seen.compared, seen.unknown, seen.without_reference), (2, 0, 0));
}

#[test]
fn leaves_without_bound_are_refused() {
    let g =
        parsed("graph @g {\n  %x = input : f32[100000000000]\n  %y = neg %x : f32[100000000000]\n  return y=%y\n}\n");
    assert_eq!(LeafValues::draw(g.view(), 1).unwrap_err(), Stop::TooLarge);
    assert_eq!(check_run(&g, 1, &RunOptions::default()).unwrap().without_reference, 1);
    assert!(compare_graphs(&g, &g, 1).is_err());
}

/// 0/0 of an unknown 0 is no NaN that a product may count on: the engine finds 1/1.
#[test]
fn products_of_unknown_numbers_are_unknown() {
    let g = parsed(
        "graph @g {
  %x = input : f64[1,2]
  %y = exp %x : f64[1,2]
  %one = full value=1.0 : f64[1,2]
  %z = mul %y, %one : f64[1,2]
  %same = eq %y, %z : bool[1,2]
  %count = cast %same to=f64 : f64[1,2]
  %share = div %count, %count : f64[1,2]
  %product = matmul %share, %y ta=false tb=true : f64[1,1]
  %squares = sum_squares %share mean=false : f64[]
  return product=%product, squares=%squares
}
",
    );
    let seen = check_run(&g, 1, &RunOptions { optimise: false, ..RunOptions::default() }).unwrap();
    assert_eq!((seen.compared, seen.unknown), (0, 2));
}

/// The kernel multiplies zeros at the edge by infinite weights, and the decomposition does not.
#[test]
fn padded_products_with_infinities_are_unknown() {
    let one = |weight: &str| {
        parsed(&format!(
            "graph @g {{
  %dy = input : f32[1,1,3,3]
  %w = full value={weight} : f32[1,1,2,2]
  %dx = conv2d_input_grad %dy, %w in_hw=[7,7] stride=[2,2] pad=[0,0,0,0] dilation=[1,1] groups=1 : f32[1,1,7,7]
  return dx=%dx
}}
"
        ))
    };
    let seen = check_run(&one("inf"), 1, &RunOptions::default()).unwrap();
    assert_eq!((seen.compared, seen.unknown), (0, 49));
    let seen = check_run(&one("2.0"), 1, &RunOptions::default()).unwrap();
    assert_eq!((seen.compared, seen.unknown), (49, 0));
}

/// A weight that may be NaN or 1 has no bound.
#[test]
fn padded_products_with_unknown_numbers_are_unknown() {
    let g = parsed(
        "graph @g {
  %x = input : f64[1,1,2,2]
  %y = exp %x : f64[1,1,2,2]
  %one = full value=1.0 : f64[1,1,2,2]
  %z = mul %y, %one : f64[1,1,2,2]
  %same = eq %y, %z : bool[1,1,2,2]
  %count = cast %same to=f64 : f64[1,1,2,2]
  %w = div %count, %count : f64[1,1,2,2]
  %dy = full value=1.0 : f64[1,1,3,3]
  %dx = conv2d_input_grad %dy, %w in_hw=[7,7] stride=[2,2] pad=[0,0,0,0] dilation=[1,1] groups=1 : f64[1,1,7,7]
  return dx=%dx
}
",
    );
    let seen = check_run(&g, 1, &RunOptions { optimise: false, ..RunOptions::default() }).unwrap();
    assert_eq!((seen.compared, seen.unknown), (0, 49));
}

/// A step that reads a scale of 0 ends with an error, and the oracle expects that.
#[test]
fn products_of_codes_refuse_scales_of_zero() {
    let results = |scale: &str, product: &str| {
        let g = parsed(&format!(
            "graph @g {{
  %scales = full value={scale} : f32[3]
  %bias = full value=1 : i32[3]
  %x = full value=2 : i8[1,3,4,4]
  %w = full value=3 : i8[3,3,2,2]
  %rows = full value=2 : i8[5,4]
  %columns = full value=3 : i8[4,3]
  {product}
  return y=%y
}}
"
        ));
        let seen = check_run(&g, 1, &RunOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        seen.compared + seen.unknown
    };
    for (scale, to, s_out, wanted) in [
        ("1.0", "i8", "4.0", (15, 27)),
        ("0.0", "i8", "4.0", (0, 0)),
        // Bare sums read no scale.
        ("0.0", "i32", "1.0", (15, 27)),
    ] {
        let numbers =
            format!("x_zp=0 w_zp=0 out_zp=0 s_x=0.01 s_w=1.0 s_out={s_out} to={to} zeros=false scales=true ste=codes");
        let matmul = format!("%y = q_matmul %rows, %columns, %bias, %scales {numbers} : {to}[5,3]");
        let windows = "stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1";
        let conv = format!("%y = q_conv2d %x, %w, %bias, %scales {windows} {numbers} : {to}[1,3,3,3]");
        assert_eq!((results(scale, &matmul), results(scale, &conv)), wanted, "{to}");
    }
}

/// Outputs may have the names of leaves, which change too.
#[test]
fn outputs_are_compared_with_outputs() {
    let text = "graph @g {
  %w = param init=uniform scale=0.5 frozen=false : f32[3]
  %x = input : f32[2]
  %y = neg %x : f32[2]
  %z = exp %w : f32[3]
  update %w <- %z
  return w=%y
}
";
    let (a, b) = (parsed(text), parsed(&text.replace("exp %w", "tanh %w")));
    assert!(compare_graphs(&a, &a, 3).unwrap().agrees());
    let found = compare_graphs(&a, &b, 3).unwrap();
    let different: Vec<usize> = found.outputs.iter().map(|o| o.different).collect();
    assert_eq!(different, [0, 3]);
}

/// The results of exact zeros are exact, with the sign of the zero.
#[test]
fn zeros_are_compared() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [
        ("div %one, %zero", inf),
        ("div %one, %neg", -inf),
        ("div %zero, %zero", nan),
        ("recip %neg", -inf),
        ("rsqrt %zero", inf),
        ("copysign %one, %neg", -1.0),
        ("fmod %one, %zero", nan),
    ];
    let fill = |name: &str, value: &str| format!("  %{name} = full value={value} : f32[1]\n");
    let mut lines = [fill("one", "1.0"), fill("zero", "0.0"), fill("neg", "-0.0")].concat();
    rows.iter().enumerate().for_each(|(i, (op, _))| lines += &format!("  %y{i} = {op} : f32[1]\n"));
    let outputs: Vec<String> = (0..rows.len()).map(|i| format!("y{i}=%y{i}")).collect();
    let g = parsed(&format!("graph @g {{\n{lines}  return {}\n}}\n", outputs.join(", ")));
    let seen = check_run(&g, 1, &RunOptions { optimise: false, ..RunOptions::default() }).unwrap();
    assert_eq!((seen.compared, seen.unknown), (rows.len(), 0));
    let reference = interpret(g.view(), &LeafValues::draw(g.view(), 1).unwrap()).unwrap();
    for (y, (op, want)) in reference.outputs.iter().zip(rows) {
        let found = y.array.number(0);
        assert!(found == want || (found.is_nan() && want.is_nan()), "{op} is {found}, not {want}");
    }
}

/// An op that has no decomposition, and whose kernel cannot be lowered.
static BROKEN: OpDef = OpDef::new("broken", "an op that does not compile")
    .infer(|cx| cx.same_as(0))
    .deriv(Deriv::Zero)
    .batch(Batch::Members)
    .lower(Lower::Kernel(|_| Err("this op cannot be lowered".to_string())))
    .cost(|cx| cx.out())
    .cases(&[]);

#[test]
fn the_engine_may_not_fail_where_there_is_no_reference() {
    let g = Builder::new("g");
    let x = g.input("x", [2], DType::F32);
    let y = g.custom(&BROKEN, &[x], &[])[0];
    let graph = g.finish([y.named("y")]).unwrap();
    let found = check_run(&graph, 1, &RunOptions::default()).unwrap_err();
    assert!(found.what.contains("the engine fails") && found.what.contains("cannot be lowered"), "{found}");
}

/// How many numbers of a run that may not fold constants were compared, and how many have no bound.
fn compared(text: &str) -> (usize, usize) {
    let run = RunOptions { optimise: false, ..RunOptions::default() };
    let seen = check_run(&parsed(text), 1, &run).unwrap_or_else(|e| panic!("{e}"));
    (seen.compared, seen.unknown)
}

/// The tail of a Gaussian, as that of a logistic function, multiplies the rounding of its argument.
#[test]
fn tails_of_gelu_are_what_the_oracle_says() {
    for (op, x) in [("gelu", -9.0), ("gelu_tanh", -18.0), ("gelu_tanh", -12.5)] {
        let text =
            format!("graph @g {{\n  %x = full value={x:?} : f64[1]\n  %y = {op} %x : f64[1]\n  return y=%y\n}}\n");
        assert_eq!(compared(&text), (1, 0));
    }
}

/// No rule says which sign the NaN of an operation has.
#[test]
fn signs_of_nan_are_unknown() {
    let seen = compared(
        "graph @g {
  %x = full value=-1.0 : f64[2]
  %nan = log %x : f64[2]
  %y = copysign %x, %nan : f64[2]
  return y=%y
}
",
    );
    assert_eq!(seen, (0, 2));
}

/// A transposed solve with rows that are no permutation leaves zeros elsewhere. What it sums of NaN is unknown.
#[cfg(feature = "linalg")]
#[test]
fn solves_with_singular_factors_agree() {
    let seen = compared(
        "graph @g {
  %lu = full value=0.0 : f64[3,3]
  %rows = full value=0 : i32[3]
  %b = full value=0.5 : f64[3,2]
  %x = lu_solve %lu, %rows, %b transpose=true singular=nan : f64[3,2]
  return x=%x
}
",
    );
    assert_eq!(seen, (4, 2));
}

/// Reflectors leave rounding errors in a row of zeros.
#[cfg(feature = "linalg")]
#[test]
fn factors_of_matrices_with_rows_of_zeros_agree() {
    let g = parsed(
        "graph @g {
  %x = input : f32[4,3]
  %1 = pad %x low=[1,0] high=[0,0] value=0.0 : f32[5,3]
  %2, %3 = qr %1 : f32[5,3], f32[3,3]
  return q=%2, r=%3
}
",
    );
    for seed in 0..20 {
        check_run(&g, seed, &RunOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A label that is no class is an error in the op and in its decomposition.
#[test]
fn labels_outside_of_the_classes_have_no_reference() {
    let g = parsed(
        "graph @g {
  %x = input : f64[4,5]
  %label = full value=-1 : i32[4]
  %one = full value=1.0 : f64[4]
  %dx = softmax_cross_entropy_backward %x, %label, %one, %one ignore_index=-100 label_smoothing=0.0 : f64[4,5]
  return dx=%dx
}
",
    );
    let seen = check_run(&g, 1, &RunOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((seen.compared, seen.unknown), (0, 0));
}
