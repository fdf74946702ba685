//! Encodes numbers as Q8_0 blocks.
//!
//! Invariant: a decoded number differs from the original by d/2 at most, where d is the scale of its block, unless the
//! block's numbers are so small that d is a subnormal `f16`.

use super::block_codec::BlockCodec;
use super::blocks_of_32::Q8_0;
use half::f16;

/// The first number that is NaN or infinite, as an error.
pub(super) fn encode_q8_0_check_finite(numbers: &[f32]) -> Result<(), String> {
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(format!("element {at} is {}; blocks hold finite numbers", numbers[at])),
        None => Ok(()),
    }
}

/// `d` as a half. Fails if it is too large for one.
pub(super) fn encode_q8_0_half(d: f32, first: usize) -> Result<f16, String> {
    let half = f16::from_f32(d);
    if half.is_finite() {
        return Ok(half);
    }
    Err(format!("the block at element {first} has a step of {d}, which is too large for half precision"))
}

/// x/d rounded to the nearest integer of `low ..= high`; 0 if d is 0.
pub(super) fn encode_q8_0_nearest_code(x: f32, d: f32, low: i32, high: i32) -> i32 {
    if d == 0.0 { 0.0f32.clamp(low as f32, high as f32) as i32 } else { (x / d).round_ties_even() as i32 }
        .clamp(low, high)
}

/// Writes `numbers` as Q8_0 blocks to `to`, which is as long as they are.
///
/// # Errors
/// A number that is not finite, or too large for the scale of a block.
pub fn encode_q8_0(numbers: &[f32], to: &mut [u8]) -> Result<(), String> {
    encode_q8_0_check_finite(numbers)?;
    let blocks = numbers.as_chunks::<{ Q8_0::ELEMENTS }>().0.iter().zip(to.as_chunks_mut::<{ Q8_0::BYTES }>().0);
    for (i, (x, block)) in blocks.enumerate() {
        let largest = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let d = encode_q8_0_half(largest / 127.0, i * Q8_0::ELEMENTS)?;
        block[..2].copy_from_slice(&d.to_le_bytes());
        for (to, x) in block[2..].iter_mut().zip(x) {
            *to = encode_q8_0_nearest_code(*x, d.to_f32(), -127, 127) as u8;
        }
    }
    Ok(())
}
