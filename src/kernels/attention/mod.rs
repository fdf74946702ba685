//! Attention by blocks: softmax(q·kᵀ)·v and its adjoint, without a queries × keys matrix in memory.
//!
//! The forward kernel walks over blocks of keys. For each query of a block of queries it keeps the largest score and
//! the sum of exponentials so far (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et
//! al., "FlashAttention", 2022). The backward kernel recomputes the probabilities from the saved log-sum-exp.
//!
//! Invariant: blocks of keys start at multiples of [`BLOCK_KEYS`], and units follow from the shape. So the shape fixes
//! the order of every sum. A masked key is skipped, not multiplied by zero. A query that sees no key gets zeros and a
//! log-sum-exp of −∞. Used by the lowering of the attention ops.

mod attention_shape;
mod backward;
mod dropout;
mod forward;
mod inputs;
mod keys;
mod pack_gradients;
pub mod rope;
mod score_rows;

pub use attention_shape::{AttentionShape, BLOCK_KEYS, CHUNK_QUERIES};
pub use backward::{
    attention_backward_kernel, attention_backward_kernel_for, attention_backward_keys_kernel,
    attention_backward_keys_kernel_for, attention_backward_queries_kernel, attention_backward_queries_kernel_for,
};
pub use forward::{attention_forward_kernel, attention_forward_kernel_for};
pub use pack_gradients::{pack_gradients_kernel, pack_gradients_kernel_for};
