//! Length of a vector of two numbers. That of `f64` serves `f32` too: an `f32` is widened first.

/// √(x² + y²) without overflow or underflow in between; ∞ if either is infinite, even beside NaN.
#[inline(always)]
pub fn hypot(x: f64, y: f64) -> f64 {
    let (a, b) = (x.abs(), y.abs());
    // NaN fails the comparison and reaches both the sum and the result.
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    const UP: f64 = f64::from_bits((1023 + 600) << 52);
    const DOWN: f64 = f64::from_bits((1023 - 600) << 52);
    let small = if high < 1e-120 { (UP, DOWN) } else { (1.0, 1.0) };
    let (by, back) = if high > 1e150 { (DOWN, UP) } else { small };
    let (h, l) = (high * by, low * by);
    let y = l.mul_add(l, h * h).sqrt() * back;
    if a == f64::INFINITY || b == f64::INFINITY { f64::INFINITY } else { y }
}
