//! Kernels: safe functions over slices that compute units of an instruction.
//!
//! * [`abi`] defines how the executor calls a kernel. Arena bytes become slices there and nowhere else.
//! * [`mod@simd`] selects the instruction set.
//!
//! Each family of kernels is a folder. The files beside this one are what the families share: element types, tables of
//! instances, params, faults, costs.
//!
//! Invariants of every kernel:
//! * A kernel computes *units* (rows, tiles, blocks): contiguous parts of its outputs. The algorithm, the block sizes
//!   and the order of sums depend on the shape alone, not on the range of units of a call. So results do not depend on
//!   the number of threads.
//! * A kernel allocates nothing. Scratch is an operand.
//! * NaN, infinities and −0 pass through as IEEE 754 requires. Every index is checked ([`abi::Args::fault`]).

pub mod abi;
pub mod attention;
mod by_dtype;
pub mod conv;
pub mod copy;
pub mod cost_model;
pub mod dequant;
pub mod elementwise;
pub mod fault;
pub mod float;
pub mod gemm;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "gguf")]
pub mod grouped;
#[cfg(any(test, feature = "harness"))]
pub mod harness;
pub mod index;
pub mod int_gemm;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod machine_limits;
#[cfg(any(feature = "linalg", feature = "recurrent"))]
#[cfg_attr(not(feature = "linalg"), allow(dead_code))]
mod matrix_rows;
pub mod norm;
pub mod num;
pub mod optim;
pub mod params;
pub mod pool;
pub mod quant;
pub mod random;
#[cfg(feature = "recurrent")]
pub mod recurrent;
pub mod reduce;
mod scratch;
#[cfg(feature = "signal")]
pub mod signal;
pub mod simd;
pub mod softmax;
pub mod sort;
#[cfg(feature = "splat")]
pub mod splat;
pub mod tile;
pub mod vmath;
pub mod window;
