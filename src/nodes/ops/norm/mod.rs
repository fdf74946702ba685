//! Normalisations: by layer, by root mean square, by channels, and with a residual.

pub mod batch_norm;
pub mod batch_norm_inference;
pub mod group_norm;
pub mod layer_norm;
pub mod lower;
pub mod residual_norm;
pub mod rms_norm;
pub mod var;

use crate::ensure;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{BatchSite, Domain};

attrs! {
    /// Attributes of a norm, with or without a residual.
    pub struct NormAttrs {
        /// The term added to the variance or to the mean square.
        eps: f64,
    }
}

attrs! {
    /// Attributes of a group norm.
    pub struct GroupNormAttrs {
        /// The number of runs of channels.
        groups: i64,
        /// The term added to the variance.
        eps: f64,
    }
}

/// Checks that eps is not negative.
pub(super) fn check_eps(eps: f64) -> Result<(), String> {
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
pub(super) fn repeat_along_rows<'g>(stat: Var<'g>, x: Var<'g>) -> Var<'g> {
    let mut d = x.dims();
    if let Some(last) = d.make_mut().last_mut() {
        *last = 1;
    }
    stat.reshape(d).broadcast(x.dims())
}

/// The batch rule of a normalisation of rows, from (x, γ, β). If members have γ or β of their own, the op takes 1 and
/// 0, and theirs are applied to its result.
fn batch_rows<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let (x, gamma, beta) = (s.arg(0), s.site.args[1], s.site.args[2]);
    if !s.batched[1] && !s.batched[2] {
        return Some(s.site.rebuild_with(&[x, gamma, beta]));
    }
    let width = gamma.dims().last().copied().unwrap_or(0);
    let [one, zero] = [1.0, 0.0].map(|v| x.g.full(v, [width], x.dtype()));
    let mut outs = s.site.rebuild_with(&[x, one, zero]);
    if let Some(y) = outs.first_mut() {
        *y = *y * s.aligned(1, s.rank(0)) + s.aligned(2, s.rank(0));
    }
    Some(outs)
}

/// The domains of (dy, x, γ, mean, rstd).
const STATISTICS: &[Domain] = &[Domain::Real, Domain::Real, Domain::Real, Domain::Real, Domain::Positive];

/// Checks x of rank 2 or more at operand `i`, and γ of an element for each channel: the number of channels.
fn check_channels_at(cx: &Infer<'_>, i: usize, gamma: usize) -> Result<usize, String> {
    cx.float(0)?;
    (1..cx.args.len()).try_for_each(|k| cx.same_dtype(0, k))?;
    let d = cx.dims(i);
    ensure!(d.len() >= 2, "x is {d}; it needs a batch axis and a channel axis");
    cx.expect_dims(gamma, "gamma", &[d[1]])?;
    Ok(d[1])
}

/// Checks (x, γ, β) of a norm of channels: the number of channels.
fn check_channels(cx: &Infer<'_>) -> Result<usize, String> {
    let c = check_channels_at(cx, 0, 1)?;
    cx.expect_dims(2, "beta", &[c])?;
    Ok(c)
}

/// Checks (dy, x, γ) of the backward op of a norm of channels: the number of channels.
fn check_backward_channels(cx: &Infer<'_>) -> Result<usize, String> {
    let c = check_channels_at(cx, 1, 2)?;
    cx.same(0, 1)?;
    Ok(c)
}

/// A value for each channel, shaped to broadcast over x.
fn shape_channel_values<'g>(v: Var<'g>, x: Var<'g>) -> Var<'g> {
    let mut d = vec![1; x.rank() - 1];
    d[0] = v.numel();
    v.reshape(d)
}

/// The sum over all axes but the channels.
fn sum_to_channels(x: Var<'_>) -> Var<'_> {
    let axes: Vec<i64> = (0..x.rank() as i64).filter(|&a| a != 1).collect();
    x.sum(&axes[..])
}

/// The cotangents of (x, γ, β): `all` from a backward op, and `more` for x from the statistics.
fn add_cotangents<'g>(all: Option<&[Var<'g>]>, more: [Option<Var<'g>>; 2]) -> Vec<Option<Var<'g>>> {
    let of = |i: usize| all.and_then(|all| all.get(i).copied());
    vec![[of(0), more[0], more[1]].into_iter().flatten().reduce(|a, b| a + b), of(1), of(2)]
}
