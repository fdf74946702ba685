//! Encodes numbers as Q8_0 blocks, with the bytes that ggml's `quantize_row_q8_0_ref` makes: codes are those of the
//! scale before it is rounded to half precision, by its reciprocal, and halves go away from zero.
//!
//! Invariant: a decoded number differs from the original by half a step and what rounding the scale moves a code of up
//! to 127, together 0.57·d, where d is the scale of its block, unless d is a subnormal `f16`.

use super::block_codec::BlockCodec;
use super::blocks_of_32::Q8_0;
use half::f16;

/// The first number that is NaN or infinite, as an error.
pub(super) fn check_all_finite(numbers: &[f32]) -> Result<(), String> {
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(format!("element {at} is {}; blocks hold finite numbers", numbers[at])),
        None => Ok(()),
    }
}

/// `d` as a half. Fails if it is too large for one.
pub(super) fn scale_as_half(d: f32, first: usize) -> Result<f16, String> {
    let half = f16::from_f32(d);
    if half.is_finite() {
        return Ok(half);
    }
    Err(format!("the block at element {first} has a step of {d}, which is too large for half precision"))
}

/// x/d rounded to the nearest integer of `low ..= high`; 0 if d is 0.
pub(super) fn nearest_code(x: f32, d: f32, low: i32, high: i32) -> i32 {
    if d == 0.0 { 0.0f32.clamp(low as f32, high as f32) as i32 } else { (x / d).round_ties_even() as i32 }
        .clamp(low, high)
}

/// Writes `numbers` as Q8_0 blocks to `to`, which is as long as they are.
///
/// # Errors
/// A number that is not finite, or too large for the scale of a block.
pub fn encode_q8_0(numbers: &[f32], to: &mut [u8]) -> Result<(), String> {
    check_all_finite(numbers)?;
    let blocks = numbers.as_chunks::<{ Q8_0::ELEMENTS }>().0.iter().zip(to.as_chunks_mut::<{ Q8_0::BYTES }>().0);
    for (i, (x, block)) in blocks.enumerate() {
        let largest = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let d = largest / 127.0;
        block[..2].copy_from_slice(&scale_as_half(d, i * Q8_0::ELEMENTS)?.to_le_bytes());
        let steps = if d == 0.0 { 0.0 } else { 1.0 / d };
        for (to, x) in block[2..].iter_mut().zip(x) {
            *to = (x * steps).round() as i8 as u8;
        }
    }
    Ok(())
}
