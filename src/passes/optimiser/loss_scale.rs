//! Dynamic loss scaling, as in `torch.amp.GradScaler`: the gradients of a step are those of the loss times a scale, and
//! are divided by it before anything reads them. A step in which a gradient is not finite makes the scale smaller and
//! leaves the params alone.
//!
//! Invariant: such a step skips all updates that the optimiser adds, except those of the scale and of its count of
//! steps. It makes the updates of the graph itself (running statistics, the random key).

use super::Optimiser;
use crate::arena::Value;
use crate::error::{Error, Kind, Result};
use crate::nodes::{Builder, DType, Init, Var};

/// Name of the state that holds the scale of the loss.
pub const LOSS_SCALE: &str = "opt.loss_scale";
/// Name of the state that counts the steps since the scale last changed.
const STEPS: &str = "opt.loss_scale_steps";

/// How the scale of the loss changes, with the names and defaults of `torch.amp.GradScaler`.
///
/// ```
/// use arenagrad::optim::LossScale;
///
/// let scale = LossScale::dynamic().growth_interval(100);
/// assert_eq!((scale.init, scale.growth, scale.backoff, scale.interval), (65536.0, 2.0, 0.5, 100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LossScale {
    /// The scale of the first step.
    pub init: f64,
    /// Factor of the scale after `interval` steps in a row with finite gradients; the scale stays finite.
    pub growth: f64,
    /// Factor of the scale after a step with a gradient that is not finite; the scale stays a normal number of `f32`.
    pub backoff: f64,
    /// Number of steps in a row with finite gradients after which the scale grows.
    pub interval: u32,
}

impl LossScale {
    /// torch's defaults: 65536, doubled after 2000 good steps, halved after a bad one.
    pub fn dynamic() -> LossScale {
        LossScale { init: 65536.0, growth: 2.0, backoff: 0.5, interval: 2000 }
    }

    /// Begins with another scale.
    pub fn init_scale(mut self, init: f64) -> LossScale {
        self.init = init;
        self
    }

    /// Grows by another factor.
    pub fn growth_factor(mut self, growth: f64) -> LossScale {
        self.growth = growth;
        self
    }

    /// Shrinks by another factor.
    pub fn backoff_factor(mut self, backoff: f64) -> LossScale {
        self.backoff = backoff;
        self
    }

    /// Grows after another number of good steps.
    pub fn growth_interval(mut self, steps: u32) -> LossScale {
        self.interval = steps;
        self
    }

    /// Checks that each number is in its range. The error names the first one that is not.
    pub(super) fn validate(&self) -> Result<()> {
        let bad = |text: String| Err(Error::new(Kind::Data, text));
        let LossScale { init, growth, backoff, interval } = *self;
        match () {
            () if init.is_sign_negative() || !(init as f32).is_normal() => {
                bad(format!("loss_scale: init is {init}; it must be a normal number of f32 above 0"))
            }
            () if !growth.is_finite() || growth <= 1.0 => {
                bad(format!("loss_scale: growth is {growth}; it must be finite and above 1"))
            }
            () if backoff.is_nan() || backoff <= 0.0 || backoff >= 1.0 => {
                bad(format!("loss_scale: backoff is {backoff}; it must be between 0 and 1"))
            }
            () if interval == 0 => bad("loss_scale: interval is 0; it must be at least 1".into()),
            () => Ok(()),
        }
    }
}

/// What the cotangent of `loss` is at first: 1 or the scale, with the other sign for an ascent.
pub(super) fn first_cotangent<'g>(b: &'g Builder, opt: &Optimiser, loss: Var<'g>) -> Var<'g> {
    let seed = match opt.loss_scale {
        None => loss.full_like(1.0),
        Some(LossScale { init, .. }) => b.state(LOSS_SCALE, [], DType::F32, Init::Constant(init)).cast(loss.dtype()),
    };
    if opt.maximize { -seed } else { seed }
}

/// The scale of a step that is being written.
pub(super) struct ScaledStep<'g> {
    scale: Var<'g>,
    /// Whether all gradients are finite.
    finite: Var<'g>,
    /// The leaves that the graph itself updates.
    own: Vec<Value>,
}

/// Divides `grads` by the scale that [`first_cotangent`] made. `None` if there is none.
pub(super) fn unscale_grads<'g>(b: &'g Builder, grads: &mut [Var<'g>]) -> Option<ScaledStep<'g>> {
    let scale = b.var(b.with(|e| e.leaf_called(LOSS_SCALE))?);
    let inverse = scale.cast(DType::F64).recip();
    for g in grads.iter_mut() {
        *g = *g * inverse.cast(g.dtype());
    }
    // In f64 the norm of finite gradients is finite.
    let norm = super::clip::norm_of_gradients(grads, 2.0)?;
    Some(ScaledStep { scale, finite: norm.less(f64::INFINITY), own: b.with(|e| e.updated_leaves()) })
}

impl<'g> ScaledStep<'g> {
    /// Makes all updates that were added since keep the leaf's value if a gradient is not finite, and updates the
    /// scale.
    pub fn guard_updates(self, b: &'g Builder, how: &LossScale) {
        for leaf in b.with(|e| e.updated_leaves()).into_iter().filter(|leaf| !self.own.contains(leaf)) {
            let leaf = b.var(leaf);
            b.update_with(leaf, |next| {
                self.finite.select(next.view_as_real(), leaf.view_as_real()).viewed_as_complex_like(leaf)
            });
        }
        let steps = b.state(STEPS, [], DType::I64, Init::Zeros);
        let (scale, good) = (self.scale, steps + 1.0);
        let grown = scale * how.growth;
        let grown = grown.less(f64::INFINITY).select(grown, scale);
        let grows = good.greater_equal(f64::from(how.interval));
        // Below a normal number the inverse would be infinite, and no later gradient finite.
        let shrunk = (scale * how.backoff).maximum(f64::from(f32::MIN_POSITIVE));
        b.update(scale, self.finite.select(grows.select(grown, scale), shrunk));
        b.update(steps, self.finite.logical_and(grows.logical_not()).select(good, steps.full_like(0.0)));
    }
}
