//! The pixels that a splat may touch: a rectangle that holds all pixels at which its opacity reaches the cutoff.
//!
//! That is so where the ray meets the ellipsoid of radius r = √(2·ln(opacity/cutoff)). In the coordinates of the view
//! (right, up, forward), let the ellipsoid have the centre q and the matrix S = r²·W·Wᵀ. A plane ℓ·x = 0 through the
//! camera touches it if ℓᵀ(q·qᵀ − S)ℓ = 0. With ℓ = (1, 0, −x) that is a quadratic equation for the first and the last
//! column; for rows it is ℓ = (0, 1, −y).
//!
//! Invariant: a rectangle is never too small. It is computed in `f64`. The ellipsoid is enlarged by the rounding error
//! that the blending kernel may have, and the rectangle by one pixel on each side. Where the ellipsoid reaches the
//! plane of the camera, or a number is not finite, it is the whole image.

use super::ellipsoid::{Ellipsoid, EllipsoidParams};
use super::splat_params::Splat;
use super::vectors::{Triple, vector_at, vector_cross, vector_dot, vector_length, vector_times};
use crate::float::Float;

/// First column, column behind the last, first row, row behind the last.
pub(super) type PixelBounds = [i32; 4];

/// The view as the bounds of all splats need it.
pub(super) struct LensBounds {
    /// From the world to (right, up, forward); `None` if the view is degenerate.
    inverse: Option<[Triple<f64>; 3]>,
    width: f64,
    height: f64,
    /// The relative rounding error of an operation of the blending kernel.
    epsilon: f64,
}

impl LensBounds {
    pub(super) fn of<T: Float>(p: &Splat, view: &[T]) -> LensBounds {
        let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let (width, height) = (p.width as f64, p.height as f64);
        let [right, up, forward] = [1, 2, 3].map(|k| vector_at(view, k).map(T::to_f64));
        let rows = [vector_cross(up, forward), vector_cross(forward, right), vector_cross(right, up)];
        let volume = vector_dot(right, rows[0]);
        let inverse = rows.map(|row| row.map(|x| x / volume));
        // How far rounding moves a ray, in pixels.
        let size = 0.5 * width * vector_length(right) + 0.5 * height * vector_length(up) + vector_length(forward);
        let blur = 16.0 * epsilon * size * inverse.map(vector_length).iter().sum::<f64>();
        LensBounds { inverse: (blur < 0.5).then_some(inverse), width, height, epsilon }
    }

    /// All pixels.
    fn all_pixels(&self) -> PixelBounds {
        [0, self.width as i32, 0, self.height as i32]
    }

    /// The pixels that splat `i`, whose clamped opacity is given, may touch.
    pub(super) fn bounds<T: Float>(
        &self,
        p: &Splat,
        x: &EllipsoidParams<'_, T>,
        i: usize,
        shape: &Ellipsoid<T>,
        opacity: T,
    ) -> PixelBounds {
        let found = self.inverse.and_then(|inverse| {
            let towards = x.towards_camera(i).map(T::to_f64);
            let axes = shape.axes.map(T::to_f64);
            let shortest = axes.iter().copied().fold(f64::INFINITY, f64::min);
            let square = 2.0 * (opacity.to_f64() / p.alpha_cutoff).ln();
            let square = square + 64.0 * self.epsilon * (1.0 + square);
            let radius = square.max(0.0).sqrt() + 128.0 * self.epsilon * vector_length(towards) / shortest;
            let place = vector_times(&inverse, towards).map(|x| -x);
            let rotation = shape.rotation.map(|row| row.map(T::to_f64));
            // The axes of the ellipsoid in the coordinates of the view, by rows.
            let spread = inverse.map(|row| {
                [0, 1, 2].map(|k| {
                    let axis = [rotation[0][k], rotation[1][k], rotation[2][k]];
                    radius * axes[k] * vector_dot(row, axis)
                })
            });
            self.outline(place, &spread)
        });
        found.unwrap_or_else(|| self.all_pixels())
    }

    /// The rectangle around an ellipsoid with this centre and these rows of axes; `None` if it may be anything.
    fn outline(&self, place: Triple<f64>, spread: &[Triple<f64>; 3]) -> Option<PixelBounds> {
        let conic = |a: usize, b: usize| place[a] * place[b] - vector_dot(spread[a], spread[b]);
        let (depth, last) = (place[2], conic(2, 2));
        if !(depth > 0.0 && last > 1e-6 * depth * depth) {
            return None;
        }
        let ends = |a: usize| {
            let (middle, product) = (conic(a, 2), conic(a, a) * last);
            let root = (middle * middle - product).max(0.0).sqrt();
            ((middle - root) / last - 1.0, (middle + root) / last + 1.0)
        };
        let ((left, right), (low, high)) = (ends(0), ends(1));
        let finite = [left, right, low, high].iter().all(|x| x.is_finite());
        let clip = |x: f64, most: f64| x.clamp(0.0, most) as i32;
        let (middle_x, middle_y) = (0.5 * self.width - 0.5, 0.5 * self.height - 0.5);
        finite.then(|| {
            [
                clip((left + middle_x).floor(), self.width),
                clip((right + middle_x).ceil() + 1.0, self.width),
                clip((middle_y - high).floor(), self.height),
                clip((middle_y - low).ceil() + 1.0, self.height),
            ]
        })
    }
}
