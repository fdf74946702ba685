//! Facets about derivatives: reverse mode against finite differences, forward mode against reverse mode, second
//! derivatives against finite differences, and derivatives that are declared to be zero.

use super::answer::{Answer, FacetError, facet_holds};
use super::conform_run::{ConformRun, PLAIN, try_run_once};
use super::sample::{F64_ONLY, Sample};
use super::tensor::{Tensor, conform_distance, same_conform_bits};
use super::tensor_draws::TensorDraws;
use crate::arena::ids::Id;
use crate::differences::{slope_of_values, try_slope};
use crate::error::Kind;
use crate::nodes::ir::opdef::{Deriv, Domain, Flags};
use crate::nodes::{DType, GraphBuf};
use crate::passes::{Missing, jvp, vjp};

/// The most elements of an operand that are moved.
const MOVED: usize = 24;

pub(super) fn derivative_facet_names(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// The inputs of a transformed graph: the case's operands, and draws for what the transform added.
fn derivative_facet_inputs(g: &GraphBuf, operands: &[Tensor], draw: &mut TensorDraws) -> Vec<Tensor> {
    let v = g.view();
    let extra = v.leaves().skip(operands.len());
    let more: Vec<Tensor> = extra.map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Real)).collect();
    [operands, &more].concat()
}

fn derivative_facet_output(g: &GraphBuf, results: &[Tensor], name: &str) -> Result<Tensor, FacetError> {
    let v = g.view();
    let i = v.output_names.iter().position(|&s| v.str(s) == name);
    i.and_then(|i| results.get(i).cloned()).ok_or_else(|| FacetError::Fails(format!("there is no output {name}")))
}

/// Σ a·b; an infinite result (the log-sum-exp of nothing) is a constant, and counts for nothing.
fn derivative_facet_dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).filter(|(x, _)| !x.is_infinite()).map(|(x, y)| x * y).sum()
}

/// At most [`MOVED`] elements of `n`, evenly spread.
fn derivative_facet_elements(n: usize) -> Vec<usize> {
    let mut all: Vec<usize> = if n <= MOVED { (0..n).collect() } else { (0..MOVED).map(|i| i * n / MOVED).collect() };
    all.dedup();
    all
}

/// Asks a question of a sample, and of its first result alone.
fn derivative_facet_with_and_without_statistics(s: &Sample, check: fn(&Sample) -> Answer) -> Answer {
    check(s)?;
    s.without_statistics().map_or(Ok(()), |first| check(&first?))
}

pub(super) fn reverse_derivative_facet(s: &Sample) -> Answer {
    derivative_facet_with_and_without_statistics(s, check_reverse_derivative_facet)
}

fn check_reverse_derivative_facet(s: &Sample) -> Answer {
    let (wrt, outs) = s.differentiable()?;
    // The derivative is that of another function, by definition.
    if s.has_codes() || s.def.flags.has(Flags::STRAIGHT) {
        return Err("by definition".into());
    }
    let g = vjp(s.graph.view(), &derivative_facet_names(&outs), &derivative_facet_names(&wrt), Missing::Zero)?;
    let inputs = derivative_facet_inputs(&g, &s.operands, &mut TensorDraws(77));
    let results = try_run_once(&g, &inputs, PLAIN)?;
    let seeds = &inputs[s.operands.len()..];
    // Σ ⟨y, seed⟩ at operands moved by h along element e of operand k.
    let mut primal = ConformRun::new(&s.graph, PLAIN)?;
    let mut at = |k: usize, e: usize, h: f64| -> Result<f64, FacetError> {
        let mut moved = s.operands.clone();
        moved[k].data[e] += h;
        let y = primal.run(&moved)?;
        let mut sum = 0.0;
        for (o, c) in outs.iter().zip(seeds) {
            sum += derivative_facet_dot(&derivative_facet_output(&s.graph, &y, o)?.data, &c.data);
        }
        Ok(sum)
    };
    let v = s.graph.view();
    for (k, l) in v.leaves().enumerate().filter(|(_, l)| v.dtype[l.value.at()].part() == DType::F64) {
        let name = l.name;
        let got = derivative_facet_output(&g, &results, &format!("grad.{name}"))?;
        for e in derivative_facet_elements(got.data.len()) {
            let mut agrees = |h: f64| {
                let want = try_slope(h, |by| at(k, e, by))?;
                let d = (got.data[e] - want).abs() / want.abs().max(1.0);
                facet_holds(d <= 1e-6, || format!("d/d{name}[{e}] is {} but differences give {want}", got.data[e]))
            };
            // The wide step may cross a kink by chance; a wrong derivative is wrong by both.
            agrees(1e-4).or_else(|_| agrees(3e-6))?;
        }
    }
    Ok(())
}

pub(super) fn adjoint_derivative_facet(s: &Sample) -> Answer {
    derivative_facet_with_and_without_statistics(s, check_adjoint_derivative_facet)
}

