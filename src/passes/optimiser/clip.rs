//! Clipping of gradients, as in torch's `clip_grad_value_` and `clip_grad_norm_`.
//!
//! Invariant: a norm is right wherever it is a finite number of f64, even if powers of gradients overflow or underflow.

use super::Optimiser;
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::reduce::euclidean_length::euclidean_length;
use crate::nodes::{DType, Var};

/// The name of a norm by which gradients are clipped.
const CLIP_NORM: &str = "clip_norm";

/// Clips `grads` as `opt` says: first each value, then norms. `shown` is the norm that is an output.
pub(super) fn limit_gradients<'g>(opt: &Optimiser, grads: &mut [Var<'g>], shown: Option<Var<'g>>) {
    if let Some(most) = opt.clip_value {
        grads.iter_mut().for_each(|g| *g = g.clamp(-most, most));
    }
    let Some(max) = opt.clip_norm else { return };
    match opt.clip_each {
        true => grads.chunks_mut(1).for_each(|g| scale_to_norm(g, opt.norm_type, max, shown)),
        false => scale_to_norm(grads, opt.norm_type, max, shown),
    }
}

/// Scales all of `grads` by min(1, max / (‖g‖ + 1e-6)), where ‖g‖ is their norm together.
fn scale_to_norm<'g>(grads: &mut [Var<'g>], norm_type: f64, max: f64, shown: Option<Var<'g>>) {
    let Some(wide) = norm_of_gradients(grads, norm_type) else { return };
    // The dtype of all gradients, or f64 if they differ.
    let dtype = common_dtype(grads).unwrap_or(DType::F64);
    let norm = wide.cast(dtype);
    // An equal node is the same value: the norm may be the output.
    let norm = if shown.is_some_and(|s| s.v == norm.v) { norm } else { norm.named(CLIP_NORM) };
    // A norm that overflows its dtype comes from finite gradients, unless it is infinite in f64 too.
    let beyond = (max / wide).cast(dtype);
    let scale = norm.less(f64::INFINITY).select((max / (norm + 1e-6)).minimum(1.0), beyond);
    for g in grads.iter_mut() {
        *g = *g * scale.cast(g.dtype());
    }
}

/// The dtype of all of `xs`, if they have one.
fn common_dtype(xs: &[Var<'_>]) -> Option<DType> {
    let first = xs.first()?.dtype();
    xs.iter().all(|x| x.dtype() == first).then_some(first)
}

/// (Σ|g|ᵖ)^(1/p) over all elements of `grads`, or their largest size for p = ∞, in f64.
pub(super) fn norm_of_gradients<'g>(grads: &[Var<'g>], p: f64) -> Option<Var<'g>> {
    let same = common_dtype(grads).is_some();
    if p == 2.0 && same {
        return euclidean_length(grads);
    }
    let filled = || grads.iter().filter(|g| g.numel() > 0);
    let wide = |x: Var<'g>| x.cast(DType::F64);
    let Some(most) = filled().map(|g| wide(g.abs().amax(..))).reduce(Var::maximum) else {
        return grads.first().map(|g| wide(g.sum(..)));
    };
    if p == f64::INFINITY {
        return Some(most);
    }
    // Terms are at most 1, so no power overflows. A largest size of 0, ∞ or NaN is no scale.
    let usable = most.greater(0.0).logical_and(most.less(f64::INFINITY));
    let unit = usable.select(most, most.full_like(1.0));
    let term = |g: &Var<'g>| {
        // A unit of another dtype may be 0 or infinite in that of `g`.
        let size = if same { g.abs() / unit.cast(g.dtype()) } else { wide(g.abs()) / unit };
        wide(if p == 1.0 { size } else { size.pow(p) }.sum(..))
    };
    let sum = filled().map(term).reduce(|total, s| total + s)?;
    Some(unit * if p == 1.0 { sum } else { sum.pow(1.0 / p) })
}

