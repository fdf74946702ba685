//! Bounds of rounding: the unit roundoff of each float type, its largest number, and the steps of a running error
//! analysis. Source: Higham, "Accuracy and Stability of Numerical Algorithms", chapters 2 to 4.

use crate::nodes::DType;
use half::{bf16, f16};

/// The rounding of a float type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rounding {
    /// Largest relative error of a correctly rounded result.
    pub(super) unit: f64,
    /// The least normal number: results below it may have any relative error.
    pub(super) least: f64,
    /// The largest number.
    pub(super) most: f64,
}

/// The relative error of a few operations of the oracle itself, which computes in `f64`.
const OWN: f64 = 4.0 * f64::EPSILON;

impl Rounding {
    /// That of a dtype; that of `f64` for a type that is no float.
    pub(super) fn of(dtype: DType) -> Rounding {
        match dtype {
            DType::F16 => Rounding { unit: 2f64.powi(-11), least: 2f64.powi(-14), most: 65504.0 },
            DType::BF16 => Rounding { unit: 2f64.powi(-8), least: 2f64.powi(-126), most: bf16::MAX.to_f64() },
            DType::F32 => Rounding { unit: 2f64.powi(-24), least: 2f64.powi(-126), most: f64::from(f32::MAX) },
            _ => Rounding { unit: 2f64.powi(-53), least: f64::MIN_POSITIVE, most: f64::MAX },
        }
    }

    /// What `ulps` units in the last place of `y` add to its bound. An ulp of y is at most 2·unit·|y|; NaN and
    /// infinities are not rounded.
    pub(super) fn ulps(self, y: f64, ulps: f64) -> f64 {
        if y.is_finite() { (2.0 * self.unit * ulps + OWN) * y.abs() + self.least } else { 0.0 }
    }

    /// The sum of some terms in any order, and its bound.
    pub(super) fn sum(self, terms: impl Iterator<Item = Term>) -> (f64, f64) {
        let (mut y, mut absolute, mut bounds, mut n) = (0.0, 0.0, 0.0, 0.0);
        let (mut finite, mut whole) = (true, true);
        for Term { x, bound } in terms {
            y += x;
            absolute += x.abs();
            bounds += bound;
            n += 1.0;
            finite &= x.is_finite();
            whole &= x == x.trunc();
        }
        if bounds == f64::INFINITY || (finite && absolute + bounds > self.most) {
            // A term is unknown, or a partial sum may overflow.
            return (y, f64::INFINITY);
        }
        // The sum of one term, and a sum of whole numbers that the type holds, is exact.
        if !y.is_finite() || (bounds == 0.0 && (n < 2.0 || (whole && absolute * self.unit <= 1.0))) {
            return (y, 0.0);
        }
        let grown = n * self.unit / (1.0 - (n * self.unit).min(0.5));
        (y, bounds + (grown + n * f64::EPSILON) * (absolute + bounds) + self.least)
    }

    /// `y` and its bound. The bound is infinite if it is no number, or if the engine's number may overflow.
    pub(super) fn settled(self, y: f64, bound: f64) -> (f64, f64) {
        let bound = if bound.is_nan() { f64::INFINITY } else { bound };
        match y.is_finite() {
            true if y.abs() + bound > self.most => (y, f64::INFINITY),
            true => (y, bound),
            // NaN and infinities are exact, or unknown.
            false => (y, if bound == f64::INFINITY { bound } else { 0.0 }),
        }
    }
}

/// The largest number of a float type, up to which an infinity may stand for a finite number.
pub(in crate::fuzz) fn largest_of_float_type(dtype: DType) -> f64 {
    Rounding::of(dtype).most
}

/// A term of a sum.
pub(super) struct Term {
    pub(super) x: f64,
    pub(super) bound: f64,
}

/// A sum that keeps what its additions round away. Source: Neumaier's variant of Kahan's summation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongSum {
    /// The sum as additions round it.
    pub(super) rounded: f64,
    /// What they round away.
    pub(super) lost: f64,
}

impl LongSum {
    pub(super) fn add(&mut self, term: f64) {
        let (old, next) = (self.rounded, self.rounded + term);
        self.lost += if old.abs() >= term.abs() { (old - next) + term } else { (term - next) + old };
        self.rounded = next;
    }
}

/// How far the numbers at the ends of an interval are from the one inside; ∞ if one of them alone is not finite.
pub(super) fn spread_of_ends(y: f64, ends: &[f64]) -> f64 {
    let one = |&e: &f64| match e == y || (e.is_nan() && y.is_nan()) {
        true => 0.0,
        false if e.is_finite() && y.is_finite() => (e - y).abs(),
        false => f64::INFINITY,
    };
    ends.iter().map(one).fold(0.0, f64::max)
}

/// `x` as the nearest number of a float type.
pub(super) fn nearest_element(dtype: DType, x: f64) -> f64 {
    element_real_of_bits(dtype, element_bits_of_real(dtype, x))
}

/// The number that these bits are in a float type.
pub(super) fn element_real_of_bits(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::BF16 => bf16::from_bits(bits as u16).to_f64(),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

/// The bits of the nearest number of a float type.
pub(super) fn element_bits_of_real(dtype: DType, x: f64) -> u64 {
    match dtype {
        DType::F16 => u64::from(f16::from_f64(x).to_bits()),
        DType::BF16 => u64::from(bf16::from_f64(x).to_bits()),
        DType::F32 => u64::from((x as f32).to_bits()),
        _ => x.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_for_sums_in_f32() {
        let r = Rounding::of(DType::F32);
        let x: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin()).collect();
        let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
        let off = (f64::from(x.iter().sum::<f32>()) - exact).abs();
        let bound = r.sum(x.iter().map(|&x| Term { x: x.into(), bound: 0.0 })).1;
        assert!(off <= bound && bound < 0.1, "{off:e} against {bound:e}");
    }

    #[test]
    fn a_long_sum_keeps_what_additions_round_away() {
        let mut sum = LongSum::default();
        [1.0, 1e100, 1.0, -1e100].into_iter().for_each(|term| sum.add(term));
        assert_eq!((sum.rounded, sum.lost), (0.0, 2.0));
    }

    #[test]
    fn a_number_that_may_overflow_is_unknown() {
        let r = Rounding::of(DType::F16);
        assert_eq!(r.settled(65000.0, 1.0), (65000.0, 1.0));
        assert_eq!(r.settled(65000.0, 600.0).1, f64::INFINITY);
        assert_eq!(r.settled(f64::INFINITY, 3.0).1, 0.0);
        assert_eq!(spread_of_ends(1.0, &[0.5, f64::NAN]), f64::INFINITY);
    }
}
