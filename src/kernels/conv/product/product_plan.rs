//! Which convolutions are products, the sizes of their blocks, and how units divide the output.
//!
//! Invariant: all follows from the geometry alone, so the bits of the results do, too.

use super::super::conv_plan::largest_divisor;
use super::super::geom::ConvGeom;
use crate::abi::{MatrixMut, Split};
use std::ops::Range;

/// Columns of a block of windows.
pub(super) const COLUMNS: usize = 128;
/// Rows of a block of windows, about: terms of a sum between two visits of the output.
pub(super) const TERMS: usize = 512;
/// Output channels of a block of the forward pass.
pub(super) const ROWS: usize = 1024;
/// Rows of a block of weightsᵀ.
pub(super) const INPUT_ROWS: usize = 128;
/// Most positions of dy that are multiplied at once for the input gradient.
pub(super) const INPUT_COLUMNS: usize = 1024;
/// Positions of a block of the weight gradient; rows of a block of windows; output channels.
pub(super) const WEIGHT_BLOCK: usize = 256;

/// How units divide an output `[n, channels, area]` of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ProductShare {
    /// Images side by side in a product.
    pub fold: usize,
    /// Channels of a unit, of all images; `None` if a unit is `fold` images.
    pub channels: Option<usize>,
}

impl ProductShare {
    /// The share of an output of `n` images, whose products have `area` columns for each. Units are images if four
    /// units have whole blocks.
    fn new(n: usize, area: usize, channels: usize) -> ProductShare {
        let fold = fold_of(n, area);
        if n.div_ceil(fold) >= 4 {
            return ProductShare { fold, channels: None };
        }
        ProductShare { fold, channels: Some(largest_divisor(channels, 32)) }
    }

    /// The split of an output with `area` elements in each of `channels` planes of an image; number of units.
    pub fn division(self, n: usize, channels: usize, area: usize) -> (Split, usize) {
        match self.channels {
            Some(some) => (Split::Columns { row: channels * area, width: some * area }, channels / some),
            None => (Split::PerUnit(self.fold * channels * area), n.div_ceil(self.fold)),
        }
    }

    /// The images and the channels of `units`, and their part `to` of the output as a row for each image.
    pub fn part<T>(
        self,
        n: usize,
        channels: usize,
        area: usize,
        units: Range<usize>,
        to: MatrixMut<'_, T>,
    ) -> ((Range<usize>, Range<usize>), MatrixMut<'_, T>) {
        if let Some(some) = self.channels {
            return ((0..n, units.start * some..units.end * some), to);
        }
        let images = units.start * self.fold..n.min(units.end * self.fold);
        let to = to.wrapped(images.len(), channels * area);
        ((images, 0..channels), to)
    }
}

/// Images side by side: as many as leave the fewest lanes of a product idle, but no more than fill a block.
fn fold_of(n: usize, area: usize) -> usize {
    let most = (2 * COLUMNS).div_ceil(area).min(n).max(1);
    let idle = |fold: usize| (fold * area).next_multiple_of(16) as f64 / (fold * area) as f64;
    (1..=most).rev().min_by(|a, b| idle(*a).total_cmp(&idle(*b))).unwrap_or(1)
}

fn tune(name: &str) -> usize {
    std::env::var(name).ok().map_or(1, |v| v.parse().unwrap())
}

/// The share of the forward pass, if it is a product.
pub(in super::super) fn forward_share(g: &ConvGeom) -> Option<ProductShare> {
    let area = g.out_h() * g.out_w();
    let wanted = tune("FWD") == 1 && g.c_out / g.groups >= 16;
    (wanted && g.n > 0).then(|| ProductShare::new(g.n, area, g.c_out))
}

/// The share of the input gradient, if it is a product.
pub(in super::super) fn input_share(g: &ConvGeom) -> Option<ProductShare> {
    let area = g.out_h() * g.out_w();
    let wanted = tune("DX") == 1 && g.c_out / g.groups >= 16 && area <= INPUT_COLUMNS;
    (wanted && g.n > 0).then(|| ProductShare::new(g.n, area, g.c_in))
}

/// Whether the weight gradient is a product.
pub(in super::super) fn weight_is_product(g: &ConvGeom) -> bool {
    tune("DW") == 1 && g.n > 0 && g.c_out / g.groups >= 16
}
