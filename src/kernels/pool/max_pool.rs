//! Max pools, their adjoint, and their tangent (a gather by the saved indices), on planes.

use super::geom::{PoolGeom, WIDE, read_call_shape};
use super::inner_loops::{pool_inner_loop_beats, pool_inner_loop_each, pool_inner_loop_each_indexed};
use super::{max_2x2, max_3x3, wide_windows};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::simd;
use crate::simd::Unmasked;

simd! {
    /// Max pool of one plane, without indices.
    fn max_pool_plane[T: Float](g: &PoolGeom, x: &[T], y: &mut [T]) {
        let ([_, w], [kh, kw]) = (g.windows.size, g.windows.kernel);
        let (wo, whole) = (g.windows.out()[1], Unmasked::new());
        for (oh, y) in y.chunks_exact_mut(wo).enumerate() {
            y.fill(-T::INFINITY);
            for row in (0..kh).filter_map(|i| g.windows.element(0, oh, i)) {
                let x = &x[row * w..][..w];
                for j in 0..kw {
                    let (cols, at) = g.windows.inside(1, j, wo);
                    pool_inner_loop_each(&mut y[cols], &x[at..], g.windows.stride[1], |y, v| *y = whole.of(if pool_inner_loop_beats(v, *y) { v } else { *y }));
                }
            }
        }
    }
}

simd! {
    /// Max pool of one plane.
    fn max_pool_index_plane[T: Float](g: &PoolGeom, x: &[T], y: &mut [T], idx: &mut [i32]) {
        let ([_, w], [kh, kw]) = (g.windows.size, g.windows.kernel);
        let (wo, s, whole) = (g.windows.out()[1], g.windows.stride[1], Unmasked::new());
        for (oh, (y, idx)) in y.chunks_exact_mut(wo).zip(idx.chunks_exact_mut(wo)).enumerate() {
            y.fill(-T::INFINITY);
            idx.fill(-1);
            for row in (0..kh).filter_map(|i| g.windows.element(0, oh, i)) {
                let x = &x[row * w..][..w];
                for j in 0..kw {
                    let (cols, at) = g.windows.inside(1, j, wo);
                    let (first, step) = ((row * w + at) as i32, s as i32);
                    pool_inner_loop_each_indexed(&mut y[cols.clone()], &mut idx[cols], &x[at..], s, |y, i, v, n| {
                        // The first element wins even if it is −∞.
                        let wins = pool_inner_loop_beats(v, *y) | (*i < 0);
                        *y = whole.of(if wins { v } else { *y });
                        *i = whole.of(if wins { first + n * step } else { *i });
                    });
                }
            }
        }
    }
}

/// Max pool of the planes in `x`: y gets the largest element of each window, `idx` its position. An empty `idx` is not
/// written.
pub fn largest_of_planes<T: Float>(g: &PoolGeom, x: &[T], y: &mut [T], idx: &mut [i32]) {
    let [image, area] = g.areas();
    let (ask, is_wide, threes) = (!idx.is_empty(), g.has_wide_windows(WIDE), max_3x3::fits(g));
    for (p, (x, y)) in x.chunks_exact(image).zip(y.chunks_exact_mut(area)).enumerate() {
        let idx = if ask { &mut idx[p * area..][..area] } else { &mut [] };
        match (g.has_2x2_windows(), ask) {
            (true, _) => max_2x2::pool_plane(g.windows.size[1], x, y, idx),
            _ if threes => max_3x3::pool_plane(g, x, y, idx),
            _ if is_wide => wide_windows::wide_max_plane(g, x, y, idx),
            (_, true) => max_pool_index_plane(g, x, y, idx),
            _ => max_pool_plane(g, x, y),
        }
    }
}

/// The adjoint: adds each dy to dx at its index. Returns the position of the first bad index.
pub fn scatter_gradients<T: Float>(g: &PoolGeom, dy: &[T], idx: &[i32], dx: &mut [T]) -> Option<usize> {
    let [image, area] = g.areas();
    let mut bad = None;
    dx.fill(T::ZERO);
    for (p, (dx, (dy, idx))) in
        dx.chunks_exact_mut(image).zip(dy.chunks_exact(area).zip(idx.chunks_exact(area))).enumerate()
    {
        for (e, (dy, i)) in dy.iter().zip(idx).enumerate() {
            // −1 becomes the largest `u32`, so the valid case costs one comparison.
            match dx.get_mut(*i as u32 as usize) {
                Some(dx) => *dx += *dy,
                None if *i == -1 => {}
                None => bad = bad.or(Some(p * area + e)),
            }
        }
    }
    bad
}

/// y = x at the indices, 0 for an index −1. Returns the position of the first bad index.
pub fn gather_at_indices<T: Float>(g: &PoolGeom, x: &[T], idx: &[i32], y: &mut [T]) -> Option<usize> {
    let [image, area] = g.areas();
    let mut bad = None;
    for (p, (x, (y, idx))) in
        x.chunks_exact(image).zip(y.chunks_exact_mut(area).zip(idx.chunks_exact(area))).enumerate()
    {
        for (e, (y, i)) in y.iter_mut().zip(idx).enumerate() {
            *y = match x.get(*i as u32 as usize) {
                Some(x) => *x,
                None => {
                    bad = if *i == -1 { bad } else { bad.or(Some(p * area + e)) };
                    T::ZERO
                }
            };
        }
    }
    bad
}

/// Entry point of [`largest_of_planes`].
///
/// Reads x: `T[n, c, h, w]`; writes y: `T[n, c, ho, wo]` and, optionally, idx: `i32[n, c, ho, wo]`, both
/// `PerUnit(y_units.per_unit)`; params [`PoolGeom`]; [`PoolGeom::y_units`].
pub fn max_pool_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, _) = read_call_shape(args);
    let y = args.write::<T>(0);
    let idx = if args.writes() > 1 { args.write::<i32>(1) } else { &mut [] };
    largest_of_planes(&g, &args.read::<T>(0)[x], y, idx);
}

by_dtype!(max_pool2d_kernel_for = max_pool_kernel::<floats>);

/// Entry point of [`scatter_gradients`].
///
/// Reads dy: `T[n, c, ho, wo]`, idx: `i32[n, c, ho, wo]`; writes dx: `T[n, c, h, w]`, `PerUnit(x_units.per_unit)`;
/// params [`PoolGeom`]; [`PoolGeom::x_units`]. Fault: the element of an idx that is out of range.
pub fn max_pool_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, _, y) = read_call_shape(args);
    let dx = args.write::<T>(0);
    if let Some(bad) = scatter_gradients(&g, &args.read(0)[y.clone()], &args.read(1)[y.clone()], dx) {
        args.fault(y.start + bad);
    }
}

by_dtype!(max_pool2d_backward_kernel_for = max_pool_backward_kernel::<floats>);

/// Entry point of [`gather_at_indices`].
///
/// Reads x: `T[n, c, h, w]`, idx: `i32[n, c, ho, wo]`; writes y: `T[n, c, ho, wo]`, `PerUnit(y_units.per_unit)`; params
/// [`PoolGeom`]; [`PoolGeom::y_units`]. Fault: the element of an idx that is out of range.
pub fn max_pool_gather_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, y) = read_call_shape(args);
    let out = args.write::<T>(0);
    if let Some(bad) = gather_at_indices(&g, &args.read(0)[x], &args.read(1)[y.clone()], out) {
        args.fault(y.start + bad);
    }
}

by_dtype!(max_pool2d_gather_kernel_for = max_pool_gather_kernel::<floats>);
