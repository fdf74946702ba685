//! 2-D max and average pools on `[n, c, h, w]`, their adjoints, and the tangent of a max pool.
//!
//! Invariant: a plane is computed alone, in a fixed order, so bits do not depend on the range of units. A max pool
//! takes the first of the largest elements of a window (in order of kernel row, then kernel column). The first NaN
//! wins; padding never does. An index is the position `row * w + column` in the input plane, or −1 for a window of
//! padding only, whose value is −∞. Used by the lowering of the pool ops.

mod avg;
mod geom;
mod inner_loops;
mod max;
mod max_2x2;
#[cfg(test)]
mod tests;
mod wide_windows;

pub use avg::{avg_pool2d, avg_pool2d_backward};
pub use geom::{COUNT_PAD, PoolDivisor, PoolGeom, SUM};
pub use max::{max_pool2d, max_pool2d_backward, max_pool2d_gather};

use crate::kernels::abi::Args;
use crate::kernels::float::Float;
use std::ops::Range;

/// The geometry of a call, and its ranges of elements of x and of y.
fn pool_kernel_call(args: &Args<'_>) -> (PoolGeom, Range<usize>, Range<usize>) {
    let g = PoolGeom::from_words(args.params());
    let (all, units) = (g.n * g.c, args.units());
    let (lo, hi) = ((units.start * g.planes()).min(all), (units.end * g.planes()).min(all));
    let (image, area) = (g.h * g.w, g.out_h() * g.out_w());
    (g, lo * image..hi * image, lo * area..hi * area)
}

/// Entry point of [`max_pool2d`].
///
/// Reads x: `T[n, c, h, w]`; writes y: `T[n, c, ho, wo]` and, optionally, idx: `i32[n, c, ho, wo]`, both
/// `PerUnit(y_units.per_unit)`; params [`PoolGeom`]; [`PoolGeom::y_units`].
pub fn max_pool2d_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, _) = pool_kernel_call(args);
    let y = args.write::<T>(0);
    let idx = if args.writes() > 1 { args.write::<i32>(1) } else { &mut [] };
    max_pool2d(&g, &args.read::<T>(0)[x], y, idx);
}

/// Entry point of [`max_pool2d_backward`].
///
/// Reads dy: `T[n, c, ho, wo]`, idx: `i32[n, c, ho, wo]`; writes dx: `T[n, c, h, w]`, `PerUnit(x_units.per_unit)`;
/// params [`PoolGeom`]; [`PoolGeom::x_units`]. Fault: the element of an idx that is out of range.
pub fn max_pool2d_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, _, y) = pool_kernel_call(args);
    let dx = args.write::<T>(0);
    if let Some(bad) = max_pool2d_backward(&g, &args.read(0)[y.clone()], &args.read(1)[y.clone()], dx) {
        args.fault(y.start + bad);
    }
}

/// Entry point of [`max_pool2d_gather`].
///
/// Reads x: `T[n, c, h, w]`, idx: `i32[n, c, ho, wo]`; writes y: `T[n, c, ho, wo]`, `PerUnit(y_units.per_unit)`; params
/// [`PoolGeom`]; [`PoolGeom::y_units`]. Fault: the element of an idx that is out of range.
pub fn max_pool2d_gather_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, y) = pool_kernel_call(args);
    let out = args.write::<T>(0);
    if let Some(bad) = max_pool2d_gather(&g, &args.read(0)[x], &args.read(1)[y.clone()], out) {
        args.fault(y.start + bad);
    }
}

/// Entry point of [`avg_pool2d`].
///
/// Reads x: `T[n, c, h, w]`; writes y: `T[n, c, ho, wo]`, `PerUnit(y_units.per_unit)`; params [`PoolGeom`], then the
/// flags ([`COUNT_PAD`], [`SUM`]); [`PoolGeom::y_units`].
pub fn avg_pool2d_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, _) = pool_kernel_call(args);
    let by = PoolDivisor::of(args.params()[PoolGeom::WORDS]);
    let y = args.write::<T>(0);
    avg_pool2d(&g, by, &args.read(0)[x], y);
}

/// Entry point of [`avg_pool2d_backward`].
///
/// Reads dy: `T[n, c, ho, wo]`; writes dx: `T[n, c, h, w]`, `PerUnit(x_units.per_unit)`; params [`PoolGeom`], then the
/// flags ([`COUNT_PAD`], [`SUM`]); [`PoolGeom::x_units`].
pub fn avg_pool2d_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, _, y) = pool_kernel_call(args);
    let by = PoolDivisor::of(args.params()[PoolGeom::WORDS]);
    let dx = args.write::<T>(0);
    avg_pool2d_backward(&g, by, &args.read(0)[y], dx);
}
