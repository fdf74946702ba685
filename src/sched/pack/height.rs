//! The integer type of heights in the search: `u32` where sums fit, else `u64`.

use std::fmt::Debug;
use std::ops::{Add, Sub};

/// An unsigned number of units.
pub trait Height: Copy + Ord + Debug + Add<Output = Self> + Sub<Output = Self> {
    /// Zero units.
    const ZERO: Self;
    /// The bound of a placed buffer, so that minima over unplaced ones ignore it. Above any height; its sum with a
    /// height does not overflow.
    const FAR: Self;
    /// `x`, which must be below [`Height::FAR`].
    fn narrow_height(x: u64) -> Self;
    /// As a `u64`.
    fn wide_height(self) -> u64;
}

impl Height for u32 {
    const ZERO: u32 = 0;
    const FAR: u32 = 1 << 31;

    fn narrow_height(x: u64) -> u32 {
        debug_assert!(x < 1 << 31);
        x as u32
    }

    fn wide_height(self) -> u64 {
        u64::from(self)
    }
}

impl Height for u64 {
    const ZERO: u64 = 0;
    const FAR: u64 = 1 << 63;

    fn narrow_height(x: u64) -> u64 {
        x
    }

    fn wide_height(self) -> u64 {
        self
    }
}
