//! Projects splats: a record, bounds and a distance for each, and their order from near to far.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`splat_project_kernel`] | positions, log-scales, rotations, opacities, colours, view | records, bounds, squared distances | [`Splat`] |
//! | [`splat_project_order_kernel`] | squared distances | positions, nearest first | [`Splat`] |
//!
//! Invariant: a splat that is not drawn (its depth is not between near and far, or its opacity is 0 or below the
//! cutoff) has empty bounds. A splat with a NaN counts as drawn.

use super::bounds::LensBounds;
use super::ellipsoid::{Ellipsoid, EllipsoidParams, clamp_to_unit, colour_along, unit_direction};
use super::splat_params::{RECORD, SPLATS, Splat};
use super::vectors::{vector_at, vector_dot, vector_times};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use std::cmp::Ordering;

/// Whether a splat with this depth and clamped opacity is left out.
fn projected_splat_is_hidden<T: Float>(p: &Splat, depth: T, opacity: T) -> bool {
    let (near, far) = (T::from_f64(p.near), T::from_f64(p.far));
    depth < near || depth > far || opacity <= T::ZERO || opacity < T::from_f64(p.alpha_cutoff)
}

/// The record of each splat: the numbers that rays need.
///
/// Reads positions `T[count, 3]`, logarithms of scales `T[count, 3]`, quaternions `T[count, 4]`, opacities `T[count]`,
/// colours `T[count, 3]` or `T[count, coefficients, 3]` and the view `T[4, 3]`. Writes records `T[count, RECORD]`,
/// bounds `i32[count, 4]` and squared distances `T[count]`; a unit is [`SPLATS`] splats.
pub fn splat_project_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Splat::from_words(args.params());
    let first = args.units().start * SPLATS;
    let x = EllipsoidParams::<T>::read(args, 0);
    let (records, bounds, distances) = (args.write::<T>(0), args.write::<i32>(1), args.write::<T>(2));
    let lens = LensBounds::of(&p, x.view);
    let forward = vector_at(x.view, 3);
    let rows = records.chunks_exact_mut(RECORD).zip(bounds.chunks_exact_mut(4)).zip(distances);
    for (i, ((record, bounds), distance)) in
        rows.take(p.count.saturating_sub(first)).enumerate().map(|(k, row)| (first + k, row))
    {
        let (shape, towards) = (Ellipsoid::of(&p, &x, i), x.towards_camera(i));
        let to_ball = shape.to_ball();
        let opacity = clamp_to_unit(x.opacity[i]);
        record[..9].copy_from_slice(to_ball.as_flattened());
        record[9..12].copy_from_slice(&vector_times(&to_ball, towards));
        record[12] = opacity;
        record[13..].copy_from_slice(&colour_along(&p, x.colour_of(&p, i), unit_direction(towards).0));
        let hidden = projected_splat_is_hidden(&p, -vector_dot(towards, forward), opacity);
        bounds.copy_from_slice(&if hidden { [0; 4] } else { lens.bounds(&p, &x, i, &shape, opacity) });
        *distance = vector_dot(towards, towards);
    }
}

by_dtype!(splat_project_kernel_for = splat_project_kernel::<floats>);

/// The positions of splats, nearest first; of equals the first comes first, and NaN last.
///
/// Reads squared distances `T[count]`; writes `i32[count]`. One unit.
pub fn splat_project_order_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Splat::from_words(args.params());
    if args.units().is_empty() {
        return;
    }
    let (distances, order) = (args.read::<T>(0), &mut args.write::<i32>(0)[..p.count]);
    order.iter_mut().zip(0..).for_each(|(to, i)| *to = i);
    order.sort_unstable_by(|&a, &b| {
        let (x, y) = (distances[a as usize], distances[b as usize]);
        let by_distance = match (x.is_nan(), y.is_nan()) {
            (false, false) => x.partial_cmp(&y).unwrap_or(Ordering::Equal),
            (x, y) => x.cmp(&y),
        };
        by_distance.then(a.cmp(&b))
    });
}

by_dtype!(splat_order_kernel_for = splat_project_order_kernel::<floats>);
