//! Pools: ops over planes, and formulas of them over other numbers of axes and to a given size.

mod adaptive_pool;
pub mod attrs;
pub mod lower;
mod planes;
pub mod pool2d;
pub mod pool_options;
pub mod var;

use crate::ensure;
use crate::nodes::ops::common::window_geometry::first_entries;

/// The last two dimensions.
pub fn last_two_dims(d: &[usize]) -> [usize; 2] {
    first_entries(d.get(2..).unwrap_or(&[]))
}

/// Checks a plane whose positions are counted in `i32`.
pub(super) fn check_i32_plane(hw: [usize; 2]) -> Result<(), String> {
    let n = hw[0].checked_mul(hw[1]);
    ensure!(n.is_some_and(|n| n <= i32::MAX as usize), "a plane of {hw:?} has more places than i32");
    Ok(())
}
