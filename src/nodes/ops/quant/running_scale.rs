//! Scales that follow the numbers that they scale, from step to step.

use crate::error::Kind;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::leaf::Init;
use crate::nodes::ops::quant::fake_quantize::FakeQuantize;

/// Where [`Builder::fake_quantize`] gets its scales from.
#[derive(Clone, Copy, Debug)]
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
            let state = self.state(&format!("{name}.scale"), batch.dims(), x.dtype(), Init::Zeros);
            if self.is_training() {
                self.update_with(state, |s| {
                    s.equal(0.0).select(batch, s * decay + batch * (1.0 - decay)).stop_gradient()
                });
            }
            self.updated(state)
        })
    }

    /// [`Var::fake_quantize`] without a zero point, with scales from `scale`. The range of `options` is that of codes
    /// on both sides of 0, or from 0 on. `name` is that of the state `name.scale` of [`QuantScale::Ema`].
    ///
    /// # Errors
    /// Those of [`Var::fake_quantize`]; a range whose lowest code is above 0 or whose highest one is below 1, unless
    /// the scales are [`QuantScale::Fixed`].
    ///
    /// ```
    /// use arenagrad::graph::{FakeQuantize, QuantScale};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("layer");
    /// let x = g.input("x", [2], DType::F32);
    /// let y = g.fake_quantize("in", x, FakeQuantize::bits(4), QuantScale::Ema(0.9)).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// p.init(0)?;
    /// for (largest, scale) in [(1.4, 0.2), (0.7, 0.19), (2.1, 0.201)] {
    ///     p.values_mut::<f32>("x")?.copy_from_slice(&[0.1, largest]);
    ///     p.step()?;
    ///     assert!((p.values::<f32>("in.scale")?[0] - scale).abs() < 1e-6);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn fake_quantize<'g>(
        &'g self,
        name: &str,
        x: Var<'g>,
        options: FakeQuantize,
        scale: QuantScale<'g>,
    ) -> Var<'g> {
        let (lo, hi) = options.range;
        let fixed = matches!(scale, QuantScale::Fixed(_)) || (lo, hi) == (0, 0);
        if x.is_some() && !fixed && (lo > 0 || hi < 1) {
            let why = format!("codes {lo}..={hi}; with a scale of the batch, lo is 0 or less and hi 1 or more");
            return x.refuse("fake_quantize", why);
        }
        self.with_caller(|| {
            let hi = hi.max(1);
            let scale = match scale {
                QuantScale::PerBatch => x.symmetric_scale(hi, options.axis),
                QuantScale::Ema(decay) => self.running_scale(name, x, hi, options.axis, decay),
                QuantScale::Fixed(scale) => scale,
            };
            x.fake_quantize(scale, None, options)
        })
    }
}
