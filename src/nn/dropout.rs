//! Dropout.

use crate::nodes::{Builder, Var};

/// Sets each element to zero with probability `p` and scales the rest by 1/(1 − p), as in `torch.nn.Dropout`. It is the
/// identity for `p = 0`, and while the builder builds for evaluation ([`Builder::training`]). `p` outside of [0, 1] is
/// an error either way. [`Var::dropout`] always drops.
#[track_caller]
pub fn dropout(x: Var<'_>, p: f64) -> Var<'_> {
    let p = dropout_now(x.g, p);
    if p == 0.0 { x } else { x.dropout(p) }
}

/// `p` while building for training, else 0. One that no op takes stays, so that the op refuses it in both.
pub(super) fn dropout_now(g: &Builder, p: f64) -> f64 {
    if g.is_training() || !(0.0..=1.0).contains(&p) { p } else { 0.0 }
}
