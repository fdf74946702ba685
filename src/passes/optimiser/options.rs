//! What a user says of an optimiser: a rule, its learning rate, and the options that all rules share.

use super::grad_accumulation;
use super::projection::Projection;
use super::rule::Rule;
use crate::error::{Error, Kind, Result};
use crate::nodes::Var;
use std::marker::PhantomData;
use std::panic::Location;

/// An update rule, its learning rate, and the options that all rules share. `R` is the type of the rule. `AdamW::new`
/// gives an `Optimiser<AdamW>`, which has a method for each number of that rule; so do the other rules. The default
/// `R = Rule` stands for a rule that is chosen at run time.
///
/// ```
/// use arenagrad::optim::{AdamW, Optimiser};
/// let opt: Optimiser = AdamW::new(3e-4).betas((0.9, 0.95)).weight_decay(0.1).clip_norm(1.0).into();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Optimiser<R = Rule> {
    pub(super) rule: Rule,
    /// The learning rate: the default of the input [`LR`](super::LR).
    pub lr: f64,
    /// See [`Optimiser::clip_norm`].
    pub clip_norm: Option<f64>,
    /// See [`Optimiser::freeze`].
    pub frozen: Vec<String>,
    /// See [`Optimiser::group`].
    pub groups: Vec<(String, Group)>,
    /// See [`Optimiser::decay_from_rank`].
    pub decay_from_rank: usize,
    /// See [`Optimiser::ema`].
    pub ema: Option<f64>,
    /// See [`Optimiser::accumulate`].
    pub accumulate: usize,
    /// See [`Optimiser::grad_norm`].
    pub grad_norm: bool,
    /// See [`Optimiser::project`].
    pub projections: Vec<Projection>,
    of: PhantomData<R>,
}

impl Optimiser {
    /// An optimiser with learning rate `lr` and a rule that is chosen at run time.
    pub fn new(rule: Rule, lr: f64) -> Optimiser {
        Optimiser::of(rule, lr)
    }
}

impl<R> From<&Optimiser<R>> for Optimiser {
    fn from(opt: &Optimiser<R>) -> Optimiser {
        Optimiser {
            frozen: opt.frozen.clone(),
            groups: opt.groups.clone(),
            clip_norm: opt.clip_norm,
            decay_from_rank: opt.decay_from_rank,
            ema: opt.ema,
            accumulate: opt.accumulate,
            grad_norm: opt.grad_norm,
            projections: opt.projections.clone(),
            ..Optimiser::of(opt.rule, opt.lr)
        }
    }
}

impl<R> Optimiser<R> {
    pub(super) fn of(rule: Rule, lr: f64) -> Optimiser<R> {
        Optimiser {
            rule,
            lr,
            clip_norm: None,
            frozen: Vec::new(),
            groups: Vec::new(),
            decay_from_rank: 0,
            ema: None,
            accumulate: 1,
            grad_norm: false,
            projections: Vec::new(),
            of: PhantomData,
        }
    }

    /// The rule with its numbers.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Scales all gradients by min(1, `max` / (‖g‖ + 1e-6)), where ‖g‖ is the norm of all gradients together, as
    /// `torch.nn.utils.clip_grad_norm_`. `max` is finite and above 0.
    pub fn clip_norm(mut self, max: f64) -> Optimiser<R> {
        self.clip_norm = Some(max);
        self
    }

    /// Leaves the params that match `pattern` as they are: a name, or one where a `*` is any run of characters
    /// (`fc1.*`). They get no gradient. A pattern that matches no param is an error of [`train`](super::train).
    pub fn freeze(mut self, pattern: &str) -> Optimiser<R> {
        self.frozen.push(pattern.to_string());
        self
    }

    /// Gives the params that match `pattern` other settings. A pattern is a name, or one where a `*` is any run of
    /// characters (`fc1.*`, `*.bias`). A param belongs to the first group that matches it. A group without a param is
    /// an error of [`train`](super::train).
    pub fn group(mut self, pattern: &str, group: Group) -> Optimiser<R> {
        self.groups.push((pattern.to_string(), group));
        self
    }

    /// Decays only params of `rank` or more axes, unless their group says otherwise: 2 decays matrices and embeddings,
    /// not biases and gains.
    pub fn decay_from_rank(mut self, rank: usize) -> Optimiser<R> {
        self.decay_from_rank = rank;
        self
    }

