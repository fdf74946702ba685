//! `run.html`: the facts of a run, its progress, its charts and its memory map.
//!
//! Invariant: the page is replaced as a whole, between steps. It tells the state of the run when it was written.

use super::history::History;
use super::measured::Measured;
use super::train_task::TrainTask;
use crate::config::Config;
use crate::fail::Run;
use crate::measure::Measure;
use crate::report::run_charts::{Course, run_charts};
use crate::run_dir::REPORT;
use crate::sys;
use arenagrad::session::human;
use arenagrad::tools::kernels::simd::isa;
use arenagrad::tools::report::{Page, escape, render_html};
use std::time::{Duration, Instant};

/// Time after which a running run writes its page again.
const EVERY: Duration = Duration::from_secs(10);

/// When the page of a running run is due.
pub struct PageTimer(Instant);

impl PageTimer {
    /// Due [`EVERY`] from now.
    pub fn new() -> PageTimer {
        PageTimer(Instant::now())
    }

    /// True once [`EVERY`] has passed since the last time that it was true.
    pub fn is_due(&mut self) -> bool {
        let due = self.0.elapsed() >= EVERY;
        if due {
            self.0 = Instant::now();
        }
        due
    }
}

/// Writes the page of a run that is in this `state`, in words.
pub fn write_train_page(c: &Config, task: &dyn TrainTask, history: &History, m: &Measured, state: &str) -> Run {
    let done = task.trainer().steps_done();
    let mut facts = vec![("state", state.to_string())];
    if let Some(last) = history.evaluations.last() {
        let measure = task.measure();
        facts.push((measure.label(), format!("{} after step {}", measure.text(last.value), last.step)));
    }
    facts.push(("steps", format!("{done} of {} ({} here)", c.steps, m.steps)));
    facts.extend(train_page_facts(c, task, m));
    replace_train_page(c, task, history, &facts)
}

/// The facts that a page and the summary of a finished run share: time of a step, memory, settings.
pub fn train_page_facts(c: &Config, task: &dyn TrainTask, m: &Measured) -> Vec<(&'static str, String)> {
    let plan = task.trainer().program().plan();
    let us = |q: f64| m.times.quantile(q) as f64 / 1e3;
    let mut facts = vec![
        ("step time", format!("p50 {:.0} us, p99 {:.0} us", us(0.5), us(0.99))),
        (
            "arena",
            format!(
                "{} planned, lower bound {} (ratio {:.3})",
                human(plan.arena_bytes as u64),
                human(plan.lower_bound_bytes as u64),
                plan.arena_bytes as f64 / plan.lower_bound_bytes.max(1) as f64
            ),
        ),
        ("peak RSS", sys::sys_peak_rss().map_or("unknown".into(), human)),
        ("allocations per step", (m.allocs as f64 / m.steps.max(1) as f64).to_string()),
        ("precision", c.precision.report()),
        ("convolutions", c.convolutions.name().to_string()),
        ("kept for backward", c.keep.name().to_string()),
        ("threads, seed", format!("{}, {}", c.threads, c.seed)),
    ];
    facts.extend(task.trainer().parallel_ref().map(|p| ("exchange", p.plan().to_string())));
    facts
}

/// Replaces the page by one with these facts.
pub fn replace_train_page(c: &Config, task: &dyn TrainTask, history: &History, facts: &[(&str, String)]) -> Run {
    let measure = task.measure();
    let built_in = if measure == Measure::Accuracy { "digits" } else { "alice" };
    let title = format!("arenagrad: {}", c.data.as_ref().map_or(built_in.into(), |d| d.display().to_string()));
    let h = &history.steps;
    let mut sections = run_charts(&Course {
        before: history.before,
        steps: c.steps,
        losses: &h.losses,
        rates: &h.rates,
        ns: &h.ns,
        measure,
        evaluations: &history.evaluations,
    });
    sections.push(("Configuration", format!("<pre>{}</pre>", escape(&c.text))));
    let cpu = sys::sys_cpu().unwrap_or_else(|| "unknown".into());
    let cpu = format!("{cpu}, {} cores, {} instructions", sys::sys_cores(), isa().name());
    let facts: Vec<(&str, String)> =
        facts.iter().cloned().chain([("processor", cpu), ("version", env!("CARGO_PKG_VERSION").into())]).collect();
    let plan = task.trainer().program().plan();
    let page = Page { title: &title, facts: &facts, sections: &sections, plan };
    c.out.replace(REPORT, render_html(&page).as_bytes())
}
