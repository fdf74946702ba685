//! Dropout.

use crate::nodes::Var;

/// [`Var::dropout`], as in `torch.nn.Dropout`: sets each element to zero with probability `p` and scales the rest by
/// 1/(1 − p); the identity while the builder builds for evaluation
/// ([`Builder::training`](crate::graph::Builder::training)).
#[track_caller]
pub fn dropout(x: Var<'_>, p: f64) -> Var<'_> {
    x.dropout(p)
}
