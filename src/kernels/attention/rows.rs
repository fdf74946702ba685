//! What happens to one row of a block of scores between the products.
//!
//! Invariant: slices that stand for "none" are empty; all others are as long as the row. Each function is a few loops
//! over at most a block of keys, in the first-level cache. For the two kernels beside it.

use super::Element;
use crate::kernels::tree::{self, Max, Sum};
use crate::kernels::vmath::{exp, log, tanh};
use crate::simd;

/// `x·scale`, or `cap·tanh(x·scale / cap)`, in place.
#[inline(always)]
fn capped<T: Element>(x: &mut [T], scale: T, cap: T) {
    if cap > T::ZERO {
        let inner = scale / cap;
        x.iter_mut().for_each(|x| *x = cap * tanh(*x * inner));
    } else {
        x.iter_mut().for_each(|x| *x *= scale);
    }
}

/// `x` where `keep` is 1, else `other`.
#[inline(always)]
fn only<T: Element>(x: &mut [T], keep: &[T], other: T) {
    for (x, keep) in x.iter_mut().zip(keep) {
        *x = if *keep > T::ZERO { *x } else { other };
    }
}

simd! {
    /// Turns products into scores; returns the largest.
    pub fn scores[T: Element](x: &mut [T], scale: T, cap: T, bias: &[T], keep: &[T]) -> T {
        capped(x, scale, cap);
        for (x, bias) in x.iter_mut().zip(bias) {
            *x += *bias;
        }
        only(x, keep, -T::INFINITY);
        tree::block(Max, x)
    }
}

simd! {
    /// `x = exp(x − top)`; returns their sum, and exp(old − top).
    pub fn weights[T: Element](x: &mut [T], top: T, old: T) -> (T, T) {
        for x in x.iter_mut() {
            *x = exp(*x - top);
        }
        (tree::block(Sum, x), exp(old - top))
    }
}

simd! {
    /// `x *= by`.
    pub fn multiply[T: Element](x: &mut [T], by: T) {
        for x in x {
            *x *= by;
        }
    }
}

simd! {
    /// `to = x / by`.
    pub fn divide[T: Element](x: &[T], by: T, to: &mut [T]) {
        for (to, x) in to.iter_mut().zip(x) {
            *to = *x / by;
        }
    }
}

simd! {
    /// `sum = top + ln sum` for each row.
    pub fn log_sums[T: Element](top: &[T], sum: &mut [T]) {
        for (sum, top) in sum.iter_mut().zip(top) {
            *sum = *top + log(*sum);
        }
    }
}

/// What [`gradients`] needs of one row beside its numbers.
#[derive(Clone, Copy)]
pub struct Row<T> {
    /// What products are multiplied by.
    pub scale: T,
    /// The softcap; 0 for none.
    pub cap: T,
    /// The log-sum-exp of the row.
    pub lse: T,
    /// Σ dy·y of the row, less the gradient of `lse`.
    pub delta: T,
}

simd! {
    /// Turns products into probabilities p, and gradients of probabilities into those of products. `dbias` gets the
    /// gradient p·(g − delta) of what stands under the exponential.
    pub fn gradients[T: Element](x: &mut [T], g: &mut [T], row: Row<T>, bias: &[T], keep: &[T], dbias: &mut [T]) {
        capped(x, row.scale, row.cap);
        for g in g.iter_mut() {
            *g -= row.delta;
        }
        dbias.iter_mut().zip(&*g).for_each(|(to, g)| *to = *g);
        if row.cap > T::ZERO {
            // d(c·tanh u)/d(c·u) = 1 − tanh² u.
            for (g, x) in g.iter_mut().zip(&*x) {
                let t = *x / row.cap;
                *g *= T::ONE - t * t;
            }
        }
        for (x, bias) in x.iter_mut().zip(bias) {
            *x += *bias;
        }
        for x in x.iter_mut() {
            *x = exp(*x - row.lse);
        }
        only(x, keep, T::ZERO);
        only(g, keep, T::ZERO);
        only(dbias, keep, T::ZERO);
        for (g, x) in g.iter_mut().zip(&*x) {
            *g *= *x * row.scale;
        }
        dbias.iter_mut().zip(&*x).for_each(|(to, x)| *to *= *x);
    }
}

simd! {
    /// 0 where the uniform number is below p, and `scale` else.
    pub fn factors[T: Element](draws: &[f32], p: f32, scale: T, to: &mut [T]) {
        for (to, draw) in to.iter_mut().zip(draws) {
            *to = if *draw >= p { scale } else { T::ZERO };
        }
    }
}

simd! {
    /// `x *= by`, and 0 where `by` is, whatever x is.
    pub fn dropped[T: Element](x: &mut [T], by: &[T]) {
        for (x, by) in x.iter_mut().zip(by) {
            *x = if *by > T::ZERO { *x * *by } else { T::ZERO };
        }
    }
}
