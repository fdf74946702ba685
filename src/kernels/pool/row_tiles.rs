//! Average pools whose windows are some neighbours of a row and tile it, as those of signals.
//!
//! Invariant: the bits are those of the general loops in `avg_pool`: a sum begins with 0 and takes the elements in
//! order.

use super::geom::PoolGeom;
use crate::float::Float;
use crate::simd;
use crate::window::WindowGeometry;

/// Windows of `K` elements.
struct Tiles<const K: usize>;

simd! {
    fn sum_tiles[T: Float, const K: usize](_of: Tiles<K>, divisor: T, x: &[T], y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x.as_chunks::<K>().0) {
            let mut sum = T::ZERO;
            for v in x {
                sum += *v;
            }
            *y = sum / divisor;
        }
    }
}

simd! {
    fn spread_over_tiles[T: Float, const K: usize](_of: Tiles<K>, divisor: T, dy: &[T], dx: &mut [T]) {
        for (dx, dy) in dx.as_chunks_mut::<K>().0.iter_mut().zip(dy) {
            *dx = [T::ZERO + *dy / divisor; K];
        }
    }
}

/// The elements of a window, if windows tile rows and there are loops for their length.
pub(super) fn length(g: &PoolGeom) -> Option<usize> {
    let k = g.windows.kernel[1];
    let tiles = WindowGeometry { stride: [g.windows.stride[0], k], ..WindowGeometry::new(g.windows.size, [1, k]) };
    let rows = g.windows == tiles && g.windows.out()[0] == g.windows.size[0];
    (rows && g.windows.size[1].is_multiple_of(k) && (2..=4).contains(&k)).then_some(k)
}

/// The average pool of any planes, with windows of `length` elements.
pub(super) fn sum<T: Float>(length: usize, divisor: T, x: &[T], y: &mut [T]) {
    match length {
        2 => sum_tiles(Tiles::<2>, divisor, x, y),
        3 => sum_tiles(Tiles::<3>, divisor, x, y),
        _ => sum_tiles(Tiles::<4>, divisor, x, y),
    }
}

/// The adjoint of [`sum`].
pub(super) fn spread<T: Float>(length: usize, divisor: T, dy: &[T], dx: &mut [T]) {
    match length {
        2 => spread_over_tiles(Tiles::<2>, divisor, dy, dx),
        3 => spread_over_tiles(Tiles::<3>, divisor, dy, dx),
        _ => spread_over_tiles(Tiles::<4>, divisor, dy, dx),
    }
}
