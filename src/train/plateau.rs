//! A learning rate that falls when a metric stops getting better, as in torch's `ReduceLROnPlateau`.
//!
//! Invariant: the rate is a function of the options and the metrics reported so far, and a checkpoint holds what
//! depends on those metrics. So a resumed run has the rates of one that never stopped.

use crate::error::{Error, Kind, Result};
use crate::nodes::arguments::setters::setters;

/// Which metrics are good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Small ones, as losses.
    #[default]
    Min,
    /// Large ones, as accuracies.
    Max,
}

/// How much better a metric must be than the best one to count as better.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Threshold {
    /// By this fraction of the best one: less than `best − t·|best|`, or more than `best + t·|best|`. For metrics that
    /// are not negative this is torch's `best·(1 ∓ t)`, which a worse metric meets where the best one is negative.
    Relative(f64),
    /// By this amount: less than `best − t`, or more than `best + t`.
    Absolute(f64),
}

impl Threshold {
    /// Whether `metric` is better than `best`. NaN is never better.
    pub fn is_better(self, mode: Mode, metric: f64, best: f64) -> bool {
        let limit = |sign: f64| match self {
            Threshold::Relative(_) if best.is_infinite() => best,
            Threshold::Relative(t) => best * (1.0 + sign * best.signum() * t),
            Threshold::Absolute(t) => best + sign * t,
        };
        match mode {
            Mode::Min => metric < limit(-1.0),
            Mode::Max => metric > limit(1.0),
        }
    }

    /// Fails with [`Kind::Data`] if the threshold is negative or not finite; `owner` names what it belongs to.
    pub(super) fn validate(self, owner: &str) -> Result<()> {
        let (Threshold::Relative(t) | Threshold::Absolute(t)) = self;
        match t.is_finite() && t >= 0.0 {
            true => Ok(()),
            false => Err(Error::new(Kind::Data, format!("{owner}: threshold is {t}"))),
        }
    }
}

impl Mode {
    /// A metric that any other is better than.
    pub fn worst(self) -> f64 {
        match self {
            Mode::Min => f64::INFINITY,
            Mode::Max => f64::NEG_INFINITY,
        }
    }
}

/// Multiplies the learning rate by `factor` after more than `patience` reports without a better metric. Names, defaults
/// and arithmetic are those of `torch.optim.lr_scheduler.ReduceLROnPlateau`, but for [`Threshold::Relative`] of
/// negative metrics.
///
/// [`Trainer::report`](super::Trainer::report) reports a metric; [`Fit`](super::Fit) does so after each evaluation.
///
/// ```
/// use arenagrad::train::{Mode, ReduceLrOnPlateau};
/// let rate = ReduceLrOnPlateau::new(1e-3).mode(Mode::Max).patience(3);
/// # let _ = rate;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReduceLrOnPlateau {
    /// The first rate.
    pub lr: f64,
    /// Which metrics are good. Default: small ones.
    pub mode: Mode,
    /// Factor from one rate to the next, in [0, 1). Default: 0.1.
    pub factor: f64,
    /// Reports without a better metric that are borne. Default: 10.
    pub patience: u64,
    /// How much better counts as better. Default: a fraction of 1e-4.
    pub threshold: Threshold,
    /// Reports after a reduction in which none is bad. Default: 0.
    pub cooldown: u64,
    /// The smallest rate. Default: 0.
    pub min_lr: f64,
    /// Reductions by no more than this are left out. Default: 1e-8.
    pub eps: f64,
}

setters! {
    [] ReduceLrOnPlateau {
        mode: Mode,
        factor: f64,
        patience: u64,
        threshold: Threshold,
        cooldown: u64,
        min_lr: f64,
        eps: f64,
    }
}

/// What depends on the metrics so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlateauState {
    pub lr: f64,
    pub best: f64,
    pub bad: u64,
    pub cooldown: u64,
}

impl ReduceLrOnPlateau {
    /// The rate `lr` with torch's defaults.
    pub fn new(lr: f64) -> ReduceLrOnPlateau {
        let (mode, threshold) = (Mode::Min, Threshold::Relative(1e-4));
        ReduceLrOnPlateau { lr, mode, factor: 0.1, patience: 10, threshold, cooldown: 0, min_lr: 0.0, eps: 1e-8 }
    }

