//! The trait of float types with elementary functions: arithmetic, constants, polynomials, exponent operations.
//!
//! Invariant: every step is a correctly rounded IEEE operation (`mul_add` where a product and a sum share a rounding),
//! so the instruction set cannot change a bit. Other kernels use the trait as part of
//! [`Float`](crate::float::Float); the functions of `vmath` use all of it.

use bytemuck::Pod;
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// Horner's rule with FMA; coefficients start with the constant term.
macro_rules! poly {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => { poly!($x; $($rest),+).mul_add($x, $c) };
}
pub(super) use poly;

/// `f32` or `f64`.
#[doc(hidden)]
pub trait Real:
    Pod
    + Send
    + Sync
    + Debug
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// +∞.
    const INFINITY: Self;
    /// A quiet NaN.
    const NAN: Self;
    /// The smallest positive normal number.
    const MIN_POSITIVE: Self;
    /// The lowest finite number.
    const LOWEST: Self;

    /// `self * a + b`, rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The correctly rounded square root.
    fn sqrt(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// Whether this is NaN.
    fn is_nan(self) -> bool;
    /// max(x, 0): −0 becomes +0, NaN stays. The last operation is an addition, because a selection might be stored
    /// under a mask (see [`Unmasked`](crate::simd::Unmasked)).
    #[inline(always)]
    fn positive(self) -> Self {
        (if Self::ZERO > self { Self::ZERO } else { self }) + Self::ZERO
    }
    /// Rounds an `f64` to this type.
    fn from_f64(x: f64) -> Self;
    /// Widens to `f64`.
    fn to_f64(self) -> f64;
    const HALF: Self;
    const TWO: Self;
    /// 1.5 · 2^(mantissa bits): adding it rounds a small number to an integer, half to even.
    const ROUND: Self;
    const LOG2E: Self;
    /// ln 2, rounded.
    const LN2_HI: Self;
    /// ln 2 − `LN2_HI`.
    const LN2_LO: Self;
    /// Arguments of `exp` are clamped to this range; outside it the result is 0 or ∞.
    const EXP_RANGE: (Self, Self);
    /// The same for `exp2`.
    const EXP2_RANGE: (Self, Self);
    /// For arguments up to this magnitude `exp` and `exp2` are normal numbers.
    const EXP_MIDDLE: Self;
    /// `(k, 2⁻ᵏ)`. A power of two below the normal range is represented 2ᵏ times too large.
    const LIFT: (Self, Self);
    /// Below this `expm1` is −1.
    const EXPM1_LOW: Self;
    /// Below this `tanh` is a polynomial.
    const TANH_SMALL: Self;
    /// Above this `tanh` is 1.
    const TANH_HIGH: Self;
    /// Above this `erf` is 1.
    const ERF_HIGH: Self;
    /// Above this `exp(-x²/2)` is 0.
    const PHI_HIGH: Self;
    /// φ(0).
    const INV_SQRT_2PI: Self;
    const SQRT_2: Self;
    /// 2√(2/π) in two parts.
    const GELU_LINEAR: (Self, Self);
    /// 0.044715 times [`Real::GELU_LINEAR`].
    const GELU_CUBIC: (Self, Self);
    /// Above this `x·sigmoid(x)` is x; below its negative, 0.
    const LOGISTIC_HIGH: Self;
    /// Above this `gelu_tanh` is x; below its negative, 0.
    const GELU_TANH_HIGH: Self;
    /// π/2 in two parts.
    const PI_2: (Self, Self);
    /// b in [`Real::mills_tail`].
    const MILLS_B: Self;
    /// c in the map `u = (a − c) / (a + c)`, the argument of [`Real::mills_tail`].
    const MILLS_C: Self;
    /// The value at u = 0, in two parts.
    const MILLS_0: (Self, Self);

    /// 2ⁿ for `t = n + ROUND`, n inside the range of normal exponents.
    fn pow2(t: Self) -> Self;
    /// y·2ⁿ for `t = n + ROUND`, if y and the product are normal numbers.
    fn times_pow2(y: Self, t: Self) -> Self;
    /// (m, k, 2⁻ᵏ) with `x = m · 2ᵏ` and √½ ≤ m < √2, for x > 0. 2⁻ᵏ is right if x is normal and k is below the largest
    /// exponent.
    fn split(x: Self) -> (Self, Self, Self);
    /// [`Real::split`] of a normal x > 0.
    fn split_normal(x: Self) -> (Self, Self, Self);
    /// The magnitude of `self` with the sign bit of `s`.
    fn with_sign(self, s: Self) -> Self;
    /// The next number of this type towards `y`: C's `nextafter`.
    fn next_towards(self, y: Self) -> Self;
    /// Rounds down.
    fn floor(self) -> Self;
    /// Rounds up.
    fn ceil(self) -> Self;
    /// Rounds to nearest, half to even.
    fn round_even(self) -> Self;
    /// q with eʳ = 1 + r + r²·q(r), |r| ≤ ½ ln 2.
    fn exp_tail(r: Self) -> Self;
    /// (2ᶠ − 1)/f for |f| ≤ ½.
    fn exp2_tail(f: Self) -> Self;
    /// p with 2 atanh(s) = 2s + s³·p(s²), |s| ≤ 0.1716.
    fn log_tail(z: Self) -> Self;
    /// p with tanh(x) = x + x³·p(x²), |x| ≤ 0.625.
    fn tanh_tail(z: Self) -> Self;
    /// p with erf(x) = x + x·p(x²), |x| ≤ 1.
    fn erf_tail(z: Self) -> Self;
    /// q with (a + b) · e^(a²/2) · Φ(−a) = [`Real::MILLS_0`] + u·q(u), u = (a − c) / (a + c), for a ≤
    /// [`Real::PHI_HIGH`].
    fn mills_tail(u: Self) -> Self;
    /// p with atan(x) = x + x³·p(x²), |x| ≤ 1.
    fn atan_tail(z: Self) -> Self;
    /// See [`super::sin`].
    fn sin(x: Self) -> Self;
    /// See [`super::cos`].
    fn cos(x: Self) -> Self;
    /// See [`super::tan`].
    fn tan(x: Self) -> Self;
    /// See [`super::pow`].
    fn pow(x: Self, y: Self) -> Self;
    /// Whether the branch-free forms of `sin`, `cos` and `tan` are valid at x.
    fn trig_fits(x: Self) -> bool;
    /// The branch-free sine; requires [`Real::trig_fits`].
    fn sin_fit(x: Self) -> Self;
    /// The branch-free cosine; requires [`Real::trig_fits`].
    fn cos_fit(x: Self) -> Self;
    /// The branch-free tangent; requires [`Real::trig_fits`].
    fn tan_fit(x: Self) -> Self;
    /// std's sine.
    fn sin_far(x: Self) -> Self;
    /// std's cosine.
    fn cos_far(x: Self) -> Self;
    /// std's tangent.
    fn tan_far(x: Self) -> Self;
}
