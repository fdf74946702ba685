//! Blocks: layers as functions over the builder, with torch's parameter names, layouts and initialisation.
//!
//! A layer called `fc1` makes params `fc1.weight` (`[out, in]`) and `fc1.bias`, each starting uniform in ±1/√fan_in, as
//! `torch.nn.Linear` and `torch.nn.Conv2d` do. Nothing here is a type of its own: a layer is nodes.

mod attention;
mod convs;
mod dense;
pub mod init;
mod losses;
mod norms;
mod recurrent;
mod sequential;
mod transformer;

pub use attention::{CausalSelfAttention, MultiHead, causal_self_attention, multi_head_attention};
pub use convs::{Conv1d, ConvTranspose2d, causal_depthwise_conv1d, conv_transpose2d, conv1d};
pub use dense::{Linear, Lora, dropout, linear, linear_no_bias, linear_with, lora_linear, swiglu};
pub use losses::{
    cosine_embedding_loss, cosine_similarity, hinge_embedding_loss, huber_loss, kl_div, l1_loss, nll_loss,
};
pub use norms::{
    BatchNorm, batch_norm, group_norm, instance_norm, layer_norm, layer_norm_no_bias, layer_norm2d, rms_norm,
};
pub use recurrent::{gru, gru_cell, lstm, lstm_cell, rnn, rnn_cell};
pub use sequential::Sequential;
pub use transformer::{FeedForward, Gpt, Norm, TransformerBlock, gpt, transformer_block};

use crate::nodes::Conv2d;
use crate::nodes::{Builder, Init, Var};

/// torch's default: uniform in ±1/√fan_in (Kaiming uniform with a = √5).
fn fan_in(n: usize) -> Init {
    Init::Uniform(if n == 0 { 0.0 } else { 1.0 / (n as f64).sqrt() })
}

/// 2-D convolution of `x` `[N, C, H, W]`: params `name.weight` `[outputs, C/groups, kernel, kernel]` and `name.bias`.
#[track_caller]
pub fn conv2d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 2],
    options: Conv2d,
) -> Var<'g> {
    let y = conv2d_no_bias(g, name, x, outputs, kernel, options);
    let b = g.param(&format!("{name}.bias"), [outputs], x.dtype(), conv_init(x, kernel, options.groups));
    y + b.reshape([outputs, 1, 1])
}

/// [`conv2d`] without the param `name.bias`: what stands before a norm.
#[track_caller]
pub fn conv2d_no_bias<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 2],
    options: Conv2d,
) -> Var<'g> {
    let dims = [outputs, channels(x, options.groups), kernel[0], kernel[1]];
    x.conv2d(g.param(&format!("{name}.weight"), dims, x.dtype(), conv_init(x, kernel, options.groups)), options)
}

/// Channels of one group.
fn channels(x: Var<'_>, groups: usize) -> usize {
    x.dims().get(1).copied().unwrap_or(0) / groups.max(1)
}

fn conv_init(x: Var<'_>, kernel: [usize; 2], groups: usize) -> Init {
    fan_in(channels(x, groups).saturating_mul(kernel[0]).saturating_mul(kernel[1]))
}

/// Rows of a table: param `name.weight` `[rows, width]`, standard normal. `indices` are i32 or i64.
#[track_caller]
pub fn embedding<'g>(
    g: &'g Builder,
    name: &str,
    indices: Var<'g>,
    rows: usize,
    width: usize,
    dtype: crate::nodes::DType,
) -> Var<'g> {
    g.param(&format!("{name}.weight"), [rows, width], dtype, Init::Normal(1.0)).gather(indices, 0)
}
