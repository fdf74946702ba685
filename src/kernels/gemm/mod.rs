//! Matrix products C = A · B.
//!
//! [`Gemm`] describes a batched product with strided operands and an epilogue. [`run`] is its kernel. [`gemm`] computes
//! it over plain slices, for kernels that are made of products. Each file imports only files above it in this list,
//! except that `precision` asks `bf16` for the engine:
//!
//! * `tuning`: all tuning constants.
//! * `act`, `precision`, `desc`: the descriptor.
//! * `sgd`, `prefetch`, `operands`, `float`: the arguments of the innermost loops. `sink`: a consumer of tiles.
//! * `tile`, `dots`, `transpose`, `shapes`, `dispatch`: the innermost loops, compiled for each instruction set.
//! * `epilogue`, `sums`, `pack`, `plan`, `blocked`: the general product, after BLIS (Van Zee and van de Geijn, 2015).
//! * `outer`, `gemv`, `transposed`, `bf16`: the other algorithms.
//! * `algorithm`: which algorithm computes a product; `units`: how units divide it.
//! * `gemm_into`, `fused_update`: products that go to a sink or an SGD step instead of memory.
//! * `queries`, `driver`: the methods and kernels that lowerings use.
//!
//! Invariants:
//!
//! * The bits of an element of C depend on the descriptor and, in a bf16 precision, on the CPU; never on the units of a
//!   call or on the instruction set.
//! * Each element is one chain `c = fma(a[p], b[p], c)` with `p` ascending, from 0 or from C. There are two exceptions.
//!   First, elements are dot products in the order of `dots` if the matrix of a matrix-vector product is contiguous
//!   along k, or if C has few rows and `algorithm` chooses dot products. Second, products in a bf16 [`Precision`]
//!   have the order of `bf16`.
//! * NaN and infinities pass: nothing is skipped for being zero.
//! * Nothing allocates.

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
