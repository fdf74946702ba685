//! Block types of 256 elements, whose groups have small integer scales of their own. Q6_K is in `q6_k`.
//!
//! Group `g` has the elements `16·g ..`. Types of two, three and six bits divide the block into halves and each half
//! into four planes of 32 elements: the planes of one half share bytes, and each plane is some of the bits of each
//! byte.

use super::block_codec::{
    BlockCodec, GROUP, Group, block_codecs, leading_bytes, read_half, sixteen_codes, sixteen_nibbles,
};

/// The half of the block that group `g` is in, its plane there, and its first element in the plane.
#[inline(always)]
pub fn plane_of_256(g: usize) -> (usize, usize, usize) {
    (g / 8, g % 8 / 2, GROUP * (g % 2))
}

/// The scale and the min of 32 elements `j`, six bits each: the twelve bytes `s` hold eight of both.
#[inline(always)]
pub fn scale_and_min_of_256(s: &[u8; 12], j: usize) -> (u8, u8) {
    if j < 4 {
        return (s[j] & 63, s[j + 4] & 63);
    }
    (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4)
}

/// The scale of group `j` of Q3_K, six bits, less 32: the twelve bytes `s` hold sixteen.
#[inline(always)]
fn signed_scale_of_256(s: &[u8; 12], j: usize) -> i8 {
    let low = s[j % 8] >> (if j < 8 { 0 } else { 4 }) & 15;
    let high = s[8 + j % 4] >> (2 * (j / 4)) & 3;
    (low | high << 4) as i8 - 32
}

/// Group `g` of a type whose 32 elements share a scale and a min of six bits.
#[inline(always)]
fn with_scale_and_min_of_256(b: &[u8], g: usize, codes: [i8; GROUP]) -> Group {
    let (scale, min) = scale_and_min_of_256(leading_bytes(&b[4..]), g / 2);
    Group { codes, scale: read_half(b, 0) * f32::from(scale), min: read_half(b, 2) * f32::from(min) }
}

block_codecs! { 256;
    /// Scales and mins of four bits, codes of two bits, d, dmin.
    Q2K, 84, true, |b, g| {
        let (half_block, plane, k) = plane_of_256(g);
        let codes = sixteen_codes(&b[16 + 32 * half_block + k..], |q| (q >> (2 * plane) & 3) as i8);
        let (scale, min) = (f32::from(b[g] & 15), f32::from(b[g] >> 4));
        Group { codes, scale: read_half(b, 80) * scale, min: read_half(b, 82) * min }
    };
    /// The third bits, codes of two bits, scales of six bits, d. A missing third bit subtracts 4.
    Q3K, 110, false, |b, g| {
        let (half_block, plane, k) = plane_of_256(g);
        let mut codes = sixteen_codes(&b[32 + 32 * half_block + k..], |q| (q >> (2 * plane) & 3) as i8);
        let third = sixteen_codes(&b[k..], |h| (h >> (4 * half_block + plane) & 1) as i8);
        for (code, third) in codes.iter_mut().zip(third) {
            *code += 4 * third - 4;
        }
        let scale = signed_scale_of_256(leading_bytes(&b[96..]), g);
        Group { codes, scale: read_half(b, 108) * f32::from(scale), min: 0.0 }
    };
    /// d, dmin, scales and mins of six bits, codes of four bits.
    Q4K, 144, true, |b, g| {
        with_scale_and_min_of_256(b, g, sixteen_nibbles(&b[16 + 32 * (g / 4) + GROUP * (g % 2)..], g % 4 >= 2))
    };
    /// d, dmin, scales and mins of six bits, the fifth bits, codes of four bits.
    Q5K, 176, true, |b, g| {
        let mut codes = sixteen_nibbles(&b[48 + 32 * (g / 4) + GROUP * (g % 2)..], g % 4 >= 2);
        let fifth = sixteen_codes(&b[16 + GROUP * (g % 2)..], |h| (h >> (g / 2) & 1) as i8);
        for (code, fifth) in codes.iter_mut().zip(fifth) {
            *code += 16 * fifth;
        }
        with_scale_and_min_of_256(b, g, codes)
    };
    /// d as `f32`, then signed bytes. The sums behind them are not read.
    Q8K, 292, false, |b, g| {
        let codes = sixteen_codes(&b[4 + GROUP * g..], |q| q as i8);
        Group { codes, scale: f32::from_le_bytes(*leading_bytes(b)), min: 0.0 }
    };
}
