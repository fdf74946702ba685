//! 2-D max and average pools on `[n, c, h, w]`, their adjoints, and the linear map of a max pool.
//!
//! A plane is computed alone, in a fixed order, so bits do not depend on the range of units. A max pool takes the first
//! largest element of a window (kernel row, then kernel column); the first NaN beats all; padding never wins. Its
//! indices are `h * w + w` positions in the input plane, or −1 for a window that lies in the padding alone (whose value
//! is −∞). Op rows call the functions and the entry points here.

use super::abi::Args;
use super::float::Float;
pub use super::pool_geom::{COUNT_PAD, Divisor, PoolGeom, SUM};
use super::simd::Unmasked;
use super::{pool_halves, pool_wide};
use crate::simd;
use std::ops::Range;

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;

/// Whether `v` takes the place of `best`: larger, or the first NaN. (Without short cuts, so that loops become vector
/// code.)
#[inline(always)]
pub(super) fn beats<T: Float>(v: T, best: T) -> bool {
    (v > best) | (v.is_nan() & !best.is_nan())
}

/// Calls `f(y[i], x[i * s])`; the steps that occur get loops of their own.
#[inline(always)]
fn each<T: Float>(y: &mut [T], x: &[T], s: usize, mut f: impl FnMut(&mut T, T)) {
    match s {
        1 => y.iter_mut().zip(x).for_each(|(y, x)| f(y, *x)),
        2 => {
            let pairs = x.as_chunks::<2>().0;
            let (most, last) = y.split_at_mut(y.len().min(pairs.len()));
            most.iter_mut().zip(pairs).for_each(|(y, [x, _])| f(y, *x));
            last.iter_mut().zip(&x[2 * most.len()..]).for_each(|(y, x)| f(y, *x));
        }
        _ => y.iter_mut().zip(x.iter().step_by(s)).for_each(|(y, x)| f(y, *x)),
    }
}

/// [`each`] with a second written slice, and the number of the element.
#[inline(always)]
fn each_indexed<T: Float>(
    y: &mut [T],
    idx: &mut [i32],
    x: &[T],
    s: usize,
    mut f: impl FnMut(&mut T, &mut i32, T, i32),
) {
    match s {
        1 => {
            for (n, ((y, i), x)) in y.iter_mut().zip(idx).zip(x).enumerate() {
                f(y, i, *x, n as i32);
            }
        }
        2 => {
            let pairs = x.as_chunks::<2>().0;
            let m = y.len().min(pairs.len());
            let ((most, last), (ids, id)) = (y.split_at_mut(m), idx.split_at_mut(m));
            for (n, ((y, i), [x, _])) in most.iter_mut().zip(ids).zip(pairs).enumerate() {
                f(y, i, *x, n as i32);
            }
            for ((y, i), x) in last.iter_mut().zip(id).zip(&x[2 * m..]) {
                f(y, i, *x, m as i32);
            }
        }
        _ => {
            for (n, ((y, i), x)) in y.iter_mut().zip(idx).zip(x.iter().step_by(s)).enumerate() {
                f(y, i, *x, n as i32);
            }
        }
    }
}

simd! {
    /// One plane of a max pool, without indices.
    fn max_plane[T: Float](g: &PoolGeom, x: &[T], y: &mut [T]) {
        let (wo, whole) = (g.out_w(), Unmasked::new());
        for (oh, y) in y.chunks_exact_mut(wo).enumerate() {
            y.fill(-T::INFINITY);
            for row in (0..g.kh).filter_map(|i| g.row(oh, i)) {
                let x = &x[row * g.w..][..g.w];
                for j in 0..g.kw {
                    let (cols, at) = g.cols(j, wo);
                    each(&mut y[cols], &x[at..], g.stride[1], |y, v| *y = whole.of(if beats(v, *y) { v } else { *y }));
                }
            }
        }
    }
}

simd! {
    /// One plane of a max pool.
    fn max_index_plane[T: Float](g: &PoolGeom, x: &[T], y: &mut [T], idx: &mut [i32]) {
        let (wo, s, whole) = (g.out_w(), g.stride[1], Unmasked::new());
        for (oh, (y, idx)) in y.chunks_exact_mut(wo).zip(idx.chunks_exact_mut(wo)).enumerate() {
            y.fill(-T::INFINITY);
            idx.fill(-1);
            for row in (0..g.kh).filter_map(|i| g.row(oh, i)) {
                let x = &x[row * g.w..][..g.w];
                for j in 0..g.kw {
                    let (cols, at) = g.cols(j, wo);
                    let (first, step) = ((row * g.w + at) as i32, s as i32);
                    each_indexed(&mut y[cols.clone()], &mut idx[cols], &x[at..], s, |y, i, v, n| {
                        // The first element takes its place even if it is −∞.
                        let wins = beats(v, *y) | (*i < 0);
                        *y = whole.of(if wins { v } else { *y });
                        *i = whole.of(if wins { first + n * step } else { *i });
                    });
                }
            }
        }
    }
}

/// y = the windows' largest elements, idx = where they are, for planes of x; `idx` is empty without a reader.
pub fn max_pool2d<T: Float>(g: &PoolGeom, x: &[T], y: &mut [T], idx: &mut [i32]) {
    let area = g.out_h() * g.out_w();
    let (ask, wide) = (!idx.is_empty(), g.wide());
    for (p, (x, y)) in x.chunks_exact(g.h * g.w).zip(y.chunks_exact_mut(area)).enumerate() {
        let idx = if ask { &mut idx[p * area..][..area] } else { &mut [] };
        match (g.halves(), ask) {
            (true, _) => pool_halves::max(g.w, x, y, idx),
            _ if wide => pool_wide::max(g, x, y, idx),
            (_, true) => max_index_plane(g, x, y, idx),
            _ => max_plane(g, x, y),
        }
    }
}

