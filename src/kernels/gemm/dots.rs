//! Dot products of rows, generic over the instruction set.
//!
//! Invariant: the order of a sum is the same on every instruction set. A sum has as many lanes as a cache line
//! ([`LINE`]) has elements: sixteen of `f32`, eight of `f64`, in one vector or several. Lane `l` sums the products
//! whose index along k is `l` modulo the number of lanes, ascending. Then the upper half of the lanes is added to the
//! lower half until one is left. Bounds are checked for the whole call, so that no offset wraps, and for each block of
//! rows, on which the loads rest.

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use super::gemm_float::GemmFloat;
use super::operands::{Dots, lines_fit};
use super::tuning::{LINE, PREFETCH_DOTS};
use crate::simd::{SimdOp, Vectors};

/// Bytes of the dot products whose lanes are summed together.
pub const SUM_BYTES: usize = 32;

/// Dot products of any number of rows. `NV` vectors are a cache line, and `J` products have [`SUM_BYTES`]. `DEEP` rows
/// of the first matrix are multiplied by `BY` rows of the second at once, a lone row by `ALONE`. `J` rows of the second
/// matrix stay in L1 while all rows of the first pass.
pub struct DotsKernel<'a, S, T, const NV: usize, const J: usize, const DEEP: usize, const BY: usize, const ALONE: usize>(
    pub S,
    pub Dots<'a, T>,
);

impl<
    S: Vectors<T>,
    T: GemmFloat,
    const NV: usize,
    const J: usize,
    const DEEP: usize,
    const BY: usize,
    const ALONE: usize,
> SimdOp for DotsKernel<'_, S, T, NV, J, DEEP, BY, ALONE>
{
    type Out = ();

    #[inline(always)]
    fn call(self) {
        const { assert!(NV * S::LANES * size_of::<T>() == LINE && J * size_of::<T>() == SUM_BYTES) };
        let DotsKernel(s, mut d) = self;
        assert!(d.fits(), "rows end outside their slices");
        let (n, whole) = (d.out.cols(), d.out.cols() / J * J);
        for at in (0..whole).step_by(J) {
            s.vectorize(DotsColumns::<S, T, NV, J, DEEP, BY, ALONE, true>(s, &mut d, at));
        }
        if whole < n {
            s.vectorize(DotsColumns::<S, T, NV, J, DEEP, BY, ALONE, false>(s, &mut d, whole));
        }
    }
}

/// The results from a column on, of all rows: `J` columns, or fewer if not `WHOLE`.
struct DotsColumns<
    'd,
    'a,
    S,
    T,
    const NV: usize,
    const J: usize,
    const DEEP: usize,
    const BY: usize,
    const ALONE: usize,
    const WHOLE: bool,
>(S, &'d mut Dots<'a, T>, usize);

impl<
    S: Vectors<T>,
    T: GemmFloat,
    const NV: usize,
    const J: usize,
    const DEEP: usize,
    const BY: usize,
    const ALONE: usize,
    const WHOLE: bool,
> SimdOp for DotsColumns<'_, '_, S, T, NV, J, DEEP, BY, ALONE, WHOLE>
{
    type Out = ();

    #[inline(always)]
    fn call(self) {
        let DotsColumns(s, d, at) = self;
        let (mut from, count) = (0, d.out.rows());
        while count - from >= DEEP {
            fill_block::<S, T, NV, J, BY, ALONE, DEEP, false, WHOLE>(s, d, from, at);
            from += DEEP;
        }
        if DEEP > 2 && count - from >= 2 {
            fill_block::<S, T, NV, J, BY, ALONE, 2, false, WHOLE>(s, d, from, at);
            from += 2;
        }
        // A lone row reads the matrix once. A matrix that comes from L2 is prefetched.
        if from < count
            && count == 1
            && d.out.cols().saturating_mul(d.step).saturating_mul(size_of::<T>()) > PREFETCH_DOTS
        {
            fill_block::<S, T, NV, J, BY, ALONE, 1, true, WHOLE>(s, d, from, at);
        } else if from < count {
            fill_block::<S, T, NV, J, BY, ALONE, 1, false, WHOLE>(s, d, from, at);
        }
    }
}

