//! im2col and col2im: windows of planes as columns, and the adjoint, columns added into planes.
//!
//! The columns of `[n, c, h, w]` are `[n, c·kh·kw, ho·wo]`: row `(channel·kh + i)·kw + j` holds tap (i, j) of every
//! window of the channel; padding is 0.
//!
//! Invariant: a plane is computed alone, in a fixed order. Used by the lowering of `im2col` and `col2im`.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::pool::PoolGeom;
use crate::simd;
use crate::window::Units;

simd! {
    /// im2col of one plane.
    fn im2col_plane[T: Float](g: &PoolGeom, x: &[T], y: &mut [T]) {
        let ([_, w], [_, kw], [ho, wo], s) = (g.windows.size, g.windows.kernel, g.windows.out(), g.windows.stride[1]);
        for (tap, y) in y.chunks_exact_mut(ho * wo).enumerate() {
            let (i, j) = (tap / kw, tap % kw);
            let (cols, at) = g.windows.inside(1, j, wo);
            for (oh, y) in y.chunks_exact_mut(wo).enumerate() {
                let Some(row) = g.windows.element(0, oh, i).filter(|_| !cols.is_empty()) else {
                    y.fill(T::ZERO);
                    continue;
                };
                let x = &x[row * w..][..w][at..];
                y[..cols.start].fill(T::ZERO);
                y[cols.end..].fill(T::ZERO);
                let y = &mut y[cols.clone()];
                match s {
                    1 => y.copy_from_slice(&x[..y.len()]),
                    _ => y.iter_mut().zip(x.iter().step_by(s)).for_each(|(y, x)| *y = *x),
                }
            }
        }
    }
}

simd! {
    /// col2im of one plane.
    fn col2im_plane[T: Float](g: &PoolGeom, y: &[T], x: &mut [T]) {
        let ([_, w], [_, kw], [ho, wo], s) = (g.windows.size, g.windows.kernel, g.windows.out(), g.windows.stride[1]);
        x.fill(T::ZERO);
        for (tap, y) in y.chunks_exact(ho * wo).enumerate() {
            let (i, j) = (tap / kw, tap % kw);
            let (cols, at) = g.windows.inside(1, j, wo);
            for (oh, y) in y.chunks_exact(wo).enumerate() {
                let Some(row) = g.windows.element(0, oh, i).filter(|_| !cols.is_empty()) else { continue };
                let x = &mut x[row * w..][..w][at..];
                let y = &y[cols.clone()];
                match s {
                    1 => x.iter_mut().zip(y).for_each(|(x, y)| *x += *y),
                    _ => x.iter_mut().step_by(s).zip(y).for_each(|(x, y)| *x += *y),
                }
            }
        }
    }
}

/// Elements of one plane's columns.
fn plane_len(g: &PoolGeom) -> usize {
    g.windows.kernel.iter().product::<usize>() * g.areas()[1]
}

/// Units of [`im2col_kernel`] (`columns`) or [`col2im_kernel`]: one plane each.
pub fn plane_units(g: &PoolGeom, columns: bool) -> Units {
    Units { count: g.n * g.c, per_unit: if columns { plane_len(g) } else { g.areas()[0] } }
}

/// im2col.
///
/// Reads x: `T[n, c, h, w]`; writes columns: `T[n, c·kh·kw, ho·wo]`, `PerUnit(units.per_unit)`; params [`PoolGeom`];
/// `units(g, true)`.
pub fn im2col_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, units) = (PoolGeom::from_words(args.params()), args.units());
    let plane = g.areas()[0];
    let y = args.write::<T>(0);
    let x = &args.read::<T>(0)[units.start * plane..units.end * plane];
    for (x, y) in x.chunks_exact(plane).zip(y.chunks_exact_mut(plane_len(&g))) {
        im2col_plane(&g, x, y);
    }
}

by_dtype!(im2col_kernel_for = im2col_kernel::<floats>);

/// col2im, the adjoint of [`im2col_kernel`].
///
/// Reads columns: `T[n, c·kh·kw, ho·wo]`; writes x: `T[n, c, h, w]`, `PerUnit(units.per_unit)`; params [`PoolGeom`];
/// `units(g, false)`.
pub fn col2im_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, units) = (PoolGeom::from_words(args.params()), args.units());
    let columns = plane_len(&g);
    let x = args.write::<T>(0);
    let y = &args.read::<T>(0)[units.start * columns..units.end * columns];
    for (y, x) in y.chunks_exact(columns).zip(x.chunks_exact_mut(g.areas()[0])) {
        col2im_plane(&g, y, x);
    }
}

by_dtype!(col2im_kernel_for = col2im_kernel::<floats>);
