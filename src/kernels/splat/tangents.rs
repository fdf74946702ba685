//! The derivative of the image along a direction.
//!
//! With the tangents of c·c/2 that [`MOMENTS`] describes: α̇ = α·(opacitẏ/opacity − ½(c·c)˙), and the sums of the image
//! are differentiated term by term.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`splat_tangents_kernel`] | the inputs, their tangents | tangents of projected splats: `T[count, MOMENTS]` | [`Splat`] |
//! | [`splat_blend_tangent_kernel`] | records, bounds, order, view, those tangents, the view's tangent | the tangents of image and T, scratch | [`Splat`] |

use super::blend::{BlendLimits, BlendObserver, compose_span, fault_if_too_many_blended, gamma_encode_slope};
use super::ellipsoid::{Ellipsoid, EllipsoidParams, HARMONIC_0, HARMONIC_1, unit_direction};
use super::lists::TileLists;
use super::rays::{Lanes, RaySpan, Rays, closest_on_ray, splat_record};
use super::splat_params::{LANES, MOMENTS, RECORD, SPLATS, Splat};
use super::vectors::{Triple, vector_at, vector_cross, vector_dot, vector_minus, vector_plus_scaled, vector_times};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::simd;

/// The tangent of a colour; `turn` is that of the direction `seen`.
fn colour_tangent<T: Float>(p: &Splat, colour: [&[T]; 2], seen: Triple<T>, turn: Triple<T>) -> Triple<T> {
    let [value, tangent] = colour;
    if p.coefficients == 0 {
        return [0, 1, 2].map(|k| if value[k] < T::ZERO || value[k] > T::ONE { T::ZERO } else { tangent[k] });
    }
    let base = vector_at(tangent, 0).map(|c| c * T::from_f64(HARMONIC_0));
    if p.coefficients < 4 {
        return base;
    }
    let ([x, y, z], [dx, dy, dz]) = (seen, turn);
    let harmonics = |c: usize| {
        let at = |x: &[T], k: usize| x[3 * k + c];
        let moved = z * at(tangent, 2) - y * at(tangent, 1) - x * at(tangent, 3);
        moved + dz * at(value, 2) - dy * at(value, 1) - dx * at(value, 3)
    };
    [0, 1, 2].map(|c| T::from_f64(HARMONIC_1).mul_add(harmonics(c), base[c]))
}

/// The tangents of projected splats.
///
/// Reads what [`splat_project_kernel`](super::splat_project_kernel) reads, and a tangent of each of the six; writes
/// `T[count, MOMENTS]`. A unit is [`SPLATS`] splats.
pub fn splat_tangents_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Splat::from_words(args.params());
    let first = args.units().start * SPLATS;
    let (x, dx) = (EllipsoidParams::<T>::read(args, 0), EllipsoidParams::<T>::read(args, 6));
    for (k, to) in args.write::<T>(0).chunks_exact_mut(MOMENTS).enumerate() {
        let i = first + k;
        let (shape, towards) = (Ellipsoid::of(&p, &x, i), x.towards_camera(i));
        let moved = vector_minus(vector_at(dx.view, 0), vector_at(dx.position, i));
        let (seen, inverse_length) = unit_direction(towards);
        let turn = vector_plus_scaled(moved, -vector_dot(seen, moved), seen).map(|d| d * inverse_length);
        let scale = vector_at(dx.log_scale, i);
        (0..3).for_each(|c| to[c] = if shape.shortest[c] { T::ZERO } else { -scale[c] });
        let [real, u, v, w] = [0, 1, 2, 3].map(|c| dx.rotation[4 * i + c]);
        let turned = vector_plus_scaled(vector_cross(shape.imaginary, [u, v, w]).map(|x| -x), shape.real, [u, v, w]);
        let spin = vector_plus_scaled(turned, -real, shape.imaginary).map(|x| x * (T::TWO * shape.inverse_length));
        let [a, b, c] = shape.stretches();
        to[3..6].copy_from_slice(&[spin[2] * a, -spin[1] * b, spin[0] * c]);
        to[6..9].copy_from_slice(&vector_times(&shape.to_ball(), moved));
        let outside = x.opacity[i] < T::ZERO || x.opacity[i] > T::ONE;
        to[9] = if outside { T::ZERO } else { dx.opacity[i] };
        let colours = [x.colour_of(&p, i), dx.colour_of(&p, i)];
        to[10..].copy_from_slice(&colour_tangent(&p, colours, seen, turn));
    }
}

by_dtype!(splat_tangents_kernel_for = splat_tangents_kernel::<floats>);

/// The tangents of a span, blended along with it.
struct SpanTangents<'a, T> {
    records: &'a [T],
    /// Tangents of splats.
    moves: &'a [T],
    rays: &'a Rays<T>,
    ray_tangents: [Lanes<T>; 3],
    colour: [Lanes<T>; 3],
    passes: Lanes<T>,
}

