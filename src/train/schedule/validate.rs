//! The ranges of a schedule's numbers.

use super::Schedule;
use crate::error::{Error, Kind, Result};

/// The most levels of schedules in schedules. More are taken for a mistake.
const MAX_DEPTH: usize = 8;

/// A number of a schedule, and what it may be.
struct Number {
    name: &'static str,
    value: f64,
    fits: bool,
    must: &'static str,
}

/// A rate, a factor or an exponent.
fn check_finite_size(name: &'static str, value: f64) -> Number {
    Number { name, value, fits: value.is_finite() && value >= 0.0, must: "it must be finite and not negative" }
}

/// A fraction.
fn check_fraction(name: &'static str, value: f64) -> Number {
    Number { name, value, fits: (0.0..=1.0).contains(&value), must: "it must lie in [0, 1]" }
}

/// A number to divide by.
fn check_divisor(name: &'static str, value: f64) -> Number {
    Number { name, value, fits: value.is_finite() && value > 0.0, must: "it must be finite and above 0" }
}

/// A number of steps that is not 0.
fn check_step_count(name: &'static str, value: u64) -> Number {
    Number { name, value: value as f64, fits: value > 0, must: "it must be 1 or more" }
}

fn refuse_number(text: String) -> Result<()> {
    Err(Error::new(Kind::Data, format!("schedule: {text}")))
}

impl Schedule {
    /// Fails with [`Kind::Data`] if a rate or a factor is negative or not finite, a length is 0, a fraction is outside
    /// [0, 1], a ratio is not positive, milestones are out of order, the
    /// total of a cosine is not above its warm-up, or schedules and milestones do not match. The
    /// error names the number.
    pub fn validate(&self) -> Result<()> {
        self.validate_at(0)
    }

    fn validate_at(&self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return refuse_number(format!("schedules in schedules go {MAX_DEPTH} levels deep"));
        }
        if let Some(bad) = self.validated_numbers().into_iter().find(|n| !n.fits) {
            return refuse_number(format!("{} is {}; {}", bad.name, bad.value, bad.must));
        }
        match self {
            Schedule::MultiStep { milestones, .. } if !milestones.is_sorted() => {
                refuse_number(format!("milestones are {milestones:?}; they must be in order"))
            }
            &Schedule::Cosine { warmup, total, .. } if total <= warmup => {
                refuse_number(format!("total is {total}; it must be above warmup, which is {warmup}"))
            }
            Schedule::Chained(schedules) => check_parts(schedules, depth),
            Schedule::Sequential { schedules, milestones } => {
                if milestones.len() + 1 != schedules.len() {
                    let (m, s) = (milestones.len(), schedules.len());
                    return refuse_number(format!("{s} schedules need {} milestones, not {m}", s.saturating_sub(1)));
                }
                if !milestones.is_sorted_by(|a, b| a < b) || milestones.first() == Some(&0) {
                    return refuse_number(format!("milestones are {milestones:?}; they must rise from 1 or more"));
                }
                check_parts(schedules, depth)
            }
            _ => Ok(()),
        }
    }

    /// The numbers of this schedule, without those of schedules in it.
    fn validated_numbers(&self) -> Vec<Number> {
        match *self {
            Schedule::Constant { lr } => vec![check_finite_size("lr", lr)],
            Schedule::ConstantFactor { lr, factor, .. } => {
                vec![check_finite_size("lr", lr), check_fraction("factor", factor)]
            }
            Schedule::Step { lr, step_size, gamma } => {
                vec![
                    check_finite_size("lr", lr),
                    check_step_count("step_size", step_size),
                    check_finite_size("gamma", gamma),
                ]
            }
            Schedule::MultiStep { lr, gamma, .. } => {
                vec![check_finite_size("lr", lr), check_finite_size("gamma", gamma)]
            }
            Schedule::Linear { lr, start_factor, end_factor, total_iters } => vec![
                check_finite_size("lr", lr),
                check_fraction("start_factor", start_factor),
                check_fraction("end_factor", end_factor),
                check_step_count("total_iters", total_iters),
            ],
            Schedule::Polynomial { lr, total_iters, power } => {
                vec![
                    check_finite_size("lr", lr),
                    check_step_count("total_iters", total_iters),
                    check_finite_size("power", power),
                ]
            }
            Schedule::InverseSqrt { lr, start_factor, timescale, .. } => {
                vec![
                    check_finite_size("lr", lr),
                    check_fraction("start_factor", start_factor),
                    check_step_count("timescale", timescale),
                ]
            }
            Schedule::Cosine { lr, start_factor, min_lr, .. } => {
                vec![
                    check_finite_size("lr", lr),
                    check_fraction("start_factor", start_factor),
                    check_finite_size("min_lr", min_lr),
                ]
            }
            Schedule::CosineRestarts { lr, t_0, t_mult, min_lr } => {
                vec![
                    check_finite_size("lr", lr),
                    check_step_count("t_0", t_0),
                    check_step_count("t_mult", t_mult),
                    check_finite_size("min_lr", min_lr),
                ]
            }
            Schedule::OneCycle { max_lr, total, pct_start, div_factor, final_div_factor } => vec![
                check_finite_size("max_lr", max_lr),
                check_step_count("total", total),
                check_fraction("pct_start", pct_start),
                check_divisor("div_factor", div_factor),
                check_divisor("final_div_factor", final_div_factor),
            ],
            Schedule::Chained(_) | Schedule::Sequential { .. } => Vec::new(),
        }
    }
}

/// Checks the schedules of a schedule.
fn check_parts(schedules: &[Schedule], depth: usize) -> Result<()> {
    if schedules.is_empty() {
        return refuse_number("it has no schedules".into());
    }
    let named = |(i, s): (usize, &Schedule)| s.validate_at(depth + 1).map_err(|e| e.context(format!("part {i}")));
    schedules.iter().enumerate().try_for_each(named)
}
