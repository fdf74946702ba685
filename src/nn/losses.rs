//! Losses that are built from pointwise ops, by torch's formulas. The ops of a loss fuse into one loop, and those of
//! its derivative into another. Cross entropy, squared error and binary cross entropy are ops, not here.

use crate::error::Kind;
use crate::nodes::{Reduction, Var};

fn reduced_loss<'g>(each: Var<'g>, reduction: Reduction) -> Var<'g> {
    match reduction {
        Reduction::None => each,
        Reduction::Mean => each.mean(..),
        Reduction::Sum => each.sum(..),
    }
}

/// |a − b|, as `torch.nn.L1Loss`.
#[track_caller]
pub fn l1_loss<'g>(a: Var<'g>, b: Var<'g>, reduction: Reduction) -> Var<'g> {
    reduced_loss((a - b).abs(), reduction)
}

/// d²/2 where |d| ≤ δ, δ(|d| − δ/2) beyond, with d = a − b, as `torch.nn.HuberLoss`. δ is positive.
#[track_caller]
pub fn huber_loss<'g>(a: Var<'g>, b: Var<'g>, delta: f64, reduction: Reduction) -> Var<'g> {
    let d = a - b;
    if delta.is_nan() || delta <= 0.0 {
        return d.g.fail(Kind::Shape, format!("huber_loss: delta is {delta}; it must be positive"));
    }
    let far = d.abs();
    let square = d * d * 0.5;
    let line = (far - 0.5 * delta) * delta;
    reduced_loss(far.less_equal(delta).select(square, line), reduction)
}

/// −log p of each label, `log_probs` `[N, classes]` and integer `labels` `[N]`, as `torch.nn.NLLLoss`. A label outside
/// the classes is an error when the step runs.
#[track_caller]
pub fn nll_loss<'g>(log_probs: Var<'g>, labels: Var<'g>, reduction: Reduction) -> Var<'g> {
    let (d, n) = (log_probs.dims(), labels.dims());
    if log_probs.is_some() && labels.is_some() && (d.len() != 2 || n.len() != 1 || d[0] != n[0]) {
        let text = format!("nll_loss: labels of shape {n} do not fit log-probabilities of shape {d}");
        return log_probs.g.fail(Kind::Shape, text);
    }
    let rows = n.numel();
    reduced_loss(-log_probs.take_along_axis(labels.reshape([rows, 1]), 1).reshape([rows]), reduction)
}

/// t·(log t − x) for log-probabilities x and probabilities t (0 where t is 0), as `torch.nn.KLDivLoss`. torch's
/// "batchmean" is the sum divided by the number of rows.
#[track_caller]
pub fn kl_div<'g>(log_input: Var<'g>, target: Var<'g>, reduction: Reduction) -> Var<'g> {
    let some = target.greater(0.0);
    // Where t is 0 no logarithm is taken, so that no 0·∞ reaches the gradient.
    let safe = some.select(target, target.full_like(1.0));
    reduced_loss(some.select(target * (safe.log() - log_input), target.full_like(0.0)), reduction)
}

/// a·b / (max(‖a‖, ε)·max(‖b‖, ε)) along `axis`, as `torch.nn.CosineSimilarity`.
#[track_caller]
pub fn cosine_similarity<'g>(a: Var<'g>, b: Var<'g>, axis: i64, eps: f64) -> Var<'g> {
    // All nodes have the caller's line as their location.
    a.g.with_caller(|| {
        let norm = |v: Var<'g>| (v * v).sum(axis).maximum(eps * eps).sqrt();
        (a * b).sum(axis) / (norm(a) * norm(b))
    })
}

/// 1 − cos where y is 1, max(0, cos − margin) where y is −1, for rows of `a` and `b` `[N, D]` and `y` `[N]`, as
/// `torch.nn.CosineEmbeddingLoss`.
#[track_caller]
pub fn cosine_embedding_loss<'g>(a: Var<'g>, b: Var<'g>, y: Var<'g>, margin: f64, reduction: Reduction) -> Var<'g> {
    let cos = cosine_similarity(a, b, -1, 1e-8);
    let each = y.greater(0.0).select(1.0 - cos, (cos - margin).relu());
    reduced_loss(each, reduction)
}

/// x where y is 1, max(0, margin − x) where y is −1, as `torch.nn.HingeEmbeddingLoss`.
#[track_caller]
pub fn hinge_embedding_loss<'g>(x: Var<'g>, y: Var<'g>, margin: f64, reduction: Reduction) -> Var<'g> {
    reduced_loss(y.greater(0.0).select(x, (margin - x).relu()), reduction)
}
