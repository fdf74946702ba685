//! The loop over the steps: step, metrics, evaluation, page, checkpoint.
//!
//! Invariant: times and counts of allocations cover the steps alone, not what happens between them.

use super::history::History;
use super::measured::Measured;
use super::page::{self, PageTimer};
use super::show::Show;
use super::train_task::TrainTask;
use crate::alloc;
use crate::config::Config;
use crate::fail::Run;
use crate::run_dir::CHECKPOINT;
use crate::stdout_stderr::warn_stderr;
use crate::trace::record;
use arenagrad::train::SyncStates;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The run is evaluated, and a line printed, after each of this many equal parts.
const PARTS: u64 = 10;
/// The step of this process that `--trace` records, if the run has as many.
const TRACED: u64 = 10;

/// Runs steps until all are done or `stop` is set, and adds to `m` what it measures.
pub fn run_steps(
    c: &Config,
    task: &mut dyn TrainTask,
    history: &mut History,
    show: &mut Show,
    stop: &AtomicBool,
    m: &mut Measured,
) -> Run {
    let (start, mut timer) = (Instant::now(), PageTimer::new());
    let part = c.steps.div_ceil(PARTS);
    let traced = c.steps.min(task.trainer().steps_done() + TRACED);
    while task.trainer().steps_done() < c.steps && !is_stopped(task, stop)? {
        let recorded = c.trace.as_ref().filter(|_| task.trainer().steps_done() + 1 == traced);
        if recorded.is_some() {
            task.trainer_mut().trace_next();
        }
        let before = alloc::alloc_calls();
        let progress = task.step().inspect_err(|_| show.end())?;
        match (recorded, task.trainer_mut().take_trace()) {
            (Some(file), Some(t)) => {
                m.trace = Some(record::write_trace_record(file, &format!("step {}", progress.step), &t)?);
            }
            _ => {
                m.allocs += alloc::alloc_calls() - before;
                m.times.record(progress.ns);
                m.steps += 1;
            }
        }
        history.step(&progress)?;
        show.step(&progress);
        if progress.step % part == 0 && progress.step < c.steps {
            let value = task.evaluate(false)?;
            history.evaluated(progress.step, value)?;
            show.evaluated(&progress, value);
        }
        if saves_after(c, progress.step) {
            save_between_steps(c, task, history)?;
        }
        // A page that cannot be written ends no run.
        if progress.step < c.steps
            && (progress.step % part == 0 || timer.is_due())
            && let Err(e) = page::write_train_page(c, task, history, m, "running")
        {
            warn_stderr(e.message);
        }
    }
    show.end();
    m.wall = start.elapsed();
    Ok(())
}

/// Writes the checkpoint. The metrics up to it are synced first, so that a resumed run finds all of them.
pub fn save_between_steps(c: &Config, task: &mut dyn TrainTask, history: &mut History) -> Run {
    history.sync()?;
    save_checkpoint(c, task)
}

/// Writes the checkpoint, on all ranks together.
pub fn save_checkpoint(c: &Config, task: &mut dyn TrainTask) -> Run {
    task.trainer_mut().sync_states(SyncStates::default())?;
    Ok(task.trainer().save(c.out.file(CHECKPOINT))?)
}

/// Whether a checkpoint follows step `step`, which is not the last.
pub fn saves_after(c: &Config, step: u64) -> bool {
    c.checkpoint_every > 0 && step.is_multiple_of(c.checkpoint_every) && step < c.steps
}

/// Whether the run is to end here: on all ranks after the same step.
pub fn is_stopped(task: &mut dyn TrainTask, stop: &AtomicBool) -> Run<bool> {
    let stop = stop.load(Ordering::Relaxed);
    Ok(task.trainer_mut().parallel_mut().map_or(Ok(stop), |p| p.any(stop))?)
}
