//! Sine, cosine, tangent, arc tangent.
//!
//! Up to [`LIMIT`] the argument is reduced by π/2 in three parts with FMA (Cody and Waite); beyond it std's function is
//! called for each element. `f32` computes in `f64`, which is cheaper than an exact reduction in `f32`.

use super::real_trait::{Real, poly};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Largest |x| of the branch-free forms.
pub(super) const LIMIT: f64 = 524_288.0;

const PI_2_MID: f64 = 6.123_233_995_736_766e-17;
const PI_2_LOW: f64 = -1.497_384_904_859_169_8e-33;

/// A reduced argument `hi + lo`, and the number of the quadrant in its low bits.
struct Reduced {
    hi: f64,
    lo: f64,
    quadrant: u64,
}

#[inline(always)]
fn reduce_angle(x: f64) -> Reduced {
    let t = x.mul_add(FRAC_2_PI, f64::ROUND);
    let n = f64::ROUND - t;
    // Exact: n·π/2 and x share their leading bits, and the last bit of either is at least 2^-53.
    let r = n.mul_add(FRAC_PI_2, x);
    // r + n·mid as an exact sum: near a multiple of π/2 the leading bits cancel.
    let p = n * PI_2_MID;
    let hi = r + p;
    let b = hi - r;
    let rest = (r - (hi - b)) + (p - b);
    let lo = n.mul_add(PI_2_LOW, rest + n.mul_add(PI_2_MID, -p));
    Reduced { hi, lo, quadrant: t.to_bits() }
}

/// (sine, cosine) of `hi + lo`, each as (leading part, small part) of a sum.
#[inline(always)]
fn expand_sin_cos(hi: f64, lo: f64) -> ((f64, f64), (f64, f64)) {
    let z = hi * hi;
    let half = 0.5 * z;
    let w = 1.0 - half;
    let s = poly!(z; -0.16666666666666666, 0.008333333333330925, -0.00019841269836722418, 2.755731608381636e-06,
        -2.5051127944014188e-08, 1.5917848524808262e-10f64);
    let c = poly!(z; 0.041666666666666664, -0.0013888888888887382, 2.480158729874307e-05, -2.7557317260008837e-07,
        2.0876143827993133e-09, -1.1382456778061306e-11f64);
    let sin = (hi, (hi * z).mul_add(s, lo * w));
    let cos = (w, (1.0 - w - half) + (z * z).mul_add(c, -(hi * lo)));
    (sin, cos)
}

/// Sine, cosine and quadrant of an `f32` argument. The rounding error of `f64` is far below one of `f32`.
#[inline(always)]
fn sin_cos_quadrant_f32(x: f32) -> (f64, f64, u64) {
    let x = x as f64;
    let t = x.mul_add(FRAC_2_PI, f64::ROUND);
    let n = f64::ROUND - t;
    let r = n.mul_add(PI_2_MID, n.mul_add(FRAC_PI_2, x));
    let z = r * r;
    let s = poly!(z; -0.16666666666666666, 0.008333333333330925, -0.00019841269836722418, 2.755731608381636e-06f64);
    let c = poly!(z; -0.5, 0.041666666666666664, -0.0013888888888887382, 2.480158729874307e-05,
        -2.7557317260008837e-07f64);
    ((r * z).mul_add(s, r), z.mul_add(c, 1.0), t.to_bits())
}

/// Sine from the sine and cosine of the reduced argument.
#[inline(always)]
fn pick_sine(sin: f64, cos: f64, quadrant: u64) -> f64 {
    let y = if quadrant & 1 == 0 { sin } else { cos };
    f64::from_bits(y.to_bits() ^ ((quadrant & 2) << 62))
}

#[inline(always)]
fn pick_tangent(sin: f64, cos: f64, quadrant: u64) -> f64 {
    let odd = quadrant & 1 != 0;
    let top = if odd { -cos } else { sin };
    let bottom = if odd { sin } else { cos };
    top / bottom
}

