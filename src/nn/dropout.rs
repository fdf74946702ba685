//! Dropout.

use crate::nodes::Var;

/// Sets each element to zero with probability `p` and scales the rest by 1/(1 − p), as `torch.nn.Dropout` in training;
/// `p = 0` is the identity.
#[track_caller]
pub fn dropout(x: Var<'_>, p: f64) -> Var<'_> {
    if p == 0.0 { x } else { x.dropout(p) }
}
