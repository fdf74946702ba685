//! The character model: nanoGPT's network on windows of a text.
//!
//! Invariant: names and layouts are nanoGPT's, and all graphs have the same params. For `train` and `sample`.

use super::{LOGITS, LOSS};
use crate::config::Network;
use arenagrad::error::Result;
use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Var};
use arenagrad::nn;

/// Name of the tokens, `[batch, context]`.
pub const TOKENS: &str = "tokens";
/// Name of the tokens that follow them, `[batch·context]`.
pub const NEXT: &str = "next";
/// Name of the loss of each token, `[batch·context]`.
pub const LOSSES: &str = "losses";

fn logits<'g>(g: &'g Builder, n: &Network, vocabulary: usize, batch: usize, dropout: f64) -> Var<'g> {
    let tokens = g.input(TOKENS, [batch, n.context], DType::I32);
    let gpt = nn::Gpt {
        vocabulary,
        context: n.context,
        layers: n.layers,
        heads: n.heads,
        width: n.width,
        bias: n.bias,
        dropout,
        gelu_tanh: false,
    };
    nn::gpt(g, tokens, DType::F32, gpt).reshape([batch * n.context, vocabulary])
}

fn losses<'g>(g: &'g Builder, logits: Var<'g>) -> Var<'g> {
    let rows = logits.dims().first().copied().unwrap_or(0);
    logits.cross_entropy_with(g.input(NEXT, [rows], DType::I32), CrossEntropy::per_row())
}

/// Tokens and those that follow to the mean cross entropy, in nats.
pub fn training(n: &Network, vocabulary: usize, batch: usize) -> Result<GraphBuf> {
    let g = Builder::new("chargpt");
    let logits = logits(&g, n, vocabulary, batch, n.dropout);
    g.finish([losses(&g, logits).mean(..).named(LOSS)])
}

/// Tokens and those that follow to the cross entropy of each.
pub fn validation(n: &Network, vocabulary: usize, batch: usize) -> Result<GraphBuf> {
    let g = Builder::new("chargpt");
    let logits = logits(&g, n, vocabulary, batch, 0.0);
    g.finish([losses(&g, logits).named(LOSSES)])
}

/// Tokens to the logits after each, `[context, vocabulary]`.
pub fn inference(n: &Network, vocabulary: usize) -> Result<GraphBuf> {
    let g = Builder::new("chargpt");
    g.finish([logits(&g, n, vocabulary, 1, 0.0).named(LOGITS)])
}
