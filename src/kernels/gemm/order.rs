//! The order of the sums in a dot product: the same on every instruction set.
//!
//! Lane `l` of [`LANES_BYTES`] bytes' worth of lanes sums the products at `k ≡ l`, ascending; then the upper half of
//! the lanes is added to the lower half until one is left. Only `tile` and `portable` beside it use this.

use crate::kernels::float::Float;

/// The lanes of a dot product fill one cache line: sixteen for `f32`, eight for `f64`.
pub const LANES_BYTES: usize = 64;

/// The sum of the lanes.
#[inline(always)]
pub fn fold<T: Float, const L: usize>(mut lanes: [T; L]) -> T {
    let mut half = L / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] += lanes[l + half];
        }
        half /= 2;
    }
    lanes[0]
}
