//! Progress on standard error: a bar on a terminal, lines elsewhere, nothing with `--quiet`.
//!
//! Invariant: it draws on the loop's thread and between steps, so no step's time or allocation count includes it.

use crate::measure::Measure;
use crate::stdout_stderr::note_stderr;
use arenagrad::train::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Shows the progress of a run.
pub struct Show {
    bar: Option<ProgressBar>,
    lines: bool,
    steps: u64,
    measure: Measure,
    /// Value of the last evaluation; NaN before the first.
    last: f64,
}

const TEMPLATE: &str = "{wide_bar} {pos}/{len} {msg} {eta}";

impl Show {
    /// Starts the display of a run of `steps` steps, of which `done` are done.
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

    /// Shows a step.
    pub fn step(&self, p: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_position(p.step);
            if p.step.is_multiple_of(16) {
                let evaluated = if self.last.is_nan() { String::new() } else { self.last_evaluation() };
                bar.set_message(format!("loss {:.4} {evaluated}", p.loss));
            }
        }
    }

    /// Shows an evaluation.
    pub fn evaluated(&mut self, p: &Progress, value: f64) {
        self.last = value;
        if self.lines {
            let (step, steps, evaluated) = (p.step, self.steps, self.last_evaluation());
            note_stderr(format!("step {step}/{steps}  loss {:.4}  lr {:.2e}  {evaluated}", p.loss, p.lr));
        }
    }

    fn last_evaluation(&self) -> String {
        format!("{} {}", self.measure.label(), self.measure.text(self.last))
    }

    /// Clears the bar, whatever ended the run.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
