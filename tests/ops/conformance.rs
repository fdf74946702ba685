//! Conformance of every op: for each op definition × case × element type, the same questions, answered from the
//! definition alone. A new op is covered without a line here. With `-- --nocapture` the answers are printed as a table.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{Draw, How, PLAIN, Tensor, distance, run, same_bits};
use arenagrad::graph::Missing;
use arenagrad::graph::{Builder, DType, GraphBuf, OpDef, Var};
use arenagrad::tools::arena::Value;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::attrs::Attr;
use arenagrad::tools::ir::opdef::{Case, Deriv, Domain, Flags, Op};
use arenagrad::tools::ir::text;
use arenagrad::tools::ops::pointwise::arith::FLOOR;
use arenagrad::tools::ops::pointwise::math::SIN;
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::passes::{self};
use arenagrad::tools::testing::add_case_region;
use rayon::prelude::*;

/// One case of an op in one element type: its graph and its operands.
struct Sample {
    name: String,
    op: Op,
    def: &'static OpDef,
    case: &'static Case,
    float: DType,
    graph: GraphBuf,
    operands: Vec<Tensor>,
}

/// The graph of a case: inputs x0, x1 …, outputs y0, y1 …. With `behind`, each operand is first computed from an input
/// (negated twice), so that it dies at the op and may be overwritten.
fn build(op: Op, case: &Case, float: DType, behind: bool) -> GraphBuf {
    let g = Builder::new("case");
    let def = OPS[op.0 as usize];
    let types = g.with(|e| text::parse_types(case.args, float, e)).unwrap_or_else(|e| panic!("{}: {e}", def.name));
    let x: Vec<Var> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            let dims = g.with(|e| e.shapes.dims(ty.shape));
            let x = g.input(&format!("x{i}"), dims, ty.dtype);
            match behind && ty.dtype.is_float() {
                true => -(-x),
                false => x,
            }
        })
        .collect();
    g.with(|e| add_case_region(e, case, &types));
    let owned = g.with(|e| text::parse_attrs(def.attrs, case.attrs, e)).unwrap_or_else(|e| panic!("{}: {e}", def.name));
    let attrs: Vec<Attr> = owned.iter().map(|a| a.borrow()).collect();
    for (i, y) in g.emit(op, &x, &attrs).into_iter().enumerate() {
        g.output(&format!("y{i}"), y);
    }
    g.finish([]).unwrap_or_else(|e| panic!("{} {case:?}: {e}", def.name))
}

/// All samples of an op.
fn samples(i: usize) -> Vec<Sample> {
    let (op, def) = (Op(i as u16), OPS[i]);
    let mut all = Vec::new();
    for (k, case) in def.cases.iter().enumerate() {
        let floats: &[DType] = if case.args.contains("f[") { &[DType::F32, DType::F64] } else { &[DType::F64] };
        for &float in floats {
            let graph = build(op, case, float, false);
            let operands = operands(&graph, case, &mut Draw(1 + i as u64 * 1000 + k as u64));
            all.push(Sample { name: format!("{}#{k} {float}", def.name), op, def, case, float, graph, operands });
        }
    }
    all
}

fn operands(g: &GraphBuf, case: &Case, draw: &mut Draw) -> Vec<Tensor> {
    let v = g.view();
    let domain = |i: usize| case.domains.get(i).or(case.domains.last()).copied().unwrap_or(Domain::Real);
    v.leaves().enumerate().map(|(i, l)| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), domain(i))).collect()
}

fn tolerance(t: &Tensor) -> f64 {
    if t.dtype == DType::F32 { 2e-5 } else { 1e-12 }
}

