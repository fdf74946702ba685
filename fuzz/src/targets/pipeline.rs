//! The whole way from graph to values: the engine and the oracle agree within rounding.

use super::{GRAPHS, Target, scripts};
use crate::engine::drawn_graph;
use crate::script::Script;
use arenagrad::graph::GraphBuf;
use arenagrad::session::Convolutions;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::fuzz::{Finding, RunOptions, change_randomly, check_run};

pub const TARGET: Target = Target {
    name: "pipeline",
    about: "all passes, the plan and the kernels compute what the oracle computes, within its rounding bounds",
    run,
    seeds: scripts,
    words: &[],
    max_len: 384,
    memory: GRAPHS,
};

/// One way to run a graph; threads seldom, as starting them takes longer than a small graph.
pub fn any_way(script: &mut Script<'_>) -> RunOptions {
    let plain = RunOptions::default();
    match script.byte() % 32 {
        0 => RunOptions { threads: 3, share: true, ..plain },
        1..4 => RunOptions { poison: true, ..plain },
        4..8 => RunOptions { least_memory: true, ..plain },
        8..14 => RunOptions { optimise: false, ..plain },
        14..18 => RunOptions { convolutions: Convolutions::Winograd, ..plain },
        _ => plain,
    }
}

/// The op that makes the output called `name`, or the next value of the leaf of that name.
fn op_behind(g: &GraphBuf, name: &str) -> &'static str {
    let v = g.view();
    let next = |leaf: &str| v.updates.iter().find(|u| v.leaf(u.0).is_some_and(|l| l.1 == leaf)).map(|u| u.1);
    let value = v.find_output(name).or_else(|| next(name));
    value.map_or("nothing", |value| v.def_of(v.def[value.at()]).name)
}

/// The first line of a message. Findings whose first lines agree count as one defect: it names the op that makes what
/// differs, not the numbers.
fn first_line(g: &GraphBuf, found: &Finding) -> String {
    match &found.difference {
        Some(d) => format!("{} differs", op_behind(g, &d.name)),
        None => found.what.clone(),
    }
}

/// The engine agrees with the oracle, or this panics.
pub fn assert_agrees(g: &GraphBuf, seed: u64, how: &RunOptions) {
    if let Err(found) = check_run(g, seed, how) {
        panic!("{}\n{found}", first_line(g, &found));
    }
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let (seed, how, changes) = (script.seed(), any_way(&mut script), script.below(4));
    let mut g = drawn_graph(&mut script, 8);
    for _ in 2..changes {
        g = change_randomly(&g, &mut script.draws()).unwrap_or_else(|e| panic!("{e}\n{g:?}"));
    }
    assert_agrees(&g, seed, &how);
}
