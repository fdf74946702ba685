//! Block types of 32 elements: two groups that share a scale.
//!
//! In types of four or five bits, the low four bits of the sixteen bytes `q` belong to the first group, the high four
//! bits to the second. Numbers of type `f16` are little-endian.

use super::block_codec::{BlockCodec, Group, block_codecs, leading_bytes, read_half, sixteen_codes, sixteen_nibbles};

/// The values of IQ4_NL.
const IQ4_NL_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of MXFP4: 4-bit floats with two bits of exponent.
const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Five-bit codes of group `g`: four bits of `low`, and bit `16·g + i` of `high` as the fifth of element `i`.
#[inline(always)]
fn five_bits_of_32(low: &[u8], high: &[u8], g: usize, less: i8) -> [i8; 16] {
    let high = u32::from_le_bytes(*leading_bytes(high)) >> (16 * g);
    let mut codes = sixteen_nibbles(low, g > 0);
    for (i, code) in codes.iter_mut().enumerate() {
        *code += ((high >> i & 1) << 4) as i8 - less;
    }
    codes
}

block_codecs! { 32;
    /// d, then 4-bit codes: d·(v − 8).
    Q4_0, 18, false, |b, g| {
        let codes = sixteen_nibbles(&b[2..], g > 0).map(|v| v - 8);
        Group { codes, scale: read_half(b, 0), min: 0.0 }
    };
    /// d, m, then 4-bit codes: d·v + m.
    Q4_1, 20, true, |b, g| {
        Group { codes: sixteen_nibbles(&b[4..], g > 0), scale: read_half(b, 0), min: -read_half(b, 2) }
    };
    /// d, the fifth bits, then 4-bit codes: d·(v − 16).
    Q5_0, 22, false, |b, g| {
        Group { codes: five_bits_of_32(&b[6..], &b[2..], g, 16), scale: read_half(b, 0), min: 0.0 }
    };
    /// d, m, the fifth bits, then 4-bit codes: d·v + m.
    Q5_1, 24, true, |b, g| {
        Group { codes: five_bits_of_32(&b[8..], &b[4..], g, 0), scale: read_half(b, 0), min: -read_half(b, 2) }
    };
    /// d, then signed bytes: d·q.
    Q8_0, 34, false, |b, g| {
        Group { codes: sixteen_codes(&b[2 + 16 * g..], |q| q as i8), scale: read_half(b, 0), min: 0.0 }
    };
    /// d, then 4-bit places in a table of values.
    Iq4Nl, 18, false, |b, g| {
        let codes = sixteen_nibbles(&b[2..], g > 0).map(|v| IQ4_NL_VALUES[v as usize]);
        Group { codes, scale: read_half(b, 0), min: 0.0 }
    };
    /// An exponent x, then 4-bit floats: 2^(x − 127) times their value.
    Mxfp4, 17, false, |b, g| {
        let codes = sixteen_nibbles(&b[1..], g > 0).map(|v| MXFP4_VALUES[v as usize]);
        // 2^(x − 128), as the values are doubled; 0 and 1 give subnormal numbers.
        let x = u32::from(b[0]);
        let scale = f32::from_bits(if x < 2 { 0x0020_0000 << x } else { (x - 1) << 23 });
        Group { codes, scale, min: 0.0 }
    };
}