/// Names of the float operands and results, or the reason why no derivative is tested.
fn differentiable(s: &Sample) -> Result<(Vec<String>, Vec<String>), &'static str> {
    let v = s.graph.view();
    let wrt: Vec<String> = v.leaves().filter(|l| is_asked(s, l.value)).map(|l| l.name.to_string()).collect();
    let names = v.outputs().iter().zip(v.output_names);
    let outs: Vec<String> = names.filter(|(o, _)| is_asked(s, **o)).map(|(_, &n)| v.str(n).to_string()).collect();
    match s.def.deriv {
        Deriv::Zero => Err("zero"),
        _ if wrt.is_empty() => Err("integers"),
        _ if outs.is_empty() => Err("integers"),
        _ if s.float == DType::F32 => Err(F64_ONLY),
        _ => Ok((wrt, outs)),
    }
}

/// The reason for a sample in f32: the same sample in f64 is tested.
const F64_ONLY: &str = "f64 only";

/// Whether a value has the float type of the sample.
fn is_asked(s: &Sample, v: Value) -> bool {
    s.graph.view().dtype[v.at()] == s.float
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// The inputs of a transformed graph: the case's operands, and draws for what the transform added.
fn extended(g: &GraphBuf, operands: &[Tensor], draw: &mut Draw) -> Vec<Tensor> {
    let v = g.view();
    let extra = v.leaves().skip(operands.len());
    let more: Vec<Tensor> = extra.map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Real)).collect();
    [operands, &more].concat()
}

fn output(g: &GraphBuf, results: &[Tensor], name: &str) -> Tensor {
    let v = g.view();
    let i = v.output_names.iter().position(|&s| v.str(s) == name).unwrap_or_else(|| panic!("no output {name}\n{v:?}"));
    results[i].clone()
}

/// Σ a·b; an infinite result (the log-sum-exp of nothing) is a constant, and counts for nothing.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).filter(|(x, _)| !x.is_infinite()).map(|(x, y)| x * y).sum()
}

/// A question about a sample: no answer is a failed assertion; an error says why it was not asked.
type Facet = fn(&Sample) -> Result<(), &'static str>;

/// The facets of each op.
const FACETS: [(&str, Facet); 10] = [
    ("text", text_round_trips),
    ("kernel", kernel_agrees_with_decomposition),
    ("f32=f64", f32_agrees_with_f64),
    ("threads", threads_and_poison_change_no_bit),
    ("in place", in_place_changes_no_bit),
    ("vjp", reverse_mode_agrees_with_differences),
    ("jvp", forward_and_reverse_mode_are_adjoint),
    ("2nd order", second_order_agrees_with_differences_of_the_gradient),
    ("zero", zero_derivatives_are_zero_by_differences),
    ("refusals", bad_operands_are_refused_by_name),
];

/// The answers to one facet of an op: how many samples pass, which fail, and why others were not asked.
#[derive(Default)]
struct Answer {
    hold: usize,
    failed: Vec<String>,
    because: Option<&'static str>,
}

#[test]
fn every_op_passes_every_facet() {
    let all: Vec<(&OpDef, Vec<Answer>)> = (0..OPS.len()).into_par_iter().map(|i| (OPS[i], ask(i))).collect();
    let mut table = format!("{:<34}", "op (cases)");
    FACETS.iter().for_each(|f| table += &format!("{:>13}", f.0));
    for (def, answers) in all.iter().filter(|r| !r.0.cases.is_empty()) {
        table += &format!("\n{:<34}", format!("{} ({})", def.name, def.cases.len()));
        for a in answers {
            let cell = if a.hold > 0 { "yes".to_string() } else { format!("- {}", a.because.unwrap_or("?")) };
            table += &format!("{cell:>13}");
        }
    }
    let asked: usize = all.iter().flat_map(|r| &r.1).map(|a| a.hold).sum();
    println!("{table}\n{} ops, {asked} answers", all.iter().filter(|r| !r.0.cases.is_empty()).count());
    let failed: Vec<&String> = all.iter().flat_map(|r| &r.1).flat_map(|a| &a.failed).collect();
    assert!(failed.is_empty(), "{} fail: {failed:?}", failed.len());
    // A cell without an answer has a reason; leaves have no cases.
    let bare = all.iter().filter(|r| !r.0.is_leaf()).any(|r| r.1.iter().any(|a| a.hold == 0 && a.because.is_none()));
    assert!(!bare, "{table}");
}

