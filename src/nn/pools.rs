//! Pools under their names in `torch.nn.functional`. Each calls the method of [`Var`].

use crate::nodes::{Pool1d, Pool2d, Pool3d, Var};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($options:ty);)*) => {
        $($(#[$doc])*
        #[track_caller]
        pub fn $name(x: Var<'_>, options: $options) -> Var<'_> {
            x.$name(options)
        })*
    };
}

functions! {
    /// The largest element of each window of x `[N, C, L]`.
    max_pool1d(Pool1d);
    /// The largest element of each window of x `[N, C, H, W]`.
    max_pool2d(Pool2d);
    /// The largest element of each window of x `[N, C, D, H, W]`.
    max_pool3d(Pool3d);
    /// The least element of each window of x `[N, C, L]` (torch has none: −max_pool(−x)).
    min_pool1d(Pool1d);
    /// The least element of each window of x `[N, C, H, W]`.
    min_pool2d(Pool2d);
    /// The least element of each window of x `[N, C, D, H, W]`.
    min_pool3d(Pool3d);
    /// The mean of each window of x `[N, C, L]`.
    avg_pool1d(Pool1d);
    /// The mean of each window of x `[N, C, H, W]`.
    avg_pool2d(Pool2d);
    /// The mean of each window of x `[N, C, D, H, W]`.
    avg_pool3d(Pool3d);
    /// The sum of each window of x `[N, C, L]` (torch: avg_pool with `divisor_override` 1).
    sum_pool1d(Pool1d);
    /// The sum of each window of x `[N, C, H, W]`.
    sum_pool2d(Pool2d);
    /// The sum of each window of x `[N, C, D, H, W]`.
    sum_pool3d(Pool3d);
    /// The largest element of each window of x `[N, C, L]`. `options` is the number n of windows; window i goes
    /// from ⌊i·L/n⌋ to ⌈(i + 1)·L/n⌉.
    adaptive_max_pool1d([usize; 1]);
    /// The largest element of each window of x `[N, C, H, W]`. `options` is the number of windows along each axis; see
    /// [`adaptive_max_pool1d`].
    adaptive_max_pool2d([usize; 2]);
    /// The largest element of each window of x `[N, C, D, H, W]`. `options` is the number of windows along each axis;
    /// see [`adaptive_max_pool1d`].
    adaptive_max_pool3d([usize; 3]);
    /// The mean of each window of x `[N, C, L]`. `options` is the number of windows; see [`adaptive_max_pool1d`].
    adaptive_avg_pool1d([usize; 1]);
    /// The mean of each window of x `[N, C, H, W]`. `options` is the number of windows along each axis; see
    /// [`adaptive_max_pool1d`].
    adaptive_avg_pool2d([usize; 2]);
    /// The mean of each window of x `[N, C, D, H, W]`. `options` is the number of windows along each axis; see
    /// [`adaptive_max_pool1d`].
    adaptive_avg_pool3d([usize; 3]);
}
