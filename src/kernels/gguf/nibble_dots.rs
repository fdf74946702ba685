//! Products of a few rows of x with matrices of Q4_K and Q4_0 blocks, straight from their four-bit codes.
//!
//! A word of 32 bits holds eight codes. Shifts and masks turn it into pairs of 16-bit codes, without moving anything
//! between lanes. `nibble_x` writes rows of x as pairs of integers in the same order. A lane multiplies the four codes
//! of a part that it holds by four integers of x, and the sum of these four products is exact.
//!
//! Invariant: the products of a part (32 elements, which share a scale) are summed in eight lanes, in ascending order
//! of the parts, with one sum for even parts and one for odd parts. Then the two sums of each lane are added, and the
//! upper half of the lanes is added to the lower half until one is left. All instruction sets give the same bits.

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use super::block_codec::{BlockCodec, leading_bytes};
use super::block_type::BlockType;
use super::blocks_of_32::Q4_0;
use super::blocks_of_256::Q4K;
use super::code_dots::sum_of_code_lanes;
use super::nibble_x::{LANES, NibbleX, PART, STEP, XPart};
use crate::simd::{self, PairProducts, Simd, SimdOp, Token, Vectors};
use crate::with_token;
use bytemuck::{Zeroable, pod_read_unaligned};

/// Rows ahead of the current one that are fetched from memory meanwhile.
const AHEAD: usize = 8;

/// Whether [`NibbleProduct`] multiplies by rows of `k` elements of this type.
pub fn has_nibbles(block_type: BlockType, k: usize) -> bool {
    k > 0 && matches!(block_type, BlockType::Q4K | BlockType::Q4_0) && k.is_multiple_of(STEP)
}

/// The sum of each thirty-two elements of x, from the sums of sixteen.
pub fn nibble_part_sums(groups: &[f32], sums: &mut [f32]) {
    for (pair, sum) in groups.as_chunks::<2>().0.iter().zip(sums) {
        *sum = pair[0] + pair[1];
    }
}

/// A row of blocks and a row of x.
pub struct NibbleProduct<'a> {
    /// Q4_K or Q4_0.
    pub block_type: BlockType,
    /// The blocks.
    pub row: &'a [u8],
    /// x as integers.
    pub x: &'a NibbleX<'a>,
    /// The sum of each part of x.
    pub sums: &'a [f32],
    /// Scratch: a number for each part.
    pub scales: &'a mut [f32],
}

impl NibbleProduct<'_> {
    /// The product.
    pub fn value(self) -> f32 {
        let lanes = match self.block_type {
            BlockType::Q4K => with_token!(Token::current(), s => s.vectorize(Q4KDot(s, self))),
            _ => with_token!(Token::current(), s => s.vectorize(Q4_0Dot(s, self))),
        };
        lanes.sum()
    }
}

/// The lanes of a product. They are summed outside of the loops' functions: inside, the compiler would split vectors as
/// the sum does.
struct NibbleLanes {
    /// Σ scale·Σ code·x of even parts.
    even: [f32; LANES],
    /// The same of odd parts.
    odd: [f32; LANES],
    /// Σ min·Σ x.
    mins: [f32; LANES],
}

impl NibbleLanes {
    /// The product.
    fn sum(&self) -> f32 {
        sum_of_code_lanes::<LANES>(std::array::from_fn(|l| self.even[l] + self.odd[l] - self.mins[l]))
    }
}

/// The scales and the mins of a block of Q4_K.
struct NibbleHead {
    scale: f32,
    scales: [u8; 8],
    min: f32,
    mins: [u8; 8],
}

impl NibbleHead {
    #[inline(always)]
    fn of<S: Simd>(s: S, block: &[u8; Q4K::BYTES]) -> NibbleHead {
        let word = |i: usize| u32::from_le_bytes(*leading_bytes(&block[i..]));
        let (low_scales, low_mins, low) = (word(4), word(8), word(12));
        let high = |w: u32| w >> 2 & 0x3030_3030;
        let both = |low: u32, rest: u32| (u64::from(low & 0x3f3f_3f3f) | u64::from(rest) << 32).to_le_bytes();
        let half = |i: usize| u16::from_le_bytes([block[i], block[i + 1]]);
        let numbers = s.f16_values([half(0), half(2), 0, 0]);
        NibbleHead {
            scale: numbers[0],
            scales: both(low_scales, low & 0x0f0f_0f0f | high(low_scales)),
            min: numbers[1],
            mins: both(low_mins, low >> 4 & 0x0f0f_0f0f | high(low_mins)),
        }
    }
}

/// Σ scale·Σ code·x − Σ min·Σ x over a row of Q4_K blocks.
struct Q4KDot<'a, S>(S, NibbleProduct<'a>);

impl<S: Vectors<f32, Half: PairProducts>> SimdOp for Q4KDot<'_, S> {
    type Out = NibbleLanes;

    #[inline(always)]
    fn call(self) -> NibbleLanes {
        let Q4KDot(s, p) = self;
        let s = s.half();
        let (mut even, mut odd, mut mins) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let mut next = p.row.as_ptr().addr() + AHEAD * p.row.len();
        let blocks = p.row.as_chunks::<{ Q4K::BYTES }>().0.iter();
        let parts = p.x.scales.as_chunks::<8>().0.iter().zip(p.sums.as_chunks::<8>().0);
        // The heads of all blocks come first: their chains of short operations overlap.
        let scales = p.scales.as_chunks_mut::<8>().0;
        for ((b, scales), (x_scales, sums)) in blocks.clone().zip(&mut *scales).zip(parts) {
            let head = NibbleHead::of(s, b);
            let mut scaled = [0.0; LANES];
            for l in 0..LANES {
                scaled[l] = head.scale * f32::from(head.scales[l]) * x_scales[l];
            }
            *scales = scaled;
            for l in 0..LANES {
                mins[l] = (head.min * f32::from(head.mins[l])).mul_add(sums[l], mins[l]);
            }
        }
        for ((b, steps), scales) in blocks.zip(p.x.steps.as_chunks::<4>().0).zip(scales) {
            for i in 0..4 {
                simd::prefetch_l2(next);
                next += Q4K::BYTES / 4;
                let words: [u32; LANES] = pod_read_unaligned(&b[16 + 32 * i..][..PART]);
                let words = words.map(u32::from_le);
                add_scaled_nibbles(&mut even, nibble_part_dot(s, &words, &steps[i].parts[0]), scales[2 * i]);
                add_scaled_nibbles(
                    &mut odd,
                    nibble_part_dot(s, &shifted_nibbles(&words, [4; LANES]), &steps[i].parts[1]),
                    scales[2 * i + 1],
                );
            }
        }
        NibbleLanes { even, odd, mins }
    }
}

