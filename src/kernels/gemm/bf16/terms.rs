//! f32 numbers as bf16 terms, two to a word, in plain Rust. Every packing routine gives these words. Also the order of
//! the products of terms.
//!
//! Invariant: a term is rounded to the nearest bf16, ties to even. Numbers below the normal range become zero of their
//! sign, as the instructions read them. NaN stays NaN. If x is split into terms, high + middle differs from x by at
//! most 2⁻¹⁷·|x|, and high + middle + low is x. Both hold unless a term falls below the normal range. Infinity and NaN
//! are not split; `product` adds their products separately.

/// The bits of the greatest magnitude that rounds to a finite bf16.
pub const SAFE: u32 = 0x7f7f_7fff;
const INFINITE: u32 = 0x7f80_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
const HIGH: u32 = 0xffff_0000;

/// The bf16 nearest to `x`, as the upper half of a word.
#[inline(always)]
pub fn nearest_term(x: f32) -> u32 {
    let bits = x.to_bits();
    let magnitude = bits & MAGNITUDE;
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & HIGH;
    let normal = if magnitude < 0x0080_0000 { bits & !MAGNITUDE } else { rounded };
    if magnitude > INFINITE { (bits | 0x0040_0000) & HIGH } else { normal }
}

/// `x` as a sum of terms, the largest first, as upper halves of words; and whether `x` is infinite or NaN, when all
/// terms are zero.
#[inline(always)]
pub fn split_number<const SPLITS: usize>(x: f32) -> ([u32; SPLITS], bool) {
    let bits = x.to_bits();
    if bits & MAGNITUDE >= INFINITE {
        return ([0; SPLITS], true);
    }
    let mut rest = x;
    let term = |_| {
        let bits = rest.to_bits();
        // The largest numbers would round to infinity, so their high term is truncated.
        let term = if bits & MAGNITUDE > SAFE { bits & HIGH } else { nearest_term(rest) };
        // Exact: the rest has fewer digits.
        rest -= f32::from_bits(term);
        term
    };
    (std::array::from_fn(term), false)
}

/// A word of two terms: the even element along k in the lower half, the odd one in the upper half.
#[inline(always)]
pub fn pack_word(even: u32, odd: u32) -> u32 {
    even >> 16 | odd
}

/// The two terms of a word as numbers, the even one first.
#[inline(always)]
pub fn unpack_word(word: u32) -> [f32; 2] {
    [f32::from_bits(word << 16), f32::from_bits(word & HIGH)]
}

/// The products of terms for each 32 elements along k, in order, as (term of A, term of B). Term 0 is the highest. With
/// two terms, the products left out are as small as the error of two terms; with three, as the rounding of f32.
/// Consecutive products share an operand.
pub fn product_order(splits: usize) -> &'static [(usize, usize)] {
    match splits {
        1 => &[(0, 0)],
        2 => &[(0, 1), (0, 0), (1, 0)],
        _ => &[(0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0)],
    }
}
