//! The history of a run: losses and evaluations, in memory for the report and in `metrics.jsonl`.
//!
//! Invariants: the file holds one line for each step and one for each evaluation, in order, each step once, also after
//! a resume. Each line is one write, so a killed process loses none. Old lines are only replaced together with the
//! whole file. Recording one of the first 2²⁰ steps allocates nothing.

use crate::fail::{Run, fail_io};
use crate::measure::{Evaluation, Measure};
use crate::run_dir::{METRICS, RunDir};
use crate::{stdout_stderr, sys};
use arenagrad::train::{EventFile, Jsonl, Progress};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// Largest `metrics.jsonl` of a short run that is read, in bytes.
const LIMIT: u64 = 1 << 30;
/// Most bytes for each step of a long run.
const LINE_LIMIT: u64 = 256;
/// Most steps whose losses have memory set aside before the first step.
const RESERVED: u64 = 1 << 20;

/// The steps and evaluations of a run, and the file that they are appended to.
pub struct History {
    /// Steps before the first that is known.
    pub before: u64,
    /// The steps after those.
    pub steps: HistoryColumns,
    /// All evaluations, by step.
    pub evaluations: Vec<Evaluation>,
    measure: Measure,
    path: PathBuf,
    out: Jsonl<File>,
    /// The folder of event files, and the one that is written.
    events: Option<(PathBuf, EventFile<File>)>,
}

/// What is known of each step. NaN stands for what is not a number or unknown.
#[derive(Default)]
pub struct HistoryColumns {
    /// Training loss.
    pub losses: Vec<f64>,
    /// Learning rate.
    pub rates: Vec<f64>,
    /// Nanoseconds of the program.
    pub ns: Vec<f64>,
}

impl HistoryColumns {
    fn reserved(steps: u64) -> HistoryColumns {
        let [losses, rates, ns] = [(); 3].map(|_| Vec::with_capacity(steps.min(RESERVED) as usize));
        HistoryColumns { losses, rates, ns }
    }

    fn push(&mut self, loss: f64, rate: f64, ns: f64) {
        self.losses.push(loss);
        self.rates.push(rate);
        self.ns.push(ns);
    }

    fn clear(&mut self) {
        [&mut self.losses, &mut self.rates, &mut self.ns].into_iter().for_each(Vec::clear);
    }
}

impl History {
    /// Starts the file in `dir` with the lines that `old` holds for the first `done` of `steps` steps.
    pub fn open(dir: &RunDir, measure: Measure, old: Option<&Path>, done: u64, steps: u64) -> Run<History> {
        let path = dir.file(METRICS);
        let mut kept = KeptHistory { steps: HistoryColumns::reserved(steps), ..KeptHistory::default() };
        if let Some(old) = old.filter(|o| done > 0 && o.is_file()) {
            kept.add(&sys::sys_read_text(old, LIMIT.max(steps.saturating_mul(LINE_LIMIT)))?, measure, done);
        }
        let known = kept.steps.losses.len() as u64;
        let before = if known == done { 0 } else { done };
        if before > 0 {
            kept.steps.clear();
            stdout_stderr::warn_stderr(format!(
                "{}: lines of {} of {done} steps are missing",
                path.display(),
                done - known
            ));
        }
        dir.replace(METRICS, kept.text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path).map_err(fail_io(&path))?;
        let (steps, evaluations) = (kept.steps, kept.evaluations);
        Ok(History { before, steps, evaluations, measure, path, out: Jsonl::new(file), events: None })
    }

    /// Writes the steps after step `done` into an event file of folder `dir`, too.
    pub fn add_events(&mut self, dir: &Path, done: u64) -> Run {
        let file = EventFile::create(dir, done).map_err(fail_io(dir))?;
        self.events = Some((dir.to_path_buf(), file));
        Ok(())
    }

