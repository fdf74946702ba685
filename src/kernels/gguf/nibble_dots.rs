//! Products of a few rows of x with matrices of Q4_K and Q4_0 blocks, straight from their four-bit codes.
//!
//! A word of 32 bits holds eight codes. Shifts and masks turn it into pairs of 16-bit codes, without moving anything
//! between lanes. `nibble_x` writes rows of x as pairs of integers in the same order. A lane multiplies the four codes
//! of a part that it holds by four integers of x, and the sum of these four products is exact. `nibble_bytes` computes
//! the same integers where one instruction adds the products of four bytes.
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
use super::code_dots::AHEAD;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::nibble_bytes::NibbleBytes;
use super::nibble_codes::{NibbleCodes, NibbleLanes, NibbleProduct};
use super::nibble_x::{LANES, STEP, XPart};
use crate::simd::{self, PairProducts, Simd, SimdOp, Token, Vectors};
use crate::with_token;
use bytemuck::{Zeroable, pod_read_unaligned};

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

impl NibbleProduct<'_> {
    /// The product.
    pub fn value(mut self) -> f32 {
        let mins = with_token!(Token::current(), s => s.vectorize(NibbleHeads(s, &mut self)));
        match self.block_type {
            BlockType::Q4K => self.lanes(Q4K),
            _ => self.lanes(Q4_0),
        }
        .sum(&mins)
    }

    /// The lanes of Σ scale·Σ code·x.
    fn lanes(&self, codes: impl NibbleCodes) -> NibbleLanes {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(s) = simd::vnni() {
            return s.vectorize(NibbleBytes(s, self, codes));
        }
        with_token!(Token::current(), s => s.vectorize(NibblePairs(s, self, codes)))
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

/// Writes the scales of all parts of a row, times those of x, and gives the lanes of Σ min·Σ x. Heads come before
/// codes, so that their chains of short operations overlap.
struct NibbleHeads<'p, 'a, S>(S, &'p mut NibbleProduct<'a>);

impl<S: Vectors<f32>> SimdOp for NibbleHeads<'_, '_, S> {
    type Out = [f32; LANES];

    #[inline(always)]
    fn call(self) -> [f32; LANES] {
        let NibbleHeads(s, p) = self;
        match p.block_type {
            BlockType::Q4K => read_q4_k_heads(s.half(), p),
            _ => read_q4_0_heads(s.half(), p),
        }
    }
}

#[inline(always)]
fn read_q4_k_heads<S: Simd>(s: S, p: &mut NibbleProduct<'_>) -> [f32; LANES] {
    let mut mins = [0.0; LANES];
    let parts = p.x.scales.as_chunks::<8>().0.iter().zip(p.sums.as_chunks::<8>().0);
    let scales = p.scales.as_chunks_mut::<8>().0;
    for ((b, scales), (x_scales, sums)) in p.row.as_chunks::<{ Q4K::BYTES }>().0.iter().zip(scales).zip(parts) {
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
    mins
}

#[inline(always)]
fn read_q4_0_heads<S: Simd>(s: S, p: &mut NibbleProduct<'_>) -> [f32; LANES] {
    let mut mins = [0.0; LANES];
    let parts = p.x.scales.as_chunks::<2>().0.iter().zip(p.sums.as_chunks::<2>().0);
    let scales = p.scales.as_chunks_mut::<2>().0;
    for ((b, to), (x_scales, sums)) in p.row.as_chunks::<{ 2 * Q4_0::BYTES }>().0.iter().zip(scales).zip(parts) {
        let half = |i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
        let scales = s.f16_values([half(0), half(Q4_0::BYTES), 0, 0]);
        for q in 0..2 {
            mins[q] = (8.0 * scales[q]).mul_add(sums[q], mins[q]);
            to[q] = scales[q] * x_scales[q];
        }
    }
    mins
}

/// Σ scale·Σ code·x over a row of blocks, by products of pairs.
struct NibblePairs<'p, 'a, S, C>(S, &'p NibbleProduct<'a>, C);

impl<S: Vectors<f32, Half: PairProducts>, C: NibbleCodes> SimdOp for NibblePairs<'_, '_, S, C> {
    type Out = NibbleLanes;

    #[inline(always)]
    fn call(self) -> NibbleLanes {
        let NibblePairs(s, p, c) = self;
        let s = s.half();
        let (mut even, mut odd) = ([0.0; LANES], [0.0; LANES]);
        let mut next = p.row.as_ptr().addr() + AHEAD * p.row.len();
        let steps = p.x.steps.chunks_exact(C::STEPS).zip(p.scales.as_chunks::<2>().0.chunks_exact(C::STEPS));
        for (bytes, (steps, scales)) in p.row.chunks_exact(C::AT_A_TIME).zip(steps) {
            for i in 0..C::STEPS {
                simd::prefetch_l2(next);
                next += C::AT_A_TIME / C::STEPS;
                let [first, second] = c.codes(bytes, i);
                add_scaled_nibbles(&mut even, nibble_part_dot(s, &first, &steps[i].parts[0]), scales[i][0]);
                add_scaled_nibbles(&mut odd, nibble_part_dot(s, &second, &steps[i].parts[1]), scales[i][1]);
            }
        }
        NibbleLanes { even, odd }
    }
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
