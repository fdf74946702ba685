//! Sixteen neighbouring pixels of an image row: their rays, and where splats are along them.

use super::splat_params::{LANES, RECORD, Splat};
use super::vectors::Triple;
use crate::float::Float;
use std::ops::Range;

/// A number for each of the pixels.
pub(super) type Lanes<T> = [T; LANES];

/// Up to [`LANES`] pixels of a row of the image.
#[derive(Clone)]
pub(super) struct RaySpan {
    pub(super) row: usize,
    pub(super) columns: Range<usize>,
}

impl RaySpan {
    /// The spans of `tile`.
    pub(super) fn of_tile(p: &Splat, tile: usize) -> impl Iterator<Item = RaySpan> + use<> {
        let (across, side, width) = (p.tiles_across().max(1), p.tile, p.width);
        let (top, left) = (tile / across * side, tile % across * side);
        let right = (left + side).min(width);
        (top..(top + side).min(p.height)).flat_map(move |row| {
            let starts = (left..right).step_by(LANES);
            starts.map(move |from| RaySpan { row, columns: from..(from + LANES).min(right) })
        })
    }

    /// The pixels, counted along rows from row `first` on.
    pub(super) fn pixels(&self, p: &Splat, first: usize) -> Range<usize> {
        let start = (self.row - first) * p.width + self.columns.start;
        start..start + self.columns.len()
    }

    /// Whether `bounds` meet the span.
    #[inline(always)]
    pub(super) fn meets(&self, bounds: &[i32]) -> bool {
        let (row, from, to) = (self.row as i32, self.columns.start as i32, self.columns.end as i32);
        bounds[2] <= row && bounds[3] > row && bounds[0] < to && bounds[1] > from
    }
}

/// The rays of a span. Lanes behind its end have rays, too.
pub(super) struct Rays<T> {
    /// The steps to the right and up, from the centre of the image.
    pub(super) steps: [Lanes<T>; 2],
    /// Directions of length 1.
    pub(super) directions: [Lanes<T>; 3],
    /// 1 over the lengths that they had.
    pub(super) inverse_lengths: Lanes<T>,
}

impl<T: Float> Rays<T> {
    pub(super) fn of(p: &Splat, span: &RaySpan, view: &[T]) -> Rays<T> {
        let half = |n: usize| 0.5 * n as f64;
        let y = T::from_f64(half(p.height) - span.row as f64 - 0.5);
        let steps: [Lanes<T>; 2] =
            [std::array::from_fn(|l| T::from_f64((span.columns.start + l) as f64 + 0.5 - half(p.width))), [y; LANES]];
        let along = combine_axes(&steps, view);
        let mut inverse_lengths = [T::ZERO; LANES];
        let mut directions = [[T::ZERO; LANES]; 3];
        for l in 0..LANES {
            let n = [along[0][l], along[1][l], along[2][l]];
            let square = super::vectors::vector_dot(n, n);
            inverse_lengths[l] = if square == T::ZERO { T::ZERO } else { T::ONE / square.sqrt() };
            (0..3).for_each(|k| directions[k][l] = n[k] * inverse_lengths[l]);
        }
        Rays { steps, directions, inverse_lengths }
    }

    /// What the directions become when right, up and forward of the view change by those of `tangent`.
    pub(super) fn tangents(&self, tangent: &[T]) -> [Lanes<T>; 3] {
        let mut along = combine_axes(&self.steps, tangent);
        self.project(&mut along);
        along
    }

    /// The part of `x` that is normal to the rays, over the lengths that the rays had.
    pub(super) fn project(&self, x: &mut [Lanes<T>; 3]) {
        for l in 0..LANES {
            let ray = self.directions.map(|d| d[l]);
            let along = super::vectors::vector_dot(ray, [x[0][l], x[1][l], x[2][l]]);
            (0..3).for_each(|k| x[k][l] = (-along).mul_add(ray[k], x[k][l]) * self.inverse_lengths[l]);
        }
    }
}

/// x·right + y·up + forward.
fn combine_axes<T: Float>(steps: &[Lanes<T>; 2], view: &[T]) -> [Lanes<T>; 3] {
    std::array::from_fn(|k| {
        std::array::from_fn(|l| steps[0][l].mul_add(view[3 + k], steps[1][l].mul_add(view[6 + k], view[9 + k])))
    })
}

/// Where a ray is closest to a splat.
pub(super) struct Closest<T> {
    /// The distance from the camera.
    pub(super) along: T,
    /// That point minus the centre, as the splat's matrix maps it.
    pub(super) point: Triple<T>,
}

/// Where the ray of direction `ray` is closest to a splat, in the metric of its ellipsoid. No point lies behind the
/// camera.
#[inline(always)]
pub(super) fn closest_on_ray<T: Float>(s: &[T; RECORD], ray: Triple<T>) -> Closest<T> {
    let d = |k: usize| s[3 * k + 2].mul_add(ray[2], s[3 * k + 1].mul_add(ray[1], s[3 * k] * ray[0]));
    let d = [d(0), d(1), d(2)];
    let o = [s[9], s[10], s[11]];
    let square = d[2].mul_add(d[2], d[1].mul_add(d[1], d[0] * d[0]));
    let towards = -o[2].mul_add(d[2], o[1].mul_add(d[1], o[0] * d[0]));
    let along = towards / square;
    let along = if (towards > T::ZERO) & (square >= T::MIN_POSITIVE) { along } else { T::ZERO };
    let point = [along.mul_add(d[0], o[0]), along.mul_add(d[1], o[1]), along.mul_add(d[2], o[2])];
    Closest { along, point }
}

/// The record of splat `i`.
#[inline(always)]
pub(super) fn splat_record<T: Float>(records: &[T], i: usize) -> &[T; RECORD] {
    &records.as_chunks::<RECORD>().0[i]
}

/// Σ of the lanes, in a tree.
#[inline(always)]
pub(super) fn sum_ray_lanes<T: Float>(mut x: Lanes<T>) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            x[l] += x[l + half];
        }
        half /= 2;
    }
    x[0]
}