/// Checks the numbers of clipping. The error names the first one that is out of its range.
pub(super) fn check_norm_limits(opt: &Optimiser) -> Result<()> {
    let bad = |text: String| Err(Error::new(Kind::Data, text));
    let limits = [("clip_value", opt.clip_value), ("clip_norm", opt.clip_norm)];
    if let Some((what, Some(x))) = limits.into_iter().find(|(_, x)| x.is_some_and(|x| !x.is_finite() || x <= 0.0)) {
        return bad(format!("{what} is {x}; it must be finite and above 0"));
    }
    let p = opt.norm_type;
    if p.is_nan() || p <= 0.0 {
        return bad(format!("norm_type is {p}; it must be above 0, or infinite"));
    }
    if opt.clip_norm.is_none() && (p != 2.0 || opt.clip_each) {
        let what = if opt.clip_each { "clip_each" } else { "norm_type" };
        return bad(format!("{what} is given without clip_norm"));
    }
    Ok(())
}

impl<R> Optimiser<R> {
    /// Clamps each element of each gradient to −`most` … `most`, as in `torch.nn.utils.clip_grad_value_`, before norms
    /// are clipped. `most` is finite and above 0.
    pub fn clip_value(mut self, most: f64) -> Optimiser<R> {
        self.clip_value = Some(most);
        self
    }

    /// Scales all gradients by min(1, `max` / (‖g‖ + 1e-6)), where ‖g‖ is the norm of all gradients together, as in
    /// `torch.nn.utils.clip_grad_norm_`. `max` is finite and above 0.
    pub fn clip_norm(mut self, max: f64) -> Optimiser<R> {
        self.clip_norm = Some(max);
        self
    }

    /// The order p of the norm that [`Optimiser::clip_norm`] clips, as in torch's `norm_type`: (Σ|g|ᵖ)^(1/p), or the
    /// largest |g| for `f64::INFINITY`. p is above 0. The default is 2.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let w = g.param("w", [2], DType::F32, Init::Zeros);
    /// let graph = g.finish([(w * g.constant(&[3.0, -4.0], [2])).sum(..).named("loss")])?;
    /// let step = train(&graph, "loss", optim::Sgd::new(1.0).clip_norm(1.0).norm_type(f64::INFINITY))?;
    /// let mut p = Session::new().compile(&step)?;
    /// p.init(0)?;
    /// p.step()?;
    /// assert!((p.values::<f32>("w")?[0] + 0.75).abs() < 1e-5 && (p.values::<f32>("w")?[1] - 1.0).abs() < 1e-5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn norm_type(mut self, p: f64) -> Optimiser<R> {
        self.norm_type = p;
        self
    }

    /// Makes [`Optimiser::clip_norm`] clip the gradient of each param by its own norm, as a call of torch's
    /// `clip_grad_norm_` for each param. The default is false.
    pub fn clip_each(mut self, on: bool) -> Optimiser<R> {
        self.clip_each = on;
        self
    }

    /// Makes the Euclidean norm of all gradients together, before clipping, an output of the training graph, called
    /// [`GRAD_NORM`](crate::optim::GRAD_NORM): √Σg², whatever [`Optimiser::norm_type`] is. It has the first param's
    /// dtype and is right even if the squares overflow. With micro-batches it is the norm of their mean gradient. The
    /// default is false.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let w = g.param("w", [2], DType::F32, Init::Ones);
    /// let graph = g.finish([(w * g.constant(&[3.0, 4.0], [2])).sum(..).named("loss")])?;
    /// let step = train(&graph, "loss", optim::Sgd::new(0.1).grad_norm(true))?;
    /// let mut p = Session::new().compile(&step)?;
    /// p.init(0)?;
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("grad_norm")?, [5.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn grad_norm(mut self, on: bool) -> Optimiser<R> {
        self.grad_norm = on;
        self
    }
}
