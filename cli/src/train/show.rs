//! Progress, on standard error: a bar on a terminal, lines elsewhere, nothing if quiet.
//!
//! Invariant: it draws from the loop's own thread and outside of steps, so it is in no step's count or time.

use crate::measure::Measure;
use crate::out::note;
use arenagrad::train::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// See the file's head.
pub struct Show {
    bar: Option<ProgressBar>,
    lines: bool,
    steps: u64,
    measure: Measure,
    last: f64,
}

const TEMPLATE: &str = "{wide_bar} {pos}/{len} {msg} {eta}";

impl Show {
    /// For a run of `steps` steps, of which `done` are done.
    pub fn new(quiet: bool, measure: Measure, steps: u64, done: u64) -> Show {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(15));
            if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
                bar.set_style(style);
            }
            bar.set_position(done);
            bar.reset_eta();
            bar
        });
        Show { bar, lines: !terminal && !quiet, steps, measure, last: f64::NAN }
    }

    /// After a step.
    pub fn step(&self, p: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_position(p.step);
            if p.step.is_multiple_of(16) {
                let judged = if self.last.is_nan() { String::new() } else { self.judgement() };
                bar.set_message(format!("loss {:.4} {judged}", p.loss));
            }
        }
    }

    /// After a judgement.
    pub fn judged(&mut self, p: &Progress, found: f64) {
        self.last = found;
        if self.lines {
            let (step, steps, judged) = (p.step, self.steps, self.judgement());
            note(format!("step {step}/{steps}  loss {:.4}  lr {:.2e}  {judged}", p.loss, p.lr));
        }
    }

    fn judgement(&self) -> String {
        format!("{} {}", self.measure.label(), self.measure.text(self.last))
    }

    /// At the end, however it came.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
