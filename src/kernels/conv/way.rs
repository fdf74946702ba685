//! How a convolution is computed, and how units divide its output.
//!
//! Invariant: all follows from the geometry alone, so the bits of the results do, too.

use super::channel_lanes::LanesPlan;
use super::conv_plan::{ConvPlan, largest_divisor, weight_grad_blocks};
use super::depthwise;
use super::each_channel::{EachPlan, each_weight_blocks, fits_each};
use super::geom::ConvGeom;
use super::product::{fold_of, upright};
use super::winograd::{WinogradPlan, winograd_weight_blocks};
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
    /// Channels in the lanes, each with a kernel of its own.
    Each(EachPlan, Share),
    /// By values at points.
    Winograd(WinogradPlan, Share),
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

/// Whether there are too few channels for lanes, or for copies to be cheap beside products; or rows are too long.
fn keeps_strips(g: &ConvGeom) -> bool {
    let least = if g.windows_are_pixels() { 16 } else { 32 };
    let few = g.n == 0 || g.c_in / g.groups < least || g.c_out / g.groups < least;
    few || !(LanesPlan::forward(g).fits() && LanesPlan::backward(g).fits())
}

/// Whether windows are patches side by side, with enough taps and output channels for a product: each pixel is then
/// copied into one window, and a strip has no neighbours to share.
fn has_patches(g: &ConvGeom) -> bool {
    let patches = g.windows.stride == g.windows.kernel && g.windows.dilation == [1; 2] && g.window() > 1;
    // Of many source channels, lanes read pixels in place.
    patches && g.n > 0 && g.c_in / g.groups < 32 && g.c_out / g.groups >= 16 && g.taps() >= 32
}

/// Positions of an image from which on a weight gradient has channels in the lanes: of short sums, those of strips are
/// more accurate.
const EACH_POSITIONS: usize = 256;

/// Whether channels are the lanes of a depthwise convolution. The loops of `depthwise` are faster for wide rows.
fn has_each(g: &ConvGeom) -> bool {
    let wide = g.windows.size[1].min(g.windows.out()[1]) >= 16;
    fits_each(g) && !(wide && depthwise::fits(&ConvPlan::forward(g)))
}

/// Whether values at points are what is multiplied. A WebAssembly module has no code for it: it would be larger.
fn by_points(g: &ConvGeom) -> bool {
    cfg!(not(target_arch = "wasm32")) && g.winograd
}

/// How the weight gradient is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WeightWay {
    /// By strips of x, in parts by blocks of images.
    Strip,
    /// With output channels in the lanes.
    Lanes,
    /// As a matrix product.
    Product,
    /// With channels in the lanes, each with a kernel of its own, in parts by blocks of images.
    Each,
    /// By values at points, in parts by blocks of images.
    Winograd,
}

impl WeightWay {
    /// (image blocks, output channels of a unit).
    pub fn blocks(self, g: &ConvGeom) -> (usize, usize) {
        match self {
            WeightWay::Strip => weight_grad_blocks(g),
            WeightWay::Lanes | WeightWay::Product => (1, largest_divisor(g.c_out, 16)),
            WeightWay::Each => each_weight_blocks(g),
            WeightWay::Winograd => winograd_weight_blocks(g),
        }
    }

    /// Of a convolution.
    pub fn of(g: &ConvGeom) -> WeightWay {
        if by_points(g) {
            WeightWay::Winograd
        } else if has_each(g) && g.windows.out().iter().product::<usize>() >= EACH_POSITIONS {
            WeightWay::Each
        } else if has_patches(g) {
            WeightWay::Product
        } else if keeps_strips(g) {
            WeightWay::Strip
        } else if g.window() == 1 || upright(g) {
            WeightWay::Product
        } else {
            WeightWay::Lanes
        }
    }
}

impl Way {
    /// Of the forward pass.
    pub fn forward(g: &ConvGeom) -> Way {
        let area = g.windows.out()[0] * g.windows.out()[1];
        let product = |fold| Way::Product(Share::new(g.n, fold, g.c_out));
        let lanes = || Way::Lanes(LanesPlan::forward(g), Share::new(g.n, 1, g.c_out));
        if by_points(g) {
            let plan = WinogradPlan::forward(g);
            return Way::Winograd(plan, Share::new(g.n, plan.fold(), g.c_out));
        }
        if has_each(g) {
            Way::Each(EachPlan::forward(g), Share::new(g.n, 1, g.c_out))
        } else if keeps_strips(g) {
            Way::Strip(ConvPlan::forward(g))
        } else if g.windows_are_pixels() {
            product(if area < 128 { fold_of(g.n, area) } else { 1 })
        } else if g.window() == 1 || g.n * area < 128 {
            product(fold_of(g.n, area))
        } else {
            lanes()
        }
    }

    /// Of the input gradient.
    pub fn backward(g: &ConvGeom) -> Way {
        let area = g.windows.out()[0] * g.windows.out()[1];
        let product = |fold| Way::Product(Share::new(g.n, fold, g.c_in));
        let lanes = || Way::Lanes(LanesPlan::backward(g), Share::new(g.n, 1, g.c_in));
        if by_points(g) {
            let plan = WinogradPlan::backward(g);
            return Way::Winograd(plan, Share::new(g.n, plan.fold(), g.c_in));
        }
        if has_each(g) {
            Way::Each(EachPlan::backward(g), Share::new(g.n, 1, g.c_in))
        } else if keeps_strips(g) {
            Way::Strip(ConvPlan::backward(g))
        } else if g.windows_are_pixels() && area >= 128 {
            product(1)
        } else if g.windows_are_pixels() || (g.window() > 1 && g.n * area < 64) {
            product(fold_of(g.n, area))
        } else {
            lanes()
        }
    }

    /// How units divide an output of `size` = [images, channels, area], and their number.
    pub fn division(&self, [n, channels, area]: [usize; 3]) -> (Split, usize) {
        match self {
            Way::Strip(c) => c.division(),
            Way::Lanes(_, share) | Way::Product(share) | Way::Each(_, share) | Way::Winograd(_, share) => {
                share.division(n, channels, area)
            }
        }
    }
}
