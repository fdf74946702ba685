//! Passes keep the meaning of a graph: each alone, and any of them in any order, by the oracle.

use super::{GRAPHS, Target, scripts};
use crate::engine::drawn_graph;
use crate::meaning::assert_same_meaning;
use crate::script::Script;
use arenagrad::error::Kind;
use arenagrad::graph::GraphBuf;
use arenagrad::tools::passes::pipeline::{EXTRA, PIPELINE, run_pipeline};

/// One pass.
pub const ALONE: Target = Target {
    name: "pass",
    about: "each pass alone leaves a sound graph of the same meaning, by the oracle",
    run: run_alone,
    seeds: scripts,
    words: &[],
    max_len: 384,
    memory: GRAPHS,
};

/// Several passes.
pub const ORDERS: Target = Target {
    name: "orders",
    about: "passes in any order leave a sound graph of the same meaning, by the oracle",
    run: run_orders,
    seeds: scripts,
    words: &[],
    max_len: 384,
    memory: GRAPHS,
};

/// Any pass.
fn any_pass(script: &mut Script<'_>) -> &'static str {
    let names: Vec<&str> = PIPELINE.iter().chain(EXTRA).map(|p| p.name).collect();
    script.pick(&names)
}

/// `g` after these passes, which may refuse it only where a derivative is missing.
fn after(g: &GraphBuf, names: &[&str]) -> Option<GraphBuf> {
    match run_pipeline(g, names, true) {
        Ok((after, _)) => Some(after),
        Err(e) if e.kind == Kind::Derivative && names.contains(&"prepare") => None,
        // A pass asks for the stage that the passes before it in the pipeline make.
        Err(e) if e.kind == Kind::Stage => None,
        Err(e) => panic!("{names:?}: {e}\n{g:?}"),
    }
}

fn run_alone(data: &[u8]) {
    let mut script = Script::new(data);
    let (pass, seed) = (any_pass(&mut script), script.seed());
    let g = drawn_graph(&mut script, 8);
    // Most passes find their work after calls and blocks are gone.
    let g = if script.flag() { after(&g, &["prepare"]).unwrap_or(g) } else { g };
    let Some(after) = after(&g, &[pass]) else { return };
    assert_same_meaning(pass, &g, &after, seed);
}

fn run_orders(data: &[u8]) {
    let mut script = Script::new(data);
    let seed = script.seed();
    let names: Vec<&str> = (0..=script.below(5)).map(|_| any_pass(&mut script)).collect();
    let g = drawn_graph(&mut script, 8);
    let Some(after) = after(&g, &names) else { return };
    assert_same_meaning(&format!("{names:?}"), &g, &after, seed);
}
