//! Losses that are built from pointwise ops, by torch's formulas. The ops of a loss fuse into one loop, and those of
//! its derivative into another. Cross entropy, squared error and binary cross entropy are ops, not here.

use crate::error::Kind;
use crate::nodes::build::setters::setters;
use crate::nodes::{Reduction, Var};

/// |a − b|, as in `torch.nn.L1Loss`.
#[track_caller]
pub fn l1_loss<'g>(a: Var<'g>, b: Var<'g>, reduction: Reduction) -> Var<'g> {
    reduction.of((a - b).abs())
}

/// d²/2 where |d| ≤ δ, δ(|d| − δ/2) beyond, with d = a − b, as in `torch.nn.HuberLoss`. δ is positive.
#[track_caller]
pub fn huber_loss<'g>(a: Var<'g>, b: Var<'g>, delta: f64, reduction: Reduction) -> Var<'g> {
    let d = a - b;
    if delta.is_nan() || delta <= 0.0 {
        return d.g.fail(Kind::Shape, format!("huber_loss: delta is {delta}; it must be positive"));
    }
    let far = d.abs();
    let square = d * d * 0.5;
    if delta == f64::INFINITY {
        return reduction.of(square);
    }
    let line = (far - 0.5 * delta) * delta;
    reduction.of(far.less_equal(delta).select(square, line))
}

/// −log p of each label, `log_probs` `[N, classes]` and integer `labels` `[N]`, as in `torch.nn.NLLLoss`. A label
/// outside the classes is an error when the step runs.
#[track_caller]
pub fn nll_loss<'g>(log_probs: Var<'g>, labels: Var<'g>, reduction: Reduction) -> Var<'g> {
    let (d, n) = (log_probs.dims(), labels.dims());
    if log_probs.is_some() && labels.is_some() && (d.len() != 2 || n.len() != 1 || d[0] != n[0]) {
        let text = format!("nll_loss: labels of shape {n} do not fit log-probabilities of shape {d}");
        return log_probs.g.fail(Kind::Shape, text);
    }
    let rows = n.numel();
    reduction.of(-log_probs.take_along_axis(labels.reshape([rows, 1]), 1).reshape([rows]))
}

/// t·(log t − x) for log-probabilities x and probabilities t (0 where t is 0), as in `torch.nn.KLDivLoss`. torch's
/// "batchmean" is the sum divided by the number of rows.
#[track_caller]
pub fn kl_div<'g>(log_input: Var<'g>, target: Var<'g>, reduction: Reduction) -> Var<'g> {
    let some = target.greater(0.0);
    // Where t is 0 no logarithm is taken, so that no 0·∞ reaches the gradient.
    let safe = some.select(target, target.full_like(1.0));
    reduction.of(some.select(target * (safe.log() - log_input), target.full_like(0.0)))
}

/// a·b / (max(‖a‖, ε)·max(‖b‖, ε)) along `axis`, as in `torch.nn.CosineSimilarity`.
#[track_caller]
pub fn cosine_similarity<'g>(a: Var<'g>, b: Var<'g>, axis: i64, eps: f64) -> Var<'g> {
    // All nodes have the caller's line as their location.
    a.g.with_caller(|| {
        let norm = |v: Var<'g>| (v * v).sum(axis).maximum(eps * eps).sqrt();
        (a * b).sum(axis) / (norm(a) * norm(b))
    })
}

/// 1 − cos where y is 1, max(0, cos − margin) where y is −1, for rows of `a` and `b` `[N, D]` and `y` `[N]`, as in
/// `torch.nn.CosineEmbeddingLoss`.
#[track_caller]
pub fn cosine_embedding_loss<'g>(a: Var<'g>, b: Var<'g>, y: Var<'g>, margin: f64, reduction: Reduction) -> Var<'g> {
    let cos = cosine_similarity(a, b, -1, 1e-8);
    let each = y.greater(0.0).select(1.0 - cos, (cos - margin).relu());
    reduction.of(each)
}

/// x where y is 1, max(0, margin − x) where y is −1, as in `torch.nn.HingeEmbeddingLoss`.
#[track_caller]
pub fn hinge_embedding_loss<'g>(x: Var<'g>, y: Var<'g>, margin: f64, reduction: Reduction) -> Var<'g> {
    reduction.of(y.greater(0.0).select(x, (margin - x).relu()))
}

