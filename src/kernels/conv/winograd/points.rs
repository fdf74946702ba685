//! Values at points: the transforms of pixels, taps and positions, along one axis and along both.
//!
//! A value at point p of a polynomial is Σ cᵢ pⁱ; at ∞ it is the highest coefficient. The pixels' transform is the
//! adjoint of interpolation, so it has the coefficients of the polynomials that vanish at all points but one.

// Values stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use super::super::conv_micro::fma_arrays;
use crate::float::Float;

/// Positions of a tile along an axis.
pub(super) const TILE: usize = 4;
/// Taps along an axis.
pub(super) const TAPS: usize = 3;
/// Points along an axis, and pixels that a tile reads.
pub(super) const POINTS: usize = TILE + TAPS - 1;

/// The points are 0, NEAR, −NEAR, FAR, −FAR and ∞.
const NEAR: f64 = 0.75;
const FAR: f64 = 1.5;
const NEAR_2: f64 = NEAR * NEAR;
const FAR_2: f64 = FAR * FAR;

#[inline(always)]
fn add<T: Float, const L: usize>(a: [T; L], b: [T; L]) -> [T; L] {
    std::array::from_fn(|l| a[l] + b[l])
}

#[inline(always)]
fn sub<T: Float, const L: usize>(a: [T; L], b: [T; L]) -> [T; L] {
    std::array::from_fn(|l| a[l] - b[l])
}

#[inline(always)]
fn times<T: Float, const L: usize>(a: [T; L], by: f64) -> [T; L] {
    let by = T::from_f64(by);
    std::array::from_fn(|l| a[l] * by)
}

/// `a · by + c`.
#[inline(always)]
fn plus<T: Float, const L: usize>(c: [T; L], a: [T; L], by: f64) -> [T; L] {
    fma_arrays(a, [T::from_f64(by); L], c)
}

/// Pixels to their values at the points.
#[inline(always)]
pub(super) fn pixels_at_points<T: Float, const L: usize>(d: [[T; L]; POINTS]) -> [[T; L]; POINTS] {
    let near = (plus(d[4], d[2], -FAR_2), times(plus(d[3], d[1], -FAR_2), NEAR));
    let far = (plus(d[4], d[2], -NEAR_2), times(plus(d[3], d[1], -NEAR_2), FAR));
    let ends = |a, b, c| plus(plus(c, b, -(NEAR_2 + FAR_2)), a, NEAR_2 * FAR_2);
    [
        ends(d[0], d[2], d[4]),
        add(near.0, near.1),
        sub(near.0, near.1),
        add(far.0, far.1),
        sub(far.0, far.1),
        ends(d[1], d[3], d[5]),
    ]
}

/// The weights of the products at 0, ±NEAR and ±FAR in an interpolation.
const AT_ZERO: f64 = 1.0 / (NEAR_2 * FAR_2);
const AT_NEAR: f64 = 1.0 / (2.0 * NEAR_2 * (NEAR_2 - FAR_2));
const AT_FAR: f64 = 1.0 / (2.0 * FAR_2 * (FAR_2 - NEAR_2));

/// Taps to their values at the points, times the weights of the interpolation.
#[inline(always)]
pub(super) fn taps_at_points<T: Float, const L: usize>(g: [[T; L]; TAPS]) -> [[T; L]; POINTS] {
    let near = (times(plus(g[0], g[2], NEAR_2), AT_NEAR), times(g[1], NEAR * AT_NEAR));
    let far = (times(plus(g[0], g[2], FAR_2), AT_FAR), times(g[1], FAR * AT_FAR));
    [times(g[0], AT_ZERO), add(near.0, near.1), sub(near.0, near.1), add(far.0, far.1), sub(far.0, far.1), g[2]]
}

/// The adjoint of [`taps_at_points`].
#[inline(always)]
pub(super) fn points_to_taps<T: Float, const L: usize>(u: [[T; L]; POINTS]) -> [[T; L]; TAPS] {
    let (near, far) = (times(add(u[1], u[2]), AT_NEAR), times(add(u[3], u[4]), AT_FAR));
    let odd = times(sub(u[1], u[2]), NEAR * AT_NEAR);
    [
        plus(add(near, far), u[0], AT_ZERO),
        plus(odd, sub(u[3], u[4]), FAR * AT_FAR),
        plus(plus(u[5], near, NEAR_2), far, FAR_2),
    ]
}

