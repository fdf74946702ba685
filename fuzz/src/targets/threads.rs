//! One thread, several threads, poisoned dead bytes and red zones: the same bits.

use super::{GRAPHS, Target, scripts};
use crate::engine::{assert_same, drawn_graph, outcome};
use crate::script::Script;
use arenagrad::session::Session;

pub const TARGET: Target = Target {
    name: "threads",
    about: "a drawn graph has the same bits on one thread, on several, and with dead bytes poisoned",
    run,
    seeds: scripts,
    words: &[],
    max_len: 384,
    memory: GRAPHS,
};

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let (seed, how) = (script.seed(), script.byte());
    let g = drawn_graph(&mut script, 8);
    let session = Session::new().optimise(how & 1 == 0);
    let alone = outcome(&g, &session, seed, 2);
    // Threads that start and end take longer than small graphs: most runs leave them out.
    if how & 14 == 14 {
        let threads = 2 + usize::from(how >> 4) % 3;
        let shared = outcome(&g, &session.clone().threads(threads).share(true), seed, 2);
        assert_same(&format!("{threads} threads"), &alone, &shared, &g);
    } else {
        let poisoned = outcome(&g, &session.poison(true), seed, 2);
        assert_same("poisoned", &alone, &poisoned, &g);
    }
}
