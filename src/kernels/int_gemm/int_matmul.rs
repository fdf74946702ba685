//! Products of matrices of `i32` or `i64`. Sums wrap, as all integer arithmetic does. Those of 8-bit integers are in
//! [`int_gemm`](crate::int_gemm).
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`int_matmul_kernel`] | a: `T[batch, m, k]`, b: `T[batch, k, n]` | `T[batch, m, n]` | [`IntMatmul`] |
//!
//! With `ta`, a is `[batch, k, m]`; with `tb`, b is `[batch, n, k]`. Used by the lowering of `int_matmul`. Sums that
//! wrap have the same bits in every order, so nothing depends on the division of the work.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::params::params;
use crate::simd;
use bytemuck::Pod;

/// Approximate number of multiplications of a unit.
const UNIT: usize = 1 << 15;

params! {
    /// Params of [`int_matmul_kernel`].
    pub struct IntMatmul {
        /// Number of products.
        pub batch: usize,
        /// Rows of the result.
        pub m: usize,
        /// Columns of the result.
        pub n: usize,
        /// Terms of a sum.
        pub k: usize,
        /// Whether a is stored with its axes exchanged.
        pub ta: bool,
        /// Whether b is.
        pub tb: bool,
    }
}

impl IntMatmul {
    /// Rows of the result in a unit.
    fn rows(&self) -> usize {
        (UNIT / (self.n * self.k).max(1)).max(1)
    }

    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        self.rows() * self.n
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.batch * self.m).div_ceil(self.rows())
    }
}

/// An integer type with products.
pub trait Factor: Pod + Default {
    /// sum + a·b, wrapping.
    fn multiply_add(sum: Self, a: Self, b: Self) -> Self;
}

macro_rules! factors {
    ($($t:ident)*) => {$(
        impl Factor for $t {
            #[inline(always)]
            fn multiply_add(sum: $t, a: $t, b: $t) -> $t {
                sum.wrapping_add(a.wrapping_mul(b))
            }
        }
    )*};
}

factors! { i32 i64 }

simd! {
    /// y += a · b for a row b.
    fn int_matmul_add_row[T: Factor](y: &mut [T], a: T, b: &[T]) {
        for (y, b) in y.iter_mut().zip(b) {
            *y = T::multiply_add(*y, a, *b);
        }
    }
}

/// Products of integer matrices.
///
/// Reads a: `T[batch, m, k]`, b: `T[batch, k, n]`; writes `T[batch, m, n]`, [`IntMatmul::per_unit`]; params
/// [`IntMatmul`].
pub fn int_matmul_kernel<T: Factor>(args: &mut Args<'_>) {
    let p = IntMatmul::from_words(args.params());
    let first = args.units().start * p.rows();
    let (a, b) = (args.read::<T>(0), args.read::<T>(1));
    for (i, y) in args.write::<T>(0).chunks_mut(p.n.max(1)).enumerate() {
        let (batch, row) = ((first + i) / p.m, (first + i) % p.m);
        let (a, b) = (&a[batch * p.m * p.k..], &b[batch * p.k * p.n..]);
        y.fill(T::default());
        for t in 0..p.k {
            let factor = if p.ta { a[t * p.m + row] } else { a[row * p.k + t] };
            if p.tb {
                y.iter_mut().enumerate().for_each(|(j, y)| *y = T::multiply_add(*y, factor, b[j * p.k + t]));
            } else {
                int_matmul_add_row::<T>(y, factor, &b[t * p.n..][..p.n]);
            }
        }
    }
}

by_dtype!(int_matmul_kernel_for = int_matmul_kernel::<I32 i32, I64 i64>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    #[test]
    fn products_are_those_of_i128_and_wrap() {
        let noise = |n: usize, seed: u64| -> Vec<i64> {
            (0..n as u64).map(|i| (i + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) as i64).collect()
        };
        for (batch, m, n, k) in [(1, 1, 1, 1), (2, 3, 5, 7), (1, 70, 33, 40), (3, 2, 4, 0)] {
            for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
                let p = IntMatmul { batch, m, n, k, ta, tb };
                let (a, b) = (noise(batch * m * k, 1), noise(batch * k * n, 2));
                let out = [Out::of::<i64>(batch * m * n, p.per_unit())];
                let words = p.to_words();
                let y: Vec<i64> = written_elements(
                    &run_in_ranges(int_matmul_kernel::<i64>, &words, &[In::of(&a), In::of(&b)], &out, p.units()),
                    0,
                );
                for (at, y) in y.iter().enumerate() {
                    let (s, i, j) = (at / (m * n), at / n % m, at % n);
                    let x = |t: usize| a[s * m * k + if ta { t * m + i } else { i * k + t }];
                    let z = |t: usize| b[s * k * n + if tb { j * k + t } else { t * n + j }];
                    let want = (0..k).fold(0i128, |sum, t| sum.wrapping_add(i128::from(x(t)) * i128::from(z(t))));
                    assert_eq!(*y, want as i64, "{p:?} at {at}");
                }
            }
        }
    }
}
