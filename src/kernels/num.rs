//! Number types of reductions, scans and scatters.
//!
//! Invariant: integer arithmetic wraps; the greater or lesser of NaN and a number is NaN.

use bytemuck::Pod;
use std::fmt::Debug;

/// `f32`, `f64` or an integer. The method names differ from those of [`vmath::Real`](crate::vmath::Real),
/// because a [`Float`](crate::float::Float) has both traits.
pub trait Num: Pod + Send + Sync + Debug + PartialOrd {
    /// 0, the identity of sums.
    const EMPTY_SUM: Self;
    /// 1, the identity of products.
    const EMPTY_PROD: Self;
    /// The least value (−∞ for floats), the identity of maxima.
    const EMPTY_MAX: Self;
    /// The greatest value (+∞ for floats), the identity of minima.
    const EMPTY_MIN: Self;
    /// The type that running sums accumulate in: `f64` for floats.
    type Wide: Num;

    /// The sum; integers wrap.
    fn plus(self, b: Self) -> Self;
    /// The product; integers wrap.
    fn times(self, b: Self) -> Self;
    /// Whether this is NaN.
    fn unordered(self) -> bool;
    /// Converts to the wide type.
    fn widen(self) -> Self::Wide;
    /// Rounds back from the wide type.
    fn narrow(wide: Self::Wide) -> Self;

    /// The greater one; NaN if either is; the first of two equals.
    fn greater(self, b: Self) -> Self;
    /// The lesser one; NaN if either is; the first of two equals.
    fn lesser(self, b: Self) -> Self;
}

macro_rules! num {
    ($t:ident, $wide:ident, $zero:expr, $one:expr, $low:expr, $high:expr, $plus:expr, $times:expr, $nan:expr, $or:expr) => {
        impl Num for $t {
            const EMPTY_SUM: $t = $zero;
            const EMPTY_PROD: $t = $one;
            const EMPTY_MAX: $t = $low;
            const EMPTY_MIN: $t = $high;
            type Wide = $wide;

            #[inline(always)]
            fn plus(self, b: $t) -> $t {
                $plus(self, b)
            }
            #[inline(always)]
            fn times(self, b: $t) -> $t {
                $times(self, b)
            }
            #[inline(always)]
            fn unordered(self) -> bool {
                $nan(self)
            }
            // For floats, one instruction selects; the last operation is no selection, which a compiler might store
            // under a mask.
            #[inline(always)]
            fn greater(self, b: $t) -> $t {
                $or(if b > self { b } else { self }, b)
            }
            #[inline(always)]
            fn lesser(self, b: $t) -> $t {
                $or(if b < self { b } else { self }, b)
            }
            #[inline(always)]
            fn widen(self) -> $wide {
                self as $wide
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> $t {
                wide as $t
            }
        }
    };
    (float $t:ident) => {
        num!(
            $t,
            f64,
            0.0,
            1.0,
            $t::NEG_INFINITY,
            $t::INFINITY,
            |a, b| a + b,
            |a, b| a * b,
            |a: $t| a != a,
            |x: $t, b: $t| $t::from_bits(x.to_bits() | if b != b { !0 } else { 0 })
        );
    };
    (int $t:ident) => {
        num!($t, $t, 0, 1, $t::MIN, $t::MAX, $t::wrapping_add, $t::wrapping_mul, |_| false, |x, _| x);
    };
}

num!(float f32);
num!(float f64);
num!(int i32);
num!(int i64);
num!(int i8);
num!(int u8);
num!(int u32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmath::Real;

    #[test]
    fn nan_wins_and_of_equals_the_first() {
        let bits = |x: f32| x.to_bits();
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::NAN), (f32::INFINITY, f32::NAN)] {
            assert!(a.greater(b).is_nan() && a.lesser(b).is_nan() && Num::unordered(a.greater(b)));
        }
        for (a, b) in [(0.0, -0.0), (-0.0, 0.0f32)] {
            assert_eq!((bits(a.greater(b)), bits(a.lesser(b))), (bits(a), bits(a)));
        }
        assert_eq!(
            (2.0f64.greater(3.0), 2.0f64.lesser(3.0), 3.0f64.greater(2.0), 3.0f64.lesser(2.0)),
            (3.0, 2.0, 3.0, 2.0)
        );
        assert_eq!((f64::NEG_INFINITY.greater(-1.0), f64::INFINITY.lesser(1.0)), (-1.0, 1.0));
        assert_eq!((i32::MIN.greater(i32::MAX), i64::MIN.lesser(i64::MAX)), (i32::MAX, i64::MIN));
    }

    #[test]
    fn what_is_not_positive_becomes_zero() {
        for x in [-0.0, 0.0, -1.0, f32::NEG_INFINITY, -f32::MIN_POSITIVE / 4.0] {
            assert_eq!(x.positive().to_bits(), 0);
        }
        assert!(f32::NAN.positive().is_nan() && (1.5f64.positive(), f32::INFINITY.positive()) == (1.5, f32::INFINITY));
    }
}
