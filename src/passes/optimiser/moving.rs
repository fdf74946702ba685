//! Momentum that moves from step to step: an input, as the learning rate is.

use super::groups::Settings;
use super::rule::Rule;
use super::update_target::{UpdateTarget, add_weight_decay};
use super::{MOMENTUM, Optimiser};
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::optim::step_options::SgdOptions;
use crate::nodes::ops::pointwise::arith::without_subnormals;
use crate::nodes::{Builder, DType, Var};

impl<R> Optimiser<R> {
    /// Makes the momentum of [`Sgd`](crate::optim::Sgd) and the first β of [`Adam`](crate::optim::Adam) and
    /// [`AdamW`](crate::optim::AdamW) an input, [`MOMENTUM`], whose default is the rule's number. Groups with a rate
    /// of their own, `opt.lr.N`, have `opt.momentum.N`. Schedules that cycle both, such as torch's `OneCycleLR` and
    /// `CyclicLR`, write it before each step. The default is off.
    ///
    /// An error of [`train`](crate::optim::train): a param has another rule, or one without momentum.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let w = g.param("w", [1], DType::F32, Init::Zeros);
    /// let loss = w.sum(..).named("loss");
    /// let opt = optim::Sgd::new(1.0).momentum(0.5).moving_momentum(true);
    /// let mut p = Session::new().compile(&train(&g.finish([loss])?, "loss", opt)?)?;
    /// p.init(0)?;
    /// p.step()?; // the buffer is 1
    /// p.values_mut::<f32>(optim::MOMENTUM)?[0] = 0.25;
    /// p.step()?; // 0.25·1 + 1
    /// assert_eq!(p.values::<f32>("w")?, &[-2.25]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn moving_momentum(mut self, on: bool) -> Optimiser<R> {
        self.moving_momentum = on;
        self
    }
}

/// The momentum of a rule, if it is one that may move.
fn momentum_of(rule: &Rule) -> Option<f64> {
    match *rule {
        Rule::Sgd { momentum, .. } if momentum != 0.0 => Some(momentum),
        Rule::Adam { betas, .. } => Some(betas.0),
        _ => None,
    }
}

impl Settings {
    /// An error unless each param has a momentum that may move, and those with one input have one default.
    pub(super) fn check_moving(&self, names: &[&str]) -> Result<()> {
        for (i, kind) in self.kinds.iter().enumerate() {
            let name = self.kind_of.iter().position(|&k| k == i).map_or("", |at| names[at]);
            let bad = |why: &str| Err(Error::new(Kind::Data, format!("moving_momentum: the rule of {name:?} {why}")));
            let Some(momentum) = momentum_of(&kind.rule) else {
                return bad("has no momentum that moves: Sgd with momentum, Adam and AdamW do");
            };
            let other = self.kinds[..i].iter().filter(|k| k.rate == kind.rate).find_map(|k| momentum_of(&k.rule));
            if let Some(other) = other.filter(|&m| m != momentum) {
                return bad(&format!("starts at momentum {momentum}, and others of its rate at {other}"));
            }
        }
        Ok(())
    }

    /// The momentum of each kind: inputs.
    pub(super) fn momenta<'g>(&self, b: &'g Builder, dtype: DType) -> Vec<Option<Var<'g>>> {
        let mut inputs: Vec<(Option<u32>, Var<'g>)> = Vec::new();
        let mut input_of = |number: Option<u32>, start: f64| match inputs.iter().find(|i| i.0 == number) {
            Some(known) => known.1,
            None => {
                let name = number.map_or(MOMENTUM.to_string(), |n| format!("{MOMENTUM}.{n}"));
                let input = b.input_or(&name, [], dtype, start);
                inputs.push((number, input));
                input
            }
        };
        self.kinds.iter().map(|k| Some(input_of(k.rate, momentum_of(&k.rule)?))).collect()
    }
}

impl<'g> UpdateTarget<'_, 'g> {
    /// SGD with a momentum that is an input. In step 1 the buffer is the gradient, as in torch.
    pub fn sgd_of_moving_momentum(&self, momentum: Var<'g>, options: SgdOptions) -> Var<'g> {
        let SgdOptions { dampening, nesterov, weight_decay, .. } = options;
        let scalars = [self.lr64, momentum.cast(DType::F64), self.t.equal(1.0).cast(DType::F64)];
        self.step(&[self.state("momentum_buffer")], &scalars, |p, g, s, k| {
            let g = add_weight_decay(g, p, weight_decay);
            let later = without_subnormals(s[0] * k[1] + g * (1.0 - dampening));
            let buf = k[2].equal(1.0).select(g, later);
            let d = if nesterov { g + buf * k[1] } else { buf };
            vec![p - k[0] * d, buf]
        })
    }
}