fn ask(i: usize) -> Vec<Answer> {
    let mut answers: Vec<Answer> = FACETS.iter().map(|_| Answer::default()).collect();
    for s in &samples(i) {
        for ((name, facet), a) in FACETS.iter().zip(&mut answers) {
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| facet(s))) {
                Ok(Ok(())) => a.hold += 1,
                Ok(Err(why)) if a.because.is_none_or(|old| old == F64_ONLY) => a.because = Some(why),
                Ok(Err(_)) => {}
                Err(_) => a.failed.push(format!("{} {name}", s.name)),
            }
        }
    }
    answers
}

fn text_round_trips(s: &Sample) -> Result<(), &'static str> {
    let printed = text::print(s.graph.view());
    let parsed = text::parse(&printed).unwrap_or_else(|e| panic!("{}: {e}\n{printed}", s.name));
    assert_eq!(parsed, s.graph, "{}", s.name);
    Ok(())
}

fn kernel_agrees_with_decomposition(s: &Sample) -> Result<(), &'static str> {
    if s.def.decompose.is_none() {
        return Err("simplest");
    }
    let slow = passes::ad::prepare::prepare_decomposed(s.graph.view()).unwrap_or_else(|e| panic!("{}: {e}", s.name));
    let raw = How { optimise: false, ..PLAIN };
    let (a, b) = (run(&s.graph, &s.operands, PLAIN), run(&slow, &s.operands, raw));
    for (a, b) in a.iter().zip(&b) {
        let d = distance(&a.data, &b.data);
        assert!(d <= tolerance(a), "{}: {d:e}\n{:?}\n{:?}", s.name, a.data, b.data);
    }
    Ok(())
}

fn f32_agrees_with_f64(s: &Sample) -> Result<(), &'static str> {
    if !s.case.args.contains("f[") {
        return Err("one type");
    }
    if s.def.name.starts_with("rng") || s.def.name == "dropout" {
        return Err("other draws");
    }
    if s.float == DType::F64 {
        return Err("f32 only");
    }
    // The same numbers: those of f32.
    let y = run(&s.graph, &s.operands, PLAIN);
    let wide = |t: &Tensor| Tensor { dtype: if t.dtype == DType::F32 { DType::F64 } else { t.dtype }, ..t.clone() };
    let twin = build(s.op, s.case, DType::F64, false);
    let z = run(&twin, &s.operands.iter().map(wide).collect::<Vec<_>>(), PLAIN);
    for (y, z) in y.iter().zip(&z).filter(|(y, _)| y.dtype.is_float()) {
        let d = distance(&y.data, &z.data);
        assert!(d <= 3e-5, "{}: {d:e}", s.name);
    }
    Ok(())
}

fn threads_and_poison_change_no_bit(s: &Sample) -> Result<(), &'static str> {
    let one = run(&s.graph, &s.operands, PLAIN);
    let shared = [2, 3, 7].map(|threads| How { threads, share: true, ..PLAIN });
    for how in shared.into_iter().chain([How { threads: 3, ..PLAIN }, How { poison: true, ..PLAIN }]) {
        let many = run(&s.graph, &s.operands, how);
        let same = one.iter().zip(&many).all(|(a, b)| same_bits(a, b));
        assert!(same, "{}, {how:?}", s.name);
    }
    Ok(())
}

fn in_place_changes_no_bit(s: &Sample) -> Result<(), &'static str> {
    let raw = How { optimise: false, ..PLAIN };
    let ready = |g: GraphBuf| passes::ad::prepare::prepare_for_lowering(g.view()).unwrap();
    let [apart, over] = [false, true].map(|behind| ready(build(s.op, s.case, s.float, behind)));
    let (a, b) = (run(&apart, &s.operands, raw), run(&over, &s.operands, raw));
    assert!(a.iter().zip(&b).all(|(a, b)| same_bits(a, b)), "{}", s.name);
    Ok(())
}

