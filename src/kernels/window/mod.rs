//! Sizes that convolutions, pools and im2col share: the number of windows, the limit of offsets, units of work.

pub mod im2col;

/// How an output is divided: the number of units, and the elements of each but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Number of units.
    pub count: usize,
    /// Elements of the written operand per unit.
    pub per_unit: usize,
}

/// Number of windows of `k` taps, `dilation` apart, along an axis of `size` elements with `pad` around it; `None` if
/// none fits or a size overflows.
pub(super) fn count_windows(size: usize, k: usize, stride: usize, pad: [usize; 2], dilation: usize) -> Option<usize> {
    let window = k.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
    let room = size.checked_add(pad[0])?.checked_add(pad[1])?.checked_sub(window)?;
    room.checked_div(stride)?.checked_add(1)
}

/// Whether the product of `sizes` is below 2³¹: the kernels keep offsets as `u32`.
pub(super) fn offsets_fit_u32(sizes: &[usize]) -> bool {
    sizes.iter().try_fold(1usize, |a, b| a.checked_mul((*b).max(1))).is_some_and(|v| v < 1 << 31)
}
