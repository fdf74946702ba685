//! The sums of a tile in WebAssembly, where a multiply-add is made of `f64` arithmetic.
//!
//! Invariant: the bits are those of one [`multiply_add`] for each term. Terms are added in runs. The sums of a run stay
//! in `f64`, each rounded to `f32`, and what would make a rounding wrong is only noted: a run that met it is computed
//! again with more care. First, halfway sums count. Factors of few bits, such as pixels, have many of these, which are
//! exact; so next, those count that are inexact, too, and this care is kept for the rest of the tile. At last, each
//! term is a [`multiply_add`].

use super::vector::{TileTerms, first_lanes};
use super::wasm_fma::{halfway, multiply_add, narrowed, widened};
use std::arch::wasm32::*;

/// Terms of a run: few, so that little is computed again.
const RUN: usize = 16;

/// Adds terms to the sums of a tile. Gives the places of the next term.
///
/// # Safety
/// As that of [`Vectors::add_terms`](super::Vectors::add_terms).
#[inline(always)]
#[allow(unsafe_code)]
pub unsafe fn add_terms<const MR: usize, const NV: usize>(
    sums: &mut [[v128; NV]; MR],
    mut t: TileTerms<f32>,
) -> (*const f32, *const f32) {
    let (mut left, mut careful) = (t.terms, false);
    while left > 0 {
        t.terms = RUN.min(left);
        // SAFETY: these terms are some of those that the caller vouches for.
        unsafe {
            if careful || !add_run::<MR, NV, false>(sums, &t) {
                careful = true;
                if !add_run::<MR, NV, true>(sums, &t) {
                    add_each::<MR, NV>(sums, &t);
                }
            }
        }
        left -= t.terms;
        t.a = t.a.wrapping_add(t.terms * t.a_col);
        t.b = t.b.wrapping_add(t.terms * t.b_row);
    }
    (t.a, t.b)
}

/// The vectors of a row of B.
///
/// # Safety
/// The row has `t.cols` elements, which fill all vectors but the last.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn row<const NV: usize>(b: *const f32, t: &TileTerms<f32>) -> [v128; NV] {
    let (mut row, last) = ([f32x4_splat(0.0); NV], t.cols - 4 * (NV - 1));
    for j in 0..NV {
        let from = b.wrapping_add(4 * j);
        // SAFETY: the caller says so.
        row[j] = unsafe {
            match j + 1 == NV && last < 4 {
                true => v128_load(first_lanes::<f32, 4>(from, last).as_ptr().cast()),
                false => v128_load(from.cast()),
            }
        };
    }
    row
}

/// Adds a run of terms. False, and the sums are as they were, if some rounding may be wrong.
///
/// # Safety
/// As that of [`add_terms`].
#[inline(never)]
#[allow(unsafe_code)]
unsafe fn add_run<const MR: usize, const NV: usize, const CAREFUL: bool>(
    sums: &mut [[v128; NV]; MR],
    t: &TileTerms<f32>,
) -> bool {
    let mut wide = sums.map(|row| row.map(widened));
    // Lanes that met a halfway sum; of each lane the least sum but 0, by its bits without the sign.
    let (mut met, mut least) = (i32x4_splat(0), i32x4_splat(-1));
    let (mut a, mut b) = (t.a, t.b);
    for _ in 0..t.terms {
        // SAFETY: the caller vouches for each row of B and each element of A.
        let row = unsafe { row::<NV>(b, t) }.map(widened);
        for i in 0..MR {
            // SAFETY: as above.
            let x = f64x2_promote_low_f32x4(unsafe { v128_load32_splat(a.wrapping_add(i * t.a_row).cast()) });
            for j in 0..NV {
                let z = wide[i][j];
                let p = row[j].map(|y| f64x2_mul(x, y));
                let s = [f64x2_add(p[0], z[0]), f64x2_add(p[1], z[1])];
                let mut half = halfway(s);
                if CAREFUL {
                    // Of the two differences, one is exact.
                    let inexact = |h: usize| {
                        v128_or(f64x2_ne(f64x2_sub(s[h], p[h]), z[h]), f64x2_ne(f64x2_sub(s[h], z[h]), p[h]))
                    };
                    half = v128_and(half, i32x4_shuffle::<0, 2, 4, 6>(inexact(0), inexact(1)));
                }
                met = v128_or(met, half);
                let narrow = s.map(|s| f32x4_demote_f64x2_zero(s));
                let bits = i64x2_shuffle::<0, 2>(narrow[0], narrow[1]);
                least = u32x4_min(least, i32x4_sub(i32x4_shl(bits, 1), i32x4_splat(1)));
                wide[i][j] = narrow.map(|s| f64x2_promote_low_f32x4(s));
            }
        }
        a = a.wrapping_add(t.a_col);
        b = b.wrapping_add(t.b_row);
    }
    // Up to 2⁻¹²⁶, halfway points are others.
    if v128_any_true(v128_or(met, u32x4_lt(least, u32x4_splat(0x0100_0000)))) {
        return false;
    }
    *sums = wide.map(|row| row.map(narrowed));
    true
}

/// Adds terms one by one.
///
/// # Safety
/// As that of [`add_terms`].
#[inline(never)]
#[cold]
#[allow(unsafe_code)]
unsafe fn add_each<const MR: usize, const NV: usize>(sums: &mut [[v128; NV]; MR], t: &TileTerms<f32>) {
    for p in 0..t.terms {
        // SAFETY: the caller vouches for each row of B and each element of A.
        let row = unsafe { row::<NV>(t.b.wrapping_add(p * t.b_row), t) };
        for (i, sums) in sums.iter_mut().enumerate() {
            let at = t.a.wrapping_add(i * t.a_row + p * t.a_col);
            // SAFETY: as above.
            let x = unsafe { v128_load32_splat(at.cast()) };
            for (sum, y) in sums.iter_mut().zip(row) {
                *sum = multiply_add(x, y, *sum);
            }
        }
    }
}
