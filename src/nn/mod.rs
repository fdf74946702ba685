//! Blocks: layers as functions over the builder, with torch's parameter names, layouts and initialisation.
//!
//! A layer called `fc1` makes params `fc1.weight` (`[out, in]`) and `fc1.bias`, each starting uniform in ±1/√fan_in, as
//! `torch.nn.Linear` and `torch.nn.Conv2d` do. Nothing here is a type of its own: a layer is nodes.

mod attention;
mod convs;
mod losses;
mod norms;
mod pools;
mod recurrent;

pub use attention::causal_self_attention;
pub use convs::{
    Conv1d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, causal_depthwise_conv1d, conv_transpose1d,
    conv_transpose2d, conv_transpose3d, conv1d, conv2d, conv3d,
};
pub use losses::{
    cosine_embedding_loss, cosine_similarity, hinge_embedding_loss, huber_loss, kl_div, l1_loss, nll_loss,
};
pub use norms::{BatchNorm, batch_norm, group_norm, instance_norm, layer_norm, layer_norm2d, rms_norm};
pub use pools::*;
pub use recurrent::{gru, lstm, rnn};

use crate::nodes::{Builder, Init, Var};

/// torch's default: uniform in ±1/√fan_in (Kaiming uniform with a = √5).
fn fan_in(n: usize) -> Init {
    Init::Uniform(if n == 0 { 0.0 } else { 1.0 / (n as f64).sqrt() })
}

/// `y = x·Wᵀ + b` over the last axis: params `name.weight` `[outputs, inputs]` and `name.bias` `[outputs]`.
#[track_caller]
pub fn linear<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize) -> Var<'g> {
    affine(g, name, x, outputs, true)
}

/// `y = x·Wᵀ` over the last axis: param `name.weight` `[outputs, inputs]`.
#[track_caller]
pub fn linear_no_bias<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize) -> Var<'g> {
    affine(g, name, x, outputs, false)
}

#[track_caller]
fn affine<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, bias: bool) -> Var<'g> {
    let mut d = x.dims().to_vec();
    let inputs = d.pop().unwrap_or(0);
    let w = g.param(&format!("{name}.weight"), [outputs, inputs], x.dtype(), fan_in(inputs));
    // Leading axes are one long batch: one product, not many, with the bias next to it.
    let rows = d.iter().product();
    d.push(outputs);
    let y = x.reshape([rows, inputs]).matmul_t(w, false, true);
    let y = if bias { y + g.param(&format!("{name}.bias"), [outputs], x.dtype(), fan_in(inputs)) } else { y };
    y.reshape(d)
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
