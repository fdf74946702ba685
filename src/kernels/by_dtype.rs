//! Tables of kernels: functions from an element type to the instance of a generic kernel.
//!
//! Each kernel's file declares its table. A table is never inlined, so each instance of a kernel is compiled in this
//! crate, and crates that use it compile none.

use crate::abi::Kernel;
use arenagrad_arena::dtype::DType;

/// The error of a table without an instance for `dtype`.
#[cold]
pub fn missing_kernel_error(dtype: DType) -> Result<Kernel, String> {
    let built = cfg!(any(not(target_arch = "wasm32"), feature = "f64"));
    let hint = if built || dtype != DType::F64 { "" } else { ", because it was built without the feature f64" };
    Err(format!("no kernel for {dtype}{hint}"))
}

/// A table of `floats` or of `numbers`, `[@index]` or `[]`.
#[cfg(any(not(target_arch = "wasm32"), feature = "f64"))]
macro_rules! with_f64 {
    ([$($index:tt)*] $table:ident = $kernel:ident::<$($dtype:ident $t:ty),*>) => {
        $crate::by_dtype::by_dtype!($($index)* $table = $kernel::<$($dtype $t,)* F64 f64>);
    };
}

/// A table of `floats` or of `numbers`, without `f64`.
#[cfg(not(any(not(target_arch = "wasm32"), feature = "f64")))]
macro_rules! with_f64 {
    ([$($index:tt)*] $table:ident = $kernel:ident::<$($dtype:ident $t:ty),*>) => {
        $crate::by_dtype::by_dtype!($($index)* $table = $kernel::<$($dtype $t),*>);
    };
}

/// Declares a table: `by_dtype!(softmax_kernel_for = softmax_kernel::<floats>)`.
///
/// | types | element types with an instance |
/// |---|---|
/// | `floats` | `f32`, `f64` |
/// | `numbers` | types with sums: those, `i32` and `i64` |
/// | `ordered` | types with an order: those, `i8`, `u8`, `u32`, and bool as a byte of 0 or 1 |
/// | `F32 f32, …` | those that are listed |
///
/// In a WebAssembly module without the feature `f64`, `floats` and `numbers` have no `f64`. Tables of kernels that
/// steps on `f32` call for a few numbers in `f64` (an optimiser's, norms, probabilities) list their types.
///
/// `, index` after `floats` or `numbers` adds a second argument: the element type of indices.
macro_rules! by_dtype {
    ($table:ident = $kernel:ident::<floats>) => {
        $crate::by_dtype::with_f64!([] $table = $kernel::<F32 f32>);
    };
    ($table:ident = $kernel:ident::<numbers>) => {
        $crate::by_dtype::with_f64!([] $table = $kernel::<F32 f32, I32 i32, I64 i64>);
    };
    ($table:ident = $kernel:ident::<ordered>) => {
        by_dtype!($table = $kernel::<F32 f32, F64 f64, I32 i32, I64 i64, I8 i8, U8 u8, U32 u32, Bool u8>);
    };
    ($table:ident = $kernel:ident::<floats, index>) => {
        $crate::by_dtype::with_f64!([@index] $table = $kernel::<F32 f32>);
    };
    ($table:ident = $kernel:ident::<numbers, index>) => {
        $crate::by_dtype::with_f64!([@index] $table = $kernel::<F32 f32, I32 i32, I64 i64>);
    };
    ($table:ident = $kernel:ident::<$($dtype:ident $t:ty),*>) => {
        #[doc = concat!("The instance of `", stringify!($kernel), "` for an element type.")]
        #[inline(never)]
        pub fn $table(dtype: arenagrad_arena::dtype::DType) -> Result<$crate::abi::Kernel, String> {
            match dtype {
                $(arenagrad_arena::dtype::DType::$dtype => Ok($kernel::<$t>),)*
                d => $crate::by_dtype::missing_kernel_error(d),
            }
        }
    };
    (@index $table:ident = $kernel:ident::<$($dtype:ident $t:ty),*>) => {
        #[doc = concat!("The instance of `", stringify!($kernel), "` for an element type and the type of indices.")]
        #[inline(never)]
        pub fn $table(
            dtype: arenagrad_arena::dtype::DType,
            index: arenagrad_arena::dtype::DType,
        ) -> Result<$crate::abi::Kernel, String> {
            match (dtype, index) {
                $((arenagrad_arena::dtype::DType::$dtype, arenagrad_arena::dtype::DType::I32) => Ok($kernel::<$t, i32>),
                (arenagrad_arena::dtype::DType::$dtype, _) => Ok($kernel::<$t, i64>),)*
                (d, _) => $crate::by_dtype::missing_kernel_error(d),
            }
        }
    };
}

/// Declares the table of a kernel that moves elements and only needs their size: `by_size!(fill_kernel_for =
/// fill_kernel)`. `::<index>` adds a second argument: the element type of indices.
macro_rules! by_size {
    ($table:ident = $kernel:ident) => {
        #[doc = concat!("The instance of `", stringify!($kernel), "` for elements of a type's size.")]
        #[inline(never)]
        pub fn $table(dtype: arenagrad_arena::dtype::DType) -> $crate::abi::Kernel {
            match dtype.size() {
                1 => $kernel::<u8>,
                2 => $kernel::<u16>,
                4 => $kernel::<u32>,
                8 => $kernel::<u64>,
                _ => $kernel::<u128>,
            }
        }
    };
    ($table:ident = $kernel:ident::<index>) => {
        #[doc = concat!("The instance of `", stringify!($kernel), "` for elements of a type's size and the type of \
            indices.")]
        #[inline(never)]
        pub fn $table(
            dtype: arenagrad_arena::dtype::DType,
            index: arenagrad_arena::dtype::DType,
        ) -> $crate::abi::Kernel {
            match (dtype.size(), index) {
                (1, arenagrad_arena::dtype::DType::I32) => $kernel::<u8, i32>,
                (2, arenagrad_arena::dtype::DType::I32) => $kernel::<u16, i32>,
                (4, arenagrad_arena::dtype::DType::I32) => $kernel::<u32, i32>,
                (8, arenagrad_arena::dtype::DType::I32) => $kernel::<u64, i32>,
                (_, arenagrad_arena::dtype::DType::I32) => $kernel::<u128, i32>,
                (1, _) => $kernel::<u8, i64>,
                (2, _) => $kernel::<u16, i64>,
                (4, _) => $kernel::<u32, i64>,
                (8, _) => $kernel::<u64, i64>,
                _ => $kernel::<u128, i64>,
            }
        }
    };
}

pub(crate) use {by_dtype, by_size, with_f64};