    /// Writes numbers of step `step` into the event file, if there is one.
    fn event(&mut self, step: u64, numbers: &[(&str, f64)]) -> Run {
        let Some((dir, file)) = &mut self.events else { return Ok(()) };
        file.write(step, numbers).map_err(fail_io(dir))
    }

    /// Records a step.
    pub fn step(&mut self, p: &Progress) -> Run {
        self.steps.push(p.loss, p.lr, p.ns as f64);
        let whole = [("step", p.step), ("epoch", p.epoch), ("ns", p.ns)];
        let numbers = [("train/loss", p.loss), ("lr", p.lr)];
        self.out.write(&whole, &numbers).map_err(fail_io(&self.path))?;
        self.event(p.step, &numbers)
    }

    /// Records the value of the measure after step `step`.
    pub fn evaluated(&mut self, step: u64, value: f64) -> Run {
        self.evaluations.push(Evaluation { step, value });
        let numbers = [(self.measure.metric(), value)];
        self.out.write(&[("step", step)], &numbers).map_err(fail_io(&self.path))?;
        self.event(step, &numbers)
    }

    /// Syncs all lines to the disk.
    pub fn sync(&self) -> Run {
        self.out.get_ref().sync_data().map_err(fail_io(&self.path))
    }
}

/// The lines of an older file that are kept.
#[derive(Default)]
struct KeptHistory {
    steps: HistoryColumns,
    evaluations: Vec<Evaluation>,
    text: String,
}

impl KeptHistory {
    /// Adds the lines of `text` for steps up to `done`. Skips lines that do not parse, such as one that a kill cut
    /// short, and steps that do not follow the one before.
    fn add(&mut self, text: &str, measure: Measure, done: u64) {
        let mut last = 0;
        for line in text.lines() {
            let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let Some(step) = value["step"].as_u64().filter(|&s| s <= done) else { continue };
            if let Some(value) = value[measure.metric()].as_f64() {
                self.evaluations.push(Evaluation { step, value });
            } else if step > last {
                last = step;
                let [loss, rate, ns] = ["train/loss", "lr", "ns"].map(|k| value[k].as_f64().unwrap_or(f64::NAN));
                self.steps.push(loss, rate, ns);
            } else {
                continue;
            }
            self.text.push_str(line);
            self.text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str, done: u64) -> KeptHistory {
        let mut kept = KeptHistory::default();
        kept.add(text, Measure::Accuracy, done);
        kept
    }

    #[test]
    fn lines_beyond_the_checkpoint_and_broken_ones_go() {
        let text = "{\"step\":1,\"train/loss\":2.0}\n{\"step\":1,\"test/accuracy\":0.5}\n{\"step\":2,\"train/loss\":1.0}\n\
                    {\"step\":3,\"train/loss\":0.5}\n{\"step\":4,\"trai";
        let k = kept(text, 2);
        assert_eq!((k.steps.losses, k.evaluations), (vec![2.0, 1.0], vec![Evaluation { step: 1, value: 0.5 }]));
        assert_eq!(k.text.lines().count(), 3);
    }

    #[test]
    fn lines_behind_a_missing_one_stay_and_each_step_counts_once() {
        let line = |step: u64| format!("{{\"step\":{step},\"train/loss\":{step}.5}}\n");
        let text = [1, 2, 4, 2, 5, 6].map(line).concat();
        let k = kept(&text, 5);
        assert_eq!((k.steps.losses, k.text), (vec![1.5, 2.5, 4.5, 5.5], [1, 2, 4, 5].map(line).concat()));
    }

    /// The memory for losses does not follow a number of the checkpoint.
    #[test]
    fn steps_without_lines_take_no_memory() {
        let dir = std::env::temp_dir().join(format!("arenagrad-history-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let h = History::open(&RunDir::new(&dir), Measure::Loss, None, 1 << 40, 1 << 41).unwrap();
        assert_eq!((h.before, h.steps.losses.len(), h.steps.losses.capacity() as u64), (1 << 40, 0, RESERVED));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
