//! Where the codes of Q4_K and Q4_0 blocks are, and the parts of products with them that all instruction sets share.
//!
//! Invariant: a step is 64 elements: an even part, then an odd part, of 32 elements each, which share a scale.

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use super::block_codec::{BlockCodec, leading_bytes};
use super::block_type::BlockType;
use super::blocks_of_32::Q4_0;
use super::blocks_of_256::Q4K;
use super::code_dots::sum_of_code_lanes;
use super::nibble_x::{LANES, NibbleX, PART};
use bytemuck::pod_read_unaligned;

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

/// The lanes of a product. They are summed outside of the loops' functions: inside, the compiler would split vectors as
/// the sum does.
pub struct NibbleLanes {
    /// Σ scale·Σ code·x of even parts.
    pub even: [f32; LANES],
    /// The same of odd parts.
    pub odd: [f32; LANES],
}

impl NibbleLanes {
    /// The product, of which Σ min·Σ x has the lanes `mins`.
    pub fn sum(&self, mins: &[f32; LANES]) -> f32 {
        sum_of_code_lanes::<LANES>(std::array::from_fn(|l| self.even[l] + self.odd[l] - mins[l]))
    }
}

/// Where the codes of a block type are.
pub trait NibbleCodes: Copy {
    /// Bytes that are read together: those of some steps.
    const AT_A_TIME: usize;
    /// The steps of them.
    const STEPS: usize;

    /// Words of step `i` that have the codes of both parts in the lower halves of their bytes, and other bits.
    fn codes(self, bytes: &[u8], i: usize) -> [[u32; LANES]; 2];
}

impl NibbleCodes for Q4K {
    const AT_A_TIME: usize = Q4K::BYTES;
    const STEPS: usize = 4;

    #[inline(always)]
    fn codes(self, bytes: &[u8], i: usize) -> [[u32; LANES]; 2] {
        let mut words: [u32; LANES] = pod_read_unaligned(&bytes[16 + PART * i..][..PART]);
        for l in 0..LANES {
            words[l] = u32::from_le(words[l]);
        }
        [words, shifted_nibbles(&words, [4; LANES])]
    }
}

impl NibbleCodes for Q4_0 {
    const AT_A_TIME: usize = 2 * Q4_0::BYTES;
    const STEPS: usize = 1;

    #[inline(always)]
    fn codes(self, bytes: &[u8], _: usize) -> [[u32; LANES]; 2] {
        let second = &bytes[Q4_0::BYTES..];
        [nibble_words_of_q4_0(leading_bytes(&bytes[2..])), nibble_words_of_q4_0(leading_bytes(&second[2..]))]
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
