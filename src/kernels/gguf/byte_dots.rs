//! Products of a row of x with rows of Q8_0 blocks, straight from their codes of eight bits.
//!
//! Invariant: the sum has the order of `code_dots`: even lanes for the first group of a block, odd ones for the second.
//! All instruction sets give the same bits.

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use super::block_codec::{BlockCodec, GROUP, leading_bytes};
use super::blocks_of_32::Q8_0;
use super::code_dots::{AHEAD, LINE, Lanes, sum_of_code_lanes};
use crate::simd::{self, Simd, SimdOp, Token, Vectors};
use crate::with_token;

/// Blocks whose scales are read together.
const TOGETHER: usize = 4;

/// The product of a row of Q8_0 blocks with x.
pub fn byte_row_dot(row: &[u8], x: &[f32]) -> f32 {
    // The lanes are summed outside of the loops' function: inside, the compiler would split vectors as the sum does.
    sum_of_code_lanes(with_token!(Token::current(), s => s.vectorize(Q8_0Dot(s, row, x))))
}

/// The lanes of Σ scale·Σ code·x over a row.
struct Q8_0Dot<'a, S>(S, &'a [u8], &'a [f32]);

impl<S: Vectors<f32>> SimdOp for Q8_0Dot<'_, S> {
    type Out = Lanes;

    #[inline(always)]
    fn call(self) -> Lanes {
        let Q8_0Dot(s, row, x) = self;
        let s = s.half();
        let (mut even, mut odd) = ([0.0; GROUP], [0.0; GROUP]);
        let mut next = row.as_ptr().addr() + AHEAD * row.len();
        let (rows, last) = row.as_chunks::<{ TOGETHER * Q8_0::BYTES }>();
        let (xs, x) = x.as_chunks::<{ TOGETHER * Q8_0::ELEMENTS }>();
        let half = |b: &[u8], at: usize| u16::from_le_bytes([b[at], b[at + 1]]);
        for (b, x) in rows.iter().zip(xs) {
            for line in 0..(TOGETHER * Q8_0::BYTES).div_ceil(LINE) {
                simd::prefetch_l2(next + LINE * line);
            }
            next += TOGETHER * Q8_0::BYTES;
            let scales =
                s.f16_values([half(b, 0), half(b, Q8_0::BYTES), half(b, 2 * Q8_0::BYTES), half(b, 3 * Q8_0::BYTES)]);
            for i in 0..TOGETHER {
                let b = leading_bytes(&b[i * Q8_0::BYTES..]);
                let x = &x.as_chunks::<{ Q8_0::ELEMENTS }>().0[i];
                add_block_products(&mut even, &mut odd, b, x, scales[i]);
            }
        }
        let blocks = last.as_chunks::<{ Q8_0::BYTES }>().0.iter();
        for (b, x) in blocks.zip(x.as_chunks::<{ Q8_0::ELEMENTS }>().0) {
            let scales = s.f16_values([half(b, 0), 0, 0, 0]);
            add_block_products(&mut even, &mut odd, b, x, scales[0]);
        }
        let mut lanes = [0.0; GROUP];
        for l in 0..GROUP {
            lanes[l] = even[l] + odd[l];
        }
        lanes
    }
}

/// Adds the products of a block.
#[inline(always)]
fn add_block_products(
    even: &mut Lanes,
    odd: &mut Lanes,
    block: &[u8; Q8_0::BYTES],
    x: &[f32; Q8_0::ELEMENTS],
    scale: f32,
) {
    for l in 0..GROUP {
        even[l] = (f32::from(block[2 + l] as i8) * x[l]).mul_add(scale, even[l]);
    }
    for l in 0..GROUP {
        odd[l] = (f32::from(block[2 + GROUP + l] as i8) * x[GROUP + l]).mul_add(scale, odd[l]);
    }
}
