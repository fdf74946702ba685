//! `train`: the loop around the steps, and what it leaves behind.
//!
//! Invariant: the weights are a function of the configuration, the seed and the data: not of the threads, nor of where
//! the run was stopped and resumed. For `main`.

mod finish;
mod history;
mod images;
mod resume;
mod show;
mod task;
mod text;

use crate::alloc;
use crate::args::TrainArgs;
use crate::config::Config;
use crate::fail::{Run, bad, expectation_failed};
use crate::{files, out, sys, trace};
use arenagrad::train::Times;
use arenagrad::train::write_atomically;
use history::History;
use show::Show;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use task::Task;

/// Name of the checkpoint in a run's folder.
const CHECKPOINT: &str = "checkpoint.safetensors";
/// Name of the configuration in a run's folder.
pub const CONFIG: &str = "run.toml";
/// Step times that are kept for the percentiles.
const TIMES: usize = 1 << 16;
/// Parts of a run after which it is tested and a line is printed.
const PARTS: u64 = 10;
/// Which step of this process is recorded, if the run gets there.
const TRACED: u64 = 10;

/// What was measured over the steps of this process.
pub struct Measured {
    /// Nanoseconds of each step.
    pub times: Times,
    /// Calls of the allocator within steps.
    pub allocs: u64,
    /// Steps.
    pub steps: u64,
    /// Where the time of the step went that was recorded; it is in no other figure.
    pub trace: Option<String>,
    /// Time of the loop, tests and checkpoints included.
    pub wall: Duration,
}

/// The file that `--resume` means: a checkpoint, or the one in a folder.
pub fn checkpoint_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(CHECKPOINT) } else { path.to_path_buf() }
}

/// Trains.
pub fn train(a: &TrainArgs) -> Run {
    let config = Config::new(a)?;
    let stop = stop_flag()?;
    let mut task = task::open(&config)?;
    // Before the checkpoint is read: it is not that of a run which goes on meanwhile. A folder that is still to be made
    // has none.
    let claimed = config.out.is_dir().then(|| files::lock(&config.out)).transpose()?;
    let from = a.resume.as_deref().map(|from| resume::restore(&config, task.as_mut(), from)).transpose()?;
    sys::make_dir(&config.out)?;
    let _lock = claimed.map_or_else(|| files::lock(&config.out), Ok)?;
    write_atomically(&config.out.join(CONFIG), config.text.as_bytes())?;
    for extra in task.extras()? {
        write_atomically(&config.out.join(extra.name), extra.text.as_bytes())?;
    }
    let old = from.as_deref().map(|f| f.with_file_name(history::FILE));
    let mut history =
        History::open(&config.out, task.measure(), old.as_deref(), task.trainer().steps_done(), config.steps)?;
    let mut show = Show::new(a.quiet, task.measure(), config.steps, task.trainer().steps_done());
    let measured = run_steps(&config, task.as_mut(), &mut history, &mut show, &stop)?;
    if let Some(table) = measured.trace.as_ref().filter(|_| !a.quiet) {
        out::note(table);
    }
    checkpoint(&config, task.as_ref(), &mut history)?;
    if task.trainer().steps_done() < config.steps {
        let (done, out) = (task.trainer().steps_done(), config.out.display());
        return Err(expectation_failed(format!(
            "stopped after step {done} of {}; continue with: arenagrad train {} --resume {out}",
            config.steps, a.target
        )));
    }
    finish::finish(&config, task.as_mut(), &history, &measured, a.json)
}

/// Set by Ctrl-C and by a polite kill; a second one ends the process at once.
fn stop_flag() -> Run<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the conditional exit sees the flag as the signals before left it.
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|e| bad(format!("signal handler: {e}")))?;
    }
    Ok(stop)
}

fn run_steps(
    c: &Config,
    task: &mut dyn Task,
    history: &mut History,
    show: &mut Show,
    stop: &AtomicBool,
) -> Run<Measured> {
    let mut m = Measured { times: Times::new(TIMES), allocs: 0, steps: 0, wall: Duration::ZERO, trace: None };
    let start = Instant::now();
    let part = c.steps.div_ceil(PARTS);
    let traced = c.steps.min(task.trainer().steps_done() + TRACED);
    while task.trainer().steps_done() < c.steps && !stop.load(Ordering::Relaxed) {
        let recorded = c.trace.as_ref().filter(|_| task.trainer().steps_done() + 1 == traced);
        if recorded.is_some() {
            task.trainer_mut().trace_next();
        }
        let before = alloc::calls();
        let progress = task.step().inspect_err(|_| show.end())?;
        match (recorded, task.trainer_mut().take_trace()) {
            (Some(file), Some(t)) => {
                m.trace = Some(trace::write(file, &format!("step {}", progress.step), &t)?);
            }
            _ => {
                m.allocs += alloc::calls() - before;
                m.times.record(progress.ns);
                m.steps += 1;
            }
        }
        history.step(&progress)?;
        show.step(&progress);
        if progress.step % part == 0 && progress.step < c.steps {
            let found = task.evaluate(false)?;
            history.judged(progress.step, found)?;
            show.judged(&progress, found);
        }
        if c.checkpoint_every > 0 && progress.step % c.checkpoint_every == 0 && progress.step < c.steps {
            checkpoint(c, task, history)?;
        }
    }
    show.end();
    m.wall = start.elapsed();
    Ok(m)
}

/// Writes the checkpoint; the metrics up to it first, so that a resumed run finds all of them.
fn checkpoint(c: &Config, task: &dyn Task, history: &mut History) -> Run {
    history.sync()?;
    Ok(task.trainer().save(&c.out.join(CHECKPOINT))?)
}
