//! Learning-rate schedules as pure functions of the step.
//!
//! Invariant: the rate depends on the step alone, so a checkpoint holds no state of the schedule. The formulas are
//! those of `torch.optim.lr_scheduler`, in closed form. The caller writes the rate into the step program's input `lr`.

use crate::error::{Error, Kind, Result};

/// The learning rate of each step, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// `lr` at every step.
    Constant {
        /// The rate.
        lr: f64,
    },
    /// `lr·gamma^⌊t / step_size⌋`, as `StepLR`.
    Step {
        /// The first rate.
        lr: f64,
        /// Number of steps at each rate.
        step_size: u64,
        /// Factor from one rate to the next.
        gamma: f64,
    },
    /// Linear from `lr·start_factor` over `warmup` steps (`LinearLR`), then half a cosine from `lr` down to `min_lr` at
    /// step `total` (`CosineAnnealingLR`), and `min_lr` from there on.
    Cosine {
        /// The rate after the warm-up.
        lr: f64,
        /// Number of steps of the warm-up.
        warmup: u64,
        /// First rate of the warm-up, as a fraction of `lr`.
        start_factor: f64,
        /// The step from which the rate is `min_lr`.
        total: u64,
        /// The last rate.
        min_lr: f64,
    },
    /// From `max_lr/div_factor` up to `max_lr` and down to `max_lr/div_factor/final_div_factor`, each half a cosine, as
    /// `OneCycleLR`.
    OneCycle {
        /// The peak.
        max_lr: f64,
        /// Number of all steps.
        total: u64,
        /// Fraction of the steps in which the rate rises.
        pct_start: f64,
        /// Ratio of the peak to the first rate.
        div_factor: f64,
        /// Ratio of the first rate to the last.
        final_div_factor: f64,
    },
}

/// Half a cosine from `from` at `x = 0` to `to` at `x = 1`.
fn anneal_schedule(from: f64, to: f64, x: f64) -> f64 {
    to + (from - to) / 2.0 * (1.0 + (std::f64::consts::PI * x).cos())
}

impl Schedule {
    /// One cycle with torch's defaults: 30 % of the steps rising, factors 25 and 10⁴.
    pub fn one_cycle(max_lr: f64, total: u64) -> Schedule {
        Schedule::OneCycle { max_lr, total, pct_start: 0.3, div_factor: 25.0, final_div_factor: 1e4 }
    }

    /// A cosine down to 0 after a warm-up from `lr/3` (torch's default).
    pub fn cosine(lr: f64, warmup: u64, total: u64) -> Schedule {
        Schedule::Cosine { lr, warmup, start_factor: 1.0 / 3.0, total, min_lr: 0.0 }
    }

    /// The learning rate of step `t`, counted from 0.
    pub fn lr(&self, t: u64) -> f64 {
        match *self {
            Schedule::Constant { lr } => lr,
            Schedule::Step { lr, step_size, gamma } => lr * gamma.powf((t / step_size.max(1)) as f64),
            Schedule::Cosine { lr, warmup, start_factor, .. } if t < warmup => {
                lr * (start_factor + (1.0 - start_factor) * t as f64 / warmup as f64)
            }
            Schedule::Cosine { min_lr, total, .. } if t >= total => min_lr,
            Schedule::Cosine { lr, warmup, total, min_lr, .. } => {
                anneal_schedule(lr, min_lr, (t - warmup) as f64 / (total - warmup) as f64)
            }
            Schedule::OneCycle { max_lr, total, pct_start, div_factor, final_div_factor } => {
                let first = max_lr / div_factor;
                let (up, last) = (pct_start * total as f64 - 1.0, total as f64 - 1.0);
                let t = (t as f64).min(last);
                match t <= up {
                    true if up > 0.0 => anneal_schedule(first, max_lr, t / up),
                    true => max_lr,
                    false => anneal_schedule(max_lr, first / final_div_factor, (t - up) / (last - up)),
                }
            }
        }
    }

    /// Fails with [`Kind::Data`] if a rate or a factor is negative or not finite, a length is 0, a fraction is outside
    /// [0, 1], or a ratio is not positive.
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
