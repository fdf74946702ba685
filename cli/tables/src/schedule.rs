//! The table `[schedule]`.
//!
//! Invariant: a key that the kind does not read is an error.

use crate::bounds::within_bounds;
use crate::fault::{KeyRun, key_fault};
use crate::kind_key::{KindKey, given_kind_keys, kind_key, kind_key_by, kind_key_needed, refuse_keys_of_other_kind};
use crate::{key_types, table};
use arenagrad::train::Schedule;
use serde::{Deserialize, Serialize};

/// torch's first fraction of a warm-up.
const START_FACTOR: f64 = 1.0 / 3.0;

/// The kinds, in the order of the page.
#[derive(Deserialize, Serialize, Debug, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is the schedule of its name")]
#[non_exhaustive]
pub enum ScheduleKind {
    Constant,
    ConstantFactor,
    Step,
    MultiStep,
    Linear,
    Polynomial,
    InverseSqrt,
    Cosine,
    CosineRestarts,
    #[default]
    OneCycle,
    Chained,
    Sequential,
}

impl ScheduleKind {
    /// All kinds, in the order of the reference page.
    pub const ALL: &[ScheduleKind] = &[
        ScheduleKind::Constant,
        ScheduleKind::ConstantFactor,
        ScheduleKind::Step,
        ScheduleKind::MultiStep,
        ScheduleKind::Linear,
        ScheduleKind::Polynomial,
        ScheduleKind::InverseSqrt,
        ScheduleKind::Cosine,
        ScheduleKind::CosineRestarts,
        ScheduleKind::OneCycle,
        ScheduleKind::Chained,
        ScheduleKind::Sequential,
    ];

    /// The kind's name in a file, and the keys that it reads.
    pub fn reads(self) -> (&'static str, &'static [KindKey]) {
        const GAMMA: KindKey = kind_key("gamma", "0.1");
        const START: KindKey = kind_key("start_factor", "0.3333333333333333");
        const WARMUP: KindKey = kind_key("warmup", "0");
        const MIN_LR: KindKey = kind_key("min_lr", "0.0");
        const TOTAL: KindKey = kind_key_by("total_iters", "the length of the schedule");
        match self {
            ScheduleKind::Constant => ("constant", &[]),
            ScheduleKind::ConstantFactor => (
                "constant-factor",
                &[const { kind_key("factor", "0.3333333333333333") }, const { kind_key("total_iters", "5") }],
            ),
            ScheduleKind::Step => ("step", &[const { kind_key_needed("step_size") }, GAMMA]),
            ScheduleKind::MultiStep => ("multi-step", &[const { kind_key_needed("milestones") }, GAMMA]),
            ScheduleKind::Linear => ("linear", &[START, const { kind_key("end_factor", "1.0") }, TOTAL]),
            ScheduleKind::Polynomial => ("polynomial", &[TOTAL, const { kind_key("power", "1.0") }]),
            ScheduleKind::InverseSqrt => (
                "inverse-sqrt",
                &[WARMUP, START, const { kind_key_by("timescale", "`warmup`; 10000 without a warm-up") }],
            ),
            ScheduleKind::Cosine => ("cosine", &[WARMUP, START, MIN_LR]),
            ScheduleKind::CosineRestarts => {
                ("cosine-restarts", &[const { kind_key_needed("t_0") }, const { kind_key("t_mult", "1") }, MIN_LR])
            }
            ScheduleKind::OneCycle => (
                "one-cycle",
                &[
                    const { kind_key("pct_start", "0.3") },
                    const { kind_key("div_factor", "25.0") },
                    const { kind_key("final_div_factor", "10000.0") },
                ],
            ),
            ScheduleKind::Chained => ("chained", &[const { kind_key_needed("part") }]),
            ScheduleKind::Sequential => {
                ("sequential", &[const { kind_key_needed("part") }, const { kind_key_needed("milestones") }])
            }
        }
    }
}

