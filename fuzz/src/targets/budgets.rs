//! Memory budgets: a budget either holds and changes no bit, or is refused with the smallest one that would do.

use super::{GRAPHS, Target, scripts};
use crate::engine::{Outcome, assert_same, drawn_graph, outcome, run_steps, with_loss};
use crate::script::Script;
use arenagrad::error::Kind;
use arenagrad::graph::GraphBuf;
use arenagrad::optim::{self, train};
use arenagrad::session::Session;

pub const TARGET: Target = Target {
    name: "budgets",
    about: "a memory budget changes no bit and is kept, or is refused with the smallest that would do",
    run,
    seeds: scripts,
    words: &[],
    max_len: 384,
    memory: GRAPHS,
};

/// A training step of the graph that the script draws, if the sum of an output can be trained; or the graph itself.
fn step_of(script: &mut Script<'_>) -> GraphBuf {
    let wanted = script.flag();
    let g = drawn_graph(script, 8);
    let Some((with_loss, name)) = with_loss(&g).filter(|_| wanted) else { return g };
    match train(&with_loss, &name, optim::Sgd::new(0.1)) {
        Ok(step) => step,
        // A loss without a param, without a derivative, or with a param that has an update.
        Err(e) => {
            assert!(!matches!(e.kind, Kind::Verify | Kind::Plan), "{e:?}\n{with_loss:?}");
            g
        }
    }
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let (seed, part, optimise) = (script.seed(), script.below(120), script.below(4) > 0);
    let g = step_of(&mut script);
    let free = Session::new().optimise(optimise);
    let plan = free.plan(&g).unwrap_or_else(|e| panic!("a valid graph has a plan: {e}\n{g:?}"));
    let bytes = plan.arena_bytes * part as usize / 100;
    let tight = free.clone().memory_budget(bytes);
    match tight.compile(&g) {
        Ok(mut p) => {
            assert!(p.plan().arena_bytes <= bytes, "{} bytes, of at most {bytes}\n{g:?}", p.plan().arena_bytes);
            let want = outcome(&g, &free, seed, 2);
            let got: Outcome = run_steps(&mut p, seed, 2);
            assert_same(&format!("a budget of {bytes} bytes"), &want, &got, &g);
        }
        Err(e) => {
            assert!(e.kind == Kind::Plan && bytes < plan.arena_bytes, "{bytes} of {}: {e:?}\n{g:?}", plan.arena_bytes);
            // The error names the smallest budget, and that one is met.
            let least = e.message.rsplit(" is ").next().and_then(|t| t.split(' ').next()).and_then(|n| n.parse().ok());
            let least: usize = least.unwrap_or_else(|| panic!("no smallest budget: {e:?}"));
            assert!(least > bytes, "{e}");
            let met = free.memory_budget(least).plan(&g);
            assert!(met.is_ok_and(|p| p.arena_bytes == least), "the smallest budget, {least}, is not met\n{g:?}");
        }
    }
}
