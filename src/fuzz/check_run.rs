//! Compares the engine with the oracle.

use super::compare_arrays::{Agreement, ElementDifference, compare_arrays};
use super::engine_run::{EngineStep, RunOptions, run_engine};
use super::finding::Finding;
use super::oracle::{LeafValues, Reference, Stop, interpret};
use crate::error::Kind;
use crate::nodes::{Graph, GraphBuf};

/// Runs one step of `graph` by the engine, on leaves drawn from `seed`, and compares it with the oracle: outputs, and
/// params and states after the step. A graph without a reference is run all the same,
/// unless it is too large for the oracle. Returns how many elements agree.
///
/// # Errors
/// A [`Finding`]: an element differs by more than rounding explains; the engine fails and the oracle does not, or the
/// other way round.
pub fn check_run(graph: &GraphBuf, seed: u64, how: &RunOptions) -> Result<Agreement, Finding> {
    check_with_oracle(graph.view(), seed, &[*how])
}

/// Runs the graph in several ways, as [`check_run`] does. Returns how many elements agree.
pub fn check_with_oracle(graph: Graph<'_>, seed: u64, ways: &[RunOptions]) -> Result<Agreement, Finding> {
    match LeafValues::draw(graph, seed) {
        Ok(leaves) => check_on_leaves(graph, &leaves, seed, ways),
        // More elements than the oracle may hold.
        Err(_) => Ok(Agreement { without_reference: ways.len(), ..Agreement::default() }),
    }
}

/// Runs the graph in several ways on these values of the leaves, which were drawn from `seed`. Returns how many
/// elements agree.
pub fn check_on_leaves(
    graph: Graph<'_>,
    leaves: &LeafValues,
    seed: u64,
    ways: &[RunOptions],
) -> Result<Agreement, Finding> {
    let reference = interpret(graph, leaves);
    let mut all = Agreement::default();
    if matches!(reference, Err(Stop::TooLarge)) {
        // Nothing to compare with, and a step may take any amount of memory.
        all.without_reference += ways.len();
        return Ok(all);
    }
    for &how in ways {
        let check = format!("run {how:?}");
        let step = run_engine(graph, leaves, how);
        let finding = |what: String| Err(Finding::new(check.clone(), what, seed, graph));
        match (&reference, step) {
            (Ok(reference), Ok(step)) => match compare_step(&step, reference) {
                Ok(seen) => all.join(seen),
                Err(d) => return Err(Finding::differs(check, d, seed, graph)),
            },
            (Ok(reference), Err(e)) if reference.may_fault && e.kind == Kind::Data => {}
            (Ok(_), Err(e)) => return finding(format!("the engine fails: {e}")),
            (Err(Stop::Fault(_)), Err(e)) if e.kind == Kind::Data => {}
            (Err(Stop::Fault(why)), Err(e)) => return finding(format!("the step faults ({why}), but: {e}")),
            (Err(Stop::Fault(why)), Ok(_)) => return finding(format!("the engine passes over a fault: {why}")),
            (Err(Stop::Broken(why)), Ok(_)) => return finding(format!("the engine runs a broken graph: {why}")),
            (Err(Stop::Unsupported(_)), Err(e)) if !matches!(e.kind, Kind::Data | Kind::Memory) => {
                return finding(format!("the engine fails: {e}"));
            }
            (Err(Stop::Broken(_) | Stop::Unsupported(_) | Stop::TooLarge), _) => all.without_reference += 1,
        }
    }
    Ok(all)
}

/// Compares a step of the engine with the reference.
fn compare_step(step: &EngineStep, reference: &Reference) -> Result<Agreement, ElementDifference> {
    let mut all = Agreement::default();
    let outputs = step.outputs.iter().zip(&reference.outputs);
    for (mine, want) in outputs.chain(step.updates.iter().zip(&reference.updates)) {
        all.join(compare_arrays(&mine.name, &mine.array, &want.array)?);
    }
    Ok(all)
}
