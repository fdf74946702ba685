//! Pools with wide windows that overlap little. They are computed window by window, each along its rows. The general
//! loops compute one tap of all windows at a time. Max pools have the bits of the general loops; sums of average pools
//! have another order.

use super::geom::{PoolDivisor, PoolGeom};
use crate::float::Float;
use crate::simd;
use crate::window::WindowGeometry;
use std::ops::Range;

/// Elements that are reduced side by side.
const LANES: usize = 8;

impl PoolGeom {
    /// The image columns of the windows of output column `ow`.
    #[inline(always)]
    fn wide_window_span(&self, ow: usize) -> Range<usize> {
        let WindowGeometry { size: [_, w], kernel: [_, kw], stride, pad: [_, [left, _]], .. } = self.windows;
        let from = ow * stride[1];
        from.saturating_sub(left)..(from + kw).min(w + left).saturating_sub(left)
    }
}

/// The sum of `run`. The order depends on its length only.
#[inline(always)]
fn wide_window_sum<T: Float>(run: &[T]) -> T {
    let (chunks, rest) = run.as_chunks::<LANES>();
    let mut lanes = [T::ZERO; LANES];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(a, v)| *a += *v);
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    rest.iter().fold(((a + e) + (c + g)) + ((b + f) + (d + h)), |s, v| s + *v)
}

/// The largest number of `run` (−∞ if there is none), and whether it contains NaN.
#[inline(always)]
fn wide_window_top<T: Float>(run: &[T]) -> (T, bool) {
    let (chunks, rest) = run.as_chunks::<LANES>();
    let (mut lanes, mut nan) = ([-T::INFINITY; LANES], [false; LANES]);
    for chunk in chunks {
        for ((a, n), v) in lanes.iter_mut().zip(&mut nan).zip(chunk) {
            *a = if *v > *a { *v } else { *a };
            *n |= v.is_nan();
        }
    }
    let larger = |a: T, v: &T| if *v > a { *v } else { a };
    let most = rest.iter().fold(lanes.iter().fold(-T::INFINITY, larger), larger);
    (most, nan.contains(&true) || rest.iter().any(|v| v.is_nan()))
}

/// Position of the first element of `run` that replaces `best`: the first NaN, or else the first largest.
#[inline(always)]
fn wide_window_winner<T: Float>(run: &[T], best: Option<T>) -> Option<usize> {
    let (most, nan) = wide_window_top(run);
    if nan {
        return run.iter().position(|v| v.is_nan());
    }
    let wins = best.is_none_or(|b| most > b);
    if wins { run.iter().position(|v| *v == most) } else { None }
}

simd! {
    /// Max pool of one plane with [`PoolGeom::has_wide_windows`] windows. An empty `idx` is not written.
    pub(super) fn wide_max_plane[T: Float](g: &PoolGeom, x: &[T], y: &mut [T], idx: &mut [i32]) {
        let ([_, w], [kh, _], [_, wo]) = (g.windows.size, g.windows.kernel, g.windows.out());
        for (o, y) in y.iter_mut().enumerate() {
            let (cols, mut best, mut at) = (g.wide_window_span(o % wo), None, -1);
            for row in (0..kh).filter_map(|i| g.windows.element(0, o / wo, i)) {
                if best.is_some_and(|b: T| b.is_nan()) {
                    break;
                }
                let run = &x[row * w..][..w][cols.clone()];
                if let Some(i) = wide_window_winner(run, best) {
                    best = Some(run[i]);
                    at = (row * w + cols.start + i) as i32;
                }
            }
            *y = best.unwrap_or(-T::INFINITY);
            if let Some(i) = idx.get_mut(o) {
                *i = at;
            }
        }
    }
}

simd! {
    /// Average pool of one plane with [`PoolGeom::has_wide_windows`] windows.
    pub(super) fn wide_windows_avg[T: Float](g: &PoolGeom, by: PoolDivisor, x: &[T], y: &mut [T]) {
        let ([_, w], [kh, _], [_, wo]) = (g.windows.size, g.windows.kernel, g.windows.out());
        for (o, y) in y.iter_mut().enumerate() {
            let (cols, mut total) = (g.wide_window_span(o % wo), T::ZERO);
            for row in (0..kh).filter_map(|i| g.windows.element(0, o / wo, i)) {
                total += wide_window_sum(&x[row * w..][..w][cols.clone()]);
            }
            *y = total / T::from_f64(g.divisor(o / wo, o % wo, by).max(1) as f64);
        }
    }
}

simd! {
    /// The adjoint of [`wide_windows_avg`] on one plane, added to `dx`.
    pub(super) fn wide_windows_avg_backward[T: Float](g: &PoolGeom, by: PoolDivisor, dy: &[T], dx: &mut [T]) {
        let ([_, w], [kh, _], [_, wo]) = (g.windows.size, g.windows.kernel, g.windows.out());
        for (o, dy) in dy.iter().enumerate() {
            let share = *dy / T::from_f64(g.divisor(o / wo, o % wo, by).max(1) as f64);
            for row in (0..kh).filter_map(|i| g.windows.element(0, o / wo, i)) {
                dx[row * w..][..w][g.wide_window_span(o % wo)].iter_mut().for_each(|dx| *dx += share);
            }
        }
    }
}
