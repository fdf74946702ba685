//! The image that splats are projected into, and the limits of the projection.

use crate::nodes::arguments::setters::setters;
use crate::nodes::arguments::size_attrs::size_attr_to_i64;
use crate::nodes::ops::splat::attrs::SplatAttrs;

/// Options of [`Splats::render`](super::var::Splats::render).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SplatImage {
    /// Columns.
    pub width: usize,
    /// Rows; they run downwards.
    pub height: usize,
    /// Rows and columns of a tile. The image does not depend on it.
    pub tile: usize,
    /// The factor of all axes.
    pub radius_scale: f64,
    /// What is less opaque at a pixel is not blended there.
    pub alpha_cutoff: f64,
    /// Blending of a pixel stops when less of the light than this passes.
    pub transmittance: f64,
    /// The exponent of the colours.
    pub gamma: f64,
    /// The colour behind all splats, before the exponent.
    pub background: [f64; 3],
    /// The least depth of a centre that is drawn.
    pub near: f64,
    /// The greatest one.
    pub far: f64,
    /// The most splats that may touch a tile; 0 for no limit.
    pub max_list: usize,
    /// The most splats that may cover a pixel; 0 for no limit.
    pub max_steps: usize,
    /// Whether what exceeds a limit is left out, the nearest staying. Otherwise it ends the step with an error that
    /// names the tile and the count.
    pub truncate: bool,
}

impl SplatImage {
    /// An image of this size: tiles of 16 pixels, γ = 2.2, a black background, no limits.
    pub fn new(width: usize, height: usize) -> SplatImage {
        SplatImage {
            width,
            height,
            tile: 16,
            radius_scale: 1.0,
            alpha_cutoff: 1.0 / 255.0,
            transmittance: 1e-4,
            gamma: 2.2,
            background: [0.0; 3],
            near: 0.01,
            far: 1e6,
            max_list: 0,
            max_steps: 0,
            truncate: false,
        }
    }

    pub(super) fn attrs(&self) -> SplatAttrs {
        SplatAttrs {
            width: size_attr_to_i64(self.width),
            height: size_attr_to_i64(self.height),
            tile: size_attr_to_i64(self.tile),
            radius_scale: self.radius_scale,
            alpha_cutoff: self.alpha_cutoff,
            transmittance: self.transmittance,
            gamma: self.gamma,
            background: self.background.to_vec(),
            near: self.near,
            far: self.far,
            max_list: size_attr_to_i64(self.max_list),
            max_steps: size_attr_to_i64(self.max_steps),
            truncate: self.truncate,
        }
    }
}

setters! {
    [] SplatImage {
        width: usize,
        height: usize,
        tile: usize,
        radius_scale: f64,
        alpha_cutoff: f64,
        transmittance: f64,
        gamma: f64,
        background: [f64; 3],
        near: f64,
        far: f64,
        max_list: usize,
        max_steps: usize,
        truncate: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_tiles_of_16_pixels_a_black_background_and_no_limits() {
        let a = SplatImage::new(3, 4).attrs();
        assert_eq!((a.width, a.height, a.tile), (3, 4, 16));
        assert_eq!((a.radius_scale, a.gamma, a.transmittance), (1.0, 2.2, 1e-4));
        assert_eq!((a.alpha_cutoff, a.background), (1.0 / 255.0, vec![0.0; 3]));
        assert_eq!((a.near, a.far), (0.01, 1e6));
        assert_eq!((a.max_list, a.max_steps, a.truncate), (0, 0, false));
    }
}
