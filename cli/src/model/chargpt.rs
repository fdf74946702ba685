//! The character model: nanoGPT's network on windows of a text.
//!
//! Invariant: names and layouts of params are nanoGPT's; the graphs for training, validation and sampling
//! have the same params.

use super::LOSS;
use crate::config::Network;
use arenagrad::error::Result;
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Var};
use arenagrad::nn;
use arenagrad::train::Sampling;

/// Name of the input of tokens, `[batch, context]`.
pub const TOKENS: &str = "tokens";
/// Name of the input of the tokens that follow them, `[batch·context]`.
pub const NEXT: &str = "next";
/// Name of the output of the tokens that follow a text.
pub const TOKEN: &str = "token";
/// Name of the output of the loss of each token, `[batch·context]`.
pub const LOSSES: &str = "losses";

/// The logits after each token, `[batch·context, vocabulary]`.
fn chargpt_logits<'g>(g: &'g Builder, n: &Network, vocabulary: usize, batch: usize, dropout: f64) -> Var<'g> {
    let tokens = g.input(TOKENS, [batch, n.context], DType::I32);
    nn::gpt(g, tokens, DType::F32, chargpt_net(n, vocabulary).dropout(dropout)).reshape([batch * n.context, vocabulary])
}

/// The network, without dropout.
fn chargpt_net(n: &Network, vocabulary: usize) -> nn::Gpt {
    nn::Gpt::default()
        .vocabulary(vocabulary)
        .context(n.context)
        .layers(n.layers)
        .heads(n.heads)
        .width(n.width)
        .bias(n.bias)
        .dropout(0.0)
        .gelu_tanh(false)
}

/// The cross entropy of each token, `[batch·context]`, in nats.
fn chargpt_losses<'g>(g: &'g Builder, logits: Var<'g>) -> Var<'g> {
    let rows = logits.dims().first().copied().unwrap_or(0);
    logits.cross_entropy_with(g.input(NEXT, [rows], DType::I32), CrossEntropy::per_row())
}

/// The training graph: [`TOKENS`] and [`NEXT`] to the mean cross entropy [`LOSS`], in nats.
pub fn chargpt_training(n: &Network, vocabulary: usize, batch: usize) -> Result<GraphBuf> {
    let g = Builder::new("chargpt");
    let logits = chargpt_logits(&g, n, vocabulary, batch, n.dropout);
    g.finish([chargpt_losses(&g, logits).mean(..).named(LOSS)])
}

/// The validation graph: [`TOKENS`] and [`NEXT`] to the cross entropy of each token, [`LOSSES`], in nats.
pub fn chargpt_validation(n: &Network, vocabulary: usize, batch: usize) -> Result<GraphBuf> {
    let g = Builder::new("chargpt");
    let logits = chargpt_logits(&g, n, vocabulary, batch, 0.0);
    g.finish([chargpt_losses(&g, logits).named(LOSSES)])
}

/// The token that follows the window, [`TOKEN`], computed from the whole window.
pub fn chargpt_next_token(n: &Network, vocabulary: usize, how: Sampling) -> Result<GraphBuf> {
    let g = Builder::new("chargpt");
    g.finish([nn::gpt_next_token(&g, DType::F32, chargpt_net(n, vocabulary), how).named(TOKEN)])
}

/// Up to `most` tokens that follow, [`TOKEN`], computed with kept keys and values.
pub fn chargpt_next_tokens(n: &Network, vocabulary: usize, most: usize, how: Sampling) -> Result<GraphBuf> {
    let g = Builder::new("chargpt");
    g.finish([nn::gpt_next_tokens(&g, DType::F32, chargpt_net(n, vocabulary), most, how).named(TOKEN)])
}
