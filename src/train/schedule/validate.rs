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
fn validate_schedule_size(name: &'static str, value: f64) -> Number {
    Number { name, value, fits: value.is_finite() && value >= 0.0, must: "it must be finite and not negative" }
}

/// A fraction.
fn validate_fraction(name: &'static str, value: f64) -> Number {
    Number { name, value, fits: (0.0..=1.0).contains(&value), must: "it must lie in [0, 1]" }
}

/// A number to divide by.
fn validate_divisor(name: &'static str, value: f64) -> Number {
    Number { name, value, fits: value.is_finite() && value > 0.0, must: "it must be finite and above 0" }
}

/// A number of steps that is not 0.
fn validate_schedule_length(name: &'static str, value: u64) -> Number {
    Number { name, value: value as f64, fits: value > 0, must: "it must be 1 or more" }
}

fn refuse_to_validate(text: String) -> Result<()> {
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
            return refuse_to_validate(format!("schedules in schedules go {MAX_DEPTH} levels deep"));
        }
        if let Some(bad) = self.validated_numbers().into_iter().find(|n| !n.fits) {
            return refuse_to_validate(format!("{} is {}; {}", bad.name, bad.value, bad.must));
        }
        match self {
            Schedule::MultiStep { milestones, .. } if !milestones.is_sorted() => {
                refuse_to_validate(format!("milestones are {milestones:?}; they must be in order"))
            }
            &Schedule::Cosine { warmup, total, .. } if total <= warmup => {
                refuse_to_validate(format!("total is {total}; it must be above warmup, which is {warmup}"))
            }
            Schedule::Chained(schedules) => validate_parts(schedules, depth),
            Schedule::Sequential { schedules, milestones } => {
                if milestones.len() + 1 != schedules.len() {
                    let (m, s) = (milestones.len(), schedules.len());
                    return refuse_to_validate(format!(
                        "{s} schedules need {} milestones, not {m}",
                        s.saturating_sub(1)
                    ));
                }
                if !milestones.is_sorted_by(|a, b| a < b) || milestones.first() == Some(&0) {
                    return refuse_to_validate(format!("milestones are {milestones:?}; they must rise from 1 or more"));
                }
                validate_parts(schedules, depth)
            }
            _ => Ok(()),
        }
    }

    /// The numbers of this schedule, without those of schedules in it.
    fn validated_numbers(&self) -> Vec<Number> {
        match *self {
            Schedule::Constant { lr } => vec![validate_schedule_size("lr", lr)],
            Schedule::ConstantFactor { lr, factor, .. } => {
                vec![validate_schedule_size("lr", lr), validate_fraction("factor", factor)]
            }
            Schedule::Step { lr, step_size, gamma } => {
                vec![
                    validate_schedule_size("lr", lr),
                    validate_schedule_length("step_size", step_size),
                    validate_schedule_size("gamma", gamma),
                ]
            }
            Schedule::MultiStep { lr, gamma, .. } => {
                vec![validate_schedule_size("lr", lr), validate_schedule_size("gamma", gamma)]
            }
            Schedule::Linear { lr, start_factor, end_factor, total_iters } => vec![
                validate_schedule_size("lr", lr),
                validate_fraction("start_factor", start_factor),
                validate_fraction("end_factor", end_factor),
                validate_schedule_length("total_iters", total_iters),
            ],
            Schedule::Polynomial { lr, total_iters, power } => {
                vec![
                    validate_schedule_size("lr", lr),
                    validate_schedule_length("total_iters", total_iters),
                    validate_schedule_size("power", power),
                ]
            }
            Schedule::InverseSqrt { lr, start_factor, timescale, .. } => {
                vec![
                    validate_schedule_size("lr", lr),
                    validate_fraction("start_factor", start_factor),
                    validate_schedule_length("timescale", timescale),
                ]
            }
            Schedule::Cosine { lr, start_factor, min_lr, .. } => {
                vec![
                    validate_schedule_size("lr", lr),
                    validate_fraction("start_factor", start_factor),
                    validate_schedule_size("min_lr", min_lr),
                ]
            }
            Schedule::CosineRestarts { lr, t_0, t_mult, min_lr } => {
                vec![
                    validate_schedule_size("lr", lr),
                    validate_schedule_length("t_0", t_0),
                    validate_schedule_length("t_mult", t_mult),
                    validate_schedule_size("min_lr", min_lr),
                ]
            }
            Schedule::OneCycle { max_lr, total, pct_start, div_factor, final_div_factor } => vec![
                validate_schedule_size("max_lr", max_lr),
                validate_schedule_length("total", total),
                validate_fraction("pct_start", pct_start),
                validate_divisor("div_factor", div_factor),
                validate_divisor("final_div_factor", final_div_factor),
            ],
            Schedule::Chained(_) | Schedule::Sequential { .. } => Vec::new(),
        }
    }
}

/// Checks the schedules of a schedule.
fn validate_parts(schedules: &[Schedule], depth: usize) -> Result<()> {
    if schedules.is_empty() {
        return refuse_to_validate("it has no schedules".into());
    }
    let named = |(i, s): (usize, &Schedule)| s.validate_at(depth + 1).map_err(|e| e.context(format!("part {i}")));
    schedules.iter().enumerate().try_for_each(named)
}
