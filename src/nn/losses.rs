//! Losses that are built from pointwise ops, by torch's formulas. The ops of a loss fuse into one loop, and those of
//! its derivative into another. Cross entropy, squared error and binary cross entropy are ops, not here.
//!
//! Invariant: no loss broadcasts. `[n, 1]` against `[n]` is an error with both shapes, not the loss of n² pairs.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ops::loss::refuse_unequal_shapes;
use crate::nodes::{Reduction, Var};

/// Returns the error of loss `name` from the calling function if two operands, each with a word for it, differ in
/// shape.
macro_rules! one_shape {
    ($name:literal, $($b:ident, $word:literal),+ => $a:ident, $with:literal) => {
        $(if let Some(error) = refuse_unequal_shapes($name, ($word, $b), ($with, $a)) {
            return error;
        })+
    };
}

/// |a − b| for `a` and `b` of one shape, as in `torch.nn.L1Loss`.
#[track_caller]
pub fn l1_loss<'g>(a: Var<'g>, b: Var<'g>, reduction: Reduction) -> Var<'g> {
    one_shape!("l1_loss", b, "targets" => a, "predictions");
    reduction.of((a - b).abs())
}

/// d²/2 where |d| ≤ δ, δ(|d| − δ/2) beyond, with d = a − b of one shape, as in `torch.nn.HuberLoss`. δ is
/// positive.
#[track_caller]
pub fn huber_loss<'g>(a: Var<'g>, b: Var<'g>, delta: f64, reduction: Reduction) -> Var<'g> {
    one_shape!("huber_loss", b, "targets" => a, "predictions");
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

/// Options of [`nll_loss`], with torch's defaults. A [`Reduction`] alone is one, too.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NllLoss<'g> {
    /// Rows with this label have no loss, and do not count for the mean.
    pub ignore_index: i64,
    /// The factor of each class's loss, `[classes]`, in the type of the log-probabilities. The mean is then divided by
    /// the sum of the rows' weights.
    pub weight: Option<Var<'g>>,
    /// How the losses of the rows are reduced. The mean is NaN if no row counts.
    pub reduction: Reduction,
}

impl Default for NllLoss<'_> {
    fn default() -> Self {
        NllLoss { ignore_index: -100, weight: None, reduction: Reduction::Mean }
    }
}

impl From<Reduction> for NllLoss<'_> {
    fn from(reduction: Reduction) -> Self {
        NllLoss { reduction, ..NllLoss::default() }
    }
}

setters! {
    ['g] NllLoss<'g> { ignore_index: i64, weight: impl Into<Option<Var<'g>>> => weight.into(), reduction: Reduction }
}

/// −log p of each label, `log_probs` `[N, classes]` and integer `labels` `[N]`, as in `torch.nn.NLLLoss`. A label that
/// is neither a class nor ignored is an error when the step runs.
#[track_caller]
pub fn nll_loss<'g>(log_probs: Var<'g>, labels: Var<'g>, options: impl Into<NllLoss<'g>>) -> Var<'g> {
    let NllLoss { ignore_index, weight, reduction } = options.into();
    let g = log_probs.g;
    if !g.owns("nll_loss", &[labels, weight.unwrap_or(labels)]) || !log_probs.is_some() || !labels.is_some() {
        return g.var(Value::NONE);
    }
    let (d, n) = (log_probs.dims(), labels.dims());
    if d.len() != 2 || n.len() != 1 || d[0] != n[0] {
        let text = format!("nll_loss: labels of shape {n} do not fit log-probabilities of shape {d}");
        return g.fail(Kind::Shape, text);
    }
    if let Some(w) = weight.filter(|w| w.is_some() && (*w.dims() != [d[1]] || w.dtype() != log_probs.dtype())) {
        let (t, w) = (w.dtype(), w.dims());
        let text = format!("nll_loss: weights of {t}{w} do not fit log-probabilities of {}{d}", log_probs.dtype());
        return g.fail(Kind::Shape, text);
    }
    g.with_caller(|| {
        let counted = labels.not_equal(ignore_index as f64);
        // An ignored label may be any number: it must not reach a gather.
        let class = counted.select(labels, 0.0);
        let ones = || g.full(1.0, n, log_probs.dtype());
        let of_row = counted.select(weight.map_or_else(ones, |w| w.gather(class, 0)), 0.0);
        let picked = log_probs.take_along_axis(class.reshape([n.numel(), 1]), 1).reshape([n.numel()]);
        let each = counted.select(-picked * of_row, 0.0);
        match reduction {
            Reduction::Mean => each.sum(..) / of_row.sum(..),
            other => other.of(each),
        }
    })
}

