//! Max pools with 2 × 2 windows that tile the plane. Rows of 4 to 15 windows are computed in two pieces of fixed size,
//! so that they fill vectors. Where the pieces overlap, the second writes the same values again.
//!
//! Invariant: the bits are those of the general loops in `max_pool`.

use super::inner_loops::pool_inner_loop_beats;
use crate::float::Float;
use crate::simd;

/// Pieces of `L` windows.
struct By<const L: usize>;

/// The largest element of a window.
#[inline(always)]
fn largest_of_window<T: Float>([a, b]: [T; 2], [c, d]: [T; 2]) -> T {
    let ab = if pool_inner_loop_beats(b, a) { b } else { a };
    let abc = if pool_inner_loop_beats(c, ab) { c } else { ab };
    if pool_inner_loop_beats(d, abc) { d } else { abc }
}

/// [`largest_of_window`] and its position in a plane of width `w`, for a window at position `at`.
#[inline(always)]
fn largest_with_position<T: Float>([a, b]: [T; 2], [c, d]: [T; 2], at: i32, w: i32) -> (T, i32) {
    let (ab, i) = if pool_inner_loop_beats(b, a) { (b, at + 1) } else { (a, at) };
    let (abc, i) = if pool_inner_loop_beats(c, ab) { (c, at + w) } else { (ab, i) };
    if pool_inner_loop_beats(d, abc) { (d, at + w + 1) } else { (abc, i) }
}

/// Some windows of a row, their results and positions. `at` is the position of the first window.
#[inline(always)]
fn fill_windows<T: Float>(up: &[[T; 2]], down: &[[T; 2]], at: usize, w: usize, y: &mut [T], idx: Option<&mut [i32]>) {
    let windows = up.iter().zip(down);
    match idx {
        Some(idx) => {
            for (n, ((y, i), (up, down))) in y.iter_mut().zip(idx).zip(windows).enumerate() {
                (*y, *i) = largest_with_position(*up, *down, at as i32 + 2 * n as i32, w as i32);
            }
        }
        None => y.iter_mut().zip(windows).for_each(|(y, (up, down))| *y = largest_of_window(*up, *down)),
    }
}

simd! {
    /// Planes with rows of `L` to `2 * L` windows, in two pieces a row.
    fn max_2x2_short_rows[T: Float, const L: usize](_by: By<L>, w: usize, x: &[T], y: &mut [T], idx: &mut [i32]) {
        let wo = w / 2;
        for (row, (x, y)) in x.chunks_exact(2 * w).zip(y.chunks_exact_mut(wo)).enumerate() {
            let (up, down) = x.split_at(w);
            let (up, down) = (up.as_chunks::<2>().0, down.as_chunks::<2>().0);
            let mut idx = idx.get_mut(row * wo..(row + 1) * wo);
            for at in [0, wo - L] {
                let (up, down) = (&up[at..at + L], &down[at..at + L]);
                let idx = idx.as_deref_mut().map(|i| &mut i[at..at + L]);
                fill_windows(up, down, 2 * (row * w + at), w, &mut y[at..at + L], idx);
            }
        }
    }
}

simd! {
    /// Planes with rows of any length.
    fn max_2x2_rows[T: Float](w: usize, x: &[T], y: &mut [T], idx: &mut [i32]) {
        let wo = w / 2;
        for (oh, (x, y)) in x.chunks_exact(2 * w).zip(y.chunks_exact_mut(wo)).enumerate() {
            let (up, down) = x.split_at(w);
            let pairs = up.as_chunks::<2>().0.iter().zip(down.as_chunks::<2>().0);
            if idx.is_empty() {
                y.iter_mut().zip(pairs).for_each(|(y, (up, down))| *y = largest_of_window(*up, *down));
                continue;
            }
            let mut at = (oh * 2 * w) as i32;
            for ((y, i), (up, down)) in y.iter_mut().zip(&mut idx[oh * wo..][..wo]).zip(pairs) {
                (*y, *i) = largest_with_position(*up, *down, at, w as i32);
                at += 2;
            }
        }
    }
}

/// Max pool of one plane of width `w`. An empty `idx` is not written.
pub(super) fn pool_plane<T: Float>(w: usize, x: &[T], y: &mut [T], idx: &mut [i32]) {
    match w / 2 {
        4..8 => max_2x2_short_rows(By::<4>, w, x, y, idx),
        8..16 => max_2x2_short_rows(By::<8>, w, x, y, idx),
        _ => max_2x2_rows(w, x, y, idx),
    }
}
