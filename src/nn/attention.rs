//! Blocks of attention over the builder, with the names of nanoGPT.

use super::linear;
use crate::nodes::{Attention, Builder, Layout, Var};

/// Causal self-attention of `x` `[batch, sequence, width]`: one linear layer `name.c_attn` makes queries, keys and values
/// of `heads` heads, and `name.c_proj` mixes the heads of the result.
///
/// `heads` must divide the width.
#[track_caller]
pub fn causal_self_attention<'g>(g: &'g Builder, name: &str, x: Var<'g>, heads: usize) -> Var<'g> {
    let width = x.dims().last().copied().unwrap_or(0);
    let all = linear(g, &format!("{name}.c_attn"), x, 3 * width);
    let [q, k, v] = [0, 1, 2].map(|i| all.narrow(-1, i * width, width));
    let options = Attention { layout: Layout::Bsd, heads, causal: true, ..Attention::default() };
    linear(g, &format!("{name}.c_proj"), q.attention(k, v, options), width)
}
