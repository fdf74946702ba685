//! Sixteen neighbouring channels as one vector. Lanes past the last channel hold zeros.

use crate::float::Float;
use crate::gemm::{GemmFloat, transpose};
use std::array::from_fn;

/// Channels of a vector.
pub const LANES: usize = 16;

/// Partial sums of a vector.
pub const PARTS: usize = 4;

/// A number for each of sixteen channels.
pub type Lanes<T> = [T; LANES];

/// The first `width` lanes from `x[at]` on.
#[inline(always)]
pub fn load_lanes<T: Float>(x: &[T], at: usize, width: usize) -> Lanes<T> {
    let from = &x[at..at + width];
    match from.first_chunk() {
        Some(lanes) => *lanes,
        None => {
            let mut lanes = [T::ZERO; LANES];
            lanes[..width].copy_from_slice(from);
            lanes
        }
    }
}

/// Writes the first lanes, as many as `to` has elements.
#[inline(always)]
pub fn store_lanes<T: Float>(lanes: &Lanes<T>, to: &mut [T]) {
    match to.first_chunk_mut() {
        Some(to) => *to = *lanes,
        None => to.copy_from_slice(&lanes[..to.len()]),
    }
}

/// The first `width` lanes as four sums of every fourth lane, in a tree. Their sum is (0 + 2) + (1 + 3).
#[inline(always)]
pub fn sum_lanes_to_four<T: Float>(mut lanes: Lanes<T>, width: usize) -> [T; PARTS] {
    if width < LANES {
        lanes[width..].fill(T::ZERO);
    }
    let eight: [T; 8] = from_fn(|l| lanes[l] + lanes[l + 8]);
    from_fn(|l| eight[l] + eight[l + 4])
}

/// `width` rows of `lanes.len()` elements as columns: lane l of vector n is element n of row l.
pub fn transpose_to_lanes<T: GemmFloat>(rows: &[T], width: usize, lanes: &mut [Lanes<T>]) {
    let n = lanes.len();
    if width < LANES {
        lanes.fill([T::ZERO; LANES]);
    }
    transpose(rows, n, lanes.as_flattened_mut(), LANES, n, width);
}

/// The inverse of [`transpose_to_lanes`], for as many rows as fit into `rows`.
pub fn transpose_from_lanes<T: GemmFloat>(lanes: &[Lanes<T>], rows: &mut [T]) {
    let n = lanes.len();
    transpose(lanes.as_flattened(), LANES, rows, n, rows.len() / n.max(1), n);
}