    /// Keeps a moving average of each trained param in a state `ema.<param>`: the param itself after the first step,
    /// `decay·ema + (1 − decay)·param` after later ones, as `torch.optim.swa_utils.get_ema_avg_fn`. `decay` is in
    /// [0, 1).
    pub fn ema(mut self, decay: f64) -> Optimiser<R> {
        self.ema = Some(decay);
        self
    }

    /// Makes a step of `k` micro-batches and one update, by the mean of their gradients; 0 and 1 are a step on the
    /// whole batch. Every input of the graph gets a first axis of `k`; the loss is the mean, and other outputs are
    /// stacked along a first axis of `k`.
    pub fn accumulate(mut self, k: usize) -> Optimiser<R> {
        self.accumulate = k;
        self
    }

    /// Makes the norm of all gradients together an output of the training graph, called
    /// [`GRAD_NORM`](super::GRAD_NORM): √Σg² before clipping, of the first param's dtype, right even if the squares
    /// overflow. With micro-batches it is the norm of their mean gradient. The default is false.
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

    /// After each update, gives the params that match `pattern` the value `f(p)`, where `p` is what the rule gives: a
    /// clamp to a box, a unit norm. It is part of the step, and in place where the ops allow it. Patterns are those of
    /// [`Optimiser::group`]; several projections of a param apply in the order of the calls. Moving averages see
    /// projected params. The start values of params are not projected.
    ///
    /// Errors of [`train`](super::train): `f` gives another type than `p` has; the pattern matches no trained param.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let w = g.param("w", [2], DType::F32, Init::Zeros);
    /// let graph = g.finish([(w * g.constant(&[-3.0, 5.0], [2])).sum(..).named("loss")])?;
    /// let step = train(&graph, "loss", optim::Sgd::new(1.0).project("w", |w| w.clamp(-1.0, 1.0)))?;
    /// let mut p = Session::new().compile(&step)?;
    /// p.init(0)?;
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("w")?, [1.0, -1.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn project(
        mut self,
        pattern: &str,
        f: impl for<'g> Fn(Var<'g>) -> Var<'g> + Send + Sync + 'static,
    ) -> Optimiser<R> {
        self.projections.push(Projection::new(pattern, Location::caller(), f));
        self
    }

    /// Checks that each number is in its range. The error names the first one that is not.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, x: f64| Err(Error::new(Kind::Data, format!("{what} is {x}")));
        self.rule.validate()?;
        for (pattern, group) in &self.groups {
            let named = |e: Error| e.context(format!("group {pattern:?}"));
            group.validate(self.rule).map_err(named)?;
        }
        if self.accumulate > grad_accumulation::MAX {
            let text = format!("accumulate is {}; it goes to {}", self.accumulate, grad_accumulation::MAX);
            return Err(Error::new(Kind::Data, text));
        }
        match (self.clip_norm, self.ema) {
            (Some(c), _) if !c.is_finite() || c <= 0.0 => bad("clip_norm", c),
            (_, Some(d)) if !(0.0..1.0).contains(&d) => bad("the decay of the moving average", d),
            _ if !self.lr.is_finite() || self.lr < 0.0 => bad("lr", self.lr),
            _ => Ok(()),
        }
    }
}

/// Settings of a group of params that differ from the optimiser's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Factor of the learning rate.
    pub lr_scale: f64,
    /// Weight decay instead of the rule's.
    pub weight_decay: Option<f64>,
    /// Rule instead of the optimiser's.
    pub rule: Option<Rule>,
}

impl Default for Group {
    fn default() -> Group {
        Group { lr_scale: 1.0, weight_decay: None, rule: None }
    }
}

impl Group {
    /// The rule of this group, if `rule` is the optimiser's.
    pub(super) fn rule(&self, rule: Rule) -> Rule {
        let rule = self.rule.unwrap_or(rule);
        self.weight_decay.map_or(rule, |d| rule.with_weight_decay(d))
    }

    /// An error if a number is out of its range.
    fn validate(&self, rule: Rule) -> Result<()> {
        if !self.lr_scale.is_finite() || self.lr_scale < 0.0 {
            return Err(Error::new(Kind::Data, format!("lr_scale is {}", self.lr_scale)));
        }
        self.rule(rule).validate()
    }
}