/// The lanes of `I` · `J` dot products, those of a cache line added to one vector. `PREFETCH` prefetches the next `J`
/// rows.
#[inline(always)]
fn sum_lanes<S: Vectors<T>, T: GemmFloat, const NV: usize, const I: usize, const J: usize, const PREFETCH: bool>(
    s: S,
    (x, x_step): (&[T], usize),
    (rows, step): (&[T], usize),
    k: usize,
) -> [[S::V; J]; I] {
    assert!(k >= 1 && lines_fit(I, x_step, 0, k, x.len()) && lines_fit(J, step, 0, k, rows.len()));
    let zero = s.broadcast(T::ZERO);
    let mut acc = [[[zero; NV]; J]; I];
    // SAFETY: by the assertion, row i < I has k elements from `i * x_step`, and row j < J from `j * step`. Whole
    // vectors end at or before k. The last ones are masked there.
    #[allow(unsafe_code)]
    unsafe {
        let (x, rows) = (x.as_ptr(), rows.as_ptr());
        let mut p = 0;
        while p + NV * S::LANES <= k {
            for v in 0..NV {
                let mut xv = [zero; I];
                for i in 0..I {
                    xv[i] = s.load(x.add(i * x_step + p + v * S::LANES));
                }
                for j in 0..J {
                    let y = s.load(rows.add(j * step + p + v * S::LANES));
                    if I == 1 && PREFETCH {
                        s.prefetch(rows.wrapping_add(step.wrapping_mul(j + J).wrapping_add(p + v * S::LANES)));
                    }
                    for i in 0..I {
                        acc[i][j][v] = s.fma(xv[i], y, acc[i][j][v]);
                    }
                }
            }
            p += NV * S::LANES;
        }
        for v in 0..NV {
            if p < k {
                let mask = s.mask((k - p).min(S::LANES));
                let mut xv = [zero; I];
                for i in 0..I {
                    xv[i] = s.load_partial(x.add(i * x_step + p), mask);
                }
                for j in 0..J {
                    let y = s.load_partial(rows.add(j * step + p), mask);
                    for i in 0..I {
                        acc[i][j][v] = s.fma(xv[i], y, acc[i][j][v]);
                    }
                }
                p += S::LANES;
            }
        }
    }
    // Loops, not closures: closures would be calls, with all accumulators in memory.
    let mut folded = [[zero; J]; I];
    for i in 0..I {
        for j in 0..J {
            let (mut line, mut half) = (acc[i][j], NV / 2);
            while half > 0 {
                for v in 0..half {
                    line[v] = s.add(line[v], line[v + half]);
                }
                half /= 2;
            }
            folded[i][j] = line[0];
        }
    }
    folded
}

/// The dot products of `I` rows with `J` others, or with fewer if not `WHOLE`, into columns `at ..` of `out`.
#[inline(always)]
fn fill_block<
    S: Vectors<T>,
    T: GemmFloat,
    const NV: usize,
    const J: usize,
    const BY: usize,
    const ALONE: usize,
    const I: usize,
    const PREFETCH: bool,
    const WHOLE: bool,
>(
    s: S,
    d: &mut Dots<'_, T>,
    from: usize,
    at: usize,
) {
    let (x, rows) = ((&d.x[from * d.x_step..], d.x_step), &d.rows[at * d.step..]);
    let mut parts = [[s.broadcast(T::ZERO); J]; I];
    let n = if WHOLE { J } else { J.min(d.out.cols() - at) };
    let mut j = 0;
    while WHOLE && I == 1 && j < J {
        let lanes = sum_lanes::<S, T, NV, 1, ALONE, PREFETCH>(s, x, (&rows[j * d.step..], d.step), d.k);
        parts[0][j..j + ALONE].copy_from_slice(&lanes[0]);
        j += ALONE;
    }
    while WHOLE && j < J {
        let lanes = sum_lanes::<S, T, NV, I, BY, PREFETCH>(s, x, (&rows[j * d.step..], d.step), d.k);
        for i in 0..I {
            parts[i][j..j + BY].copy_from_slice(&lanes[i]);
        }
        j += BY;
    }
    while !WHOLE && j < n {
        let lanes = sum_lanes::<S, T, NV, I, 1, false>(s, x, (&rows[j * d.step..], d.step), d.k);
        for i in 0..I {
            parts[i][j] = lanes[i][0];
        }
        j += 1;
    }
    for i in 0..I {
        let sums = if I == 1 { s.hsum_alone(parts[i]) } else { s.hsum(parts[i]) };
        let out = &mut d.out.row(from + i)[at..][..n];
        if d.add {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
        } else {
            out.copy_from_slice(&sums[..n]);
        }
    }
}
