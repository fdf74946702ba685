//! Resizing under its names in torch. Each calls the method of [`Var`].

use crate::error::Kind;
use crate::nodes::{Interpolation, Var};

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
        Some(size) => x.interpolate(&size, mode),
        None => x.g.fail(Kind::Shape, format!("upsample({x:?}): a size overflows with scale {scale}")),
    }
}
