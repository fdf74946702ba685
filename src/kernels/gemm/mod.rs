//! Matrix products: the only door to them.
//!
//! [`Gemm`] describes a batched product with strided operands and an epilogue; [`run`] is its kernel and [`gemm`] the
//! same over plain slices, for kernels that are made of products. `algorithm` decides how it is computed.
//!
//! Invariant: the bits of an element of C depend on the descriptor alone, not on the units of a call nor on the
//! instruction set that computes it. Each element is one chain `c = fma(a[p], b[p], c)` with `p` ascending, from 0 or
//! from C; a product with a vector whose matrix is contiguous along k, or of few rows where both operands are, is a dot
//! product in the order of `dots` (with some more rows its transpose is computed: chains again). Products of f32 may
//! ask for another [`Precision`]; then bf16 units sum as `bf16` says, where that is faster. NaN and infinities pass:
//! nothing is skipped for being zero. Nothing allocates.

mod act;
mod algorithm;
mod bf16;
mod blocked;
mod desc;
mod dispatch;
mod dots;
mod driver;
mod epilogue;
mod float;
mod fused_update;
mod gemm_into;
mod gemv;
mod operands;
mod outer;
mod pack;
mod plan;
mod precision;
mod prefetch;
mod queries;
mod sgd;
mod shapes;
mod sink;
mod sums;
#[cfg(test)]
mod tests;
mod tile;
mod transpose;
mod transposed;
mod tuning;
mod units;

pub use act::Act;
pub use bf16::bf16_engine;
pub use desc::{Batch, Dims, Gemm, MAX_BATCH, Strides};
pub(crate) use driver::transpose;
pub use driver::{gemm, kernel, run};
pub use epilogue::act_fn;
pub use float::GemmFloat;
pub use fused_update::sgd_kernel;
pub use gemm_into::gemm_into;
pub use precision::Precision;
pub use prefetch::PrefetchQueue;
pub use sink::TileSink;