/// dx = dy, scattered to where the winners were, for planes. Returns the first bad index's position.
pub fn max_pool2d_backward<T: Float>(g: &PoolGeom, dy: &[T], idx: &[i32], dx: &mut [T]) -> Option<usize> {
    let area = g.out_h() * g.out_w();
    let mut bad = None;
    dx.fill(T::ZERO);
    for (p, (dx, (dy, idx))) in
        dx.chunks_exact_mut(g.h * g.w).zip(dy.chunks_exact(area).zip(idx.chunks_exact(area))).enumerate()
    {
        for (e, (dy, i)) in dy.iter().zip(idx).enumerate() {
            // −1 becomes the largest number and is told apart only where the index is not found.
            match dx.get_mut(*i as u32 as usize) {
                Some(dx) => *dx += *dy,
                None if *i == -1 => {}
                None => bad = bad.or(Some(p * area + e)),
            }
        }
    }
    bad
}

/// y = x taken where the winners were (0 for a window without one), for planes. Returns the first bad index's position.
pub fn max_pool2d_gather<T: Float>(g: &PoolGeom, x: &[T], idx: &[i32], y: &mut [T]) -> Option<usize> {
    let area = g.out_h() * g.out_w();
    let mut bad = None;
    for (p, (x, (y, idx))) in
        x.chunks_exact(g.h * g.w).zip(y.chunks_exact_mut(area).zip(idx.chunks_exact(area))).enumerate()
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

simd! {
    /// One plane of an average pool.
    fn avg_plane[T: Float](g: &PoolGeom, by: Divisor, x: &[T], y: &mut [T]) {
        let wo = g.out_w();
        for (oh, y) in y.chunks_exact_mut(wo).enumerate() {
            y.fill(T::ZERO);
            for row in (0..g.kh).filter_map(|i| g.row(oh, i)) {
                let x = &x[row * g.w..][..g.w];
                for j in 0..g.kw {
                    let (cols, at) = g.cols(j, wo);
                    each(&mut y[cols], &x[at..], g.stride[1], |y, v| *y += v);
                }
            }
            if by == Divisor::One {
                continue;
            }
            for (ow, y) in y.iter_mut().enumerate() {
                // A window in the padding alone sums to 0.
                *y = *y / T::from_f64(g.divisor(oh, ow, by).max(1) as f64);
            }
        }
    }
}

simd! {
    /// One plane of a 2 × 2 average pool: the sums of [`avg_plane`] in the same order.
    fn avg_halves[T: Float](w: usize, by: Divisor, x: &[T], y: &mut [T]) {
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
    /// One plane of an average pool's adjoint.
    fn avg_back_plane[T: Float](g: &PoolGeom, by: Divisor, dy: &[T], dx: &mut [T]) {
        let wo = g.out_w();
        for (oh, dy) in dy.chunks_exact(wo).enumerate() {
            for row in (0..g.kh).filter_map(|i| g.row(oh, i)) {
                for j in 0..g.kw {
                    let (cols, at) = g.cols(j, wo);
                    let dx = &mut dx[row * g.w..][..g.w][at..];
                    if by != Divisor::Image {
                        let d = T::from_f64(g.divisor(oh, 0, by) as f64);
                        dx.iter_mut().step_by(g.stride[1]).zip(&dy[cols]).for_each(|(dx, v)| *dx += *v / d);
                    } else {
                        for ((dx, v), ow) in dx.iter_mut().step_by(g.stride[1]).zip(&dy[cols.clone()]).zip(cols) {
                            *dx += *v / T::from_f64(g.divisor(oh, ow, by) as f64);
                        }
                    }
                }
            }
        }
    }
}

simd! {
    /// One plane of a 2 × 2 average pool's adjoint.
    fn avg_back_halves[T: Float](w: usize, by: Divisor, dy: &[T], dx: &mut [T]) {
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

/// y = the windows' sums over their divisors, for planes of x.
pub fn avg_pool2d<T: Float>(g: &PoolGeom, by: Divisor, x: &[T], y: &mut [T]) {
    let (halves, wide) = (g.halves(), g.wide());
    for (x, y) in x.chunks_exact(g.h * g.w).zip(y.chunks_exact_mut(g.out_h() * g.out_w())) {
        match (halves, wide) {
            (true, _) => avg_halves(g.w, by, x, y),
            (_, true) => pool_wide::avg(g, by, x, y),
            _ => avg_plane(g, by, x, y),
        }
    }
}

/// dx, the adjoint of [`avg_pool2d`], for planes.
pub fn avg_pool2d_backward<T: Float>(g: &PoolGeom, by: Divisor, dy: &[T], dx: &mut [T]) {
    dx.fill(T::ZERO);
    let (halves, wide) = (g.halves(), g.wide());
    for (dx, dy) in dx.chunks_exact_mut(g.h * g.w).zip(dy.chunks_exact(g.out_h() * g.out_w())) {
        match (halves, wide) {
            (true, _) => avg_back_halves(g.w, by, dy, dx),
            (_, true) => pool_wide::avg_back(g, by, dy, dx),
            _ => avg_back_plane(g, by, dy, dx),
        }
    }
}

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
