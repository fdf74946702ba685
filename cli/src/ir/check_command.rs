//! The command `check`: verifies a graph, proves its plan, and compares its gradients with finite differences in f64.
//!
//! Invariant: each claim is printed, and a claim that does not hold ends with exit code 1.

use super::finite_differences::{Element, FinitePoint, summed_for_differences};
use super::{ir_failure, load_ir};
use crate::args::CheckArgs;
use crate::fail::{Run, fail_bad_input, fail_expectation};
use crate::out::emit_out;
use arenagrad::graph::GraphBuf;
use arenagrad::graph::{GradOptions, Missing, grad};
use arenagrad::session::{Program, Session};
use arenagrad::tools::passes::ad::prepare::prepare_outputs;
use arenagrad::tools::passes::promote_f64::promote_f64;
use arenagrad::train::permutation;
use std::collections::HashMap;

/// Runs the command.
pub fn check_command(a: &CheckArgs) -> Run {
    if !(a.tolerance > 0.0 && a.tolerance.is_finite()) {
        return Err(fail_bad_input(format!("--tolerance is {}; it must be positive and finite", a.tolerance)));
    }
    let graph = load_ir(&a.file)?;
    emit_out(format!("verified: {} nodes, {} values", graph.view().nodes(), graph.view().values()))?;
    let program = Session::new().compile(&graph).map_err(ir_failure(&a.file))?;
    let plan = program.plan();
    let (buffers, bytes) = (plan.buffers.len(), plan.arena_bytes);
    emit_out(format!("plan proven: {} instructions, {buffers} buffers in {bytes} bytes", plan.instructions))?;
    let wide = promote_f64(graph.view()).map_err(ir_failure(&a.file))?;
    match summed_for_differences(wide.view()).map_err(ir_failure(&a.file))? {
        Some((sum, name)) => check_gradients(a, &sum, &name),
        None => {
            emit_out("gradients: none, no output is a float")?;
            Ok(())
        }
    }
}

/// The program of the gradients, that of the sum alone, and a point where the sum is finite.
struct Pair {
    grads: Program,
    plain: Program,
    point: FinitePoint,
    sum: f64,
}

/// Compiles both programs and finds a point where the output `name` is finite.
fn check_pair(a: &CheckArgs, graph: &GraphBuf, name: &str, grads: &GraphBuf) -> Run<Pair> {
    let plain = prepare_outputs(graph, |n| n == name).map_err(ir_failure(&a.file))?;
    let mut plain = Session::new().compile(&plain).map_err(ir_failure(&a.file))?;
    let grads = Session::new().compile(grads).map_err(ir_failure(&a.file))?;
    plain.init(a.seed).map_err(ir_failure(&a.file))?;
    for positive in [false, true] {
        let point = FinitePoint::new(&plain, graph.view(), a.seed, positive);
        let sum = point.eval(&mut plain, name).map_err(ir_failure(&a.file))?;
        if sum.is_finite() {
            return Ok(Pair { grads, plain, point, sum });
        }
    }
    Err(fail_expectation(format!("{}: the outputs are not finite at the points tried", a.file.display())))
}

/// Compares the gradients of output `name` by all float leaves with finite differences.
fn check_gradients(a: &CheckArgs, graph: &GraphBuf, name: &str) -> Run {
    let g = graph.view();
    let leaves: Vec<String> = g
        .leaves()
        .filter(|l| g.ty(l.value).dtype == arenagrad::graph::DType::F64 && g.numel(l.value) > 0)
        .map(|l| l.name.to_string())
        .collect();
    if leaves.is_empty() {
        emit_out("gradients: none, no leaf is a float")?;
        return Ok(());
    }
    let options = GradOptions { wrt: leaves.clone(), missing: Missing::Zero, ..GradOptions::default() };
    let grads = match grad(g, name, &options) {
        Ok(grads) => grads,
        Err(e) if e.kind == arenagrad::error::Kind::Derivative => {
            emit_out(format!("gradients: none, {e}"))?;
            return Ok(());
        }
        Err(e) => return Err(ir_failure(&a.file)(e)),
    };
    let mut p = check_pair(a, graph, name, &grads)?;
    p.point.eval(&mut p.grads, name).map_err(ir_failure(&a.file))?;
    let outputs = grads.view();
    let grad_names: Vec<String> =
        outputs.output_names[g.outputs().len()..].iter().map(|&s| outputs.str(s).into()).collect();
    let mut wrong = 0;
    let indices: HashMap<String, usize> = p.point.floats().map(|(i, b)| (b.name.clone(), i)).collect();
    // The differences start from the plain program at this point.
    p.point.eval(&mut p.plain, name)?;
    p.point.restore(&mut p.plain)?;
    for (leaf, output) in leaves.iter().zip(&grad_names) {
        let Some(&index) = indices.get(leaf) else { continue };
        let claims = p.grads.values::<f64>(output).map_err(ir_failure(&a.file))?.to_vec();
        let c = check_leaf_gradient(a, &mut p, name, index, &claims)?;
        let fine = c.worst <= a.tolerance;
        wrong += usize::from(!fine);
        let verdict = if fine { "ok" } else { "WRONG" };
        let Comparison { compared, worst } = c;
        let all = claims.len();
        emit_out(format!("gradient of {leaf}: {compared} of {all} elements, relative error {worst:.1e}: {verdict}"))?;
    }
    match wrong {
        0 => Ok(()),
        n => Err(fail_expectation(format!("{}: {n} gradients differ from finite differences", a.file.display()))),
    }
}

/// How well a gradient agrees with finite differences.
struct Comparison {
    /// Number of elements compared.
    compared: usize,
    /// The largest error of an element, relative to the gradient there or, if that is larger, to a hundredth of the
    /// leaf's largest gradient. Infinite if an error is NaN.
    worst: f64,
}

/// Compares elements of the gradient `claims` by leaf `leaf` with finite differences.
fn check_leaf_gradient(a: &CheckArgs, p: &mut Pair, name: &str, leaf: usize, claims: &[f64]) -> Run<Comparison> {
    let mut order = vec![0; claims.len()];
    permutation(a.seed, leaf as u64, &mut order);
    let largest = claims.iter().fold(0.0f64, |m, c| m.max(c.abs()));
    // Smaller gradients are lost in the rounding of the sum.
    let floor = (largest / 100.0).max(p.sum.abs() * 1e-6).max(1e-9);
    let mut worst = 0.0f64;
    let picked = &order[..a.elements.min(order.len())];
    for &i in picked {
        let claim = claims[i as usize];
        let element = Element { leaf, index: i as usize };
        let d = p.point.derivative(&mut p.plain, name, element, claim).map_err(ir_failure(&a.file))?;
        let error = (d - claim).abs() / claim.abs().max(d.abs()).max(floor);
        worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
    }
    Ok(Comparison { compared: picked.len(), worst })
}
