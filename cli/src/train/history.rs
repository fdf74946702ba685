//! The course of a run: in memory for the report, and as `metrics.jsonl`.
//!
//! Invariant: the file holds one line a step and one a judgement, in order, each step once, also after a run was resumed.
//! Noting a step allocates nothing.

use crate::fail::{Run, bad, io};
use crate::measure::Measure;
use crate::sys;
use arenagrad::train::{Jsonl, Progress};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Name of the file in a run's folder.
pub const FILE: &str = "metrics.jsonl";
const LIMIT: u64 = 1 << 30;
/// Steps that room is made for beforehand.
const ROOM: u64 = 1 << 20;

/// See the file's head.
pub struct History {
    /// Loss of each step.
    pub losses: Vec<f64>,
    /// What judging found after some steps.
    pub judged: Vec<(u64, f64)>,
    measure: Measure,
    path: PathBuf,
    out: Jsonl<BufWriter<File>>,
}

impl History {
    /// Starts the file in `dir`, with the lines that `old` has for the first `done` steps.
    pub fn open(dir: &Path, measure: Measure, old: Option<&Path>, done: u64, steps: u64) -> Run<History> {
        let mut kept = (Vec::with_capacity(steps.min(ROOM) as usize), Vec::new(), String::new());
        if let Some(old) = old.filter(|o| done > 0 && o.is_file()) {
            keep(&sys::read_text(old, LIMIT)?, measure, done, &mut kept);
        }
        let (mut losses, judged, text) = kept;
        losses.resize(usize::try_from(done).map_err(bad)?.min(1 << 32), f64::NAN);
        let path = dir.join(FILE);
        let mut file = File::create(&path).map_err(io(&path))?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(io(&path))?;
        Ok(History { losses, judged, measure, path, out: Jsonl::new(BufWriter::new(file)) })
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

    /// Hands all lines to the system.
    pub fn flush(&mut self) -> Run {
        self.out.flush().map_err(io(&self.path))
    }
}

/// Takes over the lines of steps up to `done`. What cannot be read (a line that a kill cut short) is left out.
fn keep(text: &str, measure: Measure, done: u64, kept: &mut (Vec<f64>, Vec<(u64, f64)>, String)) {
    for line in text.lines() {
        let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let Some(step) = value["step"].as_u64().filter(|&s| s <= done) else { continue };
        if let Some(found) = value[measure.metric()].as_f64() {
            kept.1.push((step, found));
        } else if kept.0.len() as u64 + 1 == step {
            kept.0.push(value["train/loss"].as_f64().unwrap_or(f64::NAN));
        } else {
            continue;
        }
        kept.2.push_str(line);
        kept.2.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_checkpoint_and_broken_ones_go() {
        let text = "{\"step\":1,\"train/loss\":2.0}\n{\"step\":1,\"test/accuracy\":0.5}\n{\"step\":2,\"train/loss\":1.0}\n\
                    {\"step\":3,\"train/loss\":0.5}\n{\"step\":4,\"trai";
        let mut kept = Default::default();
        keep(text, Measure::Accuracy, 2, &mut kept);
        assert_eq!((kept.0, kept.1), (vec![2.0, 1.0], vec![(1, 0.5)]));
        assert_eq!(kept.2.lines().count(), 3);
    }
}
