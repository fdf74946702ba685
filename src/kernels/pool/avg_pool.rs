//! Average pools and their adjoint, on planes.

use super::geom::{PoolDivisor, PoolGeom, WIDE, read_call_shape};
use super::inner_loops::pool_inner_loop_each;
use super::{row_tiles, wide_windows};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::simd;

simd! {
    /// Average pool of one plane.
    fn avg_pool_plane[T: Float](g: &PoolGeom, by: PoolDivisor, x: &[T], y: &mut [T]) {
        let ([_, w], [kh, kw], [_, wo]) = (g.windows.size, g.windows.kernel, g.windows.out());
        let all = g.common_divisor(by).map(|d| T::from_f64(d as f64));
        for (oh, y) in y.chunks_exact_mut(wo).enumerate() {
            y.fill(T::ZERO);
            for row in (0..kh).filter_map(|i| g.windows.element(0, oh, i)) {
                let x = &x[row * w..][..w];
                for j in 0..kw {
                    let (cols, at) = g.windows.inside(1, j, wo);
                    pool_inner_loop_each(&mut y[cols], &x[at..], g.windows.stride[1], |y, v| *y += v);
                }
            }
            if by == PoolDivisor::One {
                continue;
            }
            if let Some(d) = all {
                y.iter_mut().for_each(|y| *y = *y / d);
                continue;
            }
            for (ow, y) in y.iter_mut().enumerate() {
                // A window of padding only sums to 0.
                *y = *y / T::from_f64(g.divisor(oh, ow, by).max(1) as f64);
            }
        }
    }
}

simd! {
    /// 2 × 2 average pool of one plane, with the sums of [`avg_pool_plane`] in the same order.
    fn avg_pool_2x2_plane[T: Float](w: usize, by: PoolDivisor, x: &[T], y: &mut [T]) {
        let quarter = T::from_f64(PoolGeom::quarter(by));
        for (x, y) in x.chunks_exact(2 * w).zip(y.chunks_exact_mut(w / 2)) {
            let (up, down) = x.split_at(w);
            for (y, ([a, b], [c, d])) in y.iter_mut().zip(up.as_chunks::<2>().0.iter().zip(down.as_chunks::<2>().0)) {
                *y = (*a + *b + *c + *d) * quarter;
            }
        }
    }
}

simd! {
    /// The adjoint on one plane.
    fn avg_pool_backward_plane[T: Float](g: &PoolGeom, by: PoolDivisor, dy: &[T], dx: &mut [T]) {
        let ([_, w], [kh, kw], [_, wo]) = (g.windows.size, g.windows.kernel, g.windows.out());
        let all = g.common_divisor(by).map(|d| T::from_f64(d as f64));
        for (oh, dy) in dy.chunks_exact(wo).enumerate() {
            for row in (0..kh).filter_map(|i| g.windows.element(0, oh, i)) {
                for j in 0..kw {
                    let (cols, at) = g.windows.inside(1, j, wo);
                    let dx = &mut dx[row * w..][..w][at..];
                    if let Some(d) = all {
                        dx.iter_mut().step_by(g.windows.stride[1]).zip(&dy[cols]).for_each(|(dx, v)| *dx += *v / d);
                    } else {
                        let dx = dx.iter_mut().step_by(g.windows.stride[1]);
                        for ((dx, v), ow) in dx.zip(&dy[cols.clone()]).zip(cols) {
                            *dx += *v / T::from_f64(g.divisor(oh, ow, by) as f64);
                        }
                    }
                }
            }
        }
    }
}

