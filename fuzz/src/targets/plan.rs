//! Plans. The checker accepts the planner's plan, and this plan gives the same results as a plan in which no two
//! buffers share bytes. The checker refuses every wrong plan that has other results.

use super::{GRAPHS, Target, scripts};
use crate::engine::drawn_graph;
use crate::script::Script;
use arenagrad::error::Result;
use arenagrad::graph::GraphBuf;
use arenagrad::tools::fuzz::{PlannedGraph, WRONG_PLANS, simulate_plan};
use arenagrad::tools::passes::pipeline::{MINIMAL, pipeline_passes, run_pipeline};
use arenagrad::tools::sched::checker::check_plan;
use arenagrad::tools::sched::lower::lower;
use arenagrad::tools::sched::order::deps::Deps;
use arenagrad::tools::sched::order::list::order_by_rule;
use arenagrad::tools::sched::order::{self, CANDIDATES};

pub const TARGET: Target = Target {
    name: "plan",
    about: "the checker accepts the planner's plans, which keep every byte, and refuses those that do not",
    run,
    seeds: scripts,
    words: &[],
    max_len: 512,
    memory: GRAPHS,
};

/// The plan of the best order, or of the candidate `rule`.
fn planned(g: &GraphBuf, rule: usize) -> Result<PlannedGraph> {
    let code = lower(g.view(), 1)?.code;
    PlannedGraph::ordered(match CANDIDATES.get(rule) {
        Some(&(name, rule)) => order::score_order(&code, &order_by_rule(&code, &Deps::new(&code), rule), name)?,
        None => order::best_order(&code)?,
    })
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let (rule, tries) = (script.below(2 * CANDIDATES.len() as u32) as usize, script.below(4));
    let passes = if script.below(4) == 0 { MINIMAL.to_vec() } else { pipeline_passes() };
    let g = drawn_graph(&mut script, 10);
    let prepared = run_pipeline(&g, &passes, false).unwrap_or_else(|e| panic!("{e}\n{g:?}")).0;
    let plan = planned(&prepared, rule).unwrap_or_else(|e| panic!("a valid graph has a plan: {e}\n{prepared:?}"));
    if let Err(e) = check_plan(plan.right.clone()) {
        panic!("the checker refuses the planner's plan: {e}\n{prepared:?}");
    }
    let got = simulate_plan(&plan.right);
    assert!(got.as_ref() == Some(&plan.want), "the plan loses a byte\n{prepared:?}");
    for _ in 0..=tries {
        let kind = script.below(WRONG_PLANS.len() as u32) as usize;
        let Some(wrong) = plan.wrong_plan(kind, &mut script.draws()) else { continue };
        let harmful = simulate_plan(&wrong).as_ref() != Some(&plan.want);
        assert!(!harmful || check_plan(wrong).is_err(), "a harmful plan passes: {}\n{prepared:?}", WRONG_PLANS[kind]);
    }
}
