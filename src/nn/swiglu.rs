//! The gated feed-forward layer.

use super::linear_layers::linear_width;
use super::linear_no_bias;
use crate::nodes::{Builder, Var};

/// Gated feed-forward layer `(silu(x·Gᵀ) · (x·Uᵀ))·Dᵀ` (Shazeer 2020, "GLU Variants Improve Transformer"), named as in
/// Llama: params `name.gate_proj.weight` and `name.up_proj.weight` `[hidden, width]`, `name.down_proj.weight`
/// `[width, hidden]`.
#[track_caller]
pub fn swiglu<'g>(g: &'g Builder, name: &str, x: Var<'g>, hidden: usize) -> Var<'g> {
    g.layer_scope(name, || {
        let gate = linear_no_bias(g, &format!("{name}.gate_proj"), x, hidden).silu();
        let up = linear_no_bias(g, &format!("{name}.up_proj"), x, hidden);
        linear_no_bias(g, &format!("{name}.down_proj"), gate * up, linear_width(x))
    })
}
