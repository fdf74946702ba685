//! The engine against the oracle.

use super::engine_run::{EngineStep, RunOptions, run_engine};
use super::finding::{Agreement, Finding, compare_arrays};
use super::oracle::{LeafValues, Named, Reference, Stop, interpret};
use crate::error::Kind;
use crate::nodes::{Graph, GraphBuf};

/// Runs one step of `graph` by the engine, on leaves drawn from `seed`, and compares it with the oracle: outputs, and
/// params and states after the step. A graph without a reference is run all the same.
///
/// # Errors
/// A [`Finding`]: an element differs by more than rounding explains; the engine fails and the oracle does not, or the
/// other way round.
pub fn check_run(graph: &GraphBuf, seed: u64, how: &RunOptions) -> Result<(), Finding> {
    agree_with_oracle(graph.view(), seed, &[*how]).map(drop)
}

/// As [`check_run`], for several ways to run one graph; how many elements agree.
pub fn agree_with_oracle(graph: Graph<'_>, seed: u64, ways: &[RunOptions]) -> Result<Agreement, Finding> {
    let leaves = LeafValues::draw(graph, seed);
    let reference = interpret(graph, &leaves);
    let mut all = Agreement::default();
    for &how in ways {
        let check = format!("run {how:?}");
        let step = run_engine(graph, &leaves, how);
        let finding = |what: String| Finding::new(check.clone(), what, seed, graph);
        match (&reference, step) {
            (Ok(reference), Ok(step)) => {
                all.join(compare_step(&step, reference).map_err(|d| Finding::differs(check.clone(), d, seed, graph))?)
            }
            (Ok(reference), Err(e)) if reference.may_fault && e.kind == Kind::Data => {}
            (Ok(_), Err(e)) => return Err(finding(format!("the engine fails: {e}"))),
            (Err(Stop::Fault(_)), Err(e)) if e.kind == Kind::Data => {}
            (Err(Stop::Fault(why)), Err(e)) => return Err(finding(format!("the step faults ({why}), but: {e}"))),
            (Err(Stop::Fault(why)), Ok(_)) => return Err(finding(format!("the engine passes over a fault: {why}"))),
            (Err(Stop::Broken(why)), Ok(_)) => return Err(finding(format!("the engine runs a broken graph: {why}"))),
            (Err(Stop::Broken(_) | Stop::Unsupported(_) | Stop::TooLarge), _) => {}
        }
    }
    Ok(all)
}

/// Compares a step of the engine with the reference.
pub(super) fn compare_step(step: &EngineStep, reference: &Reference) -> Result<Agreement, super::finding::Difference> {
    let mut all = Agreement::default();
    let pairs = |a: &[Named], b: &[Named]| a.iter().cloned().zip(b.iter().cloned()).collect::<Vec<_>>();
    let outputs = pairs(&step.outputs, &reference.outputs);
    for (mine, want) in outputs.into_iter().chain(pairs(&step.updates, &reference.updates)) {
        all.join(compare_arrays(&mine.name, &mine.array, &want.array)?);
    }
    Ok(all)
}
