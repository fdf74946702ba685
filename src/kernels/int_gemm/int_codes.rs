//! Codes of 8 bits as 16-bit integers: the code minus its zero point.

/// How the bytes of an operand are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntCodes {
    /// Turns the bytes of signed integers into unsigned ones.
    flip: u8,
    /// What is subtracted from them.
    shift: i16,
}

impl IntCodes {
    /// Signed or unsigned integers with this zero, which is one of them.
    pub fn new(signed: bool, zero: i64) -> IntCodes {
        if signed {
            IntCodes { flip: 0x80, shift: zero as i16 + 128 }
        } else {
            IntCodes { flip: 0, shift: zero as i16 }
        }
    }

    /// What turns bytes into those of unsigned integers by an exclusive or.
    pub fn unsigned_flip(self) -> u8 {
        self.flip
    }

    /// The zero of those integers.
    pub fn unsigned_zero(self) -> i32 {
        i32::from(self.shift)
    }

    /// Code − zero. It is in −255..=255.
    #[inline(always)]
    pub fn value(self, byte: u8) -> i16 {
        i16::from(byte ^ self.flip).wrapping_sub(self.shift)
    }

    /// A pair of values: the first is the lower half.
    #[inline(always)]
    pub fn pair(self, first: u8, second: u8) -> i32 {
        pack_i16_pair(self.value(first), self.value(second))
    }

    /// A value and a 0.
    #[inline(always)]
    pub fn half_pair(self, first: u8) -> i32 {
        pack_i16_pair(self.value(first), 0)
    }
}

/// Two integers in one.
#[inline(always)]
pub fn pack_i16_pair(first: i16, second: i16) -> i32 {
    i32::from(first as u16) | i32::from(second) << 16
}

/// Subtracts zero points, one for each, from the pairs of adjacent columns. `half` is set where pairs have no second
/// term.
#[inline(always)]
pub fn subtract_zero_points(pairs: &mut [i32], zeros: &[i8], half: bool) {
    for (pair, &zero) in pairs.iter_mut().zip(zeros) {
        let second = (*pair >> 16) as i16 - if half { 0 } else { i16::from(zero) };
        *pair = pack_i16_pair(*pair as i16 - i16::from(zero), second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_codes_without_their_zero() {
        for byte in 0..=255u8 {
            for zero in -128..128 {
                let (s, u) = (IntCodes::new(true, zero), IntCodes::new(false, zero + 128));
                assert_eq!(i64::from(s.value(byte)), i64::from(byte as i8) - zero);
                assert_eq!(i64::from(u.value(byte)), i64::from(byte) - zero - 128);
            }
        }
        let c = IntCodes::new(true, 3);
        assert_eq!(c.pair(0xff, 2), (-4i32 & 0xffff) | (-1 << 16));
        assert_eq!(c.half_pair(0xff), -4i32 & 0xffff);
    }
}
