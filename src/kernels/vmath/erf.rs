//! The error function and the exact GELU.
//!
//! Both use Φ(−a) = e^(−a²/2) · mills(u) / (a + b) with u = (a − c) / (a + c), which keeps its relative accuracy down
//! to underflow. The constant b makes the polynomial `mills` nearly constant, so its error contributes little.

use super::exp::{Power, power};
use super::real::Real;
use super::sigmoid::nan_below;

/// Φ(−a) and e^(−a²/2) for a ≥ 0. h + low is a²/2 to twice the precision.
#[inline(always)]
pub(super) fn upper<T: Real>(a: T, h: T, low: T) -> (Power<T>, Power<T>) {
    let e = power(-h, low);
    // 1 / (a + b) and 1 / (a + c) with one division. `lack` is the relative error of the former.
    let (b, c) = (T::MILLS_B, T::MILLS_C);
    let (d, far) = (a + b, a + c);
    let r = T::ONE / (d * far);
    let w = r * far;
    let lack = (-w).mul_add(b, (-w).mul_add(a, T::ONE));
    let u = (a - c) * (r * d);
    let q = T::mills_tail(u);
    let g = u.mul_add(q, T::MILLS_0.0);
    let g_rest = u.mul_add(q, T::MILLS_0.0 - g) + T::MILLS_0.1;
    // (g + g_rest) · (e.head + e.rest) · (w + w·lack).
    let p = g * e.head;
    let p_rest = g.mul_add(e.rest, g_rest.mul_add(e.head, g.mul_add(e.head, -p)));
    let head = p * w;
    let rest = w.mul_add(p.mul_add(lack, p_rest), p.mul_add(w, -head));
    (Power { head, rest, lifted: e.lifted }, e)
}

/// The error function.
#[inline(always)]
pub fn erf<T: Real>(x: T) -> T {
    let a = x.abs();
    let small = x.mul_add(T::erf_tail(x * x), x);
    let a = if a > T::ERF_HIGH { T::ERF_HIGH } else { a };
    let h = a * a;
    let tail = upper(a * T::SQRT_2, h, a.mul_add(a, -h)).0;
    let tail = tail.head * tail.lifted * T::LIFT.1;
    let large = (T::ONE - (tail + tail)).with_sign(x);
    if a < T::ONE { small } else { large }
}

/// ([`gelu`], [`gelu_grad`]) of x.
#[inline(always)]
pub fn gelu_both<T: Real>(x: T) -> (T, T) {
    let a = x.abs();
    let a = if a > T::PHI_HIGH { T::PHI_HIGH } else { a };
    let s = a * a;
    let (tail, e) = upper(a, T::HALF * s, T::HALF * a.mul_add(a, -s));
    // x·Φ(−|x|).
    let c = a.with_sign(x);
    let p = c * tail.head;
    let p_rest = c.mul_add(tail.rest, c.mul_add(tail.head, -p));
    let two = tail.lifted * T::LIFT.1;
    let y = (p + p_rest) * tail.lifted * T::LIFT.1;
    let y = nan_below(x, if x < T::ZERO { y.with_sign(x) } else { x - y });
    let less = tail.head * two;
    let below = if x < T::ZERO { less } else { T::ONE - less };
    (y, (c * T::INV_SQRT_2PI).mul_add(e.head * two, below))
}

/// x·Φ(x) = ½x(1 + erf(x/√2)), accurate in the lower tail, too; NaN at −∞, as the formula gives.
#[inline(always)]
pub fn gelu<T: Real>(x: T) -> T {
    gelu_both(x).0
}

/// The derivative of [`gelu`]: Φ(x) + xφ(x). It has a root, so its error is a few ulp of 1, not of the result.
#[inline(always)]
pub fn gelu_grad<T: Real>(x: T) -> T {
    gelu_both(x).1
}
