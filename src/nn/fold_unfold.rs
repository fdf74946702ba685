//! im2col and col2im under their names in `torch.nn.functional`. Each calls the method of [`Var`].

use crate::nodes::{Unfold, Var};

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
