//! Matrix products C = A · B.
//!
//! [`Gemm`] describes a batched product with strided operands and an epilogue. [`run_product`] is its kernel.
//! [`gemm`] computes it over plain slices, for kernels that are made of products. Each file imports only files above it
//! in this list, except that `precision` asks `bf16` for the engine:
//!
//! * `tuning`: all tuning constants.
//! * `act`, `precision`, `gemm_desc`: the descriptor.
//! * `sgd_epilogue`, `prefetch`, `operands`, `gemm_float`: the arguments of the innermost loops. `sink`: a consumer of
//!   tiles.
//! * `register_tile`, `dots`, `transpose`, `tile_shapes`, `dispatch`: the innermost loops, compiled for each
//!   instruction set.
//! * `act_fn`, `epilogue`, `column_sums`, `pack_block`, `tile_observer`, `blocked_plan`, `blocked`: the general
//!   product, after BLIS (Van Zee and van de Geijn, 2015).
//! * `outer_product`, `gemv`, `transposed_product`, `bf16`: the other algorithms.
//! * `algorithm`: which algorithm computes a product; `gemm_units`: how units divide it.
//! * `gemm_into`: products that go to a sink instead of memory.
//! * `stacked_product`: sums of products over a stack.
//! * `open_product`: products whose number of rows or terms is known only when a step runs.
//! * `gemm_queries`, `gemm_kernel`: the methods and kernels that lowerings use. `sgd_kernel`: products that update a
//!   param by an SGD step.
//! * `decoded_product`: products with a B that is decoded while it is packed.
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
mod act_fn;
mod algorithm;
mod bf16;
mod blocked;
mod blocked_plan;
mod column_sums;
mod decoded_product;
mod dispatch;
mod dots;
mod epilogue;
mod gemm_desc;
mod gemm_float;
mod gemm_into;
mod gemm_kernel;
mod gemm_queries;
mod gemm_units;
mod gemv;
mod open_product;
mod operands;
mod outer_product;
mod pack_block;
mod precision;
mod prefetch;
mod register_tile;
mod sgd_epilogue;
mod sgd_kernel;
mod sink;
mod stacked_product;
#[cfg(test)]
mod tests;
mod tile_observer;
mod tile_shapes;
mod transpose;
mod transposed_product;
mod tuning;

pub use act::Act;
pub use act_fn::act_fn;
pub use bf16::bf16_engine;
pub use decoded_product::{OpenDecoded, PanelDecoder, TransposedDecoder, block_target, one_row_target, run_decoded};
pub use gemm_desc::{Batch, Dims, Gemm, MAX_BATCH, Strides};
pub use gemm_float::GemmFloat;
pub use gemm_into::gemm_into;
pub use gemm_kernel::{gemm, gemm_kernel, multiply_into_view, product_kernel_for, run_product};
pub use open_product::{OpenProduct, open_unit_columns, open_unit_rows};
pub(crate) use operands::RegisterTileOperands;
pub use precision::Precision;
pub use prefetch::PrefetchQueue;
pub use sgd_kernel::{sgd_kernel, sgd_step_kernel_for};
pub use sink::TileSink;
pub use stacked_product::{StackedProduct, stacked_product_kernel_for};
pub(crate) use transpose::transpose;
