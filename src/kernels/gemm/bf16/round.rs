//! Numbers of f32 as terms of bf16, two to a word, in plain Rust: what every packing routine must give.
//!
//! Invariant: a term is f32 rounded to the nearest bf16, ties to even; numbers below the normal range become zero of
//! their sign (as the instructions read them), NaN stays NaN. Where a number is split, high + middle is it to 2⁻¹⁷ of
//! its size, and high + middle + low all of it, unless a term falls below the normal range; one without a finite size
//! has no terms at all: `bf16/mod.rs` adds its products by themselves.

/// Greatest magnitude, as bits, that rounds to a finite bf16; those above need care.
pub const SAFE: u32 = 0x7f7f_7fff;
const INFINITE: u32 = 0x7f80_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
const HIGH: u32 = 0xffff_0000;

/// The bf16 nearest to `x`, as the upper half of a word.
#[inline(always)]
pub fn nearest(x: f32) -> u32 {
    let bits = x.to_bits();
    let magnitude = bits & MAGNITUDE;
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & HIGH;
    let normal = if magnitude < 0x0080_0000 { bits & !MAGNITUDE } else { rounded };
    if magnitude > INFINITE { (bits | 0x0040_0000) & HIGH } else { normal }
}

/// `x` as a sum of terms, the largest first, as upper halves of words, and whether it has none for being infinite or
/// NaN.
#[inline(always)]
pub fn splits<const SPLITS: usize>(x: f32) -> ([u32; SPLITS], bool) {
    let bits = x.to_bits();
    if bits & MAGNITUDE >= INFINITE {
        return ([0; SPLITS], true);
    }
    let mut rest = x;
    let term = |_| {
        let bits = rest.to_bits();
        // The largest numbers would round to infinity: their high term is cut instead.
        let term = if bits & MAGNITUDE > SAFE { bits & HIGH } else { nearest(rest) };
        // Exact: what is left has fewer digits.
        rest -= f32::from_bits(term);
        term
    };
    (std::array::from_fn(term), false)
}

/// A word: the term at the even place of k in the lower half, that at the odd one in the upper half.
#[inline(always)]
pub fn word(even: u32, odd: u32) -> u32 {
    even >> 16 | odd
}

/// The two terms of a word as numbers.
#[inline(always)]
pub fn numbers(word: u32) -> [f32; 2] {
    [f32::from_bits(word << 16), f32::from_bits(word & HIGH)]
}
