//! The error function.
//!
//! It and the exact GELU use Φ(−a) = e^(−a²/2) · mills(u) / (a + b) with u = (a − c) / (a + c), which keeps its
//! relative accuracy down to underflow. The constant b makes the polynomial `mills` nearly constant, so its error
//! contributes little.

use super::exp::{ExpWithRest, unclamped_with_rest};
use super::real_trait::Real;

/// Φ(−a) and e^(−a²/2) for a ≥ 0. h + low is a²/2 to twice the precision.
#[inline(always)]
pub(super) fn normal_tail<T: Real>(a: T, h: T, low: T) -> (ExpWithRest<T>, ExpWithRest<T>) {
    let e = unclamped_with_rest(-h, low);
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
    (ExpWithRest { head, rest, lifted: e.lifted }, e)
}

/// The error function.
#[inline(always)]
pub fn erf<T: Real>(x: T) -> T {
    let a = x.abs();
    let small = x.mul_add(T::erf_tail(x * x), x);
    let a = if a > T::ERF_HIGH { T::ERF_HIGH } else { a };
    let h = a * a;
    let tail = normal_tail(a * T::SQRT_2, h, a.mul_add(a, -h)).0;
    let tail = tail.head * tail.lifted * T::LIFT.1;
    let large = (T::ONE - (tail + tail)).with_sign(x);
    if a < T::ONE { small } else { large }
}
