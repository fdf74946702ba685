//! 2-D max and average pools on `[n, c, h, w]`, their adjoints, and the linear map of a max pool.
//!
//! A plane is computed alone, in a fixed order, so bits do not depend on the range of units. A max pool takes the first
//! largest element of a window (kernel row, then kernel column); the first NaN beats all; padding never wins. Its
//! indices are `h * w + w` positions in the input plane, or −1 for a window that lies in the padding alone (whose value
//! is −∞). Op rows call the functions and the entry points here.

mod avg;
mod geom;
mod halves;
mod inner;
mod max;
#[cfg(test)]
mod tests;
mod wide;

pub use avg::{avg_pool2d, avg_pool2d_backward};
pub use geom::{COUNT_PAD, Divisor, PoolGeom, SUM};
pub use max::{max_pool2d, max_pool2d_backward, max_pool2d_gather};

use crate::kernels::abi::Args;
use crate::kernels::float::Float;
use std::ops::Range;

/// The geometry of a call, its first plane, and that plane's place in x and in y.
fn call(args: &Args<'_>) -> (PoolGeom, Range<usize>, Range<usize>) {
    let g = PoolGeom::from_words(args.params());
    let (all, units) = (g.n * g.c, args.units());
    let (lo, hi) = ((units.start * g.planes()).min(all), (units.end * g.planes()).min(all));
    let (image, area) = (g.h * g.w, g.out_h() * g.out_w());
    (g, lo * image..hi * image, lo * area..hi * area)
}

/// Entry point of [`max_pool2d`].
///
/// Reads: 0 x. Writes: 0 y, 1 idx (i32; may be absent), both `PerUnit(y_units.per_unit)`. Params: the geometry's words.
/// Units: `y_units.count`.
pub fn max_pool2d_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, _) = call(args);
    let y = args.write::<T>(0);
    let idx = if args.writes() > 1 { args.write::<i32>(1) } else { &mut [] };
    max_pool2d(&g, &args.read::<T>(0)[x], y, idx);
}

/// Entry point of [`max_pool2d_backward`].
///
/// Reads: 0 dy, 1 idx (i32). Writes: 0 dx, `PerUnit(x_units.per_unit)`. Params: the geometry's words.
/// Units: `x_units.count`. Fault: the element of idx that is out of range.
pub fn max_pool2d_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, _, y) = call(args);
    let dx = args.write::<T>(0);
    if let Some(bad) = max_pool2d_backward(&g, &args.read(0)[y.clone()], &args.read(1)[y.clone()], dx) {
        args.fault(y.start + bad);
    }
}

/// Entry point of [`max_pool2d_gather`].
///
/// Reads: 0 x, 1 idx (i32). Writes: 0 y, `PerUnit(y_units.per_unit)`. Params: the geometry's words.
/// Units: `y_units.count`. Fault: the element of idx that is out of range.
pub fn max_pool2d_gather_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, y) = call(args);
    let out = args.write::<T>(0);
    if let Some(bad) = max_pool2d_gather(&g, &args.read(0)[x], &args.read(1)[y.clone()], out) {
        args.fault(y.start + bad);
    }
}

/// Entry point of [`avg_pool2d`].
///
/// Reads: 0 x. Writes: 0 y, `PerUnit(y_units.per_unit)`. Params: the geometry's words, then the flags ([`COUNT_PAD`],
/// [`SUM`]). Units: `y_units.count`.
pub fn avg_pool2d_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, x, _) = call(args);
    let by = Divisor::of(args.params()[PoolGeom::WORDS]);
    let y = args.write::<T>(0);
    avg_pool2d(&g, by, &args.read(0)[x], y);
}

/// Entry point of [`avg_pool2d_backward`].
///
/// Reads: 0 dy. Writes: 0 dx, `PerUnit(x_units.per_unit)`. Params: the geometry's words, then the flags ([`COUNT_PAD`],
/// [`SUM`]). Units: `x_units.count`.
pub fn avg_pool2d_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let (g, _, y) = call(args);
    let by = Divisor::of(args.params()[PoolGeom::WORDS]);
    let dx = args.write::<T>(0);
    avg_pool2d_backward(&g, by, &args.read(0)[y], dx);
}
