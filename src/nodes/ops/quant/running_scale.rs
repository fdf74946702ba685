//! Scales that follow the numbers that they scale, from step to step.

use crate::error::Kind;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::leaf::Init;

/// Where [`Builder::fake_quantize`] gets its scales from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum QuantScale<'g> {
    /// The largest |x| of the batch has the highest code: see [`Var::symmetric_scale`].
    PerBatch,
    /// A moving average of those, with this decay: see [`Builder::running_scale`].
    Ema(f64),
    /// These scales, a scalar or one for each position of the axis.
    Fixed(Var<'g>),
}

impl Builder {
    /// A moving average of [`Var::symmetric_scale`], in the state `name.scale`, which starts at 0: the first batch's
    /// scale after one step, `decay`·s + (1 − `decay`)·(the batch's scale) after later ones. The result is the new
    /// scale. With an axis there is one for each of its positions.
    ///
    /// A builder for evaluation ([`Builder::training`]) reads the state and does not update it; before the first step
    /// of training it is 0, and an op that reads it ends the step. With micro-batches
    /// ([`Optimiser::accumulate`](crate::optim::Optimiser::accumulate)) each of them is a batch, as for batch norm.
    ///
    /// # Errors
    /// Those of [`Builder::finish`]: a decay that is not in 0 to 1; `hi` below 1; a bad axis.
    #[track_caller]
    pub fn running_scale<'g>(
        &'g self,
        name: &str,
        x: Var<'g>,
        hi: i64,
        axis: impl Into<Option<i64>>,
        decay: f64,
    ) -> Var<'g> {
        if !(0.0..1.0).contains(&decay) {
            return self.fail(Kind::Data, format!("running_scale({name:?}): decay is {decay}; it is in [0, 1)"));
        }
        if hi < 1 {
            return self.fail(Kind::Data, format!("running_scale({name:?}): hi is {hi}; it is 1 or more"));
        }
        self.with_caller(|| {
            let batch = x.symmetric_scale(hi, axis);
            let state = self.buffer(&format!("{name}.scale"), batch.dims(), x.dtype(), Init::Zeros);
            if self.is_training() {
                self.update_with(state, |s| {
                    s.equal(0.0).select(batch, s * decay + batch * (1.0 - decay)).stop_gradient()
                });
            }
            self.updated(state)
        })
    }
}
