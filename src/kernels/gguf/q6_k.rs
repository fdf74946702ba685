//! Q6_K blocks. A block holds the low four bits of all codes, then their high two bits, then a signed scale for each
//! group, then d, the `f16` factor of these scales. The layout of planes is that of `blocks_of_256`.

use super::block_codec::{BlockCodec, Group, f16_value, leading_bytes, sixteen_codes, sixteen_nibbles};
use super::blocks_of_256::plane_of_256;

/// The block type Q6_K.
#[derive(Clone, Copy, Debug)]
pub struct Q6K;

/// d·s for the signed scale in byte `at`.
#[inline(always)]
fn read_scale(b: &[u8; 210], at: usize) -> f32 {
    f16_value([b[208], b[209]]) * f32::from(b[at] as i8)
}

impl BlockCodec for Q6K {
    const ELEMENTS: usize = 256;
    const BYTES: usize = 210;
    const HAS_MIN: bool = false;

    #[inline(always)]
    fn group(self, block: &[u8], g: usize) -> Group {
        let b: &[u8; 210] = leading_bytes(block);
        let (half, plane, k) = plane_of_256(g);
        let mut codes = sixteen_nibbles(&b[64 * half + 32 * (plane % 2) + k..], plane >= 2);
        let high = sixteen_codes(&b[128 + 32 * half + k..], |h| (h >> (2 * plane) & 3) as i8);
        for (code, high) in codes.iter_mut().zip(high) {
            *code += 16 * high - 32;
        }
        Group { codes, scale: read_scale(b, 192 + g), min: 0.0 }
    }

    /// The four planes of a half at once, so that all shifts are constants.
    #[inline(always)]
    fn unpack(self, block: &[u8], codes: &mut [i8], scales: &mut [f32], mins: &mut [f32]) {
        let b: &[u8; 210] = leading_bytes(block);
        let halves = b.as_chunks::<64>().0.iter().zip(b[128..].as_chunks::<32>().0);
        for ((low, high), codes) in halves.zip(codes.as_chunks_mut::<128>().0) {
            for k in 0..32 {
                let (a, c, h) = (low[k], low[k + 32], high[k]);
                codes[k] = (a & 15 | (h & 3) << 4) as i8 - 32;
                codes[k + 32] = (c & 15 | (h >> 2 & 3) << 4) as i8 - 32;
                codes[k + 64] = (a >> 4 | (h >> 4 & 3) << 4) as i8 - 32;
                codes[k + 96] = (c >> 4 | (h >> 6) << 4) as i8 - 32;
            }
        }
        scales.iter_mut().enumerate().for_each(|(g, scale)| *scale = read_scale(b, 192 + g));
        mins.fill(0.0);
    }
}
