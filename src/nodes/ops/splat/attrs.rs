//! The attributes of all ops of splats.

use crate::ensure;
use crate::kernels::splat::Splat;
use crate::nodes::ir::attr_types::attrs;

/// The most rows or columns of an image or a tile.
const MOST_PIXELS: i64 = 1 << 16;

attrs! {
    /// Attributes of `splat_render` and its derivatives.
    pub struct SplatAttrs {
        /// Columns of the image.
        width: i64,
        /// Rows of the image.
        height: i64,
        /// Rows and columns of a tile.
        tile: i64,
        /// The factor of all axes of ellipsoids.
        radius_scale: f64,
        /// What is less opaque at a pixel is not blended there.
        alpha_cutoff: f64,
        /// Blending stops when less of the light than this passes.
        transmittance: f64,
        /// The exponent of the colours of the image.
        gamma: f64,
        /// The colour behind all splats.
        background: Vec<f64>,
        /// The least depth of a centre.
        near: f64,
        /// The greatest depth of a centre.
        far: f64,
        /// The most splats of a tile; 0 for no limit.
        max_list: i64,
        /// The most splats of a pixel; 0 for no limit.
        max_steps: i64,
        /// Whether what exceeds a limit is left out; else it is a fault.
        truncate: bool,
    }
}

impl SplatAttrs {
    /// Requires that each attribute is in its range.
    pub fn check(&self) -> Result<(), String> {
        for (name, n) in [("width", self.width), ("height", self.height), ("tile", self.tile)] {
            ensure!((1..=MOST_PIXELS).contains(&n), "{name} is {n}; it must be in 1..={MOST_PIXELS}");
        }
        for (name, n) in [("max_list", self.max_list), ("max_steps", self.max_steps)] {
            ensure!((0..=i64::from(i32::MAX)).contains(&n), "{name} is {n}; it must be in 0..={}", i32::MAX);
        }
        for (name, x) in [("radius_scale", self.radius_scale), ("gamma", self.gamma)] {
            ensure!(x > 0.0 && x <= 1e6, "{name} is {x}; it must be above 0 and at most 1e6");
        }
        for (name, x) in [("alpha_cutoff", self.alpha_cutoff), ("transmittance", self.transmittance)] {
            ensure!((0.0..=1.0).contains(&x), "{name} is {x}; it must be in 0..=1");
        }
        let finite = self.background.iter().all(|x| x.abs() <= 1e6);
        ensure!(self.background.len() == 3 && finite, "background is {:?}; it has three numbers", self.background);
        let (near, far) = (self.near, self.far);
        ensure!(near < far && near.is_finite(), "near is {near} and far is {far}; near must be finite and below far");
        Ok(())
    }

    /// The params of kernels for `count` splats with these dimensions of colours.
    pub fn params(&self, count: usize, colour: &[usize]) -> Splat {
        let size = |n: i64| usize::try_from(n).unwrap_or(0);
        let channel = |k: usize| self.background.get(k).copied().unwrap_or(0.0);
        Splat {
            count,
            coefficients: if colour.len() == 3 { colour[1] } else { 0 },
            width: size(self.width),
            height: size(self.height),
            tile: size(self.tile),
            radius_scale: self.radius_scale,
            alpha_cutoff: self.alpha_cutoff,
            transmittance: self.transmittance,
            gamma: self.gamma,
            red: channel(0),
            green: channel(1),
            blue: channel(2),
            near: self.near,
            far: self.far,
            max_list: size(self.max_list),
            max_steps: size(self.max_steps),
            truncate: self.truncate,
        }
    }
}