/// t·(log t − x) for log-probabilities x and probabilities t of one shape (0 where t is 0), as in `torch.nn.KLDivLoss`.
/// A probability that is negative or NaN gives NaN. torch's "batchmean" is the sum divided by the number of rows.
#[track_caller]
pub fn kl_div<'g>(log_input: Var<'g>, target: Var<'g>, reduction: Reduction) -> Var<'g> {
    one_shape!("kl_div", target, "targets" => log_input, "log-probabilities");
    let none = target.equal(0.0);
    // Where t is 0 no logarithm is taken, so that no 0·∞ reaches the gradient.
    let safe = none.select(target.full_like(1.0), target);
    reduction.of(none.select(target.full_like(0.0), target * (safe.log() - log_input)))
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
    one_shape!("cosine_embedding_loss", b, "second rows" => a, "first rows");
    let cos = cosine_similarity(a, b, -1, 1e-8);
    one_shape!("cosine_embedding_loss", y, "labels" => cos, "rows");
    let each = y.greater(0.0).select(1.0 - cos, (cos - margin).relu());
    reduction.of(each)
}

/// x where y is 1, max(0, margin − x) where y is −1, for x and y of one shape, as in `torch.nn.HingeEmbeddingLoss`.
#[track_caller]
pub fn hinge_embedding_loss<'g>(x: Var<'g>, y: Var<'g>, margin: f64, reduction: Reduction) -> Var<'g> {
    one_shape!("hinge_embedding_loss", y, "labels" => x, "distances");
    reduction.of(y.greater(0.0).select(x, (margin - x).relu()))
}

/// d²/(2β) where |d| < β, |d| − β/2 beyond, with d = a − b of one shape, as in `torch.nn.SmoothL1Loss`. β = 0 gives
/// |d|; a negative one is an error.
#[track_caller]
pub fn smooth_l1_loss<'g>(a: Var<'g>, b: Var<'g>, beta: f64, reduction: Reduction) -> Var<'g> {
    one_shape!("smooth_l1_loss", b, "targets" => a, "predictions");
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

/// ½(ln v + (x − t)²/v) with v = max(variance, eps), as in `torch.nn.GaussianNLLLoss`; `full` adds ½ ln 2π. x and t
/// have one shape; that of the variance may have a last axis of 1, or be a scalar: as in torch. The bound passes the
/// gradient of the variance on, as torch's does. eps is positive.
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
    one_shape!("gaussian_nll_loss", target, "targets" => x, "predictions");
    if variance.is_some() && x.is_some() && !is_variance_of(&variance.dims(), &x.dims()) {
        let (v, x_dims) = (variance.dims(), x.dims());
        let text = format!("gaussian_nll_loss: variances of shape {v} do not fit predictions of shape {x_dims}");
        return x.g.fail(Kind::Shape, text);
    }
    x.g.with_caller(|| {
        let v = variance + (variance.maximum(eps) - variance).stop_gradient();
        let d = x - target;
        let each = (v.log() + d * d / v) * 0.5;
        reduction.of(if full { each + 0.5 * (2.0 * std::f64::consts::PI).ln() } else { each })
    })
}

/// Whether variances of shape `v` are those of predictions of shape `x`: one for each, one for each row, or one.
fn is_variance_of(v: &[usize], x: &[usize]) -> bool {
    let of_rows = || v.split_last() == x.split_last().map(|(_, rows)| (&1, rows));
    v.is_empty() || v == x || of_rows()
}

/// Options of [`poisson_nll_loss`], with torch's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
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

/// eˣ − t·x for logarithms x of rates, x − t·ln(x + eps) for rates, as in `torch.nn.PoissonNLLLoss`. x and t
/// have one shape.
#[track_caller]
pub fn poisson_nll_loss<'g>(x: Var<'g>, target: Var<'g>, opt: PoissonNll) -> Var<'g> {
    if opt.eps.is_nan() || opt.eps < 0.0 {
        return x.g.fail(Kind::Shape, format!("poisson_nll_loss: eps is {}; it must not be negative", opt.eps));
    }
    one_shape!("poisson_nll_loss", target, "targets" => x, "predictions");
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
#[non_exhaustive]
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

/// max(0, ‖a − p + eps‖ − ‖a − n + eps‖ + margin) for rows along the last axis of an anchor, a positive and a negative
/// of one shape, as in `torch.nn.TripletMarginLoss`.
#[track_caller]
pub fn triplet_margin_loss<'g>(anchor: Var<'g>, positive: Var<'g>, negative: Var<'g>, opt: Triplet) -> Var<'g> {
    one_shape!("triplet_margin_loss", positive, "positives", negative, "negatives" => anchor, "anchors");
    anchor.g.with_caller(|| {
        let distance = |a: Var<'g>, b: Var<'g>| (a - b + opt.eps).norm(opt.p, -1);
        let (near, far) = (distance(anchor, positive), distance(anchor, negative));
        let far = if opt.swap { far.minimum(distance(positive, negative)) } else { far };
        opt.reduction.of((near - far + opt.margin).relu())
    })
}
