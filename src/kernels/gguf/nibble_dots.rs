//! Products of few rows x with matrices of Q4_K and Q4_0 blocks, straight from their four-bit codes.
//!
//! Thirty-two bytes of codes are eight words of 32 bits, and each word has four lower and four upper halves of bytes.
//! A shift and a mask give the same half of all words, without any exchange between lanes. So x is written once in the
//! order in which the codes come out: [`nibble_order`].
//!
//! Invariant: as in `code_dots`, with eight lanes. All instruction sets give the same bits.

use super::block_codec::{BlockCodec, block_array};
use super::block_type::BlockType;
use super::blocks_of_32::Q4_0;
use super::blocks_of_256::Q4K;
use super::f16_value::f16_of_bits;
use crate::simd;
use crate::simd::prefetch_l2;

/// Lanes of a sum: words of 32 bits in 32 bytes.
const WORDS: usize = 8;
/// Elements of 32 bytes of codes.
const STEP: usize = 64;
/// Elements of a block of Q4_0, and of a part of Q4_K that shares a scale.
const PART: usize = 32;
/// Rows ahead of the current one that are fetched from memory meanwhile.
const AHEAD: usize = 2;

/// Whether [`NibbleRow`] multiplies by rows of `k` elements of this type.
pub fn has_nibbles(block_type: BlockType, k: usize) -> bool {
    k > 0 && matches!(block_type, BlockType::Q4K | BlockType::Q4_0) && k.is_multiple_of(STEP)
}

/// Where element `e` of sixty-four stands in the order of the codes.
fn place_of_code(block_type: BlockType, e: usize) -> usize {
    // Q4_K: 32 lower halves, then 32 upper ones. Q4_0: two blocks of 16 lower and 16 upper halves, 16 bytes each.
    let (byte, upper) = match block_type {
        BlockType::Q4K => (e % 32, e / 32),
        _ => (e / 32 * 16 + e % 16, e % 32 / 16),
    };
    upper * 32 + byte % 4 * WORDS + byte / 4
}

/// Writes x in the order in which the codes of a row come out.
pub fn nibble_order(block_type: BlockType, x: &[f32], to: &mut [f32]) {
    let places: [usize; STEP] = std::array::from_fn(|e| place_of_code(block_type, e));
    for (x, to) in x.as_chunks::<STEP>().0.iter().zip(to.as_chunks_mut::<STEP>().0) {
        for (x, place) in x.iter().zip(places) {
            to[place] = *x;
        }
    }
}

/// The sum of each thirty-two elements of x, from the sums of sixteen.
pub fn part_sums(groups: &[f32], sums: &mut [f32]) {
    for (pair, sum) in groups.as_chunks::<2>().0.iter().zip(sums) {
        *sum = pair[0] + pair[1];
    }
}

/// The scales and the mins of a row of blocks, one for each [`PART`].
pub struct NibbleRow<'a> {
    block_type: BlockType,
    /// Halves of the heads of blocks, as bits.
    halves: &'a mut [u16],
    /// The same as numbers.
    numbers: &'a mut [f32],
    /// Small integers: scales of all parts, then mins of all parts.
    small: &'a mut [u8],
    scales: &'a mut [f32],
    mins: &'a mut [f32],
}

impl<'a> NibbleRow<'a> {
    /// `f32`s of scratch for a row of `k` elements.
    pub fn scratch(k: usize) -> usize {
        let parts = k / PART;
        // Halves and small integers take two and one bytes each; both counts are even.
        parts + 2 * parts + parts.div_ceil(2) + 2 * parts
    }

    /// A row of `k` elements in scratch, and the rest of the scratch.
    pub fn of(block_type: BlockType, k: usize, scratch: &'a mut [f32]) -> (NibbleRow<'a>, &'a mut [f32]) {
        let parts = k / PART;
        let (halves, rest) = scratch.split_at_mut(parts);
        let (numbers, rest) = rest.split_at_mut(2 * parts);
        let (small, rest) = rest.split_at_mut(parts.div_ceil(2));
        let (scales, rest) = rest.split_at_mut(parts);
        let (mins, rest) = rest.split_at_mut(parts);
        let halves = bytemuck::cast_slice_mut(halves);
        let small = &mut bytemuck::cast_slice_mut(small)[..2 * parts];
        (NibbleRow { block_type, halves, numbers, small, scales, mins }, rest)
    }

