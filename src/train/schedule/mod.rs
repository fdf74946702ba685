//! Learning-rate schedules as pure functions of the step.
//!
//! Invariant: the rate depends on the step alone, so a checkpoint holds no state of the schedule. The formulas are
//! those of `torch.optim.lr_scheduler`, in closed form. The caller writes the rate into the step program's input `lr`.
//! `validate` says what each number may be.

mod validate;

/// The learning rate of each step, counted from 0.
///
/// ```
/// use arenagrad::train::Schedule;
/// // 100 steps up, then half a cosine down to 0 over 900 steps.
/// let (up, down) = (Schedule::linear(1e-3, 100), Schedule::cosine(1e-3, 0, 900));
/// let s = Schedule::Sequential { schedules: vec![up, down], milestones: vec![100] };
/// assert_eq!(s.lr(100), 1e-3);
/// assert_eq!(s.lr(1000), 0.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Schedule {
    /// `lr` at every step.
    Constant {
        /// The rate.
        lr: f64,
    },
    /// `lr·factor` before step `total_iters`, and `lr` from there on, as `ConstantLR`.
    ConstantFactor {
        /// The rate from step `total_iters` on.
        lr: f64,
        /// The first rate, as a fraction of `lr`.
        factor: f64,
        /// Number of steps at the first rate.
        total_iters: u64,
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
    /// `lr·gamma^n`, where n is the number of milestones that are not above t, as `MultiStepLR`.
    MultiStep {
        /// The first rate.
        lr: f64,
        /// The steps at which the rate changes, in order. A step that stands twice counts twice.
        milestones: Vec<u64>,
        /// Factor from one rate to the next.
        gamma: f64,
    },
    /// Linear from `lr·start_factor` to `lr·end_factor` over `total_iters` steps, and constant from there on, as
    /// `LinearLR`.
    Linear {
        /// The rate of which the factors are fractions.
        lr: f64,
        /// First rate, as a fraction of `lr`.
        start_factor: f64,
        /// Last rate, as a fraction of `lr`.
        end_factor: f64,
        /// Number of steps from the first rate to the last.
        total_iters: u64,
    },
    /// `lr·(1 − t / total_iters)^power`, and 0 from step `total_iters` on, as `PolynomialLR`.
    Polynomial {
        /// The first rate.
        lr: f64,
        /// The step from which the rate is 0.
        total_iters: u64,
        /// The exponent.
        power: f64,
    },
    /// Linear from `lr·start_factor` over `warmup` steps, then `lr/√(1 + (t − warmup)/timescale)`. With
    /// `timescale = warmup` that is `lr·√(warmup/t)`, the schedule of the first transformers (arXiv:1706.03762).
    InverseSqrt {
        /// The rate after the warm-up.
        lr: f64,
        /// Number of steps of the warm-up.
        warmup: u64,
        /// First rate of the warm-up, as a fraction of `lr`.
        start_factor: f64,
        /// Number of steps after which the rate is `lr/√2`.
        timescale: u64,
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
    /// Half a cosine from `lr` towards `min_lr`, again and again: the first takes `t_0` steps, each later one `t_mult`
    /// times as many as the one before, as `CosineAnnealingWarmRestarts`.
    CosineRestarts {
        /// The rate after each restart.
        lr: f64,
        /// Number of steps before the first restart.
        t_0: u64,
        /// Ratio of each length to the one before.
        t_mult: u64,
        /// The rate that each cosine goes towards.
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
    /// The product of the rates of all schedules. That is torch's `ChainedScheduler` for schedules that scale the rate:
    /// `ConstantFactor`, `Step`, `MultiStep`, `Linear`, `Polynomial`, `Cosine` down to 0. One of them has the learning
    /// rate; a rate of 1 makes factors of the others.
    Chained(Vec<Schedule>),
    /// One schedule after another, as `SequentialLR`. Each counts its steps from its own start.
    Sequential {
        /// The schedules, in order.
        schedules: Vec<Schedule>,
        /// The first step of each schedule but the first, in rising order.
        milestones: Vec<u64>,
    },
}

/// Half a cosine from `from` at `x = 0` to `to` at `x = 1`.
fn half_cosine(from: f64, to: f64, x: f64) -> f64 {
    to + (from - to) / 2.0 * (1.0 + (std::f64::consts::PI * x).cos())
}

/// The factor of step `t` of a line from `from` at step 0 to `to` at step `total`.
fn ramp_factor(from: f64, to: f64, t: u64, total: u64) -> f64 {
    from + (to - from) * t.min(total) as f64 / total.max(1) as f64
}

/// The fraction of a cosine that is over at step `t`, if the first has `first` steps and each later one `ratio` times
/// as many as the one before.
fn restart_fraction(t: u64, first: u64, ratio: u64) -> f64 {
    let (mut at, mut length, ratio) = (t, first.max(1), ratio.max(1));
    if ratio == 1 {
        at %= length;
    }
    // At most 64 rounds: each length is at least twice the one before.
    while at >= length {
        at -= length;
        length = length.saturating_mul(ratio);
    }
    at as f64 / length as f64
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

    /// Cosines of `t_0` steps each, down to 0 (torch's defaults).
    pub fn cosine_restarts(lr: f64, t_0: u64) -> Schedule {
        Schedule::CosineRestarts { lr, t_0, t_mult: 1, min_lr: 0.0 }
    }

    /// At each of `milestones`, the rate falls to a tenth (torch's default).
    pub fn multi_step(lr: f64, milestones: impl Into<Vec<u64>>) -> Schedule {
        Schedule::MultiStep { lr, milestones: milestones.into(), gamma: 0.1 }
    }

    /// `lr/3` before step 5, and `lr` from there on (torch's defaults).
    pub fn constant_factor(lr: f64) -> Schedule {
        Schedule::ConstantFactor { lr, factor: 1.0 / 3.0, total_iters: 5 }
    }

    /// Linear from `lr/3` at step 0 to `lr` at step `total_iters`, and `lr` from there on (torch's defaults).
    pub fn linear(lr: f64, total_iters: u64) -> Schedule {
        Schedule::Linear { lr, start_factor: 1.0 / 3.0, end_factor: 1.0, total_iters }
    }

    /// Linear from `lr` at step 0 to 0 at step `total_iters`: power 1 (torch's default).
    pub fn polynomial(lr: f64, total_iters: u64) -> Schedule {
        Schedule::Polynomial { lr, total_iters, power: 1.0 }
    }

    /// `lr·√(warmup/t)` after a warm-up from `lr/3`. Without a warm-up the time scale is 10 000 steps.
    pub fn inverse_sqrt(lr: f64, warmup: u64) -> Schedule {
        let timescale = if warmup == 0 { 10_000 } else { warmup };
        Schedule::InverseSqrt { lr, warmup, start_factor: 1.0 / 3.0, timescale }
    }

    /// The learning rate of step `t`, counted from 0.
    pub fn lr(&self, t: u64) -> f64 {
        match self {
            &Schedule::Constant { lr } => lr,
            &Schedule::ConstantFactor { lr, factor, total_iters } => {
                if t < total_iters {
                    lr * factor
                } else {
                    lr
                }
            }
            &Schedule::Step { lr, step_size, gamma } => lr * gamma.powf((t / step_size.max(1)) as f64),
            Schedule::MultiStep { lr, milestones, gamma } => {
                lr * gamma.powf(milestones.partition_point(|&m| m <= t) as f64)
            }
            &Schedule::Linear { lr, start_factor, end_factor, total_iters } => {
                lr * ramp_factor(start_factor, end_factor, t, total_iters)
            }
            &Schedule::Polynomial { total_iters, .. } if t >= total_iters => 0.0,
            &Schedule::Polynomial { lr, total_iters, power } => lr * (1.0 - t as f64 / total_iters as f64).powf(power),
            &Schedule::Cosine { lr, warmup, start_factor, .. }
            | &Schedule::InverseSqrt { lr, warmup, start_factor, .. }
                if t < warmup =>
            {
                lr * ramp_factor(start_factor, 1.0, t, warmup)
            }
            &Schedule::InverseSqrt { lr, warmup, timescale, .. } => {
                let scale = timescale.max(1) as f64;
                lr * (scale / ((t - warmup) as f64 + scale)).sqrt()
            }
            &Schedule::Cosine { min_lr, total, .. } if t >= total => min_lr,
            &Schedule::Cosine { lr, warmup, total, min_lr, .. } => {
                half_cosine(lr, min_lr, (t - warmup) as f64 / (total - warmup) as f64)
            }
            &Schedule::CosineRestarts { lr, t_0, t_mult, min_lr } => {
                half_cosine(lr, min_lr, restart_fraction(t, t_0, t_mult))
            }
            &Schedule::OneCycle { max_lr, total, pct_start, div_factor, final_div_factor } => {
                let first = max_lr / div_factor;
                let (up, last) = (pct_start * total as f64 - 1.0, total as f64 - 1.0);
                let t = (t as f64).min(last);
                match t <= up {
                    true if up > 0.0 => half_cosine(first, max_lr, t / up),
                    true => max_lr,
                    false => half_cosine(max_lr, first / final_div_factor, (t - up) / (last - up)),
                }
            }
            Schedule::Chained(schedules) => schedules.iter().map(|s| s.lr(t)).product(),
            Schedule::Sequential { schedules, milestones } => {
                let i = milestones.partition_point(|&m| m <= t);
                let start = i.checked_sub(1).map_or(0, |before| milestones[before]);
                schedules.get(i).map_or(0.0, |s| s.lr(t - start))
            }
        }
    }
}

#[cfg(test)]
mod tests;
