//! Half-precision numbers as `f32`, in arithmetic that vectorises.
//!
//! Invariant: the bits are those of an exact conversion; a NaN stays a NaN, with its payload.

/// The number of a half with these bits.
#[inline(always)]
pub fn f16_of_bits(half: u16) -> f32 {
    let half = u32::from(half);
    // The exponent of a half counts from −15, that of an f32 from −127. Subnormal halves have no leading one: with the
    // next exponent they get one, which is subtracted. A product with a power of two would do for both, but slowly for
    // subnormal factors.
    let size = (half & 0x7fff) << 13;
    let subnormal = f32::from_bits(size + (113 << 23)) - f32::from_bits(113 << 23);
    let size = if half & 0x7c00 == 0 { subnormal.to_bits() } else { size + (112 << 23) };
    let special = if half & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(size | special | (half & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_halves_are_exact() {
        for bits in 0..=u16::MAX {
            let (want, got) = (half::f16::from_bits(bits).to_f32(), f16_of_bits(bits));
            assert!(want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan()), "{bits:#x}: {got}, not {want}");
        }
    }
}
