//! Resuming: restores a checkpoint and checks that its counters agree with each other and with this run.
//!
//! Invariant: a number of the file decides the size of an allocation only after it is compared with what this run asks
//! for.

use super::train_task::TrainTask;
use crate::config::Config;
use crate::fail::{Run, fail_bad_input};
use crate::run_dir::checkpoint_in_run_dir;
use crate::weights_file;
use arenagrad::optim::STEP;
use arenagrad::tools::ops::random::var::RNG_STATE;
use std::path::{Path, PathBuf};

/// Restores the task from what `--resume` names, and returns the checkpoint's path.
pub fn resume_task(c: &Config, task: &mut dyn TrainTask, from: &Path) -> Run<PathBuf> {
    let file = checkpoint_in_run_dir(from);
    let digest = task.trainer_mut().restore(&file)?;
    weights_file::warn_of_safetensors_without_digest(&file, digest);
    let named = |text: String| fail_bad_input(format!("{}: {text}", file.display()));
    let done = task.trainer().steps_done();
    if done > c.steps {
        return Err(named(format!("{done} steps are done, more than the {} that are asked for", c.steps)));
    }
    resumed_counters_agree(c, task).map_err(named)?;
    resumed_rates_agree(c, task).map_err(named)?;
    Ok(file)
}

/// Fails if the schedule gives the last step another rate than it had: the run would be one that no schedule describes.
fn resumed_rates_agree(c: &Config, task: &dyn TrainTask) -> Result<(), String> {
    let (t, done) = (task.trainer(), task.trainer().steps_done());
    let now = done.checked_sub(1).and_then(|before| t.rate_of_step(before));
    match (t.last_rate(), now) {
        (Some(was), Some(now)) if was != now => Err(format!(
            "step {done} had the learning rate {was}, and this run's schedule of {} steps gives it {now}: resume with the \
             steps and the schedule of the first run, or train anew",
            c.steps
        )),
        _ => Ok(()),
    }
}

/// Fails unless all counters of steps agree. They do in a run of this program, which stops at the first failed step.
fn resumed_counters_agree(c: &Config, task: &dyn TrainTask) -> Result<(), String> {
    let (t, done) = (task.trainer(), task.trainer().steps_done());
    if t.batches_taken() != done {
        let taken = t.batches_taken();
        return Err(format!("{done} steps took {taken} batches: this is of other data, or the file is damaged"));
    }
    if let Ok([steps]) = t.program().values::<i64>(STEP)
        && u64::try_from(*steps) != Ok(done)
    {
        return Err(format!("{STEP} is {steps} after {done} steps: the file is damaged"));
    }
    let key = [c.seed as u32, (c.seed >> 32) as u32, done as u32, (done >> 32) as u32];
    if let Ok(found) = t.program().values::<u32>(RNG_STATE)
        && *found != key
    {
        return Err(format!("{RNG_STATE} is {found:?} after {done} steps, not {key:?}: the file is damaged"));
    }
    Ok(())
}
