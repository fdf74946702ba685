//! Normalisations: by layer, by root mean square, by channels, and with a residual.

pub mod batch_norm_inference;
pub mod channel_norms;
pub mod layer_norm;
pub mod lower;
pub mod residual_norm;
pub mod rms_norm;
pub mod var;

use crate::ensure;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;

attrs! {
    /// Attributes of a norm, with or without a residual.
    pub struct NormAttrs {
        /// The term added to the variance or to the mean square.
        eps: f64,
    }
}

/// Checks that eps is not negative.
pub(super) fn check_norm_eps(eps: f64) -> Result<(), String> {
    ensure!(eps >= 0.0, "eps is {eps}; it must not be negative");
    Ok(())
}

/// Checks x of rank 1 or more at operand `i`, and γ: the normalised size.
pub(super) fn check_normalised_size(cx: &Infer<'_>, i: usize, gamma: usize) -> Result<usize, String> {
    cx.float(0)?;
    (1..cx.args.len()).try_for_each(|k| cx.same_dtype(0, k))?;
    let d = cx.dims(i);
    let n = d.last().copied().ok_or("x is a scalar; it needs an axis to normalise")?;
    ensure!(n > 0, "the last axis of {d} is empty");
    cx.expect_dims(gamma, "gamma", &[n])?;
    Ok(n)
}

/// A statistic of each row, or a mean over the last axis, repeated along it.
pub(super) fn repeat_norm_rows<'g>(stat: Var<'g>, x: Var<'g>) -> Var<'g> {
    let mut d = x.dims();
    if let Some(last) = d.make_mut().last_mut() {
        *last = 1;
    }
    stat.reshape(d).broadcast(x.dims())
}
