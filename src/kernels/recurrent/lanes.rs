//! Sixteen neighbouring channels as one vector. Lanes past the last channel hold zeros.

use crate::float::Float;
use crate::gemm::{GemmFloat, transpose};
use std::array::from_fn;

/// Channels of a vector.
pub const LANES: usize = 16;

/// Half of them.
pub const HALF: usize = LANES / 2;

/// A number for each of sixteen channels.
pub type Lanes<T> = [T; LANES];

/// Writes the first lanes, as many as `x` has elements, and zeros behind them.
#[inline(always)]
pub fn copy_padded<T: Float>(x: &[T], lanes: &mut Lanes<T>) {
    match x.first_chunk() {
        Some(x) => *lanes = *x,
        None => {
            *lanes = [T::ZERO; LANES];
            lanes[..x.len()].copy_from_slice(x);
        }
    }
}

/// The first `width` lanes from `x[at]` on.
#[inline(always)]
pub fn load_vector<T: Float>(x: &[T], at: usize, width: usize) -> Lanes<T> {
    let mut lanes = [T::ZERO; LANES];
    copy_padded(&x[at..at + width], &mut lanes);
    lanes
}

/// Writes the first lanes, as many as `to` has elements.
#[inline(always)]
pub fn store_vector<T: Float>(lanes: &Lanes<T>, to: &mut [T]) {
    match to.first_chunk_mut() {
        Some(to) => *to = *lanes,
        None => to.copy_from_slice(&lanes[..to.len()]),
    }
}

/// The sum of each of four vectors: (0 + 2) + (1 + 3).
#[inline(always)]
pub fn sum_four_vectors<T: Float>(x: [[T; 4]; 4]) -> [T; 4] {
    let even: [T; 4] = from_fn(|i| x[i][0] + x[i][2]);
    let odd: [T; 4] = from_fn(|i| x[i][1] + x[i][3]);
    from_fn(|i| even[i] + odd[i])
}

/// `width` rows of `lanes.len()` elements as columns: lane l of vector n is element n of row l.
pub fn transpose_rows<T: GemmFloat>(rows: &[T], width: usize, lanes: &mut [Lanes<T>]) {
    let n = lanes.len();
    if width < LANES {
        lanes.fill([T::ZERO; LANES]);
    }
    transpose(rows, n, lanes.as_flattened_mut(), LANES, n, width);
}

/// The inverse of [`transpose_rows`], for as many rows as fit into `rows`.
pub fn transpose_to_rows<T: GemmFloat>(lanes: &[Lanes<T>], rows: &mut [T]) {
    let n = lanes.len();
    transpose(lanes.as_flattened(), LANES, rows, n, rows.len() / n.max(1), n);
}

/// The larger magnitude in each lane; NaN if one is.
#[inline(always)]
pub fn larger_magnitudes<T: Float>(most: &Lanes<T>, x: &Lanes<T>) -> Lanes<T> {
    from_fn(|l| if x[l].abs() <= most[l] || most[l].is_nan() { most[l] } else { x[l].abs() })
}

/// The largest magnitude in each lane; NaN if one is.
#[inline(always)]
pub fn largest_magnitudes<T: Float>(x: &[Lanes<T>]) -> Lanes<T> {
    x.iter().fold([T::ZERO; LANES], |most, x| larger_magnitudes(&most, x))
}

/// The products of two vectors: the lower half of the lanes is added to `sums`, then the upper half. `FULL` if all
/// lanes are channels, else the first `width` are.
#[inline(always)]
pub fn add_lane_products<T: Float, const FULL: bool>(x: &Lanes<T>, y: &Lanes<T>, width: usize, sums: &mut [T; HALF]) {
    let only = |x: &Lanes<T>| -> Lanes<T> { from_fn(|l| if FULL || l < width { x[l] } else { T::ZERO }) };
    let (x, y) = (only(x), only(y));
    *sums = from_fn(|l| x[l + HALF].mul_add(y[l + HALF], x[l].mul_add(y[l], sums[l])));
}
