//! Products of f32 matrices by a bf16 engine: operands become one to three bf16 terms each, and sums stay f32.
//!
//! Blocks of A and B are packed into scratch as packed tiles of bf16 pairs, with zeros beyond the edges. An engine
//! computes tiles of 32 × 32 of C from them. Files, bottom up: `packed`, `terms`, `operands`; `amx`, `avx512_bf16`;
//! `engine`, `pack`, `tile`; `plan`, `output`, `product`.
//!
//! Invariant: whether an engine computes a product, and which one, follows from the CPU and the descriptor. The bits of
//! an element follow from its row, its column, the descriptor and the engine.

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod amx;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512_bf16;
mod engine;
mod operands;
mod output;
mod pack;
mod packed;
mod plan;
mod product;
mod terms;
// No unsafe code of this module is compiled for Miri, and a tile takes it seconds.
#[cfg(not(miri))]
#[cfg(test)]
mod tests;
mod tile;

pub use engine::{Bf16Engine, bf16_engine};
pub use output::{Bf16IntoMatrix, Bf16IntoSink};
pub use plan::Bf16Plan;
pub use product::multiply_in_bf16;
