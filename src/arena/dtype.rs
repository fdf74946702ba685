//! Element types (dtypes), and the type of a value.

use crate::Shape;
use std::fmt;

/// Element type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// IEEE binary16: for storage and casts.
    F16,
    /// bfloat16: for storage and casts.
    BF16,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 32-bit integer.
    U32,
    /// One byte: 0 is false, 1 is true. Kernels read any other value as true and never write one.
    Bool,
    /// Signed 16-bit integer: for storage and casts.
    I16,
    /// Unsigned 16-bit integer: for storage and casts.
    U16,
    /// Unsigned 64-bit integer: for storage and casts.
    U64,
    /// Complex: two `f32`, real and imaginary part.
    C64,
    /// Complex: two `f64`, real and imaginary part.
    C128,
}

impl DType {
    /// All element types.
    pub const ALL: &[DType] = {
        use DType::*;
        &[F32, F64, F16, BF16, I8, U8, I32, I64, U32, Bool, I16, U16, U64, C64, C128]
    };

    /// The types that tile programs take: all but the complex ones. `DType::REAL[d as usize] == d`.
    pub const REAL: &[DType] = {
        use DType::*;
        &[F32, F64, F16, BF16, I8, U8, I32, I64, U32, Bool, I16, U16, U64]
    };

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::C128 => 16,
            DType::F64 | DType::I64 | DType::U64 | DType::C64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// The position in `bytes` of the first element that is no value of this type: a bool other than 0 and 1.
    pub fn misfit(self, bytes: &[u8]) -> Option<usize> {
        if self == DType::Bool { bytes.iter().position(|&b| b > 1) } else { None }
    }

    /// The name in text.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U32 => "u32",
            DType::Bool => "bool",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::U64 => "u64",
            DType::C64 => "c64",
            DType::C128 => "c128",
        }
    }

    /// The element type called `name`.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|d| d.name() == name)
    }

    /// True for `f32` and `f64`, the floating-point dtypes in which kernels compute.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// True if a value of this dtype may carry a derivative: any floating or complex dtype.
    pub const fn is_differentiable(self) -> bool {
        self.is_real_float() || self.is_complex()
    }

    /// True for the dtypes that codes of quantised numbers have: `i8`, `u8` and `i32`.
    pub const fn may_be_code(self) -> bool {
        matches!(self, DType::I8 | DType::U8 | DType::I32)
    }

    /// The dtype of the tangent of a value of this dtype, if it has one: the same, and `f32` for codes.
    pub const fn of_tangent(self) -> DType {
        if self.is_differentiable() { self } else { DType::F32 }
    }

    /// True for `f16`, `bf16`, `f32` and `f64`.
    pub const fn is_real_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }

    /// True for `c64` and `c128`.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// The dtype of the real and the imaginary part of a complex dtype; any other dtype is its own.
    pub const fn part(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            real => real,
        }
    }

    /// The complex dtype whose parts are of this one: `c64` of `f32`, `c128` of `f64`.
    pub const fn complex(self) -> Option<DType> {
        match self {
            DType::F32 => Some(DType::C64),
            DType::F64 => Some(DType::C128),
            _ => None,
        }
    }

    /// True for the integer dtypes in which kernels compute. `i16`, `u16` and `u64` are for storage and casts.
    pub const fn is_int(self) -> bool {
        matches!(self, DType::I8 | DType::U8 | DType::I32 | DType::I64 | DType::U32)
    }

    /// Whether `x` can be an element of this type. Floating types accept every number and round it; the others accept
    /// only what they represent exactly.
    pub fn holds(self, x: f64) -> bool {
        let within = |low: i64, above: f64| x == x.trunc() && x >= low as f64 && x < above;
        match self {
            DType::F32 | DType::F64 | DType::F16 | DType::BF16 | DType::C64 | DType::C128 => true,
            DType::I8 => within(i8::MIN.into(), 128.0),
            DType::U8 => within(0, 256.0),
            DType::I32 => within(i32::MIN.into(), 31f64.exp2()),
            DType::U32 => within(0, 32f64.exp2()),
            DType::I64 => within(i64::MIN, 63f64.exp2()),
            DType::I16 => within(i16::MIN.into(), 32768.0),
            DType::U16 => within(0, 65536.0),
            DType::U64 => within(0, 64f64.exp2()),
            DType::Bool => within(0, 2.0),
        }
    }

    /// Whether a tensor of this type can be filled with `x`. As [`DType::holds`], but false for a finite number that
    /// would round to infinity.
    pub fn can_hold(self, x: f64) -> bool {
        let largest = match self {
            DType::F32 | DType::C64 => f64::from(f32::MAX),
            DType::F16 => half::f16::MAX.to_f64(),
            DType::BF16 => half::bf16::MAX.to_f64(),
            _ => return self.holds(x),
        };
        !x.is_finite() || x.abs() <= largest
    }

    /// Why `x` cannot be combined with tensors of this type, with the type to cast to; `None` if it can.
    pub fn refuses(self, x: f64) -> Option<String> {
        let to = if DType::I64.holds(x) { "I64" } else { "F32" };
        (!self.holds(x)).then(|| format!("{x} is no element of {self}; cast the tensor first: .cast(DType::{to})"))
    }

    /// Whether values of this type can be indices: `i32` or `i64`.
    pub const fn is_index(self) -> bool {
        matches!(self, DType::I32 | DType::I64)
    }
}

/// The discriminant of a dtype is its index in [`DType::REAL`]. Tile programs decode dtypes by it.
const _: () = {
    let mut i = 0;
    while i < DType::REAL.len() {
        assert!(DType::REAL[i] as usize == i);
        i += 1;
    }
};

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of a value: element type and shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ty {
    /// Element type.
    pub dtype: DType,
    /// Interned shape.
    pub shape: Shape,
}
