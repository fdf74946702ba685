//! Numbers with names: statuses, element types, roles.
//!
//! Invariant: a number keeps its meaning for good.

use arenagrad::error::Kind;
use arenagrad::graph::DType;
use arenagrad::session::Role;

/// What a function returns: AG_OK, or the kind of the error, which `ag_last_error` describes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ag_status {
    /// No error.
    AG_OK = 0,
    /// The shapes, types or attributes of an op do not match.
    AG_SHAPE = 1,
    /// An op has too few or too many operands.
    AG_ARITY = 2,
    /// The stage of the graph does not allow an op.
    AG_STAGE = 3,
    /// A name is unknown, used twice, or reserved.
    AG_NAME = 4,
    /// A text or a file cannot be read.
    AG_SYNTAX = 5,
    /// The requested derivative does not exist.
    AG_DERIVATIVE = 6,
    /// A graph breaks an invariant.
    AG_VERIFY = 7,
    /// No plan fits, or a plan breaks an invariant.
    AG_PLAN = 8,
    /// Bad data: an index out of range, a wrong length, an input that was never written.
    AG_DATA = 9,
    /// A file operation or another system call failed.
    AG_IO = 10,
    /// The disk, or the user's share of it, is full.
    AG_FULL = 11,
    /// The system has no memory for the arena.
    AG_MEMORY = 12,
    /// A value is NaN or infinite, in a program that looks for them.
    AG_DIVERGED = 13,
    /// An error of a kind that this version of the interface has no number for.
    AG_OTHER = 99,
    /// A bug in the library. A program in which it happened is of no use any more: free it.
    AG_PANIC = 100,
    /// The function was called wrongly: a pointer that is NULL or misaligned, a size that cannot be, a handle that was
    /// freed, a program that another thread uses.
    AG_USAGE = 101,
}

use ag_status::*;

impl ag_status {
    /// All statuses.
    pub const ALL: &[ag_status] = &[
        AG_OK,
        AG_SHAPE,
        AG_ARITY,
        AG_STAGE,
        AG_NAME,
        AG_SYNTAX,
        AG_DERIVATIVE,
        AG_VERIFY,
        AG_PLAN,
        AG_DATA,
        AG_IO,
        AG_FULL,
        AG_MEMORY,
        AG_DIVERGED,
        AG_OTHER,
        AG_PANIC,
        AG_USAGE,
    ];

    /// The status for an error of this kind.
    pub fn of(kind: Kind) -> ag_status {
        match kind {
            Kind::Shape => AG_SHAPE,
            Kind::Arity => AG_ARITY,
            Kind::Stage => AG_STAGE,
            Kind::Name => AG_NAME,
            Kind::Syntax => AG_SYNTAX,
            Kind::Derivative => AG_DERIVATIVE,
            Kind::Verify => AG_VERIFY,
            Kind::Plan => AG_PLAN,
            Kind::Data => AG_DATA,
            Kind::Io => AG_IO,
            Kind::Full => AG_FULL,
            Kind::Memory => AG_MEMORY,
            Kind::Diverged => AG_DIVERGED,
            _ => AG_OTHER,
        }
    }

    /// The name in C.
    pub fn name(self) -> &'static std::ffi::CStr {
        match self {
            AG_OK => c"AG_OK",
            AG_SHAPE => c"AG_SHAPE",
            AG_ARITY => c"AG_ARITY",
            AG_STAGE => c"AG_STAGE",
            AG_NAME => c"AG_NAME",
            AG_SYNTAX => c"AG_SYNTAX",
            AG_DERIVATIVE => c"AG_DERIVATIVE",
            AG_VERIFY => c"AG_VERIFY",
            AG_PLAN => c"AG_PLAN",
            AG_DATA => c"AG_DATA",
            AG_IO => c"AG_IO",
            AG_FULL => c"AG_FULL",
            AG_MEMORY => c"AG_MEMORY",
            AG_DIVERGED => c"AG_DIVERGED",
            AG_OTHER => c"AG_OTHER",
            AG_PANIC => c"AG_PANIC",
            AG_USAGE => c"AG_USAGE",
        }
    }
}

/// An element type. `AG_F16`, `AG_BF16`, `AG_I16`, `AG_U16` and `AG_U64` are for storage and casts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ag_dtype {
    /// float
    AG_F32 = 0,
    /// double
    AG_F64 = 1,
    /// IEEE binary16
    AG_F16 = 2,
    /// bfloat16
    AG_BF16 = 3,
    /// int8_t
    AG_I8 = 4,
    /// uint8_t
    AG_U8 = 5,
    /// int32_t
    AG_I32 = 6,
    /// int64_t
    AG_I64 = 7,
    /// uint32_t
    AG_U32 = 8,
    /// One byte, 0 or 1.
    AG_BOOL = 9,
    /// int16_t
    AG_I16 = 10,
    /// uint16_t
    AG_U16 = 11,
    /// uint64_t
    AG_U64 = 12,
    /// Two floats: real and imaginary part.
    AG_C64 = 13,
    /// Two doubles: real and imaginary part.
    AG_C128 = 14,
}

use ag_dtype::*;

/// Each element type with that of the library.
const DTYPES: [(ag_dtype, DType); 15] = [
    (AG_F32, DType::F32),
    (AG_F64, DType::F64),
    (AG_F16, DType::F16),
    (AG_BF16, DType::BF16),
    (AG_I8, DType::I8),
    (AG_U8, DType::U8),
    (AG_I32, DType::I32),
    (AG_I64, DType::I64),
    (AG_U32, DType::U32),
    (AG_BOOL, DType::Bool),
    (AG_I16, DType::I16),
    (AG_U16, DType::U16),
    (AG_U64, DType::U64),
    (AG_C64, DType::C64),
    (AG_C128, DType::C128),
];

/// The number of an element type of the library.
pub fn dtype_number(dtype: DType) -> Option<ag_dtype> {
    DTYPES.iter().find(|(_, d)| *d == dtype).map(|(number, _)| *number)
}

/// The element type of a number that C hands in.
pub fn dtype_of(number: u32) -> Option<DType> {
    DTYPES.iter().find(|(n, _)| *n as u32 == number).map(|(_, dtype)| *dtype)
}

/// What a tensor is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ag_role {
    /// Written by the caller.
    AG_INPUT = 0,
    /// Trained.
    AG_PARAM = 1,
    /// Kept from step to step.
    AG_STATE = 2,
    /// Read by the caller.
    AG_OUTPUT = 3,
}

impl ag_role {
    /// The number of a role of the library.
    pub fn of(role: Role) -> Option<ag_role> {
        match role {
            Role::Input => Some(ag_role::AG_INPUT),
            Role::Param => Some(ag_role::AG_PARAM),
            Role::State => Some(ag_role::AG_STATE),
            Role::Output => Some(ag_role::AG_OUTPUT),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_have_numbers() {
        for &dtype in DType::ALL {
            assert_eq!(dtype_of(dtype_number(dtype).unwrap() as u32).unwrap(), dtype);
        }
        assert_eq!(DTYPES.len(), DType::ALL.len());
        assert!(dtype_of(15).is_none() && dtype_of(u32::MAX).is_none());
    }

    #[test]
    fn statuses_differ_and_have_their_names() {
        for (i, s) in ag_status::ALL.iter().enumerate() {
            assert!(ag_status::ALL[..i].iter().all(|other| (*other as i32) < *s as i32));
            assert_eq!(s.name().to_str().unwrap(), format!("{s:?}"));
        }
        assert_eq!(ag_status::of(Kind::Diverged) as i32, Kind::Diverged as i32 + 1);
    }
}
