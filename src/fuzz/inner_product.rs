//! Inner products of results with exact arrays, and bounds of their errors.

use super::oracle::Array;

/// Σ x·s, and the most that it may be off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InnerProduct {
    /// The sum.
    pub value: f64,
    /// What the bounds of the results and the rounding of the sum may add up to.
    pub bound: f64,
}

impl InnerProduct {
    /// Adds that of `x` with `exact`.
    pub fn add(&mut self, x: &Array, exact: &Array) {
        for (i, bound) in x.bounds().iter().enumerate() {
            let (a, b) = (x.number(i), exact.number(i));
            self.value += a * b;
            self.bound += b.abs() * bound + 1e-12 * (a * b).abs();
        }
    }

    /// The most that two equal sums may be apart; `None` if one of them is not finite, or not known.
    pub fn slack(self, other: InnerProduct) -> Option<f64> {
        let bound = self.bound + other.bound;
        (self.value.is_finite() && other.value.is_finite() && bound.is_finite()).then_some(bound)
    }

    /// Whether two sums that should be equal differ by more than their bounds.
    pub fn differs(self, other: InnerProduct) -> bool {
        self.slack(other).is_some_and(|bound| (self.value - other.value).abs() > bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_are_not_known_do_not_differ() {
        let sum = |value, bound| InnerProduct { value, bound };
        assert!(sum(1.0, 0.1).differs(sum(1.5, 0.3)) && !sum(1.0, 0.3).differs(sum(1.5, 0.3)));
        for open in [sum(f64::NAN, 0.0), sum(f64::INFINITY, 0.0), sum(9.0, f64::INFINITY)] {
            assert!(!sum(1.0, 0.0).differs(open) && !open.differs(sum(1.0, 0.0)), "{open:?}");
        }
    }
}
