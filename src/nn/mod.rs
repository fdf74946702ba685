//! Layers as functions over the builder, with torch's parameter names, layouts and initialisation.
//!
//! A layer called `fc1` makes params `fc1.weight` (`[out, in]`) and `fc1.bias`, each starting uniform in ±1/√fan_in, as
//! `torch.nn.Linear` and `torch.nn.Conv2d` do. A layer only adds nodes to the graph; there are no layer objects.

mod attention;
mod conv_layers;
mod ctc;
mod dropout;
mod embedding;
mod fold_unfold;
#[cfg(feature = "recurrent")]
mod gated_delta_net;
mod generate;
pub mod init;
mod inputs;
mod interpolate;
mod lengths;
mod linear_layers;
mod lora;
mod losses;
#[cfg(feature = "recurrent")]
mod mamba;
#[cfg(feature = "gguf")]
mod moe;
mod norms;
mod pools;
mod recurrent;
mod recurrent_of;
mod recurrent_params;
mod sequential;
mod swiglu;
mod transformer;

pub use crate::nodes::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use attention::{CausalSelfAttention, MultiHead, causal_self_attention, multi_head_attention};
pub use conv_layers::{
    ConvLayer, ConvTransposeLayer, causal_depthwise_conv1d, conv_transpose1d, conv_transpose2d, conv_transpose3d,
    conv1d, conv2d, conv3d,
};
pub use ctc::{Ctc, ctc_loss};
pub use dropout::dropout;
pub use embedding::{Embedding, embedding, embedding_with, padded_embedding};
pub use fold_unfold::{fold, unfold};
pub use generate::{
    GENERATE_COUNT, GENERATE_DRAWN, GENERATE_KEPT, GENERATE_KEY, GENERATE_LENGTH, GENERATE_WINDOW, gpt_next_token,
    gpt_next_tokens,
};
pub use interpolate::{interpolate, upsample};
pub use lengths::sequence_mask;
pub use linear_layers::{Linear, linear, linear_no_bias, linear_with};
pub use lora::{Lora, lora_linear};
pub use losses::{
    NllLoss, PoissonNll, Triplet, cosine_embedding_loss, cosine_similarity, gaussian_nll_loss, hinge_embedding_loss,
    huber_loss, kl_div, l1_loss, nll_loss, poisson_nll_loss, smooth_l1_loss, triplet_margin_loss,
};
#[cfg(feature = "gguf")]
pub use moe::{Moe, moe};
pub use norms::{
    BatchNorm, batch_norm, group_norm, instance_norm, layer_norm, layer_norm_no_bias, layer_norm2d, rms_norm,
};
pub use pools::*;
pub use recurrent::{
    LstmRun, Nonlinearity, Recurrent, RecurrentRun, gru, gru_cell, gru_with, lstm, lstm_cell, lstm_with, rnn, rnn_cell,
    rnn_with,
};
pub use recurrent_of::{gru_of, lstm_of, rnn_of};
pub use sequential::Sequential;
pub use swiglu::swiglu;
pub use transformer::{FeedForward, Gpt, Norm, TransformerBlock, gpt, transformer_block};
#[cfg(feature = "recurrent")]
pub use {
    gated_delta_net::{GatedDeltaNet, gated_delta_net},
    mamba::{Mamba, mamba},
};
