//! The command `check`: verifies a graph, proves its plan, and compares its gradients with finite differences in f64.
//!
//! Invariant: each claim is printed, and a claim that does not hold ends with exit code 1.

use super::{load, of};
use crate::args::CheckArgs;
use crate::fail::{Run, bad, expectation_failed};
use crate::out::emit;
use arenagrad::error::Kind;
use arenagrad::session::{GradientCheck, Session};

/// Runs the command.
pub fn check(a: &CheckArgs) -> Run {
    if !(a.tolerance > 0.0 && a.tolerance.is_finite()) {
        return Err(bad(format!("--tolerance is {}; it must be positive and finite", a.tolerance)));
    }
    let graph = load(&a.file)?;
    emit(format!("verified: {} nodes, {} values", graph.view().nodes(), graph.view().values()))?;
    let program = Session::new().compile(&graph).map_err(of(&a.file))?;
    let plan = program.plan();
    let (buffers, bytes) = (plan.buffers.len(), plan.arena_bytes);
    emit(format!("plan proven: {} instructions, {buffers} buffers in {bytes} bytes", plan.instructions))?;
    let check = GradientCheck { tolerance: a.tolerance, seed: a.seed, elements: a.elements };
    let report = check.run(&graph, &[]).map_err(|e| match e.kind {
        Kind::Diverged => expectation_failed(format!("{}: {e}", a.file.display())),
        _ => of(&a.file)(e),
    })?;
    emit(&report)?;
    match report.leaves.iter().filter(|l| !l.fine).count() {
        0 => Ok(()),
        n => Err(expectation_failed(format!("{}: {n} gradients differ from finite differences", a.file.display()))),
    }
}
