//! How a convolution is computed, and how units divide its output.
//!
//! Invariant: all follows from the geometry alone, so the bits of the results do, too.

use super::channel_lanes::LanesPlan;
use super::conv_plan::{ConvPlan, largest_divisor};
use super::geom::ConvGeom;
use crate::abi::{MatrixMut, Split};
use std::ops::Range;

/// How the forward pass or the input gradient is computed.
pub(super) enum Way {
    /// Positions, or images, in the lanes.
    Strip(ConvPlan),
    /// Channels in the lanes.
    Lanes(LanesPlan, Share),
    /// As a matrix product.
    Product(Share),
}

/// How units divide an output `[n, channels, area]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Images side by side in a product.
    pub fold: usize,
    /// Channels of a unit, of all images; `None` if a unit is `fold` images.
    pub channels: Option<usize>,
}

impl Share {
    /// The share of an output of `n` images. Units are images if there are four units.
    pub fn new(n: usize, fold: usize, channels: usize) -> Share {
        let by_images = n.div_ceil(fold) >= 4;
        Share { fold, channels: (!by_images).then(|| largest_divisor(channels, 32)) }
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
        [n, channels, area]: [usize; 3],
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

pub(super) fn tune(name: &str, or: usize) -> usize {
    std::env::var(name).ok().map_or(or, |v| v.parse().unwrap())
}

impl Way {
    /// Of the forward pass.
    pub fn forward(g: &ConvGeom) -> Way {
        let area = g.out_h() * g.out_w();
        match tune("FWD", 2) {
            1 if g.n > 0 && g.c_out / g.groups >= 16 => Way::Product(Share::new(g.n, super::product::fold_of(g.n, area), g.c_out)),
            2 if g.n > 0 && g.c_out / g.groups >= 16 => Way::Lanes(LanesPlan::forward(g), Share::new(g.n, 1, g.c_out)),
            _ => Way::Strip(ConvPlan::forward(g)),
        }
    }

    /// Of the input gradient.
    pub fn backward(g: &ConvGeom) -> Way {
        let area = g.out_h() * g.out_w();
        match tune("DX", 2) {
            1 if g.n > 0 && g.c_out / g.groups >= 16 && area <= 1024 => Way::Product(Share::new(g.n, super::product::fold_of(g.n, area), g.c_in)),
            2 if g.n > 0 && g.c_out / g.groups >= 16 => Way::Lanes(LanesPlan::backward(g), Share::new(g.n, 1, g.c_in)),
            _ => Way::Strip(ConvPlan::backward(g)),
        }
    }

    /// How units divide an output of `size` = [images, channels, area], and their number.
    pub fn division(&self, [n, channels, area]: [usize; 3]) -> (Split, usize) {
        match self {
            Way::Strip(c) => c.division(),
            Way::Lanes(_, share) | Way::Product(share) => share.division(n, channels, area),
        }
    }
}