    /// Reads the scales and the mins of a row of blocks.
    pub fn fill(&mut self, row: &[u8]) {
        match self.block_type {
            BlockType::Q4K => {
                let blocks = row.len() / Q4K::BYTES;
                let (d, numbers) = (&mut self.halves[..2 * blocks], &mut self.numbers[..2 * blocks]);
                read_heads_of_q4_k(row, d, self.small);
                halves_to_numbers(d, numbers);
                let (d, dmin) = numbers.split_at(blocks);
                let (scales, mins) = self.small.split_at(self.scales.len());
                scale_parts(d, scales, self.scales);
                scale_parts(dmin, mins, self.mins);
            }
            _ => {
                read_heads_of_q4_0(row, &mut self.halves[..self.scales.len()]);
                halves_to_numbers(&self.halves[..self.scales.len()], self.scales);
                self.mins.iter_mut().zip(&*self.scales).for_each(|(min, d)| *min = 8.0 * d);
            }
        }
    }

    /// The product of the row with x in [`nibble_order`], whose parts have these sums.
    pub fn product(&self, row: &[u8], x: &[f32], sums: &[f32]) -> f32 {
        let mut lanes = [0.0; WORDS];
        match self.block_type {
            BlockType::Q4K => q4_k_dot(row, x, self.scales, &mut lanes),
            _ => q4_0_dot(row, x, self.scales, &mut lanes),
        }
        subtract_part_mins(self.mins, sums, &mut lanes);
        sum_of_words(lanes)
    }
}

simd! {
    /// The two halves of each block, all d before all dmin; and eight scales and eight mins of each, all scales before
    /// all mins.
    fn read_heads_of_q4_k(row: &[u8], halves: &mut [u16], small: &mut [u8]) {
        let blocks = halves.len() / 2;
        let (d, dmin) = halves.split_at_mut(blocks);
        let (scales, mins) = small.split_at_mut(8 * blocks);
        let to = d.iter_mut().zip(dmin).zip(scales.as_chunks_mut::<8>().0.iter_mut().zip(mins.as_chunks_mut::<8>().0));
        for (b, ((d, dmin), (scales, mins))) in row.as_chunks::<{ Q4K::BYTES }>().0.iter().zip(to) {
            (*d, *dmin) = (u16::from_le_bytes([b[0], b[1]]), u16::from_le_bytes([b[2], b[3]]));
            let word = |i: usize| u32::from_le_bytes(*block_array(&b[i..]));
            let (low_scales, low_mins, low) = (word(4), word(8), word(12));
            let high = |w: u32| w >> 2 & 0x3030_3030;
            let both = |low: u32, rest: u32| u64::from(low & 0x3f3f_3f3f) | u64::from(rest) << 32;
            *scales = both(low_scales, low & 0x0f0f_0f0f | high(low_scales)).to_le_bytes();
            *mins = both(low_mins, low >> 4 & 0x0f0f_0f0f | high(low_mins)).to_le_bytes();
        }
    }
}

simd! {
    /// The half of each block.
    fn read_heads_of_q4_0(row: &[u8], halves: &mut [u16]) {
        for (b, half) in row.as_chunks::<{ Q4_0::BYTES }>().0.iter().zip(halves) {
            *half = u16::from_le_bytes([b[0], b[1]]);
        }
    }
}

simd! {
    /// Halves as numbers.
    fn halves_to_numbers(halves: &[u16], numbers: &mut [f32]) {
        for (half, number) in halves.iter().zip(numbers) {
            *number = f16_of_bits(*half);
        }
    }
}

simd! {
    /// Eight small integers times the number of their block.
    fn scale_parts(numbers: &[f32], small: &[u8], to: &mut [f32]) {
        for ((d, small), to) in numbers.iter().zip(small.as_chunks::<8>().0).zip(to.as_chunks_mut::<8>().0) {
            for l in 0..8 {
                to[l] = d * f32::from(small[l]);
            }
        }
    }
}

/// The codes in one of the eight places of all words.
#[inline(always)]
fn codes_at(words: &[u32; WORDS], shift: u32) -> [f32; WORDS] {
    let mut codes = [0.0; WORDS];
    for l in 0..WORDS {
        codes[l] = (words[l] >> shift & 15) as i32 as f32;
    }
    codes
}

/// The lanes of Σ code·x over the lower or the upper halves of 32 bytes. `first` is the shift of the first of them.
#[inline(always)]
fn half_dot(words: &[u32; WORDS], x: &[f32; 32], first: u32) -> [f32; WORDS] {
    let (x, codes) = (x.as_chunks::<WORDS>().0, codes_at(words, first));
    let mut part = [0.0; WORDS];
    for l in 0..WORDS {
        part[l] = codes[l] * x[0][l];
    }
    for (q, x) in x.iter().enumerate().skip(1) {
        let codes = codes_at(words, first + 8 * q as u32);
        for l in 0..WORDS {
            part[l] = codes[l].mul_add(x[l], part[l]);
        }
    }
    part
}

