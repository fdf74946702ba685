//! Operations on one row of a block of scores, between the products.
//!
//! Invariant: an optional slice is empty or as long as the row. Each function is a few loops over at most a block of
//! keys, in the first-level cache. Used by the forward kernel and the backward kernels.

use super::attention_shape::{CHUNK, Element};
use crate::reduce::pairwise::{self, Max, PairwiseReducer, Sum};
use crate::simd;
use crate::simd::Unmasked;
use crate::vmath::{exp, exp_middle, log, tanh};
use std::ops::Range;

// Loops instead of iterator methods: closures passed to those would be separate functions, without the instruction set
// of their caller.

// Plain loops along a row: the compiler vectorises a loop over chunks across the chunks, with gathers and scatters.

/// `x = f(x)`.
#[inline(always)]
fn each_in_score_row<T: Element>(x: &mut [T], f: impl Fn(T) -> T) {
    for x in x {
        *x = f(*x);
    }
}

/// `x = f(x, y)`; nothing where y is empty.
#[inline(always)]
fn map_pairs<T: Element>(x: &mut [T], y: &[T], f: impl Fn(T, T) -> T) {
    for (x, y) in x.iter_mut().zip(y) {
        *x = f(*x, *y);
    }
}

/// `x = map(x)`, then joins all elements: by position in the chunk, then in a tree.
#[inline(always)]
fn map_and_join<T: Element, F: PairwiseReducer<T>>(f: F, x: &mut [T], map: impl Fn(T) -> T) -> T {
    let mut lanes = [f.start(); CHUNK];
    let (chunks, rest) = x.as_chunks_mut::<CHUNK>();
    for chunk in chunks {
        for (a, x) in lanes.iter_mut().zip(chunk) {
            *x = map(*x);
            *a = f.join(*a, *x);
        }
    }
    for (a, x) in lanes.iter_mut().zip(rest) {
        *x = map(*x);
        *a = f.join(*a, *x);
    }
    pairwise::join_lanes(f, pairwise::keep_lanes_apart(lanes))
}

/// `x·scale`, or `cap·tanh(x·scale / cap)`, in place.
#[inline(always)]
fn cap_score_row<T: Element>(x: &mut [T], scale: T, cap: T) {
    if cap > T::ZERO {
        let inner = scale / cap;
        each_in_score_row(x, |x| cap * tanh(x * inner));
    } else {
        each_in_score_row(x, |x| x * scale);
    }
}

/// Whether scores are products times a number: one loop computes what else takes several.
#[inline(always)]
fn is_plain<T: Element>(cap: T, optional: &[&[T]]) -> bool {
    cap <= T::ZERO && optional.iter().all(|x| x.is_empty())
}

/// `x` where `keep` is 1, else `other`.
#[inline(always)]
fn keep_in_score_row<T: Element>(x: &mut [T], keep: &[T], other: T) {
    let whole = Unmasked::new();
    map_pairs(x, keep, |x, keep| whole.of(if keep > T::ZERO { x } else { other }));
}

/// Writes `other` outside `seen`, which begins in the first chunk and ends in the last.
#[inline(always)]
fn hide_in_score_row<T: Element>(x: &mut [T], seen: &Range<usize>, other: T) {
    // Masks come from a table: comparisons of indices would become branches.
    if seen.start > 0 {
        let first = CHUNK.min(x.len());
        keep_in_score_row(&mut x[..first], &T::EDGES[CHUNK - seen.start.min(CHUNK)..][..first], other);
    }
    if seen.end < x.len() {
        let last = &mut x[seen.end / CHUNK * CHUNK..];
        let (len, kept) = (last.len().min(CHUNK), seen.end % CHUNK);
        keep_in_score_row(&mut last[..len], &T::EDGES[2 * CHUNK - kept..][..len], other);
    }
}

/// `exp` of x, but 0 for results below the normal range: one subnormal result can cost as much time as a whole row.
#[inline(always)]
fn score_row_weight<T: Element>(x: T, exp: impl Fn(T) -> T) -> T {
    let least = -T::EXP_MIDDLE;
    let y = exp(if x < least { least } else { x });
    if x < least { T::ZERO } else { y }
}

simd! {
    /// Replaces products by scores, −∞ where a key is not `seen`. Returns the largest.
    pub fn products_to_scores[T: Element](x: &mut [T], seen: &Range<usize>, scale: T, cap: T, bias: &[T], keep: &[T]) -> T {
        if is_plain(cap, &[bias, keep]) && *seen == (0..x.len()) {
            return map_and_join(Max, x, |x| x * scale);
        }
        cap_score_row(x, scale, cap);
        map_pairs(x, bias, |x, bias| x + bias);
        keep_in_score_row(x, keep, -T::INFINITY);
        hide_in_score_row(x, seen, -T::INFINITY);
        map_and_join(Max, x, |x| x)
    }
}