/// Products at the points to positions.
#[inline(always)]
pub(super) fn points_to_positions<T: Float, const L: usize>(m: [[T; L]; POINTS]) -> [[T; L]; TILE] {
    let (near, far) = ((add(m[1], m[2]), sub(m[1], m[2])), (add(m[3], m[4]), sub(m[3], m[4])));
    [
        add(m[0], add(near.0, far.0)),
        plus(times(near.1, NEAR), far.1, FAR),
        plus(times(near.0, NEAR_2), far.0, FAR_2),
        plus(plus(m[5], near.1, NEAR * NEAR_2), far.1, FAR * FAR_2),
    ]
}

/// The adjoint of [`points_to_positions`].
#[inline(always)]
pub(super) fn positions_at_points<T: Float, const L: usize>(y: [[T; L]; TILE]) -> [[T; L]; POINTS] {
    let near = (plus(y[0], y[2], NEAR_2), times(plus(y[1], y[3], NEAR_2), NEAR));
    let far = (plus(y[0], y[2], FAR_2), times(plus(y[1], y[3], FAR_2), FAR));
    [y[0], add(near.0, near.1), sub(near.0, near.1), add(far.0, far.1), sub(far.0, far.1), y[3]]
}

/// A transform along both axes: `load(row, column)` gives what `store(row, column, value)` takes, after `one` along
/// columns and then along rows.
#[inline(always)]
pub(super) fn along_both<T: Float, const A: usize, const B: usize, const L: usize>(
    load: impl Fn(usize, usize) -> [T; L],
    mut store: impl FnMut(usize, usize, [T; L]),
    one: impl Fn([[T; L]; A]) -> [[T; L]; B],
) {
    let mut half = [[[T::ZERO; L]; A]; B];
    for j in 0..A {
        let column = one(std::array::from_fn(|i| load(i, j)));
        for i in 0..B {
            half[i][j] = column[i];
        }
    }
    for (i, row) in half.into_iter().enumerate() {
        for (j, value) in one(row).into_iter().enumerate() {
            store(i, j, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matrix of a transform, a column for each unit vector.
    fn matrix<const A: usize, const B: usize>(one: impl Fn([[f64; 1]; A]) -> [[f64; 1]; B]) -> [[f64; A]; B] {
        let mut m = [[0.0; A]; B];
        for j in 0..A {
            let unit = std::array::from_fn(|i| [f64::from(u8::from(i == j))]);
            one(unit).iter().zip(&mut m).for_each(|(v, row)| row[j] = v[0]);
        }
        m
    }

    #[test]
    fn positions_are_sums_over_taps() {
        let d = [0.5, -1.25, 2.0, 0.75, -0.5, 3.0].map(|v| [v]);
        let g = [1.5, -0.25, 2.0].map(|v| [v]);
        let (d_at, g_at): ([[f64; 1]; 6], _) = (pixels_at_points(d), taps_at_points(g));
        let y = points_to_positions(std::array::from_fn(|p| [d_at[p][0] * g_at[p][0]]));
        for (i, y) in y.iter().enumerate() {
            let want: f64 = (0..TAPS).map(|k| d[i + k][0] * g[k][0]).sum();
            assert!((y[0] - want).abs() < 1e-12, "{i}: {} for {want}", y[0]);
        }
    }

    #[test]
    fn adjoints_are_transposes() {
        let (a, b) = (matrix(taps_at_points::<f64, 1>), matrix(points_to_taps::<f64, 1>));
        let (c, d) = (matrix(points_to_positions::<f64, 1>), matrix(positions_at_points::<f64, 1>));
        for p in 0..POINTS {
            (0..TAPS).for_each(|i| assert!((a[p][i] - b[i][p]).abs() < 1e-15));
            (0..TILE).for_each(|i| assert!((c[i][p] - d[p][i]).abs() < 1e-15));
        }
    }
}
