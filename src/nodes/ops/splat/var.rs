//! Scenes of splats and cameras, for users.

use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::splat::splat_image::SplatImage;

/// Gaussian splats: N soft ellipsoids.
#[derive(Clone, Copy, Debug)]
pub struct Splats<'g> {
    /// The centres, `[N, 3]`.
    pub positions: Var<'g>,
    /// Logarithms of the standard deviations along the axes, `[N, 3]`.
    pub log_scales: Var<'g>,
    /// The rotations as quaternions, real part first, `[N, 4]`; their lengths do not matter.
    pub rotations: Var<'g>,
    /// The opacities, `[N]`, clamped to 0..=1 (with gradient 0 outside).
    pub opacities: Var<'g>,
    /// Colours `[N, 3]`, clamped to 0..=1, or coefficients of spherical harmonics `[N, K, 3]` with K = 1, 4, 9 or 16,
    /// of which the first four are read.
    pub colours: Var<'g>,
}

impl<'g> Splats<'g> {
    /// The image `[height, width, 4]`, red, green, blue and alpha, that the camera of `view` sees, and how much of the
    /// light from behind reaches it, `[height, width]`. [`Var::splat_view`] makes a view.
    ///
    /// Gradients go to all five operands and to the view. There is no second derivative.
    ///
    /// ```
    /// use arenagrad::graph::splat::{SplatImage, Splats};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("splat");
    /// let place = |name, dims: &[usize]| g.input(name, dims, DType::F64);
    /// let splats = Splats {
    ///     positions: place("positions", &[1, 3]),
    ///     log_scales: place("log_scales", &[1, 3]),
    ///     rotations: place("rotations", &[1, 4]),
    ///     opacities: place("opacities", &[1]),
    ///     colours: place("colours", &[1, 3]),
    /// };
    /// let view = g.input("camera", [10], DType::F64).splat_view(9);
    /// let [image, _] = splats.render(view, SplatImage::new(9, 9).gamma(1.0));
    /// let mut p = Session::new().compile(&g.finish([image.named("image")])?)?;
    /// p.values_mut::<f64>("positions")?.fill(0.0);
    /// p.values_mut::<f64>("log_scales")?.fill(0.0);
    /// p.values_mut::<f64>("rotations")?.copy_from_slice(&[1.0, 0.0, 0.0, 0.0]);
    /// p.values_mut::<f64>("opacities")?[0] = 0.5;
    /// p.values_mut::<f64>("colours")?.copy_from_slice(&[1.0, 0.0, 0.2]);
    /// // From (0, 0, −5) to the origin, up along y, 60 degrees from the lowest to the highest row.
    /// p.values_mut::<f64>("camera")?.copy_from_slice(&[0.0, 0.0, -5.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 60.0]);
    /// p.step()?;
    /// let middle = &p.values::<f64>("image")?[4 * (4 * 9 + 4)..][..4];
    /// assert_eq!(middle, [0.5, 0.0, 0.1, 0.5]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn render(&self, view: Var<'g>, image: SplatImage) -> [Var<'g>; 2] {
        let Splats { positions, log_scales, rotations, opacities, colours } = *self;
        let args = [positions, log_scales, rotations, opacities, colours, view];
        let all = positions.g.emit(Op::SPLAT_RENDER, &args, &image.attrs().list());
        [all[0], all[1]]
    }

    /// The first half of [`Splats::render`]: the projection of the splats.
    #[track_caller]
    pub fn prepare(&self, view: Var<'g>, image: SplatImage) -> PreparedSplats<'g> {
        let Splats { positions, log_scales, rotations, opacities, colours } = *self;
        let args = [positions, log_scales, rotations, opacities, colours, view];
        let all = positions.g.emit(Op::SPLAT_PREPARE, &args, &image.attrs().list());
        PreparedSplats { records: all[0], bounds: all[1], order: all[2], view, image }
    }
}

/// Splats that are projected for one view. The op `splat_prepare` tells what the numbers are.
#[derive(Clone, Copy, Debug)]
pub struct PreparedSplats<'g> {
    /// Numbers of each splat, `[N, 16]`.
    pub records: Var<'g>,
    /// The pixels that it may touch, `i32[N, 4]`.
    pub bounds: Var<'g>,
    /// The splats, nearest first, `i32[N]`.
    pub order: Var<'g>,
    view: Var<'g>,
    image: SplatImage,
}

impl<'g> PreparedSplats<'g> {
    /// The second half of [`Splats::render`]. Both halves have the derivatives of the whole as long as nothing is done
    /// to the values between them.
    #[track_caller]
    pub fn rasterize(&self) -> [Var<'g>; 2] {
        let args = [self.records, self.bounds, self.order, self.view];
        let all = self.records.g.emit(Op::SPLAT_RASTERIZE, &args, &self.image.attrs().list());
        [all[0], all[1]]
    }
}

/// `v` with length 1; (0, 0, 1) if it has none.
fn splat_unit_vector<'g>(v: Var<'g>) -> Var<'g> {
    let square = (v * v).sum(..);
    let none = square.equal(0.0);
    let z = v.g.iota(0, [3], v.dtype()).equal(2.0).select_as(1.0, 0.0, v.dtype());
    none.broadcast([3]).select(z, v / none.select(1.0, square).sqrt())
}

/// a × b.
fn cross_product<'g>(a: Var<'g>, b: Var<'g>) -> Var<'g> {
    a.roll(-1, 0) * b.roll(-2, 0) - a.roll(-2, 0) * b.roll(-1, 0)
}

impl<'g> Var<'g> {
    /// The view of a camera for images with `height` rows, `[4, 3]`: its place, and the steps right, up and forward.
    /// This is `[10]`: the camera's place, a point that it looks at, a direction that is up (three numbers each), and
    /// the angle in degrees from the lowest to the highest row.
    #[track_caller]
    pub fn splat_view(self, height: usize) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        if *self.dims() != [10] || !self.dtype().is_float() {
            return self.refuse("splat_view", "a camera is f32[10] or f64[10]");
        }
        self.g.with_caller(|| {
            let part = |k: usize| self.narrow(0, 3 * k, 3);
            let (place, target, up) = (part(0), part(1), part(2));
            let half = self.narrow(0, 9, 1) * (std::f64::consts::PI / 360.0);
            let step = half.tan() * (2.0 / height.max(1) as f64);
            let forward = splat_unit_vector(target - place);
            let right = splat_unit_vector(cross_product(up, forward));
            let up = splat_unit_vector(cross_product(forward, right));
            place.stack(&[right * step, up * step, forward], 0)
        })
    }
}