fn reverse_mode_agrees_with_differences(s: &Sample) -> Result<(), &'static str> {
    let (wrt, outs) = differentiable(s)?;
    let g = passes::vjp(s.graph.view(), &refs(&outs), &refs(&wrt), Missing::Zero)
        .unwrap_or_else(|e| panic!("{}: {e}", s.name));
    let mut draw = Draw(77);
    let inputs = extended(&g, &s.operands, &mut draw);
    let results = run(&g, &inputs, PLAIN);
    let seeds = &inputs[s.operands.len()..];
    // Σ ⟨y, seed⟩ at operands moved by h along element e of operand k.
    let at = |k: usize, e: usize, h: f64| -> f64 {
        let mut moved = s.operands.clone();
        moved[k].data[e] += h;
        let y = run(&s.graph, &moved, PLAIN);
        let floats: Vec<Tensor> = outs.iter().map(|o| output(&s.graph, &y, o)).collect();
        floats.iter().zip(seeds).map(|(y, c)| dot(&y.data, &c.data)).sum()
    };
    let v = s.graph.view();
    for (k, l) in v.leaves().enumerate().filter(|(_, l)| v.dtype[l.value.at()] == DType::F64) {
        let name = l.name;
        let got = output(&g, &results, &format!("grad.{name}"));
        let n = got.data.len();
        let mut slices: Vec<usize> = if n <= 24 { (0..n).collect() } else { (0..24).map(|i| i * n / 24).collect() };
        slices.dedup();
        for e in slices {
            let h = 1e-4;
            // A fourth-order stencil, so that the step may be large against rounding.
            let want = (8.0 * (at(k, e, h) - at(k, e, -h)) - (at(k, e, 2.0 * h) - at(k, e, -2.0 * h))) / (12.0 * h);
            let d = (got.data[e] - want).abs() / want.abs().max(1.0);
            assert!(d <= 1e-6, "{}: d/d{name}[{e}] is {} but differences give {want}", s.name, got.data[e]);
        }
    }
    Ok(())
}

fn forward_and_reverse_mode_are_adjoint(s: &Sample) -> Result<(), &'static str> {
    let (wrt, outs) = differentiable(s)?;
    let forward = passes::jvp(s.graph.view(), &refs(&outs), &refs(&wrt)).unwrap_or_else(|e| panic!("{}: {e}", s.name));
    let both =
        passes::vjp(&forward, &refs(&outs), &refs(&wrt), Missing::Zero).unwrap_or_else(|e| panic!("{}: {e}", s.name));
    let inputs = extended(&both, &s.operands, &mut Draw(5));
    let results = run(&both, &inputs, PLAIN);
    let (tangents, cotangents) = inputs[s.operands.len()..].split_at(wrt.len());
    let term = |name: String, t: &Tensor| dot(&output(&both, &results, &name).data, &t.data);
    let jv: f64 = outs.iter().zip(cotangents).map(|(o, c)| term(format!("tangent.{o}"), c)).sum();
    let vj: f64 = wrt.iter().zip(tangents).map(|(w, t)| term(format!("grad.{w}"), t)).sum();
    assert!((jv - vj).abs() <= 1e-10 * jv.abs().max(1.0), "{}: <Jv,w> = {jv}, <v,JTw> = {vj}", s.name);
    Ok(())
}

