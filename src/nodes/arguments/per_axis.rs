//! A number for each axis, as options of windows take it.

/// A number for each of `N` axes, as options of windows take it: one number for all axes, or one for each.
///
/// ```
/// use arenagrad::prelude::*;
///
/// assert_eq!(Conv2d::default().stride(2), Conv2d::default().stride([2, 2]));
/// assert_eq!(Conv2d::default().padding([1, 0]).pad, [1, 1, 0, 0]);
/// ```
pub trait PerAxis<const N: usize> {
    /// The number of each axis.
    fn per_axis(self) -> [usize; N];
}

impl<const N: usize> PerAxis<N> for usize {
    fn per_axis(self) -> [usize; N] {
        [self; N]
    }
}

impl<const N: usize> PerAxis<N> for [usize; N] {
    fn per_axis(self) -> [usize; N] {
        self
    }
}

/// The same padding on both sides of each axis: `[before, after, before, after, …]`.
pub fn both_sides_per_axis<const N: usize, const P: usize>(padding: impl PerAxis<N>) -> [usize; P] {
    let padding = padding.per_axis();
    std::array::from_fn(|i| padding.get(i / 2).copied().unwrap_or(0))
}
