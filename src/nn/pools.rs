//! Pools, im2col and resizing under their names in `torch.nn.functional`. Each calls the method of [`Var`].

use crate::error::Kind;
use crate::nodes::{Interpolation, Pool1d, Pool2d, Pool3d, Unfold, Var};

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

/// The windows of x `[N, C, H, W]` as columns `[N, C·kh·kw, windows]`, as in `torch.nn.functional.unfold`: see
/// [`Var::im2col`].
#[track_caller]
pub fn unfold(x: Var<'_>, options: Unfold) -> Var<'_> {
    x.im2col(options)
}

/// Adds columns x `[N, C·kh·kw, windows]` into planes `[N, C, H, W]` with `size = [H, W]`, as in
/// `torch.nn.functional.fold`: see [`Var::col2im`].
#[track_caller]
pub fn fold(x: Var<'_>, size: [usize; 2], options: Unfold) -> Var<'_> {
    x.col2im(size, options)
}

/// x `[N, C, …]` with the axes after the second resized to `size`, as in `torch.nn.functional.interpolate`: see
/// [`Var::interpolate`].
#[track_caller]
pub fn interpolate<'g>(x: Var<'g>, size: &[usize], mode: Interpolation) -> Var<'g> {
    x.interpolate(size, mode)
}

/// x `[N, C, …]` with each of its one to three last axes `scale` times as long, as in `torch.nn.Upsample`.
#[track_caller]
pub fn upsample(x: Var<'_>, scale: usize, mode: Interpolation) -> Var<'_> {
    let d = x.dims();
    let size: Option<Vec<usize>> = d.iter().skip(2).map(|n| n.checked_mul(scale)).collect();
    match size {
        _ if !x.is_some() => x,
        Some(size) => x.interpolate(&size, mode),
        None => x.g.fail(Kind::Shape, format!("upsample({x:?}): a size overflows with scale {scale}")),
    }
}