fn second_order_agrees_with_differences_of_the_gradient(s: &Sample) -> Result<(), &'static str> {
    let (wrt, outs) = differentiable(s)?;
    let first = passes::vjp(s.graph.view(), &refs(&outs), &refs(&wrt), Missing::Zero).unwrap();
    let grads: Vec<String> = wrt.iter().map(|w| format!("grad.{w}")).collect();
    let second = passes::jvp(&first, &refs(&grads), &refs(&wrt)).unwrap_or_else(|e| panic!("{}: {e}", s.name));
    let inputs = extended(&second, &s.operands, &mut Draw(13));
    let results = run(&second, &inputs, PLAIN);
    let tangents = &inputs[inputs.len() - wrt.len()..];
    let v = s.graph.view();
    let floats: Vec<usize> = (0..s.operands.len()).filter(|&k| s.operands[k].dtype == DType::F64).collect();
    let h = 1e-5;
    let moved = |h: f64| {
        let mut at = inputs[..inputs.len() - wrt.len()].to_vec();
        for (&k, t) in floats.iter().zip(tangents) {
            at[k].data.iter_mut().zip(&t.data).for_each(|(x, t)| *x += h * t);
        }
        run(&first, &at, PLAIN)
    };
    let [up, down, far_up, far_down] = [h, -h, 2.0 * h, -2.0 * h].map(moved);
    assert_eq!(v.leaves().count(), s.operands.len());
    for g in &grads {
        let got = output(&second, &results, &format!("tangent.{g}"));
        // Five points: the error of three is that of a third derivative, which whole blocks have plenty of.
        let [a, b, c, d] = [&up, &down, &far_up, &far_down].map(|r| output(&first, r, g).data);
        let slope = |i: usize| (8.0 * (a[i] - b[i]) - (c[i] - d[i])) / (12.0 * h);
        let want: Vec<f64> = (0..a.len()).map(slope).collect();
        let d = distance(&got.data, &want);
        assert!(d <= 1e-6, "{}: {g} off by {d:e}\n{:?}\n{want:?}", s.name, got.data);
    }
    Ok(())
}

fn zero_derivatives_are_zero_by_differences(s: &Sample) -> Result<(), &'static str> {
    let floats = s.operands.iter().any(|t| t.dtype == s.float);
    match s.def.deriv {
        Deriv::Zero if s.def.flags.has(Flags::STOP) => Err("stops"),
        Deriv::Zero if !floats => Err("integers"),
        Deriv::Zero if s.float == DType::F32 => Err(F64_ONLY),
        Deriv::Zero => check_zero(s).map_err(|e| panic!("{}: {e}", s.name)),
        _ => Err("not zero"),
    }
}

/// Moves each float operand of a sample in f64, one element at a time. A function with the derivative zero gives the
/// same numbers before and behind. A step function may jump in between, but not at every second element.
fn check_zero(s: &Sample) -> Result<(), String> {
    let at = |k: usize, e: usize, h: f64| {
        let mut moved = s.operands.clone();
        moved[k].data[e] += h;
        run(&s.graph, &moved, PLAIN)
    };
    let (mut still, mut jumps) = (0, Vec::new());
    for (k, t) in s.operands.iter().enumerate().filter(|(_, t)| t.dtype == DType::F64) {
        for e in (0..t.data.len()).step_by(t.data.len().div_ceil(24).max(1)) {
            let h = 1e-6;
            match at(k, e, -h).iter().zip(&at(k, e, h)).all(|(a, b)| same_bits(a, b)) {
                true => still += 1,
                false => jumps.push(format!("operand {k} element {e}")),
            }
        }
    }
    let allowed = if s.def.flags.has(Flags::STEP) { still } else { 0 };
    if jumps.len() <= allowed {
        return Ok(());
    }
    let marked = if s.def.flags.has(Flags::STEP) { "a step function" } else { "not marked as a step function" };
    Err(format!("the derivative is Zero, the op is {marked}, and results move with {jumps:?}"))
}

#[test]
fn a_wrong_zero_is_refused() {
    static SIN_WITHOUT: OpDef = OpDef { deriv: Deriv::Zero, ..SIN };
    static SIN_AS_STEP: OpDef = OpDef { deriv: Deriv::Zero, flags: Flags::STEP, ..SIN };
    static FLOOR_WITHOUT: OpDef = OpDef { flags: Flags::PURE, ..FLOOR };
    let check = |op: Op, def: &'static OpDef| -> Vec<Result<(), String>> {
        let all = samples(op.0 as usize).into_iter().filter(|s| s.float == DType::F64);
        all.map(|s| check_zero(&Sample { def, ..s })).collect()
    };
    for (def, why) in [(&SIN_WITHOUT, "not marked as a step function"), (&SIN_AS_STEP, "a step function")] {
        let answers = check(Op::SIN, def);
        assert!(!answers.is_empty());
        assert!(answers.iter().all(|a| a.as_ref().is_err_and(|e| e.contains(why))), "{answers:?}");
    }
    for def in [&FLOOR, &FLOOR_WITHOUT] {
        assert!(check(Op::FLOOR, def).iter().all(Result::is_ok));
    }
}