    /// Fails with [`Kind::Data`] if a rate or `eps` is negative or not finite, `factor` is not in [0, 1), or the
    /// threshold is negative or not finite.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, x: f64| Err(Error::new(Kind::Data, format!("plateau: {what} is {x}")));
        for (what, x) in [("lr", self.lr), ("min_lr", self.min_lr), ("eps", self.eps)] {
            if !(x.is_finite() && x >= 0.0) {
                return bad(what, x);
            }
        }
        if !(0.0..1.0).contains(&self.factor) {
            return bad("factor", self.factor);
        }
        self.threshold.validate("plateau")
    }

    /// The state before the first report.
    pub(super) fn start(&self) -> PlateauState {
        PlateauState { lr: self.lr, best: self.mode.worst(), bad: 0, cooldown: 0 }
    }

    /// The state after a report.
    pub(super) fn after(&self, mut s: PlateauState, metric: f64) -> PlateauState {
        match self.threshold.is_better(self.mode, metric, s.best) {
            true => (s.best, s.bad) = (metric, 0),
            false => s.bad = s.bad.saturating_add(1),
        }
        if s.cooldown > 0 {
            (s.cooldown, s.bad) = (s.cooldown - 1, 0);
        }
        if s.bad > self.patience {
            let lr = (s.lr * self.factor).max(self.min_lr);
            if s.lr - lr > self.eps {
                s.lr = lr;
            }
            (s.cooldown, s.bad) = (self.cooldown, 0);
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(p: ReduceLrOnPlateau, metrics: &[f64]) -> Vec<f64> {
        p.validate().unwrap();
        let mut s = p.start();
        let after = |&m: &f64| {
            s = p.after(s, m);
            s.lr
        };
        metrics.iter().map(after).collect()
    }

    fn near(got: &[f64], want: &[f64]) {
        let far = got.iter().zip(want).any(|(a, b)| (a - b).abs() > 1e-12 * b.abs());
        assert!(got.len() == want.len() && !far, "{got:?}, not {want:?}");
    }

    // The values below were printed by `ReduceLROnPlateau` of torch 2.

    #[test]
    fn rates_are_torchs() {
        let p = ReduceLrOnPlateau { factor: 0.5, patience: 2, ..ReduceLrOnPlateau::new(1.0) };
        let m = [1.0, 0.9, 0.95, 0.93, 0.92, 0.91, 0.9, 0.89995, 0.9, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6];
        let want =
            [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.125, 0.0625, 0.0625];
        near(&rates(p, &m), &want);
        let mut want = [0.1; 14];
        want[11..].fill(0.01);
        near(&rates(ReduceLrOnPlateau::new(0.1), &[2.0; 14]), &want);
        let p = ReduceLrOnPlateau { factor: 0.5, patience: 0, ..ReduceLrOnPlateau::new(3e-8) };
        near(&rates(p, &[1.0; 5]), &[3e-8, 1.5e-8, 1.5e-8, 1.5e-8, 1.5e-8]);
    }

    /// A fraction of a negative metric is a distance too: the same metric is never better.
    #[test]
    fn relative_thresholds_are_distances_from_negative_metrics() {
        let p = ReduceLrOnPlateau { factor: 0.5, patience: 0, ..ReduceLrOnPlateau::new(1.0) };
        for mode in [Mode::Min, Mode::Max] {
            near(&rates(ReduceLrOnPlateau { mode, ..p }, &[-1.0; 4]), &[1.0, 0.5, 0.25, 0.125]);
        }
        near(&rates(p, &[-1.0, -1.00005, -1.2, -1.2]), &[1.0, 0.5, 0.5, 0.25]);
        let better = |mode, metrics: [f64; 2]| metrics.map(|m| Threshold::Relative(0.5).is_better(mode, m, -2.0));
        assert_eq!(better(Mode::Min, [-3.0, -3.01]), [false, true]);
        assert_eq!(better(Mode::Max, [-1.0, -0.99]), [false, true]);
        // The first metric is better than none, whatever the fraction.
        for (mode, t) in [(Mode::Min, 1.0), (Mode::Min, 2.0), (Mode::Max, 2.0)] {
            assert!(Threshold::Relative(t).is_better(mode, 5.0, mode.worst()), "{mode:?} {t}");
            assert!(Threshold::Relative(t).is_better(mode, -5.0, mode.worst()), "{mode:?} {t}");
        }
    }

    #[test]
    fn modes_cooldown_and_limits_are_torchs() {
        let p = ReduceLrOnPlateau {
            mode: Mode::Max,
            factor: 0.3,
            patience: 1,
            threshold: Threshold::Absolute(0.1),
            cooldown: 2,
            min_lr: 0.01,
            ..ReduceLrOnPlateau::new(0.2)
        };
        let m = [0.1, 0.2, 0.25, 0.26, 0.2, f64::NAN, 0.3, 0.3, 0.3, 0.3, 0.3, 0.45, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4];
        let want = [
            0.2, 0.2, 0.2, 0.2, 0.06, 0.06, 0.06, 0.06, 0.018, 0.018, 0.018, 0.018, 0.018, 0.01, 0.01, 0.01, 0.01, 0.01,
        ];
        near(&rates(p, &m), &want);
    }

    #[test]
    fn equal_is_neither_better_nor_enough() {
        let (relative, absolute) = (Threshold::Relative(0.5), Threshold::Absolute(0.5));
        let better = |t: Threshold, mode, metrics: [f64; 2]| metrics.map(|m| t.is_better(mode, m, 2.0));
        assert_eq!(better(relative, Mode::Min, [1.0, 0.99]), [false, true]);
        assert_eq!(better(absolute, Mode::Min, [1.5, 1.49]), [false, true]);
        assert_eq!(better(relative, Mode::Max, [3.0, 3.01]), [false, true]);
        assert_eq!(better(absolute, Mode::Max, [2.5, 2.51]), [false, true]);
        // A reduction by `eps` is left out. Numbers of 0 have sense.
        let p = ReduceLrOnPlateau { factor: 0.5, patience: 0, eps: 0.5, ..ReduceLrOnPlateau::new(1.0) };
        near(&rates(p, &[1.0, 1.0, 1.0]), &[1.0, 1.0, 1.0]);
        near(&rates(ReduceLrOnPlateau { eps: 0.49, ..p }, &[1.0, 1.0, 1.0]), &[1.0, 0.5, 0.5]);
        let (factor, threshold) = (0.0, Threshold::Absolute(0.0));
        let none = ReduceLrOnPlateau { lr: 0.0, factor, threshold, min_lr: 0.0, eps: 0.0, ..p };
        assert!(none.validate().is_ok());
        assert_eq!(p.start(), PlateauState { lr: 1.0, best: f64::INFINITY, bad: 0, cooldown: 0 });
        assert_eq!(Mode::Max.worst(), f64::NEG_INFINITY);
    }

    /// In a cooldown no report is bad; it begins with a reduction.
    #[test]
    fn a_state_counts_bad_reports() {
        let p = ReduceLrOnPlateau { factor: 0.5, patience: 1, cooldown: 2, ..ReduceLrOnPlateau::new(1.0) };
        let (mut s, mut seen) = (p.start(), Vec::new());
        for metric in [4.0, 4.0, 5.0, 5.0, 5.0, 3.0, 3.0] {
            s = p.after(s, metric);
            seen.push((s.lr, s.best, s.bad, s.cooldown));
        }
        let wanted = [
            (1.0, 4.0, 0, 0),
            (1.0, 4.0, 1, 0),
            (0.5, 4.0, 0, 2),
            (0.5, 4.0, 0, 1),
            (0.5, 4.0, 0, 0),
            (0.5, 3.0, 0, 0),
            (0.5, 3.0, 1, 0),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn options_without_sense_are_refused() {
        let p = ReduceLrOnPlateau::new(0.1);
        for (bad, part) in [
            (ReduceLrOnPlateau { lr: f64::NAN, ..p }, "lr is NaN"),
            (ReduceLrOnPlateau { min_lr: -1.0, ..p }, "min_lr is -1"),
            (ReduceLrOnPlateau { factor: 1.0, ..p }, "factor is 1"),
            (ReduceLrOnPlateau { factor: f64::NAN, ..p }, "factor is NaN"),
            (ReduceLrOnPlateau { eps: f64::INFINITY, ..p }, "eps is inf"),
            (ReduceLrOnPlateau { threshold: Threshold::Absolute(-0.5), ..p }, "threshold is -0.5"),
        ] {
            let e = bad.validate().unwrap_err();
            assert!(e.kind == Kind::Data && e.to_string() == format!("plateau: {part}"), "{e}");
        }
    }
}
