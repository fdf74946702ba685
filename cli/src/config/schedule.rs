//! The table `[schedule]`.
//!
//! Invariant: a key that the kind does not read is an error.

use super::bounds::within_bounds;
use crate::fail::{Run, fail_bad_input};
use arenagrad::train::Schedule;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize, Debug, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum ScheduleKind {
    Constant,
    Step,
    Cosine,
    #[default]
    OneCycle,
}

impl ScheduleKind {
    /// The kind's name in a file.
    fn name(self) -> &'static str {
        match self {
            ScheduleKind::Constant => "constant",
            ScheduleKind::Step => "step",
            ScheduleKind::Cosine => "cosine",
            ScheduleKind::OneCycle => "one-cycle",
        }
    }
}

/// The keys that one kind reads, and whether any of them is given.
struct Keys {
    kind: ScheduleKind,
    names: &'static str,
    given: bool,
}

/// The table as it stands in the file.
#[derive(Deserialize, Serialize, Debug, Default, Clone)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleTable {
    kind: ScheduleKind,
    step_size: Option<u64>,
    gamma: Option<f64>,
    warmup: Option<u64>,
    start_factor: Option<f64>,
    min_lr: Option<f64>,
    pct_start: Option<f64>,
    div_factor: Option<f64>,
    final_div_factor: Option<f64>,
}

impl ScheduleTable {
    /// nanoGPT's schedule: a linear warm-up of 100 steps (a twentieth of a run of fewer than 2000), then half a cosine
    /// down to a tenth of `lr`.
    pub fn nano_gpt(lr: f64, total: u64) -> ScheduleTable {
        let warmup = (total / 20).min(100);
        ScheduleTable {
            kind: ScheduleKind::Cosine,
            warmup: Some(warmup),
            start_factor: Some(1.0 / (warmup + 1) as f64),
            min_lr: Some(0.1 * lr),
            ..ScheduleTable::default()
        }
    }

    /// The schedule of `total` steps whose base or peak rate is `lr`.
    pub fn build(&self, lr: f64, total: u64) -> Run<Schedule> {
        let t = self;
        self.refuse_keys_of_other_kinds()?;
        Ok(match t.kind {
            ScheduleKind::Constant => Schedule::Constant { lr },
            ScheduleKind::Step => {
                let step_size = t.step_size.ok_or_else(|| fail_bad_input("schedule.step_size is missing"))?;
                Schedule::Step { lr, step_size, gamma: t.gamma.unwrap_or(0.1) }
            }
            ScheduleKind::Cosine => {
                let warmup = within_bounds("schedule.warmup", t.warmup.unwrap_or(0), 0, total)?;
                let min_lr = t.min_lr.unwrap_or(0.0);
                let start_factor = t.start_factor.unwrap_or(1.0 / 3.0);
                Schedule::Cosine { lr, warmup, start_factor, total, min_lr }
            }
            ScheduleKind::OneCycle => Schedule::OneCycle {
                max_lr: lr,
                total,
                pct_start: t.pct_start.unwrap_or(0.3),
                div_factor: t.div_factor.unwrap_or(25.0),
                final_div_factor: t.final_div_factor.unwrap_or(1e4),
            },
        })
    }

    /// Fails if a key is given that only another kind reads.
    fn refuse_keys_of_other_kinds(&self) -> Run {
        let t = self;
        let step = t.step_size.is_some() || t.gamma.is_some();
        let cosine = t.warmup.is_some() || t.min_lr.is_some() || t.start_factor.is_some();
        let one_cycle = t.pct_start.is_some() || t.div_factor.is_some() || t.final_div_factor.is_some();
        let families = [
            Keys { kind: ScheduleKind::Step, names: "schedule.step_size or .gamma", given: step },
            Keys { kind: ScheduleKind::Cosine, names: "schedule.warmup or .min_lr or .start_factor", given: cosine },
            Keys {
                kind: ScheduleKind::OneCycle,
                names: "schedule.pct_start or .div_factor or .final_div_factor",
                given: one_cycle,
            },
        ];
        match families.iter().find(|keys| keys.given && keys.kind != t.kind) {
            Some(keys) => Err(fail_bad_input(format!("{} means nothing to {}", keys.names, t.kind.name()))),
            None => Ok(()),
        }
    }
}
