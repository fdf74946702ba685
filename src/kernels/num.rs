//! Number types beyond floats: what reductions, scans and scatters compute in, and what indexes.
//!
//! Invariant: integer arithmetic wraps, comparisons of floats let NaN win. For every kernel.

use crate::kernels::vmath;
use bytemuck::Pod;
use std::fmt::Debug;

/// `f32`, `f64`, `i32` or `i64`. The names keep clear of those of [`Float`](crate::kernels::float::Float), so that both can be asked of one type.
pub trait Num: Pod + Send + Sync + Debug + PartialOrd {
    /// 0.
    const EMPTY_SUM: Self;
    /// 1.
    const EMPTY_PROD: Self;
    /// The least value (−∞ for floats).
    const EMPTY_MAX: Self;
    /// The greatest value (+∞ for floats).
    const EMPTY_MIN: Self;
    /// The type that running sums are kept in: `f64` for floats.
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
    #[inline(always)]
    fn greater(self, b: Self) -> Self {
        if self.unordered() | (b <= self) { self } else { b }
    }

    /// The lesser one; NaN if either is; the first of two equals.
    #[inline(always)]
    fn lesser(self, b: Self) -> Self {
        if self.unordered() | (b >= self) { self } else { b }
    }
}

/// A float that can also be reduced.
pub trait Real: vmath::Real + Num {}

impl Real for f32 {}
impl Real for f64 {}

macro_rules! num {
    ($t:ident, $wide:ident, $zero:expr, $one:expr, $low:expr, $high:expr, $plus:expr, $times:expr, $nan:expr) => {
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
        num!($t, f64, 0.0, 1.0, $t::NEG_INFINITY, $t::INFINITY, |a, b| a + b, |a, b| a * b, |a: $t| a != a);
    };
    (int $t:ident) => {
        num!($t, $t, 0, 1, $t::MIN, $t::MAX, $t::wrapping_add, $t::wrapping_mul, |_| false);
    };
}

num!(float f32);
num!(float f64);
num!(int i32);
num!(int i64);

/// An index or a label: `i32` or `i64`.
pub trait Index: Pod + Send + Sync + Debug {
    /// The position `i` as an index.
    fn of(i: usize) -> Self;
    /// Widens.
    fn to_i64(self) -> i64;

    /// The position, if it is one of `0..n`.
    #[inline(always)]
    fn within(self, n: usize) -> Option<usize> {
        usize::try_from(self.to_i64()).ok().filter(|i| *i < n)
    }
}

impl Index for i32 {
    #[inline(always)]
    fn of(i: usize) -> i32 {
        i as i32
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self)
    }
}

impl Index for i64 {
    #[inline(always)]
    fn of(i: usize) -> i64 {
        i as i64
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self
    }
}

/// Position of the first index that is not one of `0..n`.
pub fn first_bad<I: Index>(indices: &[I], n: usize) -> Option<usize> {
    // Negative indices are huge as u64: one comparison covers both ends, and the loop has no early exit to vectorise.
    let bad = |i: &I| i.to_i64() as u64 >= n as u64;
    let any = indices.chunks(256).position(|c| c.iter().fold(false, |b, i| b | bad(i)))?;
    indices.iter().skip(any * 256).position(bad).map(|i| any * 256 + i)
}
