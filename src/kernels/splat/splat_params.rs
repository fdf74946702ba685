//! The params of all kernels of splats, and the layout of the buffers between these kernels.
//!
//! The view is `T[4, 3]`: the place of the camera, then right, up and forward. The ray of the pixel in row i and column
//! j points along (j + ½ − width/2)·right + (height/2 − i − ½)·up + forward; so rows run downwards.

use crate::float::Float;
use crate::params::params;
use crate::scratch::scratch;

/// Numbers of a splat as rays meet it: the matrix A that maps its ellipsoid to the unit ball, by rows; A·(camera −
/// centre); the opacity; the colour.
pub const RECORD: usize = 16;

/// Numbers of the tangent of such a splat, and of its gradient. With c, the point of the ray that is closest to the
/// centre, as A maps it, the tangent of ½|c|² is Σ Ωᵢⱼcᵢcⱼ (i ≤ j) + h·c: first Ω₀₀ Ω₁₁ Ω₂₂ Ω₀₁ Ω₀₂ Ω₁₂, then h, the
/// opacity and the colour.
pub const MOMENTS: usize = 13;

/// Sums for the gradients of right, up and forward of the view.
pub const VIEW_SUMS: usize = 9;

/// Splats of a unit of the kernels that go through splats one by one.
pub const SPLATS: usize = 64;

/// The most groups of tiles, whose gradients are summed apart.
pub(super) const GROUPS: usize = 16;

/// Pixels that are computed together.
pub(super) const LANES: usize = 16;

scratch! {
    /// The positions of the lists of a thread.
    pub(super) struct TileListScratch(p: &Splat) {
        row: p.count,
        list: p.capacity(),
    }
}

scratch! {
    /// The positions of a thread of [`splat_backward_kernel`](super::splat_backward_kernel).
    pub(super) struct BackwardPositions(p: &Splat) {
        /// [`TileListScratch`].
        lists: TileListScratch::len(p),
        /// The splats that are blended.
        splats: p.capacity(),
    }
}

params! {
    /// Params of all kernels of splats.
    pub struct Splat {
        /// Splats.
        pub count: usize,
        /// Coefficients of spherical harmonics of each channel; 0 for plain colours.
        pub coefficients: usize,
        /// Columns of the image.
        pub width: usize,
        /// Rows of the image.
        pub height: usize,
        /// Rows and columns of a tile.
        pub tile: usize,
        /// The factor of all axes.
        pub radius_scale: f64,
        /// What is less opaque at a pixel is not blended there.
        pub alpha_cutoff: f64,
        /// Blending stops when less of the light than this passes.
        pub transmittance: f64,
        /// The exponent of the colours of the image.
        pub gamma: f64,
        /// The colour behind all splats.
        pub red: f64,
        /// The colour behind all splats.
        pub green: f64,
        /// The colour behind all splats.
        pub blue: f64,
        /// The least depth of a centre.
        pub near: f64,
        /// The greatest depth of a centre.
        pub far: f64,
        /// The most splats of a tile; 0 for no limit.
        pub max_list: usize,
        /// The most splats of a pixel; 0 for no limit.
        pub max_steps: usize,
        /// Whether what exceeds a limit is left out; else it is a fault.
        pub truncate: bool,
    }
}

impl Splat {
    /// Units of the kernels that go through splats one by one.
    pub fn splat_units(&self) -> usize {
        self.count.div_ceil(SPLATS)
    }

    /// Tiles in a row of tiles.
    pub fn tiles_across(&self) -> usize {
        self.width.div_ceil(self.tile.max(1))
    }

    /// Rows of tiles: the units of the image.
    pub fn tile_rows(&self) -> usize {
        self.height.div_ceil(self.tile.max(1))
    }

    /// Pixels of a row of tiles.
    pub fn pixels_per_unit(&self) -> usize {
        self.tile.min(self.height) * self.width
    }

    /// Groups of tiles: the units of the gradient.
    pub fn groups(&self) -> usize {
        (self.tiles_across() * self.tile_rows()).min(GROUPS)
    }

    /// The most splats of a list.
    pub(super) fn capacity(&self) -> usize {
        if self.max_list == 0 { self.count } else { self.max_list.min(self.count) }
    }

    /// Positions of scratch for each thread of a kernel of the image.
    pub fn list_scratch(&self) -> usize {
        TileListScratch::len(self)
    }

    /// Numbers of scratch for each thread of [`splat_backward_kernel`](super::splat_backward_kernel).
    pub fn backward_scratch(&self) -> usize {
        2 * LANES * self.capacity()
    }

    /// Positions of scratch for each thread of [`splat_backward_kernel`](super::splat_backward_kernel).
    pub fn backward_positions(&self) -> usize {
        BackwardPositions::len(self)
    }

    /// The colour behind all splats.
    pub(super) fn background<T: Float>(&self) -> [T; 3] {
        [self.red, self.green, self.blue].map(T::from_f64)
    }

    /// Numbers of the colour of a splat.
    pub fn colour_len(&self) -> usize {
        3 * self.coefficients.max(1)
    }
}
