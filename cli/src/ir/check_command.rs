//! The command `check`: verifies a graph, proves its plan, and compares its gradients with finite differences in f64.
//!
//! Invariant: each claim is printed, and a claim that does not hold ends with exit code 1.

use super::{ir_failure, load_graph};
use crate::args::CheckArgs;
use crate::fail::{Run, fail_bad_input, fail_expectation};
use crate::stdout_stderr::emit_stdout;
use arenagrad::error::Kind;
use arenagrad::session::{GradientCheck, Session};

/// Runs the command.
pub fn check_command(a: &CheckArgs) -> Run {
    if !(a.tolerance > 0.0 && a.tolerance.is_finite()) {
        return Err(fail_bad_input(format!("--tolerance is {}; it must be positive and finite", a.tolerance)));
    }
    let graph = load_graph(&a.graph)?;
    emit_stdout(format!("verified: {} nodes, {} values", graph.view().nodes(), graph.view().values()))?;
    let program = Session::new().compile(&graph).map_err(ir_failure(&a.graph.file))?;
    let plan = program.plan();
    let (buffers, bytes) = (plan.buffers.len(), plan.arena_bytes);
    emit_stdout(format!("plan proven: {} instructions, {buffers} buffers in {bytes} bytes", plan.instructions))?;
    let check = GradientCheck::default().tolerance(a.tolerance).seed(a.seed).elements(a.elements);
    let report = check.run(&graph, &[]).map_err(|e| match e.kind {
        Kind::Diverged => fail_expectation(format!("{}: {e}", a.graph.file.display())),
        _ => ir_failure(&a.graph.file)(e),
    })?;
    emit_stdout(&report)?;
    match report.leaves.iter().filter(|l| l.wrong()).count() {
        0 => Ok(()),
        n => Err(fail_expectation(format!("{}: {n} gradients differ from finite differences", a.graph.file.display()))),
    }
}
