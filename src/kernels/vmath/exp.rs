//! The exponential and functions based on it.
//!
//! x = n·ln 2 + r with |r| ≤ ½ ln 2; eˣ = 2ⁿ(1 + r + r²q(r)). Comparisons are written so that NaN passes through.

use super::real_trait::Real;

/// `x` clamped to `lo..=hi`; NaN stays.
#[inline(always)]
fn clamp_argument<T: Real>(x: T, lo: T, hi: T) -> T {
    let x = if x < lo { lo } else { x };
    if x > hi { hi } else { x }
}

/// `(n + ROUND, eʳ − 1)` for x = n·ln 2 + r.
#[inline(always)]
fn reduce_argument<T: Real>(x: T) -> (T, T) {
    let t = x.mul_add(T::LOG2E, T::ROUND);
    let n = t - T::ROUND;
    let r = (-n).mul_add(T::LN2_HI, x);
    let r = (-n).mul_add(T::LN2_LO, r);
    (t, (r * r).mul_add(T::exp_tail(r), r))
}

/// y·2ⁿ for `t = n + ROUND`. 2ⁿ has two factors, so that the largest and the subnormal results are rounded once.
#[inline(always)]
fn scale_by_halves<T: Real>(y: T, t: T) -> T {
    let n = t - T::ROUND;
    let half = n.mul_add(T::HALF, T::ROUND);
    let rest = (n - (half - T::ROUND)) + T::ROUND;
    y * T::pow2(half) * T::pow2(rest)
}

/// eˣ.
#[inline(always)]
pub fn exp<T: Real>(x: T) -> T {
    let (t, p) = reduce_argument(clamp_argument(x, T::EXP_RANGE.0, T::EXP_RANGE.1));
    scale_by_halves(T::ONE + p, t)
}

/// eˣ for x ≤ 0 or NaN, in fewer steps than [`exp`].
#[inline(always)]
pub fn exp_below<T: Real>(x: T) -> T {
    let (t, p) = reduce_argument(if x < T::EXP_RANGE.0 { T::EXP_RANGE.0 } else { x });
    (T::ONE + p) * T::pow2(t + T::LIFT.0) * T::LIFT.1
}

/// `(head + rest) · lifted` · 2^−[`Real::LIFT`], with 1.5 times the precision of the type.
#[derive(Clone, Copy)]
pub(super) struct ExpWithRest<T> {
    pub(super) head: T,
    /// At most one or two ulp of `head`.
    pub(super) rest: T,
    /// A power of two that is normal even if its product with 2^−`LIFT` is not.
    pub(super) lifted: T,
}

/// e^(x − low) for x ≤ 0 and |low| below an ulp of x. The argument is not clamped: x may be below the range of `exp` as
/// far as `LIFT` allows.
#[inline(always)]
pub(super) fn unclamped_with_rest<T: Real>(x: T, low: T) -> ExpWithRest<T> {
    let t = x.mul_add(T::LOG2E, T::ROUND);
    let n = t - T::ROUND;
    // Exact: both are multiples of the last bit of ln 2 or of a finer one, and the difference is below ½.
    let r = (-n).mul_add(T::LN2_HI, x);
    let less = n.mul_add(T::LN2_LO, low);
    let tail = r * r * T::exp_tail(r);
    let one = T::ONE + r;
    let head = one + tail;
    let rest = ((T::ONE - one) + r) + ((one - head) + tail);
    ExpWithRest { head, rest: (-less).mul_add(head, rest), lifted: T::pow2(t + T::LIFT.0) }
}

/// eˣ − 1.
#[inline(always)]
pub fn expm1<T: Real>(x: T) -> T {
    let (t, p) = reduce_argument(clamp_argument(x, T::EXPM1_LOW, T::EXP_RANGE.1));
    // Half of the result, because 2ⁿ overflows slightly before the result does.
    let s = T::pow2(t - T::ONE);
    let y = s.mul_add(p, s - T::HALF) * T::TWO;
    // Halving would lose bits of a subnormal number, and the sign of zero.
    if x.abs() < T::MIN_POSITIVE + T::MIN_POSITIVE { x } else { y }
}

/// eˣ for |x| up to [`Real::EXP_MIDDLE`], or NaN, with the bits of [`exp`] in fewer steps.
#[inline(always)]
pub fn exp_middle<T: Real>(x: T) -> T {
    let (t, p) = reduce_argument(x);
    (T::ONE + p) * T::pow2(t)
}

/// `(n + ROUND, 2ᶠ)` for x = n + f.
#[inline(always)]
fn exp2_reduce<T: Real>(x: T) -> (T, T) {
    let t = x + T::ROUND;
    let f = x - (t - T::ROUND);
    (t, f.mul_add(T::exp2_tail(f), T::ONE))
}

/// 2ˣ. Powers of two are exact.
#[inline(always)]
pub fn exp2<T: Real>(x: T) -> T {
    let (t, y) = exp2_reduce(clamp_argument(x, T::EXP2_RANGE.0, T::EXP2_RANGE.1));
    scale_by_halves(y, t)
}

/// 2ˣ for |x| up to [`Real::EXP_MIDDLE`], with the bits of [`exp2`] in fewer steps.
#[inline(always)]
pub fn exp2_middle<T: Real>(x: T) -> T {
    let (t, y) = exp2_reduce(x);
    T::times_pow2(y, t)
}

/// Methods of [`Real`] that multiply by powers of two.
macro_rules! exp_methods {
    ($t:ident, $mant:literal) => {
        #[inline(always)]
        fn pow2(t: $t) -> $t {
            Self::times_pow2(1.0, t)
        }
        #[inline(always)]
        fn times_pow2(y: $t, t: $t) -> $t {
            $t::from_bits((t.to_bits() << $mant).wrapping_add(y.to_bits()))
        }
    };
}
pub(super) use exp_methods;
