//! Finite differences: the slope of a function from its values.

use std::convert::Infallible;

/// The slope at 0 of a function with these values at h, −h, 2·h and −2·h. The error is h⁴ times the fifth derivative,
/// so the step may be large against rounding.
pub fn slope_of_values([up, down, far_up, far_down]: [f64; 4], h: f64) -> f64 {
    (8.0 * (up - down) - (far_up - far_down)) / (12.0 * h)
}

/// The slope of `f` at 0, by steps of `h`.
///
/// ```
/// use arenagrad::tools::differences::slope;
///
/// assert!((slope(1e-3, f64::sin) - 1.0).abs() < 1e-12);
/// ```
pub fn slope(h: f64, mut f: impl FnMut(f64) -> f64) -> f64 {
    let Ok(slope) = try_slope::<Infallible>(h, |x| Ok(f(x)));
    slope
}

/// As [`slope`], for an `f` that may fail.
///
/// # Errors
/// The first of `f`.
pub fn try_slope<E>(h: f64, mut f: impl FnMut(f64) -> Result<f64, E>) -> Result<f64, E> {
    Ok(slope_of_values([f(h)?, f(-h)?, f(2.0 * h)?, f(-2.0 * h)?], h))
}
