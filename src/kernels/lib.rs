//! Kernels: safe functions over slices that compute units of an instruction.
//!
//! * [`abi`] defines how the executor calls a kernel. Arena bytes become slices there and nowhere else.
//! * [`mod@simd`] selects the instruction set.
//!
//! Invariants of every kernel:
//! * A kernel computes *units* (rows, tiles, blocks): contiguous parts of its outputs. The algorithm, the block sizes
//!   and the order of sums depend on the shape alone, not on the range of units of a call. So results do not depend on
//!   the number of threads.
//! * A kernel allocates nothing. Scratch is an operand.
//! * NaN, infinities and −0 pass through as IEEE 754 requires. Every index is checked ([`abi::Args::fault`]).

pub mod abi;
pub mod act_with_grad;
pub mod attention;
mod by_dtype;
pub mod byte_copies;
pub mod complex;
pub mod conv;
pub mod copy;
pub mod cost_model;
pub mod cum_arg_max;
pub mod cumulative;
pub mod dequant;
mod f16_value;
pub mod fault;
#[cfg(feature = "signal")]
pub mod fft;
pub mod float;
pub mod gemm;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "gguf")]
pub mod grouped;
#[cfg(any(test, feature = "harness"))]
pub mod harness;
pub mod im2col;
pub mod index;
pub mod int_gemm;
pub mod int_matmul;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod lsq;
pub mod machine_limits;
#[cfg(any(feature = "linalg", feature = "recurrent"))]
#[cfg_attr(not(feature = "linalg"), allow(dead_code))]
mod matrix_rows;
pub mod norm;
pub mod num;
pub mod optim;
pub mod pairwise;
pub mod params;
pub mod pool;
pub mod positive_scale;
pub mod random;
pub mod random_key;
#[cfg(feature = "recurrent")]
pub mod recurrent;
pub mod reduce;
pub mod root_sum_squares;
pub mod rope;
pub mod sample;
pub mod simd;
pub mod softmax;
pub mod sort;
#[cfg(feature = "splat")]
pub mod splat;
pub mod squared_error;
pub mod start_draws;
pub mod tile;
pub mod top_k;
pub mod vmath;
pub mod window_sizes;
