//! Kernels: safe functions over slices, and the two small doors through which they are reached.
//!
//! * [`abi`] is how the executor calls a kernel: operands are resolved against the arena in one place.
//! * [`simd`] is where the instruction set is chosen.
//!
//! Rules that every kernel keeps:
//! * A kernel computes *units* (rows, tiles, blocks): contiguous pieces of its outputs. The algorithm, block sizes and
//!   order of sums depend on the shape alone, never on which range of units a call computes, so results do not change
//!   with the number of threads.
//! * Nothing allocates: scratch is an operand.
//! * NaN, infinities and −0 pass through as IEEE asks; indices are checked on every element ([`abi::Args::fault`]).

pub mod abi;
pub mod act_with_grad;
pub mod attention;
pub mod bytes;
pub mod conv;
pub mod copy;
pub mod cost_model;
pub mod elem;
pub mod float;
pub mod gemm;
#[cfg(test)]
pub(crate) mod harness;
pub mod index;
pub mod key;
pub mod length;
pub mod norm;
pub mod num;
pub mod optim;
pub mod pairwise;
pub mod params;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod rope;
pub mod scan;
pub mod simd;
pub mod softmax;
pub mod sort;
pub mod squares;
pub mod tile;
pub mod unfold;
pub mod vmath;
pub mod window;
