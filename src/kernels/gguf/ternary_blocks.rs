//! Block types of the numbers −1, 0 and 1.

use super::block_codec::{BlockCodec, GROUP, Group, f16_value, leading_bytes, sixteen_codes};
use super::blocks_of_256::plane_of_256;

/// Two bits for each element as in Q2_K, then d.
#[derive(Clone, Copy, Debug)]
pub struct Tq2_0;

impl BlockCodec for Tq2_0 {
    const ELEMENTS: usize = 256;
    const BYTES: usize = 66;
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn group(self, block: &[u8], g: usize) -> Group {
        let b: &[u8; 66] = leading_bytes(block);
        let (half_block, plane, k) = plane_of_256(g);
        let codes = sixteen_codes(&b[32 * half_block + k..], |q| (q >> (2 * plane) & 3) as i8 - 1);
        Group { codes, scale: f16_value([b[64], b[65]]), min: 0.0 }
    }
}

/// Five digits to base 3 in a byte, then d. A byte holds its digits as a fraction of 256, the first digit first: each
/// product by 3 moves the next one above the byte.
#[derive(Clone, Copy, Debug)]
pub struct Tq1_0;

/// Powers of 3.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// Digit `n` of a byte, less 1.
#[inline(always)]
fn ternary_digit(byte: u8, n: usize) -> i8 {
    ((u16::from(byte.wrapping_mul(POWERS[n])) * 3) >> 8) as i8 - 1
}

impl BlockCodec for Tq1_0 {
    const ELEMENTS: usize = 256;
    const BYTES: usize = 54;
    const HAS_MIN: bool = false;

    /// The first ten groups are the digits of 32 bytes, the next five those of 16, the last one those of 4.
    #[inline(always)]
    fn group(self, block: &[u8], g: usize) -> Group {
        let b: &[u8; 54] = leading_bytes(block);
        let codes = match g {
            0..10 => sixteen_codes(&b[GROUP * (g % 2)..], |q| ternary_digit(q, g / 2)),
            10..15 => sixteen_codes(&b[32..], |q| ternary_digit(q, g - 10)),
            _ => std::array::from_fn(|i| ternary_digit(b[48 + i % 4], i / 4)),
        };
        Group { codes, scale: f16_value([b[52], b[53]]), min: 0.0 }
    }
}
