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
    while task.trainer().steps_done() < c.steps && !stop.load(Ordering::Relaxed) {
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
        let saves = c.checkpoint_every > 0 && progress.step % c.checkpoint_every == 0;
        if saves && progress.step < c.steps {
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
pub fn save_between_steps(c: &Config, task: &dyn TrainTask, history: &mut History) -> Run {
    history.sync()?;
    Ok(task.trainer().save(c.out.file(CHECKPOINT))?)
}
