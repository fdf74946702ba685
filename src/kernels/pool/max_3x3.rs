//! Max pools with 3 × 3 windows and stride 2, as behind the first convolution of a residual network. Each row of the
//! plane is pooled along its columns, in pieces of fixed size that fill vectors; then three such rows are compared.
//!
//! Invariant: the bits are those of the general loops in `max_pool`.

use super::geom::PoolGeom;
use super::inner_loops::pool_inner_loop_beats;
use crate::float::Float;
use crate::simd;
use crate::simd::Unmasked;
use crate::window::WindowGeometry;

/// Windows that are computed together.
const PIECE: usize = 16;
/// Most windows of a row.
const WINDOWS: usize = 128;

/// A row of the plane between its padding, its even and its odd elements apart, so that each tap of all windows is a
/// run.
struct Line<T> {
    even: [T; WINDOWS + PIECE],
    odd: [T; WINDOWS],
}

/// The windows of a row of the plane: their largest elements and the positions of these.
#[derive(Clone, Copy)]
struct Pooled<T> {
    top: [T; WINDOWS],
    at: [i32; WINDOWS],
}

/// Whether the loops of this file compute the pool.
pub(super) fn fits(g: &PoolGeom) -> bool {
    let WindowGeometry { size, pad, .. } = g.windows;
    let own = WindowGeometry { stride: [2, 2], pad, ..WindowGeometry::new(size, [3, 3]) };
    let out = g.windows.out();
    // Every window reads the image, so an element wins in it.
    g.windows == own && pad[0][0] <= 1 && pad[1][0] <= 1 && out[1] <= WINDOWS && (0..2).all(|a| reads_image(g, a))
}

/// Whether the last window of an axis begins inside of the image.
fn reads_image(g: &PoolGeom, a: usize) -> bool {
    let last = 2 * g.windows.out()[a].saturating_sub(1);
    last < g.windows.size[a] + g.windows.pad[a][0]
}

/// Whether element `b` at position `j` replaces `a` at `i`: it is larger, or `a` is padding.
#[inline(always)]
fn wins<T: Float>((b, j): (T, i32), (a, i): (T, i32)) -> bool {
    pool_inner_loop_beats(b, a) | ((i < 0) & (j >= 0))
}

/// The position of element `k` of a line in the plane, or −1 for padding. Element 0 is at `first`, and `real` is the
/// image.
#[inline(always)]
fn place(k: i32, first: i32, real: [i32; 2]) -> i32 {
    if (k >= real[0]) & (k < real[1]) { first + k } else { -1 }
}

impl<T: Float> Line<T> {
    /// Takes the row `x` behind `left` elements of padding.
    #[inline(always)]
    fn load(&mut self, x: &[T], left: usize) {
        let (even, odd) = (&mut self.even, &mut self.odd);
        let x = if left == 0 {
            x
        } else {
            odd[0] = x[0];
            &x[1..]
        };
        let (even, odd) = (&mut even[left..], &mut odd[left..]);
        let (pairs, last) = x.as_chunks::<2>();
        for ((even, odd), [a, b]) in even.iter_mut().zip(odd.iter_mut()).zip(pairs) {
            (*even, *odd) = (*a, *b);
        }
        if let [a] = last {
            even[pairs.len()] = *a;
        }
    }
}

/// Pools the first windows of a line along its columns. Element 0 of the line is at position `first`, and `real` is the
/// image.
#[inline(always)]
fn pool_line<T: Float>(line: &Line<T>, first: i32, real: [i32; 2], count: usize, to: &mut Pooled<T>) {
    let (top, at) = (&mut to.top[..count], &mut to.at[..count]);
    let taps = line.even[..count].iter().zip(&line.odd[..count]).zip(&line.even[1..=count]);
    for (n, ((top, at), ((a, b), c))) in top.iter_mut().zip(at).zip(taps).enumerate() {
        let k = 2 * n as i32;
        let (a, i) = (*a, place(k, first, real));
        let (b, j) = (*b, place(k + 1, first, real));
        let better = wins((b, j), (a, i));
        let (a, i) = (if better { b } else { a }, if better { j } else { i });
        let (c, j) = (*c, place(k + 2, first, real));
        let better = wins((c, j), (a, i));
        *top = if better { c } else { a };
        *at = if better { j } else { i };
    }
}

/// Replaces the largest elements of the first windows by those of the next row where these are larger.
#[inline(always)]
fn add_row<T: Float>(best: &mut Pooled<T>, row: &Pooled<T>, count: usize) {
    let whole = Unmasked::new();
    let (top, at) = (&mut best.top[..count], &mut best.at[..count]);
    let next = row.top[..count].iter().zip(&row.at[..count]);
    for ((top, at), (b, j)) in top.iter_mut().zip(at).zip(next) {
        let better = wins((*b, *j), (*top, *at));
        *top = whole.of(if better { *b } else { *top });
        *at = whole.of(if better { *j } else { *at });
    }
}

simd! {
    fn max_3x3_plane[T: Float](g: &PoolGeom, x: &[T], y: &mut [T], idx: &mut [i32]) {
        let ([_, w], [_, wo], [[above, _], [left, _]]) = (g.windows.size, g.windows.out(), g.windows.pad);
        let mut line = Line { even: [-T::INFINITY; WINDOWS + PIECE], odd: [-T::INFINITY; WINDOWS] };
        // Row `r` of the plane is at `r % 3`.
        let mut rows = [Pooled { top: [-T::INFINITY; WINDOWS], at: [-1; WINDOWS] }; 3];
        let mut done = 0;
        let count = wo.next_multiple_of(PIECE);
        // What no window reads is left out.
        let own = w.min(2 * wo + 1 - left);
        for (oh, y) in y.chunks_exact_mut(wo).enumerate() {
            let (from, to) = ((2 * oh).saturating_sub(above), (2 * oh + 3 - above).min(g.windows.size[0]));
            for row in done.max(from)..to {
                line.load(&x[row * w..][..own], left);
                let real = [left as i32, (left + own) as i32];
                pool_line(&line, (row * w) as i32 - left as i32, real, count, &mut rows[row % 3]);
            }
            done = to;
            let mut best = rows[from % 3];
            for row in from + 1..to {
                add_row(&mut best, &rows[row % 3], count);
            }
            y.copy_from_slice(&best.top[..wo]);
            if !idx.is_empty() {
                idx[oh * wo..][..wo].copy_from_slice(&best.at[..wo]);
            }
        }
    }
}

/// Max pool of one plane. An empty `idx` is not written.
pub(super) fn pool_plane<T: Float>(g: &PoolGeom, x: &[T], y: &mut [T], idx: &mut [i32]) {
    max_3x3_plane(g, x, y, idx);
}
