//! Sliding windows: what convolutions, pools and im2col share.
//!
//! * `geometry`: the windows over the axes of an input, their number, and the reasons why there are none.
//! * [`im2col`]: windows as columns, and the adjoint.

mod geometry;
pub mod im2col;

pub use geometry::{WindowGeometry, axis_name};

/// How an output is divided: the number of units, and the elements of each but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Number of units.
    pub count: usize,
    /// Elements of the written operand per unit.
    pub per_unit: usize,
}

/// Whether the product of `sizes` is below 2³¹: the kernels keep offsets as `u32`.
pub(super) fn offsets_fit_u32(sizes: &[usize]) -> bool {
    sizes.iter().try_fold(1usize, |a, b| a.checked_mul((*b).max(1))).is_some_and(|v| v < 1 << 31)
}
