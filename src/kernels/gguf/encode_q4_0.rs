//! Encodes numbers as Q4_0 blocks.
//!
//! Codes go from −8 to 7, so one side of zero has one code more. The sign of d, the scale of a block, decides whether
//! this is the side of the negative or of the positive numbers. Invariant: as for `encode_q8_0`.

use super::block_codec::BlockCodec;
use super::blocks_of_32::Q4_0;
use super::encode_q8_0::{check_all_finite, nearest_code, scale_as_half};

/// How far the side of seven codes reaches in steps: half a step more than its last code, less what rounding of d to a
/// half may take.
const SHORT_SIDE: f32 = 7.49;

/// Writes `numbers` as Q4_0 blocks to `to`, which is as long as they are.
///
/// # Errors
/// A number that is not finite, or too large for the scale of a block.
pub fn encode_q4_0(numbers: &[f32], to: &mut [u8]) -> Result<(), String> {
    check_all_finite(numbers)?;
    let blocks = numbers.as_chunks::<{ Q4_0::ELEMENTS }>().0.iter().zip(to.as_chunks_mut::<{ Q4_0::BYTES }>().0);
    for (i, (x, block)) in blocks.enumerate() {
        let (low, high) = x.iter().fold((0.0f32, 0.0f32), |(low, high), x| (low.min(*x), high.max(*x)));
        let (long, short) = if -low >= high { (-low, high) } else { (high, -low) };
        let size = (long / 8.0).max(short / SHORT_SIDE);
        let d = scale_as_half(if -low >= high { size } else { -size }, i * Q4_0::ELEMENTS)?;
        block[..2].copy_from_slice(&d.to_le_bytes());
        let code = |x: f32| (nearest_code(x, d.to_f32(), -8, 7) + 8) as u8;
        for (j, to) in block[2..].iter_mut().enumerate() {
            *to = code(x[j]) | code(x[j + 16]) << 4;
        }
    }
    Ok(())
}
