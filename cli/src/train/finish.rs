//! The end of a run: weights, report and summary.
//!
//! Invariant: the summary is written last, so it describes the files beside it.

use super::history::History;
use super::measured::Measured;
use super::page::{replace_train_page, train_page_facts};
use super::train_task::TrainTask;
use crate::config::Config;
use crate::fail::{Run, fail_bad_input};
use crate::measure::Evaluation;
use crate::run_dir::{AVERAGES, SUMMARY, WEIGHTS};
use crate::stdout_stderr::emit_stdout;
use crate::sys;
use arenagrad::train::averages;
use arenagrad::train::checkpoint::encode;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The content of `summary.json`.
#[derive(Serialize)]
struct Summary {
    #[serde(flatten)]
    evaluated: BTreeMap<&'static str, f64>,
    steps: u64,
    step_us_p50: f64,
    step_us_p99: f64,
    arena_bytes: u64,
    arena_lower_bound_bytes: u64,
    peak_rss_bytes: Option<u64>,
    allocs_per_step: f64,
    precision: String,
    convolutions: &'static str,
    keep: &'static str,
    threads: usize,
    seed: u64,
    weights_sha256: String,
}

/// Evaluates the params, writes all files and prints the summary.
pub fn finish_run(c: &Config, task: &mut dyn TrainTask, history: &mut History, m: &Measured, json: bool) -> Run {
    let (measure, value) = (task.measure(), task.evaluate(true)?);
    let weights = encode(&task.trainer().weights())?;
    c.out.replace(WEIGHTS, &weights)?;
    let averages = averages(task.trainer().program());
    if !averages.is_empty() {
        c.out.replace(AVERAGES, &encode(&averages)?)?;
    }
    let plan = task.trainer().program().plan().clone();
    let us = |q: f64| m.times.quantile(q) as f64 / 1e3;
    let summary = Summary {
        evaluated: BTreeMap::from([(measure.key(), value)]),
        steps: c.steps,
        step_us_p50: us(0.5),
        step_us_p99: us(0.99),
        arena_bytes: plan.arena_bytes as u64,
        arena_lower_bound_bytes: plan.lower_bound_bytes as u64,
        peak_rss_bytes: sys::sys_peak_rss(),
        allocs_per_step: m.allocs as f64 / m.steps.max(1) as f64,
        precision: c.precision.report(),
        convolutions: c.convolutions.name(),
        keep: c.keep.name(),
        threads: c.threads,
        seed: c.seed,
        weights_sha256: Sha256::digest(&weights).iter().map(|b| format!("{b:02x}")).collect(),
    };
    let mut facts = vec![
        (measure.label(), format!("{} of {}", measure.text(value), task.sizes().evaluated)),
        (
            "steps",
            format!("{} ({} here, in {:.2} s), {}", c.steps, m.steps, m.wall.as_secs_f64(), task.sizes().trained),
        ),
    ];
    facts.extend(train_page_facts(c, task, m));
    facts.push(("weights sha256", summary.weights_sha256.clone()));
    history.evaluations.push(Evaluation { step: c.steps, value });
    let state = [("state", "finished".to_string())];
    replace_train_page(c, task, history, &[&state, &facts[..]].concat())?;
    let text = serde_json::to_string_pretty(&summary).map_err(fail_bad_input)?;
    c.out.replace(SUMMARY, format!("{text}\n").as_bytes())?;
    if json {
        return emit_stdout(text);
    }
    let mut lines: String = facts.iter().map(|(name, value)| format!("{name:<22}{value}\n")).collect();
    lines.push_str(&format!("{:<22}{}\n", "written to", c.out.path().display()));
    if let Some(sample) = task.sample_text()? {
        lines.push_str(&format!("\n{sample}\n"));
    }
    emit_stdout(lines)
}