impl<T: Float> BlendObserver<T> for SpanTangents<'_, T> {
    fn blended(&mut self, i: usize, alpha: &Lanes<T>, passes: &Lanes<T>) {
        let moves = &self.moves[i * MOMENTS..][..MOMENTS];
        let to = (&mut self.colour, &mut self.passes);
        blend_tangent(splat_record(self.records, i), moves, (alpha, passes), self.rays, &self.ray_tangents, to);
    }
}

simd! {
    /// Adds the tangents of one splat.
    fn blend_tangent[T: Float](
        s: &[T; RECORD], m: &[T], blended: (&Lanes<T>, &Lanes<T>), rays: &Rays<T>, turns: &[Lanes<T>; 3],
        to: (&mut [Lanes<T>; 3], &mut Lanes<T>),
    ) {
        for (l, (&alpha, &passes)) in blended.0.iter().zip(blended.1).enumerate() {
            let d_passes = to.1[l];
            let blends = alpha != T::ZERO;
            let hit = closest_on_ray(s, [rays.directions[0][l], rays.directions[1][l], rays.directions[2][l]]);
            let (c, turn) = (hit.point, [turns[0][l], turns[1][l], turns[2][l]]);
            let by_ray = |k: usize| s[3 * k + 2].mul_add(turn[2], s[3 * k + 1].mul_add(turn[1], s[3 * k] * turn[0]));
            let shift = |k: usize| hit.along.mul_add(by_ray(k), m[6 + k]);
            let squares = m[2].mul_add(c[2] * c[2], m[1].mul_add(c[1] * c[1], m[0] * (c[0] * c[0])));
            let mixed = m[5].mul_add(c[1] * c[2], m[4].mul_add(c[0] * c[2], m[3] * (c[0] * c[1])));
            let half = c[2].mul_add(shift(2), c[1].mul_add(shift(1), c[0] * shift(0))) + (squares + mixed);
            let d_alpha = (alpha / s[12]) * m[9] - alpha * half;
            let d_weight = passes.mul_add(d_alpha, d_passes * alpha);
            for k in 0..3 {
                let added = d_weight.mul_add(s[13 + k], (passes * alpha) * m[10 + k]);
                to.0[k][l] += if blends { added } else { T::ZERO };
            }
            let behind = (T::ONE - alpha).mul_add(d_passes, -passes * d_alpha);
            to.1[l] = if blends { behind } else { d_passes };
        }
    }
}

/// The tangents of the image and of T.
///
/// Reads what [`splat_blend_kernel`](super::splat_blend_kernel) reads, the tangents of splats `T[count, MOMENTS]` and
/// that of the view `T[4, 3]`; writes what it writes.
pub fn splat_blend_tangent_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Splat::from_words(args.params());
    let units = args.units();
    let (records, bounds, order, view) =
        (args.read::<T>(0), args.read::<i32>(1), args.read::<i32>(2), args.read::<T>(3));
    let (moves, turn) = (args.read::<T>(4), args.read::<T>(5));
    let (image, passes, scratch) = (args.write::<T>(0), args.write::<T>(1), args.write::<i32>(2));
    let mut lists = TileLists::new(&p, bounds, order, &mut scratch[..p.list_scratch()]);
    let (limits, gamma, background) = (BlendLimits::of(&p), T::from_f64(p.gamma), p.background::<T>());
    let across = p.tiles_across();
    for tile in units.start * across..units.end * across {
        let list = lists.fill(&p, tile, args);
        for span in RaySpan::of_tile(&p, tile) {
            let rays = Rays::of(&p, &span, view);
            let ray_tangents = rays.tangents(turn);
            let (colour, nothing) = ([[T::ZERO; LANES]; 3], [T::ZERO; LANES]);
            let mut to = SpanTangents { records, moves, rays: &rays, ray_tangents, colour, passes: nothing };
            let blend = compose_span((list, bounds), &span, records, &rays, limits, &mut to);
            fault_if_too_many_blended(&p, &blend, tile, args);
            let at = span.pixels(&p, units.start * p.tile);
            let pixels = image[4 * at.start..4 * at.end].chunks_exact_mut(4).zip(&mut passes[at]);
            for (l, (pixel, passes)) in pixels.enumerate() {
                for k in 0..3 {
                    let x = blend.passes[l].mul_add(background[k], blend.colour[k][l]);
                    pixel[k] = gamma_encode_slope(x, gamma) * to.passes[l].mul_add(background[k], to.colour[k][l]);
                }
                pixel[3] = -to.passes[l];
                *passes = to.passes[l];
            }
        }
    }
}

by_dtype!(splat_blend_tangent_kernel_for = splat_blend_tangent_kernel::<floats>);
