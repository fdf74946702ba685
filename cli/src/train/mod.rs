//! The command `train`: opens the task and the run's folder, runs the steps, and writes the results.
//!
//! Invariant: the weights are a function of configuration, seed and data. Neither the number of threads nor a stop and
//! a resume changes a bit of them.

mod finish;
mod history;
mod image_task;
mod measured;
mod page;
pub mod ranks;
mod resume;
mod show;
mod steps;
mod text_task;
mod train_task;

use crate::args::TrainArgs;
use crate::config::{Config, Task as Chosen};
use crate::fail::{Run, fail_expectation};
use crate::run_dir::{CONFIG, METRICS};
use crate::stdout_stderr;
use crate::stop_flag::stop_flag;
use arenagrad::train::parallel::fingerprint;
use history::History;
use image_task::ImageTask;
use measured::Measured;
use ranks::Ranks;
use show::Show;
use std::sync::atomic::AtomicBool;
use text_task::TextTask;
use train_task::TrainTask;

/// Runs the command.
pub fn train_command(a: &TrainArgs) -> Run {
    let ranks = Ranks::join()?;
    let done = train_on_rank(a, &ranks);
    ranks.end(done)
}

fn train_on_rank(a: &TrainArgs, ranks: &Ranks) -> Run {
    let mut config = Config::new(a)?;
    ranks.divide(&mut config)?;
    let config = config;
    let stop = stop_flag()?;
    let mut task = open_train_command_task(&config, ranks)?;
    if let Some(parallel) = task.trainer().parallel_ref() {
        parallel.agree("configuration", fingerprint(config.text.as_bytes()))?;
        parallel.agree("data", task.data_digest())?;
    }
    if !ranks.is_first() {
        return follow_first_rank(&config, task.as_mut(), a, &stop);
    }
    train_and_write(a, &config, task.as_mut(), &stop)
}

/// The run of a rank that neither writes nor prints: the steps of rank 0.
fn follow_first_rank(c: &Config, task: &mut dyn TrainTask, a: &TrainArgs, stop: &AtomicBool) -> Run {
    if let Some(from) = a.resume.as_deref() {
        resume::resume_task(c, task, from)?;
    }
    while task.trainer().steps_done() < c.steps && !steps::is_stopped(task, stop)? {
        let progress = task.step()?;
        if steps::saves_after(c, progress.step) {
            steps::save_checkpoint(c, task)?;
        }
    }
    steps::save_checkpoint(c, task)
}

/// The run of one process, or of rank 0.
fn train_and_write(a: &TrainArgs, config: &Config, task: &mut dyn TrainTask, stop: &AtomicBool) -> Run {
    // The lock comes before the checkpoint is read: a run that goes on meanwhile would replace it. A folder that does
    // not exist yet holds no checkpoint.
    let claimed = config.out.exists().then(|| config.out.lock()).transpose()?;
    let from = a.resume.as_deref().map(|from| resume::resume_task(config, task, from)).transpose()?;
    config.out.create()?;
    let _lock = claimed.map_or_else(|| config.out.lock(), Ok)?;
    config.out.replace(CONFIG, config.text.as_bytes())?;
    for artifact in task.artifacts()? {
        config.out.replace(artifact.name, artifact.text.as_bytes())?;
    }
    let old = from.as_deref().map(|f| f.with_file_name(METRICS));
    let mut history =
        History::open(&config.out, task.measure(), old.as_deref(), task.trainer().steps_done(), config.steps)?;
    if let Some(dir) = &a.tensorboard {
        history.add_events(dir, task.trainer().steps_done())?;
    }
    let mut show = Show::new(a.quiet, task.measure(), config.steps, task.trainer().steps_done());
    let mut measured = Measured::new();
    if let Err(e) = steps::run_steps(config, task, &mut history, &mut show, stop, &mut measured) {
        // The run's failure is reported. The page is a help: where it cannot be written, the old one stays.
        let _ = page::write_train_page(config, task, &history, &measured, &format!("failed: {}", e.message));
        return Err(e);
    }
    if let Some(table) = measured.trace.as_ref().filter(|_| !a.quiet) {
        stdout_stderr::note_stderr(table);
    }
    steps::save_between_steps(config, task, &mut history)?;
    let done = task.trainer().steps_done();
    if done < config.steps {
        page::write_train_page(config, task, &history, &measured, "interrupted")?;
        let (launch, shard) = match (task.trainer().ranks(), config.shard_states) {
            (1, _) => (String::new(), ""),
            (n, shard) => (format!("mpirun -n {n} "), if shard { " --shard-states" } else { "" }),
        };
        return Err(fail_expectation(format!(
            "stopped after step {done} of {}; continue with: {launch}arenagrad train {}{shard} --resume {}",
            config.steps,
            a.target,
            config.out.path().display()
        )));
    }
    finish::finish_run(config, task, &mut history, &measured, a.json)
}

/// The task that a configuration asks for.
fn open_train_command_task(c: &Config, ranks: &Ranks) -> Run<Box<dyn TrainTask>> {
    Ok(match &c.task {
        Chosen::Images(model) => Box::new(ImageTask::open(c, model, ranks)?),
        Chosen::CharGpt(network) => Box::new(TextTask::open(c, network, ranks)?),
    })
}