#[inline(always)]
pub(super) fn sin_f64(x: f64) -> f64 {
    let r = reduce_angle(x);
    let (s, c) = expand_sin_cos(r.hi, r.lo);
    // The sums above lose the sign of −0.
    if x == 0.0 { x } else { pick_sine(s.0 + s.1, c.0 + c.1, r.quadrant) }
}

#[inline(always)]
pub(super) fn cos_f64(x: f64) -> f64 {
    let r = reduce_angle(x);
    let (s, c) = expand_sin_cos(r.hi, r.lo);
    pick_sine(s.0 + s.1, c.0 + c.1, r.quadrant.wrapping_add(1))
}

#[inline(always)]
pub(super) fn tan_f64(x: f64) -> f64 {
    let r = reduce_angle(x);
    let ((s, s_rest), (c, c_rest)) = expand_sin_cos(r.hi, r.lo);
    let odd = r.quadrant & 1 != 0;
    let (top, top_rest) = if odd { (-c, -c_rest) } else { (s, s_rest) };
    let (bottom, bottom_rest) = if odd { (s, s_rest) } else { (c, c_rest) };
    // The quotient of the sums, corrected for the rounding of numerator and denominator.
    let (n, d) = (top + top_rest, bottom + bottom_rest);
    let (n_rest, d_rest) = ((top - n) + top_rest, (bottom - d) + bottom_rest);
    let w = 1.0 / d;
    let q = n * w;
    let missing = (-q).mul_add(d_rest, (-q).mul_add(d, n) + n_rest);
    if x == 0.0 { x } else { missing.mul_add(w, q) }
}

#[inline(always)]
pub(super) fn sin_f32(x: f32) -> f32 {
    let (s, c, q) = sin_cos_quadrant_f32(x);
    if x == 0.0 { x } else { pick_sine(s, c, q) as f32 }
}

#[inline(always)]
pub(super) fn cos_f32(x: f32) -> f32 {
    let (s, c, q) = sin_cos_quadrant_f32(x);
    pick_sine(s, c, q.wrapping_add(1)) as f32
}

#[inline(always)]
pub(super) fn tan_f32(x: f32) -> f32 {
    let (s, c, q) = sin_cos_quadrant_f32(x);
    if x == 0.0 { x } else { pick_tangent(s, c, q) as f32 }
}

/// The sine; std's beyond |x| = 2^19.
#[inline(always)]
pub fn sin<T: Real>(x: T) -> T {
    T::sin(x)
}

/// The cosine; std's beyond |x| = 2^19.
#[inline(always)]
pub fn cos<T: Real>(x: T) -> T {
    T::cos(x)
}

/// The tangent; std's beyond |x| = 2^19.
#[inline(always)]
pub fn tan<T: Real>(x: T) -> T {
    T::tan(x)
}

/// The trigonometric methods of [`Real`]: those of this file for arguments that fit, else std's.
macro_rules! trig_methods {
    ($t:ident) => {
        #[inline(always)]
        fn sin(x: $t) -> $t {
            if Self::trig_fits(x) { Self::sin_fit(x) } else { x.sin() }
        }
        #[inline(always)]
        fn cos(x: $t) -> $t {
            if Self::trig_fits(x) { Self::cos_fit(x) } else { x.cos() }
        }
        #[inline(always)]
        fn tan(x: $t) -> $t {
            if Self::trig_fits(x) { Self::tan_fit(x) } else { x.tan() }
        }
        #[inline(always)]
        fn sin_far(x: $t) -> $t {
            x.sin()
        }
        #[inline(always)]
        fn cos_far(x: $t) -> $t {
            x.cos()
        }
        #[inline(always)]
        fn tan_far(x: $t) -> $t {
            x.tan()
        }
        #[inline(always)]
        fn trig_fits(x: $t) -> bool {
            x.abs() <= trig::LIMIT as $t
        }
    };
}
pub(super) use trig_methods;
