//! Encodes numbers as Q4_K blocks.
//!
//! Thirty-two numbers are coded as `step·v − min` with v from 0 to 15; step and min are two `f16` numbers of the block,
//! each times an integer from 0 to 63. Both are rounded up, so that the codes reach from the smallest number to the
//! largest one. Invariant: a decoded number differs from the original by at most half the step of its thirty-two
//! numbers (and by rounding of `f32`), unless the block's numbers are so small that these `f16` numbers are subnormal.

use super::block_codec::BlockCodec;
use super::blocks_of_256::Q4K;
use super::encode_q8_0::{check_all_finite, nearest_code, scale_as_half};
use half::f16;

/// Parts of a block that have a scale and a min of their own.
const PARTS: usize = 8;
/// The largest scale and min.
const MOST: f32 = 63.0;

/// Writes `numbers` as Q4_K blocks to `to`, which is as long as they are.
///
/// # Errors
/// A number that is not finite, or too large for the scale of a block.
pub fn encode_q4_k(numbers: &[f32], to: &mut [u8]) -> Result<(), String> {
    check_all_finite(numbers)?;
    let blocks = numbers.as_chunks::<{ Q4K::ELEMENTS }>().0.iter().zip(to.as_chunks_mut::<{ Q4K::BYTES }>().0);
    blocks.enumerate().try_for_each(|(i, (x, block))| write_block(x, block, i * Q4K::ELEMENTS))
}

/// The least half that is not below `x`, which is not negative.
fn q4_k_half_from(x: f32, first: usize) -> Result<f16, String> {
    let near = scale_as_half(x, first)?;
    if near.to_f32() >= x { Ok(near) } else { scale_as_half(f16::from_bits(near.to_bits() + 1).to_f32(), first) }
}

/// How many steps of `d` reach `x`: at most 63; 0 if d is 0.
fn q4_k_steps_to(x: f32, d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { (x / d).ceil().clamp(0.0, MOST) }
}

fn write_block(x: &[f32; Q4K::ELEMENTS], block: &mut [u8; Q4K::BYTES], first: usize) -> Result<(), String> {
    let mut ranges = [(0.0f32, 0.0f32); PARTS];
    for ((low, high), x) in ranges.iter_mut().zip(x.as_chunks::<32>().0) {
        *low = x.iter().fold(0.0, |m, x| m.min(*x));
        *high = x.iter().fold(f32::MIN, |m, x| m.max(*x));
    }
    let deepest = ranges.iter().fold(0.0f32, |m, r| m.max(-r.0));
    let dmin = q4_k_half_from(deepest / MOST, first)?;
    let mins = ranges.map(|(low, _)| q4_k_steps_to(-low, dmin.to_f32()));
    // The largest code must reach from −min to the largest number.
    let mut widths = [0.0; PARTS];
    for ((width, (_, high)), min) in widths.iter_mut().zip(ranges).zip(mins) {
        *width = (high + dmin.to_f32() * min).max(0.0) / 15.0;
    }
    let d = q4_k_half_from(widths.iter().fold(0.0f32, |m, w| m.max(*w)) / MOST, first)?;
    let scales = widths.map(|width| q4_k_steps_to(width, d.to_f32()));
    block[..2].copy_from_slice(&d.to_le_bytes());
    block[2..4].copy_from_slice(&dmin.to_le_bytes());
    block[4..16].copy_from_slice(&q4_k_packed_scales(scales.map(|s| s as u8), mins.map(|m| m as u8)));
    for (c, (x, to)) in x.as_chunks::<64>().0.iter().zip(block[16..].as_chunks_mut::<32>().0).enumerate() {
        let code = |x: f32, part: usize| {
            let (step, min) = (d.to_f32() * scales[part], dmin.to_f32() * mins[part]);
            nearest_code(x + min, step, 0, 15) as u8
        };
        for (j, to) in to.iter_mut().enumerate() {
            *to = code(x[j], 2 * c) | code(x[j + 32], 2 * c + 1) << 4;
        }
    }
    Ok(())
}

/// Eight scales and eight mins of six bits in twelve bytes: the inverse of `scale_and_min_of_256`.
fn q4_k_packed_scales(scales: [u8; PARTS], mins: [u8; PARTS]) -> [u8; 12] {
    let mut s = [0; 12];
    for j in 0..4 {
        s[j] = scales[j] | scales[j + 4] >> 4 << 6;
        s[j + 4] = mins[j] | mins[j + 4] >> 4 << 6;
        s[j + 8] = scales[j + 4] & 15 | (mins[j + 4] & 15) << 4;
    }
    s
}