key_types! { ScheduleKind = "name", }

table! {
    /// The table as it stands in the file.
    #[derive(Deserialize, Serialize, Debug, Default, Clone)]
    #[serde(deny_unknown_fields, default, expecting = "a table of a schedule")]
    pub struct ScheduleTable {
        /// the schedule, with torch's formula. The rate before the factors is `optimiser.lr`
        kind: ScheduleKind = Value("\"one-cycle\""), "\"constant\"";
        /// rate of the first steps, as a fraction of the rate, from 0 to 1
        factor: Option<f64> = ByKind, "0.5";
        /// steps at each rate, from 1
        step_size: Option<u64> = ByKind, "3" in "steps";
        /// factor from one rate to the next, from 0
        gamma: Option<f64> = ByKind, "0.5";
        /// steps at which the rate changes, or the first step of each part but the first; in rising order
        milestones: Option<Vec<u64>> = ByKind, "[2, 6]" in "steps";
        /// steps of the linear rise to the rate, up to the schedule's length
        warmup: Option<u64> = ByKind, "3" in "steps";
        /// first rate, as a fraction of the rate, from 0 to 1
        start_factor: Option<f64> = ByKind, "0.5";
        /// last rate, as a fraction of the rate, from 0 to 1
        end_factor: Option<f64> = ByKind, "0.5";
        /// steps from the first rate to the last, or before the whole rate, from 1
        total_iters: Option<u64> = ByKind, "9" in "steps";
        /// exponent, from 0
        power: Option<f64> = ByKind, "2.0";
        /// steps after the warm-up until the rate is divided by √2, from 1
        timescale: Option<u64> = ByKind, "9" in "steps";
        /// lowest rate, from 0
        min_lr: Option<f64> = ByKind, "0.0005";
        /// steps before the first restart, from 1
        t_0: Option<u64> = ByKind, "9" in "steps";
        /// ratio of each length to the one before, from 1
        t_mult: Option<u64> = ByKind, "2";
        /// fraction of the steps in which the rate rises, from 0 to 1
        pct_start: Option<f64> = ByKind, "0.5";
        /// ratio of the peak to the first rate, above 0
        div_factor: Option<f64> = ByKind, "5.0";
        /// ratio of the first rate to the last, above 0
        final_div_factor: Option<f64> = ByKind, "5.0";
        /// schedules, with the keys of `[schedule]`
        part: Option<Vec<ScheduleTable>> = ByKind, "[{ kind = \"constant\" }]";
    }
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

    /// The schedule of `total` steps whose base or peak rate is `lr`. `at` is the path of this table.
    pub fn build(&self, at: &str, lr: f64, total: u64) -> KeyRun<Schedule> {
        let t = self;
        let (name, reads) = t.kind.reads();
        refuse_keys_of_other_kind(at, name, &given_kind_keys(t), &["kind"], reads)?;
        let needed = |key: &str, x: Option<u64>| {
            x.ok_or_else(|| key_fault(at, format!("{at}.{key} is missing; {name} needs a number of steps")))
        };
        let start_factor = t.start_factor.unwrap_or(START_FACTOR);
        let warmup = || within_bounds(&format!("{at}.warmup"), t.warmup.unwrap_or(0), 0, total);
        Ok(match t.kind {
            ScheduleKind::Constant => Schedule::Constant { lr },
            ScheduleKind::ConstantFactor => Schedule::ConstantFactor {
                lr,
                factor: t.factor.unwrap_or(START_FACTOR),
                total_iters: t.total_iters.unwrap_or(5),
            },
            ScheduleKind::Step => {
                Schedule::Step { lr, step_size: needed("step_size", t.step_size)?, gamma: t.gamma.unwrap_or(0.1) }
            }
            ScheduleKind::MultiStep => {
                Schedule::MultiStep { lr, milestones: self.milestones(at)?, gamma: t.gamma.unwrap_or(0.1) }
            }
            ScheduleKind::Linear => Schedule::Linear {
                lr,
                start_factor,
                end_factor: t.end_factor.unwrap_or(1.0),
                total_iters: t.total_iters.unwrap_or(total),
            },
            ScheduleKind::Polynomial => {
                Schedule::Polynomial { lr, total_iters: t.total_iters.unwrap_or(total), power: t.power.unwrap_or(1.0) }
            }
            ScheduleKind::InverseSqrt => {
                let warmup = warmup()?;
                let timescale = t.timescale.unwrap_or(if warmup == 0 { 10_000 } else { warmup });
                Schedule::InverseSqrt { lr, warmup, start_factor, timescale }
            }
            ScheduleKind::Cosine => {
                Schedule::Cosine { lr, warmup: warmup()?, start_factor, total, min_lr: t.min_lr.unwrap_or(0.0) }
            }
            ScheduleKind::CosineRestarts => Schedule::CosineRestarts {
                lr,
                t_0: needed("t_0", t.t_0)?,
                t_mult: t.t_mult.unwrap_or(1),
                min_lr: t.min_lr.unwrap_or(0.0),
            },
            ScheduleKind::OneCycle => Schedule::OneCycle {
                max_lr: lr,
                total,
                pct_start: t.pct_start.unwrap_or(0.3),
                div_factor: t.div_factor.unwrap_or(25.0),
                final_div_factor: t.final_div_factor.unwrap_or(1e4),
            },
            ScheduleKind::Chained => Schedule::Chained(self.factors(at, lr, total)?),
            ScheduleKind::Sequential => {
                let milestones = self.milestones(at)?;
                Schedule::Sequential { schedules: self.in_turn(at, lr, total, &milestones)?, milestones }
            }
        })
    }

    fn milestones(&self, at: &str) -> KeyRun<Vec<u64>> {
        let missing = || key_fault(at, format!("{at}.milestones is missing; it is a list of numbers of steps"));
        self.milestones.clone().ok_or_else(missing)
    }

    /// The tables of the parts, with their paths.
    fn parts(&self, at: &str) -> KeyRun<Vec<(String, &ScheduleTable)>> {
        let Some(parts) = &self.part else {
            return Err(key_fault(at, format!("{at}.part is missing; it is a list of schedules")));
        };
        if parts.is_empty() {
            let path = format!("{at}.part");
            return Err(key_fault(&path, format!("{path} is empty; it is a list of one schedule or more")));
        }
        Ok(parts.iter().enumerate().map(|(i, part)| (format!("{at}.part[{i}]"), part)).collect())
    }

    /// The parts of a product: the first has the rate, the others are factors.
    fn factors(&self, at: &str, lr: f64, total: u64) -> KeyRun<Vec<Schedule>> {
        let rates = std::iter::once(lr).chain(std::iter::repeat(1.0));
        self.parts(at)?.into_iter().zip(rates).map(|((path, part), lr)| part.build(&path, lr, total)).collect()
    }

    /// The parts of a sequence. Each is as long as its milestones are apart.
    fn in_turn(&self, at: &str, lr: f64, total: u64, milestones: &[u64]) -> KeyRun<Vec<Schedule>> {
        let parts = self.parts(at)?;
        if milestones.len() + 1 != parts.len() {
            let (path, n) = (format!("{at}.milestones"), parts.len());
            let text = format!("{path} has {} numbers; {n} parts need {}", milestones.len(), n - 1);
            return Err(key_fault(path, text));
        }
        let starts = std::iter::once(0).chain(milestones.iter().copied());
        let ends = milestones.iter().copied().chain([total]);
        let lengths = starts.zip(ends).map(|(start, end)| end.saturating_sub(start).max(1));
        parts.into_iter().zip(lengths).map(|((path, part), length)| part.build(&path, lr, length)).collect()
    }
}
