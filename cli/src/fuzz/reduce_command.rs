//! The command `reduce`: the smallest graph that a check still finds interesting.
//!
//! Invariants: the file given with `--out` always holds a whole graph that the check found interesting. After an
//! interrupt, it is the smallest so far.

use super::check_process::{Answer, CheckProcess};
use crate::args::ReduceArgs;
use crate::fail::{Fail, Run, fail_bad_input};
use crate::ir::load_ir;
use crate::stdout_stderr::{emit_stdout, note_stderr};
use crate::stop_flag::stop_flag;
use arenagrad::graph::GraphBuf;
use arenagrad::tools::fuzz::{GraphSize, ReduceOptions, shrink_graph_counting};
use arenagrad::tools::ir::text::print;
use arenagrad::train::write_atomically;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Runs `reduce`.
pub fn reduce_command(a: &ReduceArgs) -> Run {
    let graph = load_ir(&a.file, &a.sizes)?;
    let stop = stop_flag()?;
    let check = CheckProcess::new(&a.check, Duration::from_secs_f64(a.timeout), stop.clone())?;
    match check.run(&print(graph.view()))? {
        Answer::Interesting => {}
        Answer::Stopped => return Err(fail_bad_input("interrupted before the first check ended")),
        Answer::Not(why) => {
            let file = a.file.display();
            let want = "it must exit with 0 while the failure is there, and with another code when it is not";
            return Err(fail_bad_input(format!("{file}: not interesting: the check {why}; {want}")));
        }
    }
    reduce_command_note_size(a, 0, &graph);
    reduce_command_keep_best(a, &graph)?;
    let (mut asked, mut best) = (0, GraphSize::of(graph.view()));
    let mut failed: Option<Fail> = None;
    let mut still_fails = |g: &GraphBuf| {
        if failed.is_some() {
            return false;
        }
        asked += 1;
        match check.run(&print(g.view())).and_then(|answer| reduce_command_answered(a, asked, g, answer, &mut best)) {
            Ok(interesting) => interesting,
            Err(e) => {
                failed = Some(e);
                // The rest of the search is skipped.
                stop.store(true, Ordering::Relaxed);
                false
            }
        }
    };
    let options = ReduceOptions { max_checks: a.max_checks, stop: Some(&stop), ..ReduceOptions::default() };
    let done = shrink_graph_counting(&graph, &mut still_fails, &options);
    if let Some(e) = failed {
        return Err(e);
    }
    if !a.quiet {
        let end = match (done.is_minimal, stop.load(Ordering::Relaxed)) {
            (true, _) => "no single step makes it smaller",
            (false, true) => "interrupted: this is the smallest so far",
            (false, false) => "--max-checks ended the search",
        };
        note_stderr(format!("{} checks: {}; {end}", done.checks, GraphSize::of(done.graph.view())));
    }
    if a.out.is_none() { emit_stdout(print(done.graph.view())) } else { Ok(()) }
}

/// Whether check number `asked` of `g` found it interesting. A graph that is, and is not larger than `best`, becomes
/// the best.
fn reduce_command_answered(
    a: &ReduceArgs,
    asked: usize,
    g: &GraphBuf,
    answer: Answer,
    best: &mut GraphSize,
) -> Run<bool> {
    if answer != Answer::Interesting {
        return Ok(false);
    }
    reduce_command_note_size(a, asked, g);
    let size = GraphSize::of(g.view());
    if size <= *best {
        *best = size;
        reduce_command_keep_best(a, g)?;
    }
    Ok(true)
}

fn reduce_command_note_size(a: &ReduceArgs, asked: usize, g: &GraphBuf) {
    if !a.quiet {
        note_stderr(format!("check {asked}: {}", GraphSize::of(g.view())));
    }
}

fn reduce_command_keep_best(a: &ReduceArgs, g: &GraphBuf) -> Run {
    match &a.out {
        Some(path) => Ok(write_atomically(path, print(g.view()).as_bytes())?),
        None => Ok(()),
    }
}
