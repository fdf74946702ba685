//! Learning-rate schedules as pure functions of the step.
//!
//! Invariant: `lr(t)` depends on `t` and on nothing else, so a resumed run needs no schedule state. The formulas are
//! torch's, in closed form. Callers write the result into the step program's `lr` input.

use crate::error::{Error, Kind, Result};

/// The learning rate of each step, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// `lr`, always.
    Constant {
        /// The rate.
        lr: f64,
    },
    /// `lr·gamma^⌊t / step_size⌋`, as `StepLR`.
    Step {
        /// The rate at first.
        lr: f64,
        /// Steps at one rate.
        step_size: u64,
        /// What the rate is multiplied by after them.
        gamma: f64,
    },
    /// Linear from `lr·start_factor` over `warmup` steps (`LinearLR`), then half a cosine from `lr` down to `min_lr` at
    /// step `total` (`CosineAnnealingLR`), and `min_lr` from there on.
    Cosine {
        /// The rate after the warm-up.
        lr: f64,
        /// Steps of the warm-up.
        warmup: u64,
        /// What part of `lr` the warm-up starts from.
        start_factor: f64,
        /// The step that reaches `min_lr`.
        total: u64,
        /// The last rate.
        min_lr: f64,
    },
    /// From `max_lr/div_factor` up to `max_lr` and down to `max_lr/div_factor/final_div_factor`, each half a cosine, as
    /// `OneCycleLR`.
    OneCycle {
        /// The peak.
        max_lr: f64,
        /// All steps.
        total: u64,
        /// Part of the steps that the way up takes.
        pct_start: f64,
        /// Peak over first rate.
        div_factor: f64,
        /// First rate over last.
        final_div_factor: f64,
    },
}

/// `from` at `x = 0`, `to` at `x = 1`, half a cosine between.
fn anneal(from: f64, to: f64, x: f64) -> f64 {
    to + (from - to) / 2.0 * (1.0 + (std::f64::consts::PI * x).cos())
}

impl Schedule {
    /// One cycle with torch's defaults: 30 % up, factors 25 and 10⁴.
    pub fn one_cycle(max_lr: f64, total: u64) -> Schedule {
        Schedule::OneCycle { max_lr, total, pct_start: 0.3, div_factor: 25.0, final_div_factor: 1e4 }
    }

    /// Cosine down to 0, after a warm-up from `lr/3` (torch's default).
    pub fn cosine(lr: f64, warmup: u64, total: u64) -> Schedule {
        Schedule::Cosine { lr, warmup, start_factor: 1.0 / 3.0, total, min_lr: 0.0 }
    }

    /// The rate of step `t`, counted from 0.
    pub fn lr(&self, t: u64) -> f64 {
        match *self {
            Schedule::Constant { lr } => lr,
            Schedule::Step { lr, step_size, gamma } => lr * gamma.powf((t / step_size.max(1)) as f64),
            Schedule::Cosine { lr, warmup, start_factor, .. } if t < warmup => {
                lr * (start_factor + (1.0 - start_factor) * t as f64 / warmup as f64)
            }
            Schedule::Cosine { min_lr, total, .. } if t >= total => min_lr,
            Schedule::Cosine { lr, warmup, total, min_lr, .. } => {
                anneal(lr, min_lr, (t - warmup) as f64 / (total - warmup) as f64)
            }
            Schedule::OneCycle { max_lr, total, pct_start, div_factor, final_div_factor } => {
                let first = max_lr / div_factor;
                let (up, last) = (pct_start * total as f64 - 1.0, total as f64 - 1.0);
                let t = (t as f64).min(last);
                match t <= up {
                    true if up > 0.0 => anneal(first, max_lr, t / up),
                    true => max_lr,
                    false => anneal(max_lr, first / final_div_factor, (t - up) / (last - up)),
                }
            }
        }
    }

    /// Refuses what makes no sense: a rate that is negative or no number, a length of 0, a fraction outside [0, 1].
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, x: f64| Err(Error::new(Kind::Data, format!("schedule: {what} is {x}")));
        let rate = |x: f64| x.is_finite() && x >= 0.0;
        match *self {
            Schedule::Constant { lr } | Schedule::Step { lr, .. } | Schedule::Cosine { lr, .. } if !rate(lr) => {
                bad("lr", lr)
            }
            Schedule::Step { step_size: 0, .. } => bad("step_size", 0.0),
            Schedule::Step { gamma, .. } if !rate(gamma) => bad("gamma", gamma),
            Schedule::Cosine { min_lr, .. } if !rate(min_lr) => bad("min_lr", min_lr),
            Schedule::Cosine { start_factor, .. } if !(0.0..=1.0).contains(&start_factor) => {
                bad("start_factor", start_factor)
            }
            Schedule::OneCycle { max_lr, .. } if !rate(max_lr) => bad("max_lr", max_lr),
            Schedule::OneCycle { total: 0, .. } => bad("total", 0.0),
            Schedule::OneCycle { pct_start, .. } if !(0.0..=1.0).contains(&pct_start) => bad("pct_start", pct_start),
            Schedule::OneCycle { div_factor: d, .. } if !(d.is_finite() && d > 0.0) => bad("div_factor", d),
            Schedule::OneCycle { final_div_factor: d, .. } if !(d.is_finite() && d > 0.0) => bad("final_div_factor", d),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
