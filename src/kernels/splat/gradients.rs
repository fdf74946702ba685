//! The gradients of the inputs, from those of projected splats.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`splat_gradients_kernel`] | sums of each group, the inputs | the gradients of positions, log-scales, rotations, opacities, colours | [`Splat`] |
//! | [`splat_view_gradient_kernel`] | the gradient of positions, sums of each group | the gradient of the view | [`Splat`] |

use super::ellipsoid::{Ellipsoid, EllipsoidParams, HARMONIC_0, HARMONIC_1, unit_direction};
use super::splat_params::{GROUPS, MOMENTS, SPLATS, Splat, VIEW_SUMS};
use super::vectors::{Triple, vector_at, vector_cross, vector_dot, vector_plus_scaled, vector_transposed_times};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;

/// Sums of `len` numbers over the groups, in a tree; number `i` of group `g` is at `g·step + i`.
fn sum_groups<T: Float, const N: usize>(x: &[T], groups: usize, step: usize) -> [T; N] {
    let mut rows = [[T::ZERO; N]; GROUPS];
    for (g, row) in rows.iter_mut().enumerate().take(groups) {
        row.copy_from_slice(&x[g * step..][..N]);
    }
    let mut half = GROUPS / 2;
    while half > 0 {
        for g in 0..half {
            let other = rows[g + half];
            rows[g].iter_mut().zip(other).for_each(|(sum, x)| *sum += x);
        }
        half /= 2;
    }
    rows[0]
}

/// The gradient of a quaternion, given that of the angular velocity in the frame of the ellipsoid.
fn quaternion_gradient<T: Float>(shape: &Ellipsoid<T>, spin: Triple<T>) -> [T; 4] {
    let (scale, turned) = (T::TWO * shape.inverse_length, vector_cross(shape.imaginary, spin));
    let [x, y, z] = vector_plus_scaled(turned, shape.real, spin).map(|q| q * scale);
    [-vector_dot(shape.imaginary, spin) * scale, x, y, z]
}

/// Writes the gradient of a colour, and gives that of the direction in which the splat is seen.
fn write_colour_gradient<T: Float>(p: &Splat, colour: &[T], seen: Triple<T>, g: Triple<T>, to: &mut [T]) -> Triple<T> {
    to.fill(T::ZERO);
    if p.coefficients == 0 {
        for (k, (to, c)) in to.iter_mut().zip(colour).enumerate() {
            *to = if *c < T::ZERO || *c > T::ONE { T::ZERO } else { g[k] };
        }
        return [T::ZERO; 3];
    }
    let first = T::from_f64(HARMONIC_1);
    (0..3).for_each(|k| to[k] = T::from_f64(HARMONIC_0) * g[k]);
    if p.coefficients < 4 {
        return [T::ZERO; 3];
    }
    let [x, y, z] = seen.map(|d| d * first);
    for k in 0..3 {
        to[3 + k] = -y * g[k];
        to[6 + k] = z * g[k];
        to[9 + k] = -x * g[k];
    }
    let along = |k: usize| first * vector_dot(g, vector_at(colour, k));
    [-along(3), -along(1), along(2)]
}

/// The gradients of positions, log-scales, rotations, opacities and colours.
///
/// Reads sums `T[groups, count, MOMENTS]`, then what [`splat_project_kernel`](super::splat_project_kernel) reads.
/// Writes a gradient of the shape of each of the five; a unit is [`SPLATS`] splats.
pub fn splat_gradients_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Splat::from_words(args.params());
    let units = args.units();
    let (sums, x) = (args.read::<T>(0), EllipsoidParams::<T>::read(args, 1));
    let [position, log_scale, rotation, opacity, colour] = [0, 1, 2, 3, 4].map(|i| args.write::<T>(i));
    let first = units.start * SPLATS;
    for k in 0..opacity.len() {
        let i = first + k;
        let m: [T; MOMENTS] = sum_groups(&sums[i * MOMENTS..], p.groups(), p.count * MOMENTS);
        let to_colour = &mut colour[k * p.colour_len()..][..p.colour_len()];
        let (to_position, to_scale) = (&mut position[3 * k..][..3], &mut log_scale[3 * k..][..3]);
        let to_rotation = &mut rotation[4 * k..][..4];
        // What no pixel shows has no gradient, whatever its numbers are.
        if m.iter().all(|x| *x == T::ZERO) {
            [to_position, to_scale, to_rotation, to_colour].into_iter().for_each(|to| to.fill(T::ZERO));
            opacity[k] = T::ZERO;
            continue;
        }
        let (shape, towards) = (Ellipsoid::of(&p, &x, i), x.towards_camera(i));
        let (seen, inverse_length) = unit_direction(towards);
        let by_seen = write_colour_gradient(&p, x.colour_of(&p, i), seen, [m[10], m[11], m[12]], to_colour);
        let by_seen = vector_plus_scaled(by_seen, -vector_dot(seen, by_seen), seen);
        let by_shape = vector_transposed_times(&shape.to_ball(), [m[6], m[7], m[8]]);
        let by_towards = vector_plus_scaled(by_shape, inverse_length, by_seen);
        (0..3).for_each(|c| to_position[c] = -by_towards[c]);
        (0..3).for_each(|c| to_scale[c] = if shape.shortest[c] { T::ZERO } else { -m[c] });
        let [a, b, c] = shape.stretches();
        to_rotation.copy_from_slice(&quaternion_gradient(&shape, [m[5] * c, -m[4] * b, m[3] * a]));
        let outside = x.opacity[i] < T::ZERO || x.opacity[i] > T::ONE;
        opacity[k] = if outside { T::ZERO } else { m[9] };
    }
}

by_dtype!(splat_gradients_kernel_for = splat_gradients_kernel::<floats>);

/// The gradient of the view: the camera moves as all positions do, the other way.
///
/// Reads the gradient of positions `T[count, 3]` and sums `T[groups, VIEW_SUMS]`; writes `T[4, 3]`. One unit.
pub fn splat_view_gradient_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Splat::from_words(args.params());
    if args.units().is_empty() {
        return;
    }
    let (position, sums, view) = (args.read::<T>(0), args.read::<T>(1), args.write::<T>(0));
    let mut total = [0.0; 3];
    for row in position.chunks_exact(3) {
        (0..3).for_each(|k| total[k] -= row[k].to_f64());
    }
    view[..3].copy_from_slice(&total.map(T::from_f64));
    view[3..].copy_from_slice(&sum_groups::<T, VIEW_SUMS>(sums, p.groups(), VIEW_SUMS));
}

by_dtype!(splat_view_gradient_kernel_for = splat_view_gradient_kernel::<floats>);
