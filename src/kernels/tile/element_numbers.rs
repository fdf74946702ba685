//! Arithmetic of elements: of floats and of integers.

use bytemuck::Pod;

/// Arithmetic of floats and integers. Integers wrap.
pub(super) trait ElementNumber: Pod + PartialOrd {
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn add(self, y: Self) -> Self;
    fn sub(self, y: Self) -> Self;
    fn mul(self, y: Self) -> Self;
    fn max(self, y: Self) -> Self;
    fn min(self, y: Self) -> Self;
    /// The sum of two immediates, clamped to the type's range.
    fn imm(x: f64, y: f64) -> Self;
}

/// Integers. A divisor is not 0.
pub(super) trait ElementInt: ElementNumber + Default + Eq {
    /// The quotient, truncated; wraps.
    fn quotient(self, y: Self) -> Self;
    /// The rest of the truncated quotient: it has the sign of `self`.
    fn rest(self, y: Self) -> Self;
    /// The rest of the quotient rounded down: it has the sign of `y`.
    fn modulus(self, y: Self) -> Self;
    /// The quotient rounded down; wraps.
    fn floor_quotient(self, y: Self) -> Self;
    /// The power, by squaring, of an exponent that is not below 0; wraps.
    fn power(self, y: Self) -> Self;
    fn bit_not(self) -> Self;
    fn bit_and(self, y: Self) -> Self;
    fn bit_or(self, y: Self) -> Self;
    fn bit_xor(self, y: Self) -> Self;
    /// 0 if y is not in `0..bits`.
    fn shift_left(self, y: Self) -> Self;
    /// What repeated halving leads to if y is not in `0..bits`.
    fn shift_right(self, y: Self) -> Self;
}

macro_rules! number_float {
    ($($t:ident)*) => {$(
        impl ElementNumber for $t {
            #[inline(always)]
            fn neg(self) -> $t { -self }
            #[inline(always)]
            fn abs(self) -> $t { $t::abs(self) }
            #[inline(always)]
            fn sign(self) -> $t {
                let low = if self < 0.0 { -1.0 } else { self };
                if self > 0.0 { 1.0 } else { low }
            }
            #[inline(always)]
            fn add(self, y: $t) -> $t { self + y }
            #[inline(always)]
            fn sub(self, y: $t) -> $t { self - y }
            #[inline(always)]
            fn mul(self, y: $t) -> $t { self * y }
            #[inline(always)]
            fn max(self, y: $t) -> $t {
                // Of two zeros, the positive one.
                let first = self > y || self.is_nan() || (self == y && y.is_sign_negative());
                if first { self } else { y }
            }
            #[inline(always)]
            fn min(self, y: $t) -> $t {
                let first = self < y || self.is_nan() || (self == y && y.is_sign_positive());
                if first { self } else { y }
            }
            #[inline(always)]
            fn imm(x: f64, y: f64) -> $t { (x + y) as $t }
        }
    )*};
}

macro_rules! number_int {
    ($($t:ident $abs:expr, $sign:expr;)*) => {$(
        impl ElementNumber for $t {
            #[inline(always)]
            fn neg(self) -> $t { self.wrapping_neg() }
            #[inline(always)]
            fn abs(self) -> $t { $abs(self) }
            #[inline(always)]
            fn sign(self) -> $t { $sign(self) }
            #[inline(always)]
            fn add(self, y: $t) -> $t { self.wrapping_add(y) }
            #[inline(always)]
            fn sub(self, y: $t) -> $t { self.wrapping_sub(y) }
            #[inline(always)]
            fn mul(self, y: $t) -> $t { self.wrapping_mul(y) }
            #[inline(always)]
            fn max(self, y: $t) -> $t { if self > y { self } else { y } }
            #[inline(always)]
            fn min(self, y: $t) -> $t { if self < y { self } else { y } }
            #[inline(always)]
            fn imm(x: f64, y: f64) -> $t {
                (x as i128).saturating_add(y as i128).clamp($t::MIN as i128, $t::MAX as i128) as $t
            }
        }

        impl ElementInt for $t {
            #[inline(always)]
            fn quotient(self, y: $t) -> $t { self.wrapping_div(y) }
            #[inline(always)]
            fn rest(self, y: $t) -> $t { self.wrapping_rem(y) }
            #[inline(always)]
            #[allow(unused_comparisons)] // Of unsigned integers.
            fn modulus(self, y: $t) -> $t {
                let r = self.wrapping_rem(y);
                if r != 0 && (r < 0) != (y < 0) { r.wrapping_add(y) } else { r }
            }
            #[inline(always)]
            #[allow(unused_comparisons)] // Of unsigned integers.
            fn floor_quotient(self, y: $t) -> $t {
                let (q, r) = (self.wrapping_div(y), self.wrapping_rem(y));
                if r != 0 && (r < 0) != (y < 0) { q.wrapping_sub(1) } else { q }
            }
            #[inline(always)]
            #[allow(unused_comparisons)] // Of unsigned integers.
            fn power(self, y: $t) -> $t {
                let (mut square, mut left, mut product) = (self, y, 1);
                while left > 0 {
                    if left & 1 == 1 {
                        product = <$t>::wrapping_mul(product, square);
                    }
                    square = square.wrapping_mul(square);
                    left >>= 1;
                }
                product
            }
            #[inline(always)]
            fn bit_not(self) -> $t { !self }
            #[inline(always)]
            fn bit_and(self, y: $t) -> $t { self & y }
            #[inline(always)]
            fn bit_or(self, y: $t) -> $t { self | y }
            #[inline(always)]
            fn bit_xor(self, y: $t) -> $t { self ^ y }
            #[inline(always)]
            #[allow(unused_comparisons)] // Of unsigned integers.
            fn shift_left(self, y: $t) -> $t {
                let within = y >= 0 && y < $t::BITS as $t;
                if within { self.wrapping_shl(y as u32) } else { 0 }
            }
            #[inline(always)]
            #[allow(unused_comparisons)] // Of unsigned integers.
            fn shift_right(self, y: $t) -> $t {
                let within = y >= 0 && y < $t::BITS as $t;
                let far = if self < 0 { !0 } else { 0 };
                if within { self.wrapping_shr(y as u32) } else { far }
            }
        }
    )*};
}

number_float! { f32 f64 }
number_int! {
    i8 i8::wrapping_abs, i8::signum;
    i32 i32::wrapping_abs, i32::signum;
    i64 i64::wrapping_abs, i64::signum;
    u8 |x| x, |x| (x > 0) as u8;
    u32 |x| x, |x| (x > 0) as u32;
}
