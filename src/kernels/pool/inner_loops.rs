//! Inner loops that several pools share.

use crate::float::Float;

/// Whether `v` replaces `best`: it is larger, or the first NaN. No short-circuit operators, so that loops vectorise.
#[inline(always)]
pub(super) fn pool_inner_loop_beats<T: Float>(v: T, best: T) -> bool {
    (v > best) | (v.is_nan() & !best.is_nan())
}

/// Calls `f(y[i], x[i * s])`. The common strides 1 and 2 have their own loops.
#[inline(always)]
pub(super) fn pool_inner_loop_each<T: Float>(y: &mut [T], x: &[T], s: usize, mut f: impl FnMut(&mut T, T)) {
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

/// [`pool_inner_loop_each`] with a second output and the element's number.
#[inline(always)]
pub(super) fn pool_inner_loop_each_indexed<T: Float>(
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
