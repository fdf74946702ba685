//! Conversion of floating-point numbers of 8 and 4 bits to `f32`.
//!
//! Invariant: a conversion is exact. It consists of integer arithmetic and one selection, so loops over it vectorise.

/// The number of an E4M3 code (4 bits of exponent, bias 7; no infinity; 0x7f and 0xff are NaN; the largest is 448).
#[inline(always)]
pub fn e4m3_to_f32(code: u8) -> f32 {
    let (sign, size) = (u32::from(code & 0x80) << 24, u32::from(code & 0x7f));
    // Below 8 the exponent is 0: eighths of 2⁻⁶.
    let small = (size as f32 * (1.0 / 512.0)).to_bits();
    let normal = (size << 20) + ((127 - 7) << 23);
    let bits = if size < 8 { small } else { normal };
    f32::from_bits(sign | if size == 0x7f { f32::NAN.to_bits() } else { bits })
}

/// The number of an E5M2 code (5 bits of exponent, bias 15; 0x7c is infinite, above it NaN).
#[inline(always)]
pub fn e5m2_to_f32(code: u8) -> f32 {
    let (sign, size) = (u32::from(code & 0x80) << 24, u32::from(code & 0x7f));
    // Below 4 the exponent is 0: quarters of 2⁻¹⁴.
    let small = (size as f32 * (1.0 / 65536.0)).to_bits();
    let normal = (size << 21) + ((127 - 15) << 23);
    let bits = if size < 4 { small } else { normal };
    let special = if size == 0x7c { f32::INFINITY.to_bits() } else { f32::NAN.to_bits() };
    f32::from_bits(sign | if size >= 0x7c { special } else { bits })
}

/// The number of an E2M1 code, the lower four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6, negative with bit 3.
#[inline(always)]
pub fn e2m1_to_f32(code: u8) -> f32 {
    let (sign, size) = (u32::from(code & 8) << 28, u32::from(code & 7));
    let normal = (size << 22) + ((127 - 1) << 23);
    let bits = if size < 2 { (size as f32 * 0.5).to_bits() } else { normal };
    f32::from_bits(sign | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of a code of `e` bits of exponent and `m` bits of mantissa, by powers of two.
    fn by_definition(code: u8, e: i32, m: i32) -> f64 {
        let size = i32::from(code) & ((1 << (e + m)) - 1);
        let (exponent, mantissa, bias) = (size >> m, size & ((1 << m) - 1), (1 << (e - 1)) - 1);
        let lead = if exponent == 0 { 0.0 } else { 1.0 };
        let value = (lead + f64::from(mantissa) / f64::from(1 << m)) * 2f64.powi(exponent.max(1) - bias);
        if i32::from(code) >> (e + m) & 1 == 1 { -value } else { value }
    }

    #[test]
    fn codes_are_the_numbers_of_their_formats() {
        for code in 0..=255u8 {
            let (x, size) = (e4m3_to_f32(code), code & 0x7f);
            match size {
                0x7f => assert!(x.is_nan()),
                _ => assert_eq!(f64::from(x).to_bits(), by_definition(code, 4, 3).to_bits(), "{code:#x}"),
            }
            let x = e5m2_to_f32(code);
            match size {
                0x7c => assert_eq!(x, if code > 0x7f { f32::NEG_INFINITY } else { f32::INFINITY }),
                0x7d.. => assert!(x.is_nan()),
                _ => assert_eq!(f64::from(x).to_bits(), by_definition(code, 5, 2).to_bits(), "{code:#x}"),
            }
            let x = e2m1_to_f32(code & 15);
            assert_eq!(f64::from(x).to_bits(), by_definition(code & 15, 2, 1).to_bits(), "{code:#x}");
        }
        assert_eq!([0x01, 0x08, 0x38, 0x7e].map(e4m3_to_f32), [2f32.powi(-9), 2f32.powi(-6), 1.0, 448.0]);
        assert_eq!([0x01, 0x3c, 0x7b].map(e5m2_to_f32), [2f32.powi(-16), 1.0, 57344.0]);
        let sizes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        assert!((0..8u8).all(|c| e2m1_to_f32(c) == sizes[usize::from(c)] && e2m1_to_f32(8 | c) == -e2m1_to_f32(c)));
    }
}