simd! {
    /// The adjoint of [`avg_pool_2x2_plane`] on one plane.
    fn avg_pool_backward_2x2_plane[T: Float](w: usize, by: PoolDivisor, dy: &[T], dx: &mut [T]) {
        let quarter = T::from_f64(PoolGeom::quarter(by));
        for (dx, dy) in dx.chunks_exact_mut(2 * w).zip(dy.chunks_exact(w / 2)) {
            let (up, down) = dx.split_at_mut(w);
            let pairs = up.as_chunks_mut::<2>().0.iter_mut().zip(down.as_chunks_mut::<2>().0);
            for ((up, down), v) in pairs.zip(dy) {
                let v = *v * quarter;
                *up = [v, v];
                *down = [v, v];
            }
        }
    }
}

/// Average pool of the planes in `x`: y gets each window's sum over its divisor.
pub fn average_planes<T: Float>(g: &PoolGeom, by: PoolDivisor, x: &[T], y: &mut [T]) {
    if let (Some(length), Some(divisor)) = (row_tiles::length(g), g.common_divisor(by)) {
        return row_tiles::sum(length, T::from_f64(divisor as f64), x, y);
    }
    let is_wide = g.has_wide_windows(WIDE / 2) && !g.has_short_rows();
    let (halves, [image, area]) = (g.has_2x2_windows(), g.areas());
    for (x, y) in x.chunks_exact(image).zip(y.chunks_exact_mut(area)) {
        match (halves, is_wide) {
            (true, _) => avg_pool_2x2_plane(g.windows.size[1], by, x, y),
            (_, true) => wide_windows::wide_windows_avg(g, by, x, y),
            _ => avg_pool_plane(g, by, x, y),
        }
    }
}

/// The adjoint of [`average_planes`].
pub fn spread_gradients<T: Float>(g: &PoolGeom, by: PoolDivisor, dy: &[T], dx: &mut [T]) {
    if let (Some(length), Some(divisor)) = (row_tiles::length(g), g.common_divisor(by)) {
        return row_tiles::spread(length, T::from_f64(divisor as f64), dy, dx);
    }
    dx.fill(T::ZERO);
    let is_wide = g.has_wide_windows(WIDE / 2) && !g.has_short_rows();
    let (halves, [image, area]) = (g.has_2x2_windows(), g.areas());
    for (dx, dy) in dx.chunks_exact_mut(image).zip(dy.chunks_exact(area)) {
        match (halves, is_wide) {
            (true, _) => avg_pool_backward_2x2_plane(g.windows.size[1], by, dy, dx),
            (_, true) => wide_windows::wide_windows_avg_backward(g, by, dy, dx),
            _ => avg_pool_backward_plane(g, by, dy, dx),
        }
    }
}

/// Entry point of [`average_planes`].
///
/// Reads x: `T[n, c, h, w]`; writes y: `T[n, c, ho, wo]`, `PerUnit(y_units.per_unit)`; params [`PoolGeom`], then the
/// flags ([`COUNT_PAD`](super::COUNT_PAD), [`SUM`](super::SUM)); [`PoolGeom::y_units`].
pub fn avg_pool_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, _) = read_call_shape(args);
    let by = PoolDivisor::of_geom_flags(args.params()[PoolGeom::WORDS]);
    let y = args.write::<T>(0);
    average_planes(&g, by, &args.read(0)[x], y);
}

by_dtype!(avg_pool2d_kernel_for = avg_pool_kernel::<floats>);

/// Entry point of [`spread_gradients`].
///
/// Reads dy: `T[n, c, ho, wo]`; writes dx: `T[n, c, h, w]`, `PerUnit(x_units.per_unit)`; params [`PoolGeom`], then the
/// flags ([`COUNT_PAD`](super::COUNT_PAD), [`SUM`](super::SUM)); [`PoolGeom::x_units`].
pub fn avg_pool_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, _, y) = read_call_shape(args);
    let by = PoolDivisor::of_geom_flags(args.params()[PoolGeom::WORDS]);
    let dx = args.write::<T>(0);
    spread_gradients(&g, by, &args.read(0)[y], dx);
}

by_dtype!(avg_pool2d_backward_kernel_for = avg_pool_backward_kernel::<floats>);
