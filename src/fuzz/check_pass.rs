//! Checks a pass: its output graph must compute what its input graph computes.

use super::check_run::check_on_leaves;
use super::compare_arrays::{Agreement, compare_references};
use super::compare_graphs::{compare_graph_signatures, compare_with_options};
use super::engine_run::RunOptions;
use super::finding::Finding;
use super::oracle::{LeafValues, interpret};
use crate::error::Result as PassResult;
use crate::nodes::GraphBuf;

/// Runs `pass` on `graph` and compares both graphs on leaves drawn from `seed`: the oracle on both, where it has
/// references; then the engine on both, without further passes.
///
/// # Errors
/// A [`Finding`]: the pass fails or changes the signature, or a result differs by more than rounding explains.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::tools::{fuzz::check_pass, passes::pipeline};
///
/// let g = Builder::new("g");
/// let x = g.input("x", [3], DType::F32);
/// let graph = g.finish([(x * 1.0 + 0.0).exp().named("y")])?;
/// let simplify = |g: &GraphBuf| Ok(pipeline::run_pipeline(g, &["simplify"], true)?.0);
/// check_pass(&simplify, &graph, 1).unwrap();
/// let wrong = |_: &GraphBuf| {
///     let g = Builder::new("g");
///     let x = g.input("x", [3], DType::F32);
///     g.finish([(x * 1.0 + 0.1).exp().named("y")])
/// };
/// assert!(check_pass(&wrong, &graph, 1).is_err());
/// # Ok::<(), Error>(())
/// ```
pub fn check_pass(
    pass: &dyn Fn(&GraphBuf) -> PassResult<GraphBuf>,
    graph: &GraphBuf,
    seed: u64,
) -> Result<Agreement, Finding> {
    let before = graph.view();
    let finding = |what: String| Finding::new("pass", what, seed, before);
    let after = pass(graph).map_err(|e| finding(format!("the pass fails: {e}")))?;
    let after = after.view();
    if let Some(m) = compare_graph_signatures(before, after).first() {
        return Err(finding(m.describe(["the graph", "what the pass wrote"])));
    }
    let Ok(leaves) = LeafValues::draw_for(&[before, after], seed) else {
        // More elements than the oracle may hold.
        return Ok(Agreement { without_reference: 1, ..Agreement::default() });
    };
    if let (Ok(a), Ok(b)) = (interpret(before, &leaves), interpret(after, &leaves)) {
        compare_references(&a, &b).map_err(|d| Finding::differs("pass, by the oracle", d, seed, before))?;
    }
    let plain = RunOptions { optimise: false, ..RunOptions::default() };
    let mut seen = check_on_leaves(before, &leaves, seed, &[plain])?;
    seen.join(check_on_leaves(after, &leaves, seed, &[plain])?);
    let both = compare_with_options(before, after, seed, plain).map_err(|e| finding(e.to_string()))?;
    match both.outputs.into_iter().find(|o| o.different > 0).and_then(|o| o.worst) {
        Some(d) => Err(Finding::differs("pass, by the engine", d, seed, before)),
        None => Ok(seen),
    }
}
