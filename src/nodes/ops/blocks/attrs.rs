//! Attributes of block ops.

use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ops::matmul::activation::Activation;

attrs! {
    /// Attributes of `linear`.
    pub struct LinearAttrs {
        /// The activation of the result.
        act: Activation,
    }
}

attrs! {
    /// Attributes of `attention_block`.
    pub struct AttentionBlockAttrs {
        /// Heads, which divide the width.
        heads: i64,
        /// Whether a query sees no later key.
        causal: bool,
        /// Whether one of the operands is a mask of keys.
        padding: bool,
        /// Whether biases are among the operands.
        bias: bool,
        /// Whether tables of cosines and sines are among the operands.
        rope: bool,
    }
}

attrs! {
    /// Attributes of `transformer_layer`.
    pub struct TransformerLayerAttrs {
        /// Heads, which divide the width.
        heads: i64,
        /// The activation between the two products of the feed-forward part.
        act: Activation,
        /// ε of the norm after the attention.
        eps1: f64,
        /// ε of the norm after the feed-forward part.
        eps2: f64,
        /// Whether biases and βs are among the operands.
        bias: bool,
    }
}

attrs! {
    /// Attributes of `llama_decoder_block`.
    pub struct LlamaDecoderBlockAttrs {
        /// Heads of the queries.
        heads: i64,
        /// Heads of the keys and values, which divide `heads`.
        kv_heads: i64,
        /// ε of both norms.
        eps: f64,
        /// Whether a query sees no later key.
        causal: bool,
    }
}

attrs! {
    /// Attributes of `swiglu`.
    pub struct SwigluAttrs {
        /// Whether the first half is the gate.
        gate_first: bool,
        /// The type of the result.
        to: DType,
    }
}
