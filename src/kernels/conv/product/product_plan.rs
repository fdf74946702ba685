//! Sizes of the blocks of convolutions as products.
//!
//! Invariant: all follows from the geometry alone, so the bits of the results do, too.

use super::super::geom::ConvGeom;

/// Columns of a block of windows.
pub(super) const COLUMNS: usize = 128;
/// Rows of a block of windows, about: terms of a sum between two visits of the output.
pub(super) const TERMS: usize = 512;
/// Output channels of a block of the forward pass.
pub(super) const ROWS: usize = 1024;
/// Rows of a block of weightsᵀ.
pub(super) const INPUT_ROWS: usize = 128;
/// Positions of a block of the weight gradient; rows of a block of windows; output channels.
pub(super) const WEIGHT_BLOCK: usize = 256;

/// A gradient of more bytes than this comes from memory.
pub(super) const FAR_GRADIENT: usize = 512 << 10;

/// Images side by side: as many as leave the fewest lanes of a product idle, but no more than fill a block.
pub(in super::super) fn fold_of(n: usize, area: usize) -> usize {
    let most = (2 * COLUMNS).div_ceil(area).min(n).max(1);
    let idle = |fold: usize| (fold * area).next_multiple_of(16) as f64 / (fold * area) as f64;
    (1..=most).rev().min_by(|a, b| idle(*a).total_cmp(&idle(*b))).unwrap_or(1)
}

/// Whether the product of the weight gradient is the gradient itself, not its transpose: with few positions, windows
/// take less time to transpose than the gradient.
pub(in super::super) fn upright(g: &ConvGeom) -> bool {
    g.n * g.windows.out()[0] * g.windows.out()[1] < g.c_out / g.groups
}
