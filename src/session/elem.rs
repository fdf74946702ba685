//! Element types of the host: which Rust type stands for which dtype.

use super::Binding;
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose slices are tensors.
pub trait Elem: bytemuck::Pod + sealed::Sealed {
    /// The dtype's name.
    const NAME: &'static str;
    /// Whether tensors of `dtype` are slices of this type.
    fn holds(dtype: DType) -> bool;
}

macro_rules! elem {
    ($($t:ty: $name:literal = $($dtype:ident)|+;)*) => {
        $(
            impl sealed::Sealed for $t {}
            impl Elem for $t {
                const NAME: &'static str = $name;
                fn holds(dtype: DType) -> bool {
                    matches!(dtype, $(DType::$dtype)|+)
                }
            }
        )*
    };
}

elem! {
    f32: "f32" = F32;
    f64: "f64" = F64;
    half::f16: "f16" = F16;
    half::bf16: "bf16" = BF16;
    i8: "i8" = I8;
    u8: "u8" = U8 | Bool;
    i32: "i32" = I32;
    i64: "i64" = I64;
    u32: "u32" = U32;
    i16: "i16" = I16;
    u16: "u16" = U16;
    u64: "u64" = U64;
    [f32; 2]: "c64" = C64;
    [f64; 2]: "c128" = C128;
}

/// Refuses bytes for `b` that stand for no value of its type: a bool other than 0 and 1.
pub(super) fn check_value_bytes(b: &Binding, bytes: &[u8]) -> Result<()> {
    match b.dtype.misfit(bytes) {
        Some(at) => {
            let text = format!("element {at} of {} {:?} is {}; a bool is 0 or 1", b.role.name(), b.name, bytes[at]);
            Err(Error::new(Kind::Data, text))
        }
        None => Ok(()),
    }
}
