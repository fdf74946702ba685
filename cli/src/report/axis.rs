//! The vertical axis of a chart: the range in use, linear or logarithmic, and its ticks.
//!
//! Invariant: the range is finite and not empty, whatever the values are.

use arenagrad::tools::report::round_ticks;

/// Most ticks of an axis.
const TICKS: usize = 6;

/// How values become heights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// In proportion, from 0 to the largest value.
    FromZero,
    /// In proportion, over the range in use.
    InUse,
    /// By their logarithm, over the range in use. With a value that is not positive: as [`Scale::InUse`].
    Log,
}

/// An axis over a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// The axis of the finite ones among `values`, within `bounds`.
    pub fn new(scale: Scale, values: impl Iterator<Item = f64> + Clone, bounds: [f64; 2]) -> Axis {
        let finite = values.filter(|x| x.is_finite());
        let low = finite.clone().fold(f64::INFINITY, f64::min);
        let high = finite.fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return Axis { low: 0.0, high: 1.0, log: false };
        }
        match scale {
            Scale::FromZero => Axis { low: 0.0, high: if high > 0.0 { high } else { 1.0 }, log: false },
            // An axis of a few per cent around one value shows no more than the value.
            Scale::Log if low > 0.0 => {
                let room = (0.05 * (high.ln() - low.ln())).exp().max(1.02);
                Axis { low: (low / room).max(f64::MIN_POSITIVE), high: (high * room).min(f64::MAX), log: true }
            }
            _ => {
                let [least, most] = bounds;
                let (low, high) = (low.clamp(least, most), high.clamp(least, most));
                let room = (0.05 * (high - low)).max(0.005 * high.abs().max(low.abs()).max(1e-9));
                Axis { low: (low - room).max(least), high: (high + room).min(most), log: false }
            }
        }
    }

    /// The height of a value: 0 at the lower end of the axis, 1 at the upper.
    pub fn part(&self, x: f64) -> f64 {
        let part = match self.log {
            // The quotient of two positive floats may be infinite.
            true => (x.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
            // Halves: the range of all floats is larger than the largest float.
            false => (x / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0),
        };
        part.clamp(0.0, 1.0)
    }

    /// Round values within the range, at most about six.
    pub fn ticks(&self) -> Vec<f64> {
        let linear = || {
            let step = round_ticks(self.high - self.low, TICKS).get(1).copied().unwrap_or(1.0);
            let first = (self.low / step).ceil();
            (0..2 * TICKS).map(|i| (first + i as f64) * step).take_while(|t| *t <= self.high).collect()
        };
        if !self.log {
            return linear();
        }
        let decade = |mantissas: &[f64]| -> Vec<f64> {
            let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let all = powers.flat_map(|p| mantissas.iter().map(move |m| m * 10f64.powi(p)));
            all.filter(|t| (self.low..=self.high).contains(t)).collect()
        };
        for mantissas in [&[1.0, 2.0, 5.0][..], &[1.0]] {
            let found = decade(mantissas);
            if (2..=2 * TICKS).contains(&found.len()) {
                return found;
            }
        }
        // Within less than a decade round steps serve; over very many decades, some of them.
        let decades = decade(&[1.0]);
        match decades.len() {
            0 | 1 => linear(),
            n => decades.into_iter().step_by(n.div_ceil(TICKS)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, values: &[f64]) -> Axis {
        Axis::new(scale, values.iter().copied(), [0.0, 1.0])
    }

    #[test]
    fn the_range_in_use_fills_the_axis() {
        let a = axis(Scale::InUse, &[0.9, f64::NAN, 0.98, f64::INFINITY]);
        assert!((0.89..0.9).contains(&a.low) && (0.98..0.99).contains(&a.high), "{a:?}");
        assert!(a.part(0.9) < 0.07 && a.part(0.98) > 0.93 && (a.part(0.94) - 0.5).abs() < 1e-9);
        assert!(a.ticks().iter().all(|t| (a.low..=a.high).contains(t)) && (2..=8).contains(&a.ticks().len()));
        // An accuracy is never drawn above 1.
        assert_eq!(axis(Scale::InUse, &[1.0, 0.5]).high, 1.0);
        let one = axis(Scale::InUse, &[0.25]);
        assert!(one.low < 0.25 && one.high > 0.25 && (one.part(0.25) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn a_logarithmic_axis_gives_each_decade_one_height() {
        let a = axis(Scale::Log, &[1e-3, 10.0]);
        let heights = [1e-3, 1e-2, 1e-1, 1.0, 10.0].map(|x| a.part(x));
        let steps: Vec<f64> = heights.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(steps.iter().all(|s| (s - steps[0]).abs() < 1e-9), "{heights:?}");
        let near = |got: Vec<f64>, want: &[f64]| {
            let same = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a / b - 1.0).abs() < 1e-9);
            assert!(same, "{got:?}, not {want:?}");
        };
        near(a.ticks(), &[1e-3, 1e-2, 1e-1, 1.0, 10.0]);
        near(axis(Scale::Log, &[0.4, 2.3]).ticks(), &[0.5, 1.0, 2.0]);
        let narrow = axis(Scale::Log, &[0.31, 0.33]).ticks();
        assert!((2..=12).contains(&narrow.len()), "{narrow:?}");
        assert!(axis(Scale::Log, &[1e-300, 1e300]).ticks().len() <= 12);
        // Values that have no logarithm are drawn in proportion.
        assert!(!axis(Scale::Log, &[0.0, 2.0]).log && !axis(Scale::Log, &[-1.0, 2.0]).log);
    }

    #[test]
    fn any_values_give_an_axis() {
        for scale in [Scale::FromZero, Scale::InUse, Scale::Log] {
            let extreme = [&[1e308, -1e308][..], &[f64::MIN_POSITIVE], &[1e308], &[1e-300, 1e300], &[5.0], &[5.0, 0.5]];
            let all = [&[][..], &[f64::NAN], &[0.0], &[-3.0]].into_iter().chain(extreme);
            for (values, bounds) in all.flat_map(|v| [(v, [f64::MIN, f64::MAX]), (v, [0.0, 1.0])]) {
                let a = Axis::new(scale, values.iter().copied(), bounds);
                assert!(a.low < a.high && a.low.is_finite() && a.high.is_finite(), "{scale:?} {values:?}: {a:?}");
                assert!(values.iter().filter(|x| x.is_finite()).all(|&x| (0.0..=1.0).contains(&a.part(x))));
                assert!(a.ticks().len() <= 12);
            }
        }
    }
}