fn check_adjoint_derivative_facet(s: &Sample) -> Answer {
    let (wrt, outs) = s.differentiable()?;
    let forward = jvp(s.graph.view(), &derivative_facet_names(&outs), &derivative_facet_names(&wrt))?;
    let both = vjp(&forward, &derivative_facet_names(&outs), &derivative_facet_names(&wrt), Missing::Zero)?;
    let inputs = derivative_facet_inputs(&both, &s.operands, &mut TensorDraws(5));
    let results = try_run_once(&both, &inputs, PLAIN)?;
    let (tangents, cotangents) = inputs[s.operands.len()..].split_at(wrt.len());
    let total = |prefix: &str, names: &[String], with: &[Tensor]| -> Result<f64, FacetError> {
        let mut sum = 0.0;
        for (name, t) in names.iter().zip(with) {
            let y = derivative_facet_output(&both, &results, &format!("{prefix}.{name}"))?;
            facet_holds(y.dims == t.dims, || format!("{prefix}.{name} has dimensions {:?}, not {:?}", y.dims, t.dims))?;
            sum += derivative_facet_dot(&y.data, &t.data);
        }
        Ok(sum)
    };
    let (jv, vj) = (total("tangent", &outs, cotangents)?, total("grad", &wrt, tangents)?);
    let most = if s.has_codes() { 1e-5 } else { 1e-10 };
    facet_holds((jv - vj).abs() <= most * jv.abs().max(1.0), || format!("<Jv,w> = {jv}, <v,JTw> = {vj}"))
}

pub(super) fn second_derivative_facet(s: &Sample) -> Answer {
    derivative_facet_with_and_without_statistics(s, check_second_derivative_facet)
}

fn check_second_derivative_facet(s: &Sample) -> Answer {
    let (wrt, outs) = s.differentiable()?;
    if s.has_codes() {
        return Err("by definition".into());
    }
    let first = vjp(s.graph.view(), &derivative_facet_names(&outs), &derivative_facet_names(&wrt), Missing::Zero)?;
    let grads: Vec<String> = wrt.iter().map(|w| format!("grad.{w}")).collect();
    let second = match jvp(&first, &derivative_facet_names(&grads), &derivative_facet_names(&wrt)) {
        // The gradient is an op that has no derivative, and says so.
        Err(e) if e.kind == Kind::Derivative => return Err("refused".into()),
        second => second?,
    };
    let inputs = derivative_facet_inputs(&second, &s.operands, &mut TensorDraws(13));
    let results = try_run_once(&second, &inputs, PLAIN)?;
    let (points, tangents) = inputs.split_at(inputs.len() - wrt.len());
    let floats: Vec<usize> = (0..s.operands.len()).filter(|&k| s.operands[k].dtype.part() == DType::F64).collect();
    let h = 1e-5;
    let mut gradient = ConformRun::new(&first, PLAIN)?;
    let mut moved = |h: f64| {
        let mut at = points.to_vec();
        for (&k, t) in floats.iter().zip(tangents) {
            at[k].data.iter_mut().zip(&t.data).for_each(|(x, t)| *x += h * t);
        }
        gradient.run(&at)
    };
    let (up, down, far_up, far_down) = (moved(h)?, moved(-h)?, moved(2.0 * h)?, moved(-2.0 * h)?);
    for g in &grads {
        let got = derivative_facet_output(&second, &results, &format!("tangent.{g}"))?;
        let of = |r: &[Tensor]| derivative_facet_output(&first, r, g).map(|t| t.data);
        // Five points: the error of three is that of a third derivative, which whole blocks have plenty of.
        let (a, b, c, d) = (of(&up)?, of(&down)?, of(&far_up)?, of(&far_down)?);
        let slope = |i: usize| slope_of_values([a[i], b[i], c[i], d[i]], h);
        let want: Vec<f64> = (0..a.len()).map(slope).collect();
        let off = conform_distance(&got.data, &want);
        facet_holds(off <= 1e-6, || format!("{g} off by {off:e}\n{:?}\n{want:?}", got.data))?;
    }
    Ok(())
}

pub(super) fn zero_derivative_facet(s: &Sample) -> Answer {
    let floats = s.operands.iter().any(|t| t.dtype.part() == s.float);
    match s.def.deriv {
        Deriv::Zero if s.def.flags.has(Flags::STOP) => Err("stops".into()),
        Deriv::Zero if !floats => Err("integers".into()),
        Deriv::Zero if s.float == DType::F32 => Err(F64_ONLY.into()),
        Deriv::Zero => check_zero_derivative_facet(s),
        _ => Err("not zero".into()),
    }
}

/// Moves each float operand of a sample in f64, one element at a time. A function with the derivative zero gives the
/// same numbers before and behind. A step function may jump in between, but not at every second element.
fn check_zero_derivative_facet(s: &Sample) -> Answer {
    let mut program = ConformRun::new(&s.graph, PLAIN)?;
    let mut at = |k: usize, e: usize, h: f64| {
        let mut moved = s.operands.clone();
        moved[k].data[e] += h;
        program.run(&moved)
    };
    let (mut still, mut jumps) = (0, Vec::new());
    for (k, t) in s.operands.iter().enumerate().filter(|(_, t)| t.dtype.part() == DType::F64) {
        for e in (0..t.data.len()).step_by(t.data.len().div_ceil(MOVED).max(1)) {
            let h = 1e-6;
            match at(k, e, -h)?.iter().zip(&at(k, e, h)?).all(|(a, b)| same_conform_bits(a, b)) {
                true => still += 1,
                false => jumps.push(format!("operand {k} element {e}")),
            }
        }
    }
    let step = s.def.flags.has(Flags::STEP);
    let marked = if step { "a step function" } else { "not marked as a step function" };
    let why = || format!("the derivative is Zero, the op is {marked}, and results move with {jumps:?}");
    facet_holds(jumps.len() <= if step { still } else { 0 }, why)
}
