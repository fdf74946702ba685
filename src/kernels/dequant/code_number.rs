//! Converts the bits of one code to a number, before its zero and its scale apply. Loops over these conversions
//! vectorise.

use super::fp8_fp4::{e2m1_to_f32, e4m3_to_f32, e5m2_to_f32};

/// The number of a code that is in a byte.
pub trait CodeNumber: Copy {
    /// The number.
    fn number(self, byte: u8) -> f32;
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident |$byte:ident| $number:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;

        impl CodeNumber for $name {
            #[inline(always)]
            fn number(self, $byte: u8) -> f32 {
                $number
            }
        }
    )*};
}

numbers! {
    /// A signed integer.
    Int8Number |byte| f32::from(byte as i8);
    /// An E4M3 number.
    E4m3Number |byte| e4m3_to_f32(byte);
    /// An E5M2 number.
    E5m2Number |byte| e5m2_to_f32(byte);
    /// The integer in the lower half.
    LowInt4Number |byte| f32::from(byte & 15);
    /// The integer in the upper half.
    HighInt4Number |byte| f32::from(byte >> 4);
    /// The E2M1 number in the lower half.
    LowE2m1Number |byte| e2m1_to_f32(byte & 15);
    /// The E2M1 number in the upper half.
    HighE2m1Number |byte| e2m1_to_f32(byte >> 4);
}

/// Calls `$body` with `$low` and `$high` bound to the numbers of a scheme: of the lower and of the upper half of a
/// byte, or the same of the whole byte.
macro_rules! with_code_numbers {
    ($scheme:expr, ($low:ident, $high:ident) => $body:expr) => {{
        use $crate::dequant::code_number as numbers;
        match $scheme {
            $crate::dequant::CodeScheme::Int8 => {
                let ($low, $high) = (numbers::Int8Number, numbers::Int8Number);
                $body
            }
            $crate::dequant::CodeScheme::Int4 => {
                let ($low, $high) = (numbers::LowInt4Number, numbers::HighInt4Number);
                $body
            }
            $crate::dequant::CodeScheme::Fp8E4m3 => {
                let ($low, $high) = (numbers::E4m3Number, numbers::E4m3Number);
                $body
            }
            $crate::dequant::CodeScheme::Fp8E5m2 => {
                let ($low, $high) = (numbers::E5m2Number, numbers::E5m2Number);
                $body
            }
            $crate::dequant::CodeScheme::Nvfp4 => {
                let ($low, $high) = (numbers::LowE2m1Number, numbers::HighE2m1Number);
                $body
            }
        }
    }};
}
pub(super) use with_code_numbers;
