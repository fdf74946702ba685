//! Drawn graphs are sound, their text parses back to them, and every pass leaves them sound.

use super::{GRAPHS, Target, scripts};
use crate::engine::drawn_graph;
use crate::script::Script;
use arenagrad::tools::fuzz::check_any_graph;
use arenagrad::tools::passes::pipeline::{pipeline_passes, run_pipeline};

pub const TARGET: Target = Target {
    name: "graphs",
    about: "drawn graphs verify, their text parses to them, and they verify after every pass of the pipeline",
    run,
    seeds: scripts,
    words: &[],
    max_len: 512,
    memory: GRAPHS,
};

/// Runs the target.
pub fn run(data: &[u8]) {
    let g = drawn_graph(&mut Script::new(data), 12);
    check_any_graph(&g);
    if let Err(e) = run_pipeline(&g, &pipeline_passes(), true) {
        panic!("{e}\n{g:?}");
    }
}
