//! The course of a run: in memory for the report, and as `metrics.jsonl`.
//!
//! Invariant: the file holds one line a step and one a judgement, in order, each step once, also after a run was
//! resumed. Each line goes to the system as it is written, so a kill takes none; lines that are there already are only
//! ever replaced by a whole new file. Noting a step allocates nothing.

use crate::fail::{Run, io};
use crate::measure::Measure;
use crate::{files, sys};
use arenagrad::train::{Jsonl, Progress, write_atomically};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// Name of the file in a run's folder.
pub const FILE: &str = "metrics.jsonl";
const LIMIT: u64 = 1 << 30;
/// Steps that room is made for beforehand.
const ROOM: u64 = 1 << 20;

/// See the file's head.
pub struct History {
    /// Steps before the first whose loss is known.
    pub before: u64,
    /// Loss of each step from there on.
    pub losses: Vec<f64>,
    /// What judging found after some steps.
    pub judged: Vec<(u64, f64)>,
    measure: Measure,
    path: PathBuf,
    out: Jsonl<File>,
}

impl History {
    /// Starts the file in `dir`, with the lines that `old` has for the first `done` steps.
    pub fn open(dir: &Path, measure: Measure, old: Option<&Path>, done: u64, steps: u64) -> Run<History> {
        let path = dir.join(FILE);
        let mut kept = Kept { losses: Vec::with_capacity(steps.min(ROOM) as usize), ..Kept::default() };
        if let Some(old) = old.filter(|o| done > 0 && o.is_file()) {
            kept.take(&sys::read_text(old, LIMIT)?, measure, done);
        }
        let known = kept.losses.len() as u64;
        let before = if known == done { 0 } else { done };
        if before > 0 {
            kept.losses.clear();
            files::warn(format!("{}: lines of {} of {done} steps are missing", path.display(), done - known));
        }
        write_atomically(&path, kept.text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path).map_err(io(&path))?;
        Ok(History { before, losses: kept.losses, judged: kept.judged, measure, path, out: Jsonl::new(file) })
    }

    /// Notes a step.
    pub fn step(&mut self, p: &Progress) -> Run {
        self.losses.push(p.loss);
        let whole = [("step", p.step), ("epoch", p.epoch), ("ns", p.ns)];
        self.out.write(&whole, &[("train/loss", p.loss), ("lr", p.lr)]).map_err(io(&self.path))
    }

    /// Notes a judgement.
    pub fn judged(&mut self, step: u64, found: f64) -> Run {
        self.judged.push((step, found));
        self.out.write(&[("step", step)], &[(self.measure.metric(), found)]).map_err(io(&self.path))
    }

    /// Waits until all lines are on the disk.
    pub fn sync(&self) -> Run {
        self.out.get_ref().sync_data().map_err(io(&self.path))
    }
}

/// What an older file had.
#[derive(Default)]
struct Kept {
    losses: Vec<f64>,
    judged: Vec<(u64, f64)>,
    text: String,
}

impl Kept {
    /// Takes over the lines of steps up to `done`. What cannot be read (a line that a kill cut short) is left out, and
    /// so is a step that does not come after the one before.
    fn take(&mut self, text: &str, measure: Measure, done: u64) {
        let mut last = 0;
        for line in text.lines() {
            let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let Some(step) = value["step"].as_u64().filter(|&s| s <= done) else { continue };
            if let Some(found) = value[measure.metric()].as_f64() {
                self.judged.push((step, found));
            } else if step > last {
                last = step;
                self.losses.push(value["train/loss"].as_f64().unwrap_or(f64::NAN));
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

    fn kept(text: &str, done: u64) -> Kept {
        let mut kept = Kept::default();
        kept.take(text, Measure::Accuracy, done);
        kept
    }

    #[test]
    fn lines_beyond_the_checkpoint_and_broken_ones_go() {
        let text = "{\"step\":1,\"train/loss\":2.0}\n{\"step\":1,\"test/accuracy\":0.5}\n{\"step\":2,\"train/loss\":1.0}\n\
                    {\"step\":3,\"train/loss\":0.5}\n{\"step\":4,\"trai";
        let k = kept(text, 2);
        assert_eq!((k.losses, k.judged), (vec![2.0, 1.0], vec![(1, 0.5)]));
        assert_eq!(k.text.lines().count(), 3);
    }

    #[test]
    fn lines_behind_a_missing_one_stay_and_each_step_counts_once() {
        let line = |step: u64| format!("{{\"step\":{step},\"train/loss\":{step}.5}}\n");
        let text = [1, 2, 4, 2, 5, 6].map(line).concat();
        let k = kept(&text, 5);
        assert_eq!((k.losses, k.text), (vec![1.5, 2.5, 4.5, 5.5], [1, 2, 4, 5].map(line).concat()));
    }

    /// No number of a checkpoint says how much memory the losses take.
    #[test]
    fn steps_without_lines_take_no_memory() {
        let dir = std::env::temp_dir().join(format!("arenagrad-history-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let h = History::open(&dir, Measure::Loss, None, 1 << 40, 1 << 41).unwrap();
        assert_eq!((h.before, h.losses.len(), h.losses.capacity() as u64), (1 << 40, 0, ROOM));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
