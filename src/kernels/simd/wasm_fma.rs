//! The multiply-add of WebAssembly, which has none: made of `f64` arithmetic for `f32`, a library call for `f64`.
//!
//! Invariant: results are rounded once. The functions are not inlined: a call costs a fifth of their time, and kernels
//! would grow several times. Tiles of products have their own way, in `wasm_terms`.

use std::arch::wasm32::*;

/// Four numbers as two pairs of `f64`.
#[inline(always)]
pub fn widened(v: v128) -> [v128; 2] {
    [f64x2_promote_low_f32x4(v), f64x2_promote_low_f32x4(i64x2_shuffle::<1, 1>(v, v))]
}

/// Two pairs of `f64`, rounded to four numbers.
#[inline(always)]
pub fn narrowed([low, high]: [v128; 2]) -> v128 {
    i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(low), f32x4_demote_f64x2_zero(high))
}

/// Lanes of `sums` that are halfway between two `f32`, all bits set.
#[inline(always)]
pub fn halfway([low, high]: [v128; 2]) -> v128 {
    let words = i32x4_shuffle::<0, 2, 4, 6>(low, high);
    i32x4_eq(i32x4_shl(words, 3), i32x4_splat(i32::MIN))
}

/// `p + z` in `f64`, rounded to odd, where `p` is the product of two `f32` and `z` an `f32`: if the sum is inexact and
/// even, it becomes the odd neighbour on the side of the exact value. It has more than two bits more than an `f32`, so
/// rounding it to `f32` gives the rounded exact value (Boldo and Melquiond, 2008).
#[inline(always)]
fn add_to_odd(p: v128, z: v128) -> v128 {
    let sum = f64x2_add(p, z);
    // The exact error of the sum; NaN where it is infinite.
    let of_z = f64x2_sub(sum, p);
    let rest = f64x2_add(f64x2_sub(p, f64x2_sub(sum, of_z)), f64x2_sub(z, of_z));
    let zero = f64x2_splat(0.0);
    let inexact = v128_or(f64x2_lt(rest, zero), f64x2_gt(rest, zero));
    let even = i64x2_sub(v128_and(sum, i64x2_splat(1)), i64x2_splat(1));
    // 1 if both have one sign, else −1.
    let step = v128_or(i64x2_shr(v128_xor(rest, sum), 63), i64x2_splat(1));
    i64x2_add(sum, v128_and(step, v128_and(inexact, even)))
}

/// `x * y + z`, rounded once. Rounding the sum twice is wrong only if the `f64` is halfway between two `f32`, or
/// possibly below the normal range of `f32`, where halfway points are others.
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "a value of WebAssembly, as numbers are")]
pub extern "C" fn multiply_add(x: v128, y: v128, z: v128) -> v128 {
    let ([x0, x1], [y0, y1], [z0, z1]) = (widened(x), widened(y), widened(z));
    let (p0, p1) = (f64x2_mul(x0, y0), f64x2_mul(x1, y1));
    let sums @ [low, high] = [f64x2_add(p0, z0), f64x2_add(p1, z1)];
    // Below 2⁻¹²⁶, by the words with the exponents, without their signs; 0 is exact.
    let words = i32x4_shuffle::<1, 3, 5, 7>(low, high);
    let small = u32x4_lt(i32x4_sub(i32x4_shl(words, 1), i32x4_splat(1)), u32x4_splat(0x7020_0000 - 1));
    match v128_any_true(v128_or(halfway(sums), small)) {
        true => narrowed([add_to_odd(p0, z0), add_to_odd(p1, z1)]),
        false => narrowed(sums),
    }
}

/// The first two lanes as numbers.
#[inline(always)]
pub fn pair(v: v128) -> [f64; 2] {
    [f64x2_extract_lane::<0>(v), f64x2_extract_lane::<1>(v)]
}

/// As [`multiply_add`], of two `f64`.
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "a value of WebAssembly, as numbers are")]
pub extern "C" fn multiply_add_pair(x: v128, y: v128, z: v128) -> v128 {
    let (x, y, z) = (pair(x), pair(y), pair(z));
    f64x2(x[0].mul_add(y[0], z[0]), x[1].mul_add(y[1], z[1]))
}
