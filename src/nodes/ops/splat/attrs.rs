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

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> SplatAttrs {
        SplatAttrs {
            width: 5,
            height: 4,
            tile: 2,
            radius_scale: 1.5,
            alpha_cutoff: 0.5,
            transmittance: 0.25,
            gamma: 2.0,
            background: vec![0.1, 0.2, 0.3],
            near: -1.0,
            far: 2.0,
            max_list: 6,
            max_steps: 7,
            truncate: true,
        }
    }

    fn edited(edit: fn(&mut SplatAttrs)) -> Result<(), String> {
        let mut attrs = plain();
        edit(&mut attrs);
        attrs.check()
    }

    #[test]
    fn numbers_up_to_the_ends_of_their_ranges_fit() {
        let fits: [fn(&mut SplatAttrs); 13] = [
            |a| a.width = 1,
            |a| a.height = 1 << 16,
            |a| a.tile = 1,
            |a| a.max_list = 0,
            |a| a.max_steps = i64::from(i32::MAX),
            |a| a.gamma = 1e6,
            |a| a.radius_scale = 0.5,
            |a| a.alpha_cutoff = 0.0,
            |a| a.transmittance = 1.0,
            |a| a.background = vec![-1e6, 1e6, 0.0],
            |a| a.far = f64::INFINITY,
            |a| a.near = 1.75,
            |a| a.truncate = false,
        ];
        for (i, edit) in fits.into_iter().enumerate() {
            assert_eq!(edited(edit), Ok(()), "edit {i}");
        }
    }

    #[test]
    fn numbers_beyond_their_ranges_are_named() {
        let bad: [(fn(&mut SplatAttrs), &str); 17] = [
            (|a| a.width = 0, "width is 0; it must be in 1..=65536"),
            (|a| a.height = (1 << 16) + 1, "height is 65537; it must be in 1..=65536"),
            (|a| a.tile = -1, "tile is -1; it must be in 1..=65536"),
            (|a| a.max_list = -1, "max_list is -1; it must be in 0..=2147483647"),
            (|a| a.max_steps = 1 << 31, "max_steps is 2147483648; it must be in 0..=2147483647"),
            (|a| a.gamma = 0.0, "gamma is 0; it must be above 0 and at most 1e6"),
            (|a| a.gamma = 1_000_000.5, "gamma is 1000000.5; it must be above 0"),
            (|a| a.radius_scale = -1.0, "radius_scale is -1; it must be above 0"),
            (|a| a.alpha_cutoff = -0.5, "alpha_cutoff is -0.5; it must be in 0..=1"),
            (|a| a.transmittance = 1.5, "transmittance is 1.5; it must be in 0..=1"),
            (|a| a.background = vec![0.0, 1_000_000.5, 0.0], "it has three numbers"),
            (|a| a.background = vec![0.5; 2], "background is [0.5, 0.5]; it has three numbers"),
            (|a| a.background = vec![0.5; 4], "it has three numbers"),
            (|a| a.far = -1.0, "near is -1 and far is -1; near must be finite and below far"),
            (|a| a.far = -3.0, "near is -1 and far is -3"),
            (|a| a.near = f64::NEG_INFINITY, "near is -inf and far is 2"),
            (|a| a.near = f64::NAN, "near is NaN and far is 2"),
        ];
        for (edit, why) in bad {
            let e = edited(edit).unwrap_err();
            assert!(e.contains(why), "{e}\nnot {why}");
        }
    }

    #[test]
    fn kernels_get_the_numbers_and_the_kind_of_the_colours() {
        let p = plain().params(9, &[9, 4, 3]);
        assert_eq!((p.count, p.coefficients, p.width, p.height, p.tile), (9, 4, 5, 4, 2));
        assert_eq!((p.radius_scale, p.alpha_cutoff, p.transmittance, p.gamma), (1.5, 0.5, 0.25, 2.0));
        assert_eq!((p.red, p.green, p.blue, p.near, p.far), (0.1, 0.2, 0.3, -1.0, 2.0));
        assert_eq!((p.max_list, p.max_steps, p.truncate), (6, 7, true));
        assert_eq!([&[9, 3][..], &[]].map(|colour| plain().params(9, colour).coefficients), [0, 0]);
        assert_eq!(SplatAttrs { background: Vec::new(), ..plain() }.params(1, &[]).red, 0.0);
    }
}
