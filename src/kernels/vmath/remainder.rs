//! Remainders and the floor of a quotient.
//!
//! Those of `f64` serve `f32` too: an `f32` is widened first. A remainder of two `f32` is exact in `f64`.

/// a − trunc(a/b)·b with the sign of a, exact: C's `fmod`. NaN for b = 0 and for an infinite a.
#[inline(always)]
pub fn fmod(a: f64, b: f64) -> f64 {
    a % b
}

/// Whether [`fmod_near`] is a few instructions: WebAssembly has none for a product and a sum at once.
pub const NEAR_IS_SHORT: bool = !cfg!(target_arch = "wasm32");

/// Whether [`fmod_near`] holds for a and b.
#[inline(always)]
pub fn is_near(a: f64, b: f64) -> bool {
    const WHOLE: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;
    ((a / b).abs() < WHOLE) & (b.abs() < f64::INFINITY)
}

/// [`fmod`] for a quotient below 2⁵³ and a finite b, without a loop over the bits of the quotient.
#[inline(always)]
pub fn fmod_near(a: f64, b: f64) -> f64 {
    // The division may have rounded up to an integer, never down from one. So r is a remainder, or one less |b|, and
    // exact.
    let r = (-(a / b).trunc()).mul_add(b, a);
    let past = (r != 0.0) & ((r < 0.0) != (a < 0.0));
    (if past { r + b.abs().copysign(a) } else { r }).abs().copysign(a)
}

/// a − ⌊a/b⌋·b with the sign of b. It rounds, so a tiny negative a may give b itself.
#[inline(always)]
pub fn remainder(a: f64, b: f64) -> f64 {
    remainder_of(a % b, b)
}

/// [`remainder`] from the result of [`fmod`].
#[inline(always)]
pub fn remainder_of(r: f64, b: f64) -> f64 {
    let r = if (r != 0.0) & ((r < 0.0) != (b < 0.0)) { r + b } else { r };
    if r == 0.0 { r.abs().copysign(b) } else { r }
}

/// ⌊a/b⌋ of the exact quotient, as Python's `//`: the division of a less its remainder. a/0 as the division gives it.
#[inline(always)]
pub fn floor_divide(a: f64, b: f64) -> f64 {
    if b == 0.0 { a / b } else { floor_divide_of(a % b, a, b) }
}

/// [`floor_divide`] by b ≠ 0 from the result of [`fmod`].
#[inline(always)]
pub fn floor_divide_of(r: f64, a: f64, b: f64) -> f64 {
    let q = (a - r) / b;
    let q = if (r != 0.0) & ((r < 0.0) != (b < 0.0)) { q - 1.0 } else { q };
    // The division may have rounded to just below an integer.
    let whole = q.floor();
    let whole = if q - whole > 0.5 { whole + 1.0 } else { whole };
    if q == 0.0 { (0.0f64).copysign(a / b) } else { whole }
}
