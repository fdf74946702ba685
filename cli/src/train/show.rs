//! Progress, on standard error: a bar on a terminal, lines elsewhere, nothing if quiet.
//!
//! Invariant: it draws from the loop's own thread and outside of steps, so it is in no step's count or time.

use arenagrad::train::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// See the file's head.
pub struct Show {
    bar: Option<ProgressBar>,
    lines: bool,
    steps: u64,
    accuracy: f64,
}

const TEMPLATE: &str = "{wide_bar} {pos}/{len} {msg} {eta}";

impl Show {
    /// For a run of `steps` steps, of which `done` are done.
    pub fn new(quiet: bool, steps: u64, done: u64) -> Show {
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
        Show { bar, lines: !terminal && !quiet, steps, accuracy: f64::NAN }
    }

    /// After a step.
    pub fn step(&self, p: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_position(p.step);
            if p.step.is_multiple_of(16) {
                let tested = if self.accuracy.is_nan() { String::new() } else { percent(self.accuracy) };
                bar.set_message(format!("loss {:.4} {tested}", p.loss));
            }
        }
    }

    /// After a test.
    pub fn tested(&mut self, p: &Progress, accuracy: f64) {
        self.accuracy = accuracy;
        if self.lines {
            let (step, steps) = (p.step, self.steps);
            eprintln!("step {step}/{steps}  loss {:.4}  lr {:.2e}  test {}", p.loss, p.lr, percent(accuracy));
        }
    }

    /// At the end, however it came.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A part of one, for people.
pub fn percent(x: f64) -> String {
    format!("{:.2} %", 100.0 * x)
}
