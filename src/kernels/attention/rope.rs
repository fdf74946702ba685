//! Rotary position embedding: pairs of elements of each head are rotated by an angle that depends on the position.
//!
//! Invariant: elements beyond the rotary width pass through unchanged. Cosines and sines are used as given, so the
//! adjoint is the same kernel with negated sines, even if the tables do not come from angles. Used by the lowering of
//! `rope`.
//!
//! Source: Su et al., "RoFormer: Enhanced transformer with rotary position embedding", 2021.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`rope_kernel`] | x: `T[rows, width]`, cos, sin: `T[table rows, pairs]` | `T[rows, width]` | [`Rope`] |

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::simd;

/// Approximate number of elements in a unit.
const UNIT: usize = 4096;

params! {
    /// Params of [`rope_kernel`].
    pub struct Rope {
        /// Rows of x: heads × positions × sequences.
        pub rows: usize,
        /// Elements of a row.
        pub width: usize,
        /// Rotated pairs of a row: elements of a table row.
        pub pairs: usize,
        /// Adjacent rows of x that share a position.
        pub inner: usize,
        /// Positions of a sequence.
        pub seq: usize,
        /// Rows of x in a sequence, if each sequence has its own table rows; 0 if all share one table.
        pub per_sequence: usize,
        /// True: a pair is elements 2i and 2i + 1. False: element i of each half.
        pub neighbours: bool,
        /// Rotate by the negative angle.
        pub inverse: bool,
    }
}

impl Rope {
    /// Rows in each unit.
    fn rows_per_unit(&self) -> usize {
        (UNIT / self.width.max(1)).max(1)
    }

    /// Elements in a unit: whole rows.
    pub fn per_unit(&self) -> usize {
        self.rows_per_unit() * self.width
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.rows_per_unit())
    }

    /// The table row of row `r` of x.
    fn table_row(&self, r: usize) -> usize {
        r / self.inner % self.seq + r.checked_div(self.per_sequence).unwrap_or(0) * self.seq
    }
}

simd! {
    /// Rotates the pairs (aᵢ, bᵢ).
    fn rotate_rope_halves[T: Float](a: &mut [T], b: &mut [T], cos: &[T], sin: &[T], sign: T) {
        for (((a, b), c), s) in a.iter_mut().zip(b).zip(cos).zip(sin) {
            let (x, y, s) = (*a, *b, *s * sign);
            *a = x * *c - y * s;
            *b = y * *c + x * s;
        }
    }
}

simd! {
    /// Rotates the pairs (x₂ᵢ, x₂ᵢ₊₁).
    fn rotate_rope_neighbours[T: Float](x: &mut [T], cos: &[T], sin: &[T], sign: T) {
        let (pairs, _) = x.as_chunks_mut::<2>();
        for (([a, b], c), s) in pairs.iter_mut().zip(cos).zip(sin) {
            let (x, y, s) = (*a, *b, *s * sign);
            *a = x * *c - y * s;
            *b = y * *c + x * s;
        }
    }
}

/// Each pair (a, b) of a row becomes (a·cos − b·sin, b·cos + a·sin), with −sin if [`Rope::inverse`].
///
/// Reads x: `T[rows, width]`, cos, sin: `T[table rows, pairs]`; writes `T[rows, width]`, in place of x or not,
/// [`Rope::per_unit`]; params [`Rope`].
pub fn rope_kernel<T: Float>(args: &mut Args<'_>) {
    let p = Rope::from_words(args.params());
    let from = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let (cos, sin) = (args.read::<T>(1), args.read::<T>(2));
    let first = args.units().start * p.rows_per_unit();
    let sign = if p.inverse { -T::ONE } else { T::ONE };
    for (r, y) in (first..).zip(args.write::<T>(0).chunks_exact_mut(p.width)) {
        if let Some(x) = from {
            y.copy_from_slice(&x[r * p.width..][..p.width]);
        }
        let at = p.table_row(r) * p.pairs;
        let (cos, sin) = (&cos[at..][..p.pairs], &sin[at..][..p.pairs]);
        let rotated = &mut y[..2 * p.pairs];
        if p.neighbours {
            rotate_rope_neighbours(rotated, cos, sin, sign);
        } else {
            let (a, b) = rotated.split_at_mut(p.pairs);
            rotate_rope_halves(a, b, cos, sin, sign);
        }
    }
}

by_dtype!(rope_kernel_for = rope_kernel::<floats>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, close, noise, run_in_ranges, written_elements};

    /// The definition, for rows (b, s, h) or (b, h, s).
    fn naive(p: &Rope, heads_first: bool, heads: usize, x: &[f64], cos: &[f64], sin: &[f64]) -> Vec<f64> {
        let mut y = x.to_vec();
        for r in 0..p.rows {
            let (b, rest) = (r / (p.seq * heads), r % (p.seq * heads));
            let s = if heads_first { rest % p.seq } else { rest / heads };
            let t = if p.per_sequence > 0 { b * p.seq + s } else { s };
            for i in 0..p.pairs {
                let (u, v) = if p.neighbours { (2 * i, 2 * i + 1) } else { (i, i + p.pairs) };
                let (u, v) = (r * p.width + u, r * p.width + v);
                let (c, s) = (cos[t * p.pairs + i], if p.inverse { -1.0 } else { 1.0 } * sin[t * p.pairs + i]);
                (y[u], y[v]) = (x[u] * c - x[v] * s, x[v] * c + x[u] * s);
            }
        }
        y
    }

    #[test]
    fn rows_turn_by_their_position() {
        for (batch, seq, heads, width, pairs) in
            [(1, 1, 1, 2, 1), (2, 5, 3, 7, 2), (3, 70, 2, 64, 32), (2, 9, 4, 20, 8)]
        {
            for bits in 0..16 {
                let [heads_first, own, neighbours, inverse] = [1, 2, 4, 8].map(|b| bits & b != 0);
                let p = Rope {
                    rows: batch * seq * heads,
                    width,
                    pairs,
                    inner: if heads_first { 1 } else { heads },
                    seq,
                    per_sequence: if own { seq * heads } else { 0 },
                    neighbours,
                    inverse,
                };
                assert_eq!(Rope::from_words(&p.to_words()), p);
                let n = p.rows * width;
                let table = if own { batch * seq * pairs } else { seq * pairs };
                let (x, cos, sin) = (noise(n, 1), noise(table, 2), noise(table, 3));
                let want = naive(&p, heads_first, heads, &x, &cos, &sin);
                let out = [Out::of::<f64>(n, p.per_unit())];
                let tables = |x: In| [x, In::of(&cos), In::of(&sin)];
                let apart = run_in_ranges(rope_kernel::<f64>, &p.to_words(), &tables(In::of(&x)), &out, p.units());
                close(&written_elements::<f64>(&apart, 0), &want, 0.0);
                let over =
                    run_in_ranges(rope_kernel::<f64>, &p.to_words(), &tables(In::of(&x).over(0)), &out, p.units());
                assert_eq!(apart, over);
            }
        }
    }
}