/// Words of 32 bits from thirty-two bytes.
#[inline(always)]
fn words_of(bytes: &[u8; 32]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    for l in 0..WORDS {
        words[l] = u32::from_le_bytes([bytes[4 * l], bytes[4 * l + 1], bytes[4 * l + 2], bytes[4 * l + 3]]);
    }
    words
}

simd! {
    /// The lanes of Σ scale·Σ code·x over a row of Q4_K blocks.
    fn q4_k_dot(row: &[u8], x: &[f32], scales: &[f32], lanes: &mut [f32; WORDS]) {
        let (mut low, mut high) = ([0.0; WORDS], [0.0; WORDS]);
        let mut next = row.as_ptr().addr() + AHEAD * row.len();
        let blocks = row.as_chunks::<{ Q4K::BYTES }>().0.iter().zip(x.as_chunks::<256>().0);
        for ((b, x), scales) in blocks.zip(scales.as_chunks::<8>().0) {
            for c in 0..4 {
                prefetch_l2(next);
                next += Q4K::BYTES / 4;
                let words = words_of(block_array(&b[16 + 32 * c..]));
                let (x, s) = (&x[STEP * c..], &scales[2 * c..]);
                let (lower, upper) = (half_dot(&words, fixed(x), 0), half_dot(&words, fixed(&x[32..]), 4));
                for l in 0..WORDS {
                    low[l] = lower[l].mul_add(s[0], low[l]);
                }
                for l in 0..WORDS {
                    high[l] = upper[l].mul_add(s[1], high[l]);
                }
            }
        }
        for l in 0..WORDS {
            lanes[l] = low[l] + high[l];
        }
    }
}

simd! {
    /// The same over a row of Q4_0 blocks, two at a time: each has half of the lanes.
    fn q4_0_dot(row: &[u8], x: &[f32], scales: &[f32], lanes: &mut [f32; WORDS]) {
        let (mut low, mut high) = ([0.0; WORDS], [0.0; WORDS]);
        let mut next = row.as_ptr().addr() + AHEAD * row.len();
        let blocks = row.as_chunks::<{ 2 * Q4_0::BYTES }>().0.iter().zip(x.as_chunks::<STEP>().0);
        for ((b, x), s) in blocks.zip(scales.as_chunks::<2>().0) {
            prefetch_l2(next);
            next += 2 * Q4_0::BYTES;
            let mut bytes = [0; 32];
            bytes[..16].copy_from_slice(&b[2..Q4_0::BYTES]);
            bytes[16..].copy_from_slice(&b[Q4_0::BYTES + 2..]);
            let words = words_of(&bytes);
            let (lower, upper) = (half_dot(&words, fixed(x), 0), half_dot(&words, fixed(&x[32..]), 4));
            let mut scale = [s[0]; WORDS];
            scale[WORDS / 2..].fill(s[1]);
            for l in 0..WORDS {
                low[l] = lower[l].mul_add(scale[l], low[l]);
            }
            for l in 0..WORDS {
                high[l] = upper[l].mul_add(scale[l], high[l]);
            }
        }
        for l in 0..WORDS {
            lanes[l] = low[l] + high[l];
        }
    }
}

/// The first thirty-two elements.
#[inline(always)]
fn fixed(x: &[f32]) -> &[f32; 32] {
    match x.first_chunk() {
        Some(x) => x,
        None => unreachable!("{} elements of 32", x.len()),
    }
}

simd! {
    /// Subtracts Σ min·sum from lanes.
    fn subtract_part_mins(mins: &[f32], sums: &[f32], lanes: &mut [f32; WORDS]) {
        let (whole, rest) = mins.as_chunks::<WORDS>();
        let (sums, last) = sums.as_chunks::<WORDS>();
        let mut total = *lanes;
        for (mins, sums) in whole.iter().zip(sums) {
            for l in 0..WORDS {
                total[l] = (-mins[l]).mul_add(sums[l], total[l]);
            }
        }
        for ((min, sum), total) in rest.iter().zip(last).zip(&mut total) {
            *total = (-min).mul_add(*sum, *total);
        }
        *lanes = total;
    }
}

/// The sum of the lanes: the upper half is added to the lower half until one is left.
fn sum_of_words(l: [f32; WORDS]) -> f32 {
    let four: [f32; 4] = std::array::from_fn(|i| l[i] + l[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}