/// The same over a row of Q4_0 blocks, two at a time.
struct Q4_0Dot<'a, S>(S, NibbleProduct<'a>);

impl<S: Vectors<f32, Half: PairProducts>> SimdOp for Q4_0Dot<'_, S> {
    type Out = NibbleLanes;

    #[inline(always)]
    fn call(self) -> NibbleLanes {
        let Q4_0Dot(s, p) = self;
        let s = s.half();
        let (mut even, mut odd, mut mins) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let mut next = p.row.as_ptr().addr() + AHEAD * p.row.len();
        let blocks = p.row.as_chunks::<{ 2 * Q4_0::BYTES }>().0.iter().zip(&*p.x.steps);
        let parts = p.x.scales.as_chunks::<2>().0.iter().zip(p.sums.as_chunks::<2>().0);
        for ((b, step), (x_scales, sums)) in blocks.zip(parts) {
            simd::prefetch_l2(next);
            next += 2 * Q4_0::BYTES;
            let (first, second) = b.split_at(Q4_0::BYTES);
            let half = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
            let scales = s.f16_values([half(first), half(second), 0, 0]);
            for q in 0..2 {
                mins[q] = (8.0 * scales[q]).mul_add(sums[q], mins[q]);
            }
            let (first, second) =
                (nibble_words_of_q4_0(leading_bytes(&first[2..])), nibble_words_of_q4_0(leading_bytes(&second[2..])));
            add_scaled_nibbles(&mut even, nibble_part_dot(s, &first, &step.parts[0]), scales[0] * x_scales[0]);
            add_scaled_nibbles(&mut odd, nibble_part_dot(s, &second, &step.parts[1]), scales[1] * x_scales[1]);
        }
        NibbleLanes { even, odd, mins }
    }
}

/// Words shifted to the right.
#[inline(always)]
fn shifted_nibbles(words: &[u32; LANES], by: [u32; LANES]) -> [u32; LANES] {
    let mut shifted = [0; LANES];
    for l in 0..LANES {
        shifted[l] = words[l] >> by[l];
    }
    shifted
}

/// Words whose places 0 and 8 have the codes of a block of Q4_0: 16 lower and 16 upper halves of bytes.
#[inline(always)]
fn nibble_words_of_q4_0(bytes: &[u8; 16]) -> [u32; LANES] {
    let half: [u32; LANES / 2] = pod_read_unaligned(bytes);
    let half = half.map(u32::from_le);
    let mut words = [0; LANES];
    words[..LANES / 2].copy_from_slice(&half);
    words[LANES / 2..].copy_from_slice(&half);
    shifted_nibbles(&words, [0, 0, 0, 0, 4, 4, 4, 4])
}

/// The lanes of Σ code·x of a part: codes at the places 0 and 8 of words.
#[inline(always)]
fn nibble_part_dot<S: PairProducts>(s: S, words: &[u32; LANES], x: &XPart) -> [f32; LANES] {
    let codes = [nibble_codes_at(words, 0), nibble_codes_at(words, 8)];
    let (high, low) = (nibble_pair_sums(s, &codes, &x.high), nibble_pair_sums(s, &codes, &x.low));
    let mut dot = [0.0; LANES];
    for l in 0..LANES {
        dot[l] = (low[l] as f32).mul_add(1.0 / (1 << 15) as f32, high[l] as f32);
    }
    dot
}

/// Pairs of codes: those at one place of all words.
#[inline(always)]
fn nibble_codes_at(words: &[u32; LANES], place: u32) -> [u32; LANES] {
    let mut codes = [0; LANES];
    for l in 0..LANES {
        codes[l] = words[l] >> place & 0x000f_000f;
    }
    codes
}

/// Sums of products of two pairs in each lane.
#[inline(always)]
fn nibble_pair_sums<S: PairProducts>(s: S, codes: &[[u32; LANES]; 2], x: &[[u32; LANES]; 2]) -> [i32; LANES] {
    let (mut sums, width) = ([0; LANES], S::BYTES / 4);
    for at in (0..LANES).step_by(width) {
        let mut sum = S::Lanes::zeroed();
        for place in 0..2 {
            let codes = pod_read_unaligned(bytemuck::cast_slice(&codes[place][at..at + width]));
            let x = pod_read_unaligned(bytemuck::cast_slice(&x[place][at..at + width]));
            sum = s.add_pair_products(sum, codes, x);
        }
        sums[at..at + width].copy_from_slice(bytemuck::cast_slice(&[sum]));
    }
    sums
}

/// Adds a dot times a scale.
#[inline(always)]
fn add_scaled_nibbles(sums: &mut [f32; LANES], dot: [f32; LANES], scale: f32) {
    for l in 0..LANES {
        sums[l] = dot[l].mul_add(scale, sums[l]);
    }
}
