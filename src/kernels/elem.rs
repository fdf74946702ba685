//! Element types in memory, as a tag.
//!
//! Invariant: `Elem::ALL[e as usize] == e`, so a tag can be a parameter word.

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Elem {
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// `i8`.
    I8,
    /// `u8`.
    U8,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `u32`.
    U32,
    /// One byte: 0 is false, 1 is true. Kernels read any other value as true and never write one.
    Bool,
}

impl Elem {
    /// Every type, in the order of the tags.
    pub const ALL: [Elem; 10] =
        [Elem::F32, Elem::F64, Elem::F16, Elem::BF16, Elem::I8, Elem::U8, Elem::I32, Elem::I64, Elem::U32, Elem::Bool];

    /// Size in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Elem::I8 | Elem::U8 | Elem::Bool => 1,
            Elem::F16 | Elem::BF16 => 2,
            Elem::F32 | Elem::I32 | Elem::U32 => 4,
            Elem::F64 | Elem::I64 => 8,
        }
    }

    /// `f32` or `f64`: the types that have transcendental functions.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self, Elem::F32 | Elem::F64)
    }

    /// Whether this is an integer type.
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self, Elem::I8 | Elem::U8 | Elem::I32 | Elem::I64 | Elem::U32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_index_the_list() {
        for (i, e) in Elem::ALL.into_iter().enumerate() {
            assert_eq!(e as usize, i);
        }
    }
}