/// A method gives the same node for an axis from the front and from the end.
#[test]
fn axes_count_from_either_end() {
    let g = Builder::new("axes");
    let [x, y] = [("x", [2, 3, 4]), ("y", [5, 4, 3])].map(|(name, dims)| g.input(name, dims, DType::F64));
    let [one, two] = [("one", vec![3]), ("two", vec![2, 3])].map(|(name, dims)| g.input(name, dims, DType::I32));
    assert_eq!(g.iota(-1, [2, 3], DType::I32).v, g.iota(1, [2, 3], DType::I32).v);
    assert_eq!(x.cumprod(-2, false, true).v, x.cumprod(1, false, true).v);
    assert_eq!(x.transpose(&[-1, 0, -2]).v, x.transpose(&[2, 0, 1]).v);
    // The axis is one of the result, which has as many axes fewer as the indices have more than one.
    assert_eq!(x.scatter_add(one, -2, 5).v, x.scatter_add(one, 1, 5).v);
    assert_eq!(x.scatter_add(two, -2, 5).v, x.scatter_add(two, 0, 5).v);
    let front = x.dot_general(y, [&[], &[]], [&[1, 2], &[2, 1]]);
    assert_eq!(x.dot_general(y, [&[], &[]], [&[-2, -1], &[-1, -2]]).v, front.v);
    assert!(front.is_some() && g.error().is_none());
    g.iota(-3, [2, 3], DType::I32);
    assert!(g.error().is_some_and(|e| e.message.contains("axis -3 is outside rank 2")));
}

fn bad_operands_are_refused_by_name(s: &Sample) -> Result<(), &'static str> {
    let (def, case) = (s.def, s.case);
    for change in [Change::Fewer, Change::More, Change::C64, Change::Rank] {
        let g = Builder::new("bad");
        let types = g.with(|e| text::parse_types(case.args, s.float, e)).unwrap();
        if types.is_empty() && change != Change::More {
            continue;
        }
        let mut x: Vec<Var> = Vec::new();
        for (k, ty) in types.iter().enumerate() {
            let mut dims = g.with(|e| e.shapes.dims(ty.shape)).to_vec();
            let mut dtype = ty.dtype;
            match change {
                Change::C64 if k == 0 => dtype = DType::C64,
                Change::Rank if k == 0 => dims.extend([3, 1, 2, 1, 1, 1, 1][..8 - dims.len().max(1)].iter()),
                _ => {}
            }
            x.push(g.input(&format!("x{k}"), dims, dtype));
        }
        g.with(|e| add_case_region(e, case, &types));
        match change {
            Change::Fewer => drop(x.pop()),
            Change::More => (0..20).for_each(|k| x.push(g.input(&format!("more{k}"), [2, 5, 1], DType::Bool))),
            _ => {}
        }
        if matches!(change, Change::Fewer | Change::More) && def.arity.allows(x.len()) {
            continue;
        }
        let owned = g.with(|e| text::parse_attrs(def.attrs, case.attrs, e)).unwrap();
        let attrs: Vec<Attr> = owned.iter().map(|a| a.borrow()).collect();
        g.emit(s.op, &x, &attrs);
        match g.error() {
            Some(e) => assert!(e.message.contains(def.name), "{change:?}: {e}"),
            // Many ops take any rank, and ops that move elements take any type.
            None => assert!(matches!(change, Change::C64 | Change::Rank), "{} accepts {change:?}", def.name),
        }
    }
    Ok(())
}

/// A fault of the operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Fewer,
    More,
    C64,
    Rank,
}