/// d²/(2β) where |d| < β, |d| − β/2 beyond, with d = a − b, as in `torch.nn.SmoothL1Loss`. β = 0 gives |d|; a negative
/// one is an error.
#[track_caller]
pub fn smooth_l1_loss<'g>(a: Var<'g>, b: Var<'g>, beta: f64, reduction: Reduction) -> Var<'g> {
    let d = a - b;
    if beta.is_nan() || beta < 0.0 {
        return d.g.fail(Kind::Shape, format!("smooth_l1_loss: beta is {beta}; it must not be negative"));
    }
    let far = d.abs();
    if beta == 0.0 {
        return reduction.of(far);
    }
    reduction.of(far.less(beta).select(d * d * (0.5 / beta), far - 0.5 * beta))
}

/// ½(ln v + (x − t)²/v) with v = max(variance, eps), as in `torch.nn.GaussianNLLLoss`; `full` adds ½ ln 2π. The shapes
/// broadcast. The bound passes the gradient of the variance on, as torch's does. eps is positive.
#[track_caller]
pub fn gaussian_nll_loss<'g>(
    x: Var<'g>,
    target: Var<'g>,
    variance: Var<'g>,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Var<'g> {
    if eps.is_nan() || eps <= 0.0 {
        return x.g.fail(Kind::Shape, format!("gaussian_nll_loss: eps is {eps}; it must be positive"));
    }
    x.g.with_caller(|| {
        let v = variance + (variance.maximum(eps) - variance).stop_gradient();
        let d = x - target;
        let each = (v.log() + d * d / v) * 0.5;
        reduction.of(if full { each + 0.5 * (2.0 * std::f64::consts::PI).ln() } else { each })
    })
}

/// Options of [`poisson_nll_loss`], with torch's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonNll {
    /// Whether x is the logarithm of the rate; otherwise it is the rate.
    pub log_input: bool,
    /// Whether Stirling's approximation of ln t! is added for targets t above 1.
    pub full: bool,
    /// The term added to a rate before its logarithm is taken.
    pub eps: f64,
    /// How the losses of the elements are reduced.
    pub reduction: Reduction,
}

impl Default for PoissonNll {
    fn default() -> PoissonNll {
        PoissonNll { log_input: true, full: false, eps: 1e-8, reduction: Reduction::Mean }
    }
}

setters! {
    [] PoissonNll { log_input: bool, full: bool, eps: f64, reduction: Reduction }
}

/// eˣ − t·x for logarithms x of rates, x − t·ln(x + eps) for rates, as in `torch.nn.PoissonNLLLoss`.
#[track_caller]
pub fn poisson_nll_loss<'g>(x: Var<'g>, target: Var<'g>, opt: PoissonNll) -> Var<'g> {
    if opt.eps.is_nan() || opt.eps < 0.0 {
        return x.g.fail(Kind::Shape, format!("poisson_nll_loss: eps is {}; it must not be negative", opt.eps));
    }
    x.g.with_caller(|| {
        let each = match opt.log_input {
            true => x.exp() - target * x,
            false => x - target * (x + opt.eps).log(),
        };
        if !opt.full {
            return opt.reduction.of(each);
        }
        let many = target.greater(1.0);
        let t = many.select(target, 1.0);
        let stirling = t * t.log() - t + (t * (2.0 * std::f64::consts::PI)).log() * 0.5;
        opt.reduction.of(each + many.select(stirling, 0.0))
    })
}

/// Options of [`triplet_margin_loss`], with torch's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triplet {
    /// How much nearer the positive must be.
    pub margin: f64,
    /// The order of the norm.
    pub p: f64,
    /// The term added to each difference, so that no norm is 0.
    pub eps: f64,
    /// Whether the negative's distance is the smaller of those from the anchor and from the positive.
    pub swap: bool,
    /// How the losses of the rows are reduced.
    pub reduction: Reduction,
}

impl Default for Triplet {
    fn default() -> Triplet {
        Triplet { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

setters! {
    [] Triplet { margin: f64, p: f64, eps: f64, swap: bool, reduction: Reduction }
}

/// max(0, ‖a − p + eps‖ − ‖a − n + eps‖ + margin) for rows along the last axis of an anchor, a positive and a negative,
/// as in `torch.nn.TripletMarginLoss`.
#[track_caller]
pub fn triplet_margin_loss<'g>(anchor: Var<'g>, positive: Var<'g>, negative: Var<'g>, opt: Triplet) -> Var<'g> {
    anchor.g.with_caller(|| {
        let distance = |a: Var<'g>, b: Var<'g>| (a - b + opt.eps).norm(opt.p, -1);
        let (near, far) = (distance(anchor, positive), distance(anchor, negative));
        let far = if opt.swap { far.minimum(distance(positive, negative)) } else { far };
        opt.reduction.of((near - far + opt.margin).relu())
    })
}