simd! {
    /// `x = exp(x − top)`, 0 below the normal range, for x and old up to top. Returns (Σ x, exp(old − top)).
    pub fn scores_to_weights[T: Element](x: &mut [T], top: T, old: T) -> (T, T) {
        let sum = map_and_join(Sum, x, |x| score_row_weight(x - top, exp_middle));
        // In most blocks after the first no score is greater than all before.
        (sum, if old == top { T::ONE } else { score_row_weight(old - top, exp_middle) })
    }
}

simd! {
    /// `x *= by`.
    pub fn multiply_score_row[T: Element](x: &mut [T], by: T) {
        each_in_score_row(x, |x| x * by);
    }
}

simd! {
    /// `to = x / by`.
    pub fn divide_score_row[T: Element](x: &[T], by: T, to: &mut [T]) {
        map_pairs(to, x, |_, x| x / by);
    }
}

simd! {
    /// `sum = top + ln sum` for each row.
    pub fn score_row_log_sums[T: Element](top: &[T], sum: &mut [T]) {
        for (sum, top) in sum.iter_mut().zip(top) {
            *sum = *top + log(*sum);
        }
    }
}

/// The scalars of one row for [`score_row_gradients`].
#[derive(Clone, Copy)]
pub struct Row<T> {
    /// Factor of the products.
    pub scale: T,
    /// The softcap; 0 for none.
    pub cap: T,
    /// The log-sum-exp of the row.
    pub lse: T,
    /// Σ dy·y of the row, less the gradient of `lse`.
    pub delta: T,
}

simd! {
    /// Replaces products in `x` by probabilities p, and gradients of probabilities in `g` by gradients of products; 0
    /// where a key is not `seen`. `by` is the bias and the mask of keys. `dbias` gets p·(g − delta), the gradient of
    /// the exponent.
    pub fn score_row_gradients[T: Element](
        x: &mut [T],
        g: &mut [T],
        seen: &Range<usize>,
        row: Row<T>,
        by: (&[T], &[T]),
        dbias: &mut [T]
    ) {
        let (bias, keep) = by;
        if is_plain(row.cap, &[bias, keep, dbias]) {
            for (x, g) in x.iter_mut().zip(&mut *g) {
                *x = score_row_weight(*x * row.scale - row.lse, exp);
                *g = (*g - row.delta) * (*x * row.scale);
            }
            hide_in_score_row(x, seen, T::ZERO);
            hide_in_score_row(g, seen, T::ZERO);
            return;
        }
        cap_score_row(x, row.scale, row.cap);
        each_in_score_row(g, |g| g - row.delta);
        map_pairs(dbias, g, |_, g| g);
        if row.cap > T::ZERO {
            // d(c·tanh u)/d(c·u) = 1 − tanh² u.
            map_pairs(g, x, |g, x| {
                let t = x / row.cap;
                g * (T::ONE - t * t)
            });
        }
        map_pairs(x, bias, |x, bias| x + bias);
        each_in_score_row(x, |x| score_row_weight(x - row.lse, exp));
        keep_in_score_row(x, keep, T::ZERO);
        keep_in_score_row(g, keep, T::ZERO);
        keep_in_score_row(dbias, keep, T::ZERO);
        hide_in_score_row(x, seen, T::ZERO);
        map_pairs(g, x, |g, x| g * (x * row.scale));
        hide_in_score_row(g, seen, T::ZERO);
        map_pairs(dbias, x, |to, x| to * x);
        hide_in_score_row(dbias, seen, T::ZERO);
    }
}

/// Rows that are summed side by side.
pub const SIDE: usize = 16;

simd! {
    /// `sum[r] = fma(a[c][r], b[c][r], sum[r])` for ascending c.
    pub fn score_row_chains[T: Element](a: &[[T; SIDE]], b: &[[T; SIDE]], sum: &mut [T; SIDE]) {
        let mut sums = *sum;
        for (a, b) in a.iter().zip(b) {
            for ((s, a), b) in sums.iter_mut().zip(a).zip(b) {
                *s = a.mul_add(*b, *s);
            }
        }
        *sum = sums;
    }
}

simd! {
    /// `x *= by`; 0 where `by` is 0, even if x is not finite.
    pub fn scale_score_row_by_elements[T: Element](x: &mut [T], by: &[T]) {
        for (x, by) in x.iter_mut().zip(by) {
            *x = if *by > T::ZERO { *x * *by } else { T::ZERO };
        }
    }
}
