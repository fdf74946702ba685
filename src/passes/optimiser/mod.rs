//! The optimiser: appends gradients, clipping and updates to the graph of a loss, which makes one training step.
//!
//! This file has the user's options ([`Optimiser`]), of which `clip`, `groups`, `moving` and `projection` have
//! their own, and adds clipping and moving averages to a rule. `rule` has the rules and their hyperparameters,
//! `rule_ranges` the range of each hyperparameter, `named_optimisers` the types that users name ([`AdamW`] …).
//! `trained_params` finds what is trained, `groups` the settings of each param, `rows` the rows of tables that have a
//! gradient, `count` counts steps, and `moving` makes momentum an input. `update_target` and `adam_family` write
//! elementwise updates (one instruction for each param, in place), `matrix` the updates that need the whole param,
//! `lbfgs` the update of all params together. `projection` writes what follows an update. `grad_accumulation` sums
//! gradients over micro-batches. `split` makes a step of two graphs, with the gradients in between, and `shard` shares
//! out its states over ranks. Invariant: the optimiser adds no inputs but those of [`LR`] and [`MOMENTUM`]; it keeps
//! all else in states, so a run resumed from params and states gives the same bits.

mod adam_family;
mod clip;
mod count;
mod grad_accumulation;
mod groups;
mod lbfgs;
mod loss_scale;
mod matrix;
mod moving;
mod named_optimisers;
mod projection;
mod rows;
mod rule;
mod rule_ranges;
mod shard;
mod split;
mod trained_params;
mod update_target;

use super::copier::Copier;
use super::rebuild::{finish_rebuild, rebuilt_by_pass};
use super::signature::{Signature, output_by_name};
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::pointwise::arith::without_subnormals;
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, Var};
use crate::passes::ad::activity::Mode;
use crate::passes::ad::codes::Codes;
use crate::passes::ad::grad::{ReverseGrad, differentiate_from_seed};
use crate::passes::ad::prepare::derivable_form;
use groups::Settings;
pub use named_optimisers::{
    Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Lamb, Lbfgs, Lion, Muon, NAdam, NAdamW, RAdam, RmsProp, Sgd,
    SparseAdam,
};
use std::marker::PhantomData;
use std::panic::Location;
use trained_params::{TrainedParams, grad_options};
use update_target::UpdateTarget;

pub use adam_family::WHOLE_SPARSE_ADAM;
pub use grad_accumulation::ACCUMULATION;
pub use groups::Group;
pub use loss_scale::{LOSS_SCALE, LossScale};
pub use projection::Projection;
pub use rule::{MuonScale, Rule};
pub use split::{KEPT_GRAD, KeptGrad, Layout, OwnedState, Shard, Split, is_kept_grad, train_split};

/// Name of the input that holds the learning rate.
pub const LR: &str = "lr";
/// Name of the input that [`Optimiser::moving_momentum`] adds.
pub const MOMENTUM: &str = "opt.momentum";
/// Name of the state that counts steps. Counts of groups of their own are called `opt.step.N`.
pub const STEP: &str = "opt.step";
/// Name of the output that [`Optimiser::grad_norm`] adds.
pub const GRAD_NORM: &str = "grad_norm";
/// Prefix of the names of moving averages. The param's name follows.
pub const EMA: &str = "ema.";

/// An update rule, its learning rate, and the options that all rules share. `R` is the type of the rule. `AdamW::new`
/// gives an `Optimiser<AdamW>`, which has a method for each number of that rule; so do the other rules. The default
/// `R = Rule` stands for a rule that is chosen at run time.
///
/// ```
/// use arenagrad::optim::{AdamW, Sgd};
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("net");
/// let h = nn::linear(&g, "fc1", g.input("x", [8, 4], DType::F32), 16).relu();
/// let loss = nn::linear(&g, "fc2", h, 1).mse(g.input("y", [8, 1], DType::F32)).named("loss");
/// let graph = g.finish([loss])?;
///
/// let adamw = AdamW::new(3e-4).betas((0.9, 0.95)).weight_decay(0.1).clip_norm(1.0).freeze("fc1.*");
/// let by_name = |name: &str| -> Optimiser {
///     match name {
///         "sgd" => Sgd::new(0.1).momentum(0.9).into(),
///         _ => adamw.clone().into(),
///     }
/// };
/// for (name, states) in [("sgd", 5), ("adamw", 5)] {
///     let step = train(&graph, "loss", by_name(name))?;
///     let kept = step.view().leaves().filter(|l| l.name.starts_with("opt.")).count();
///     assert_eq!(kept, states); // momenta of four params, or both moments of the two that are not frozen; the step
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Optimiser<R = Rule> {
    rule: Rule,
    /// The learning rate: the default of the input [`LR`].
    pub lr: f64,
    /// See [`Optimiser::clip_value`].
    pub clip_value: Option<f64>,
    /// See [`Optimiser::clip_norm`].
    pub clip_norm: Option<f64>,
    /// See [`Optimiser::norm_type`].
    pub norm_type: f64,
    /// See [`Optimiser::clip_each`].
    pub clip_each: bool,
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
    /// See [`Optimiser::accumulate_by`].
    pub accumulate_by: Option<String>,
    /// See [`Optimiser::maximize`].
    pub maximize: bool,
    /// See [`Optimiser::moving_momentum`].
    pub moving_momentum: bool,
    /// See [`Optimiser::grad_norm`].
    pub grad_norm: bool,
    /// See [`Optimiser::loss_scale`].
    pub loss_scale: Option<LossScale>,
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
            clip_value: opt.clip_value,
            clip_norm: opt.clip_norm,
            norm_type: opt.norm_type,
            clip_each: opt.clip_each,
            decay_from_rank: opt.decay_from_rank,
            ema: opt.ema,
            accumulate: opt.accumulate,
            accumulate_by: opt.accumulate_by.clone(),
            maximize: opt.maximize,
            moving_momentum: opt.moving_momentum,
            grad_norm: opt.grad_norm,
            loss_scale: opt.loss_scale,
            projections: opt.projections.clone(),
            ..Optimiser::of(opt.rule, opt.lr)
        }
    }
}

impl<R> Optimiser<R> {
    fn of(rule: Rule, lr: f64) -> Optimiser<R> {
        Optimiser {
            rule,
            lr,
            clip_value: None,
            clip_norm: None,
            norm_type: 2.0,
            clip_each: false,
            frozen: Vec::new(),
            groups: Vec::new(),
            decay_from_rank: 0,
            ema: None,
            accumulate: 1,
            accumulate_by: None,
            maximize: false,
            moving_momentum: false,
            grad_norm: false,
            loss_scale: None,
            projections: Vec::new(),
            of: PhantomData,
        }
    }

    /// The rule with its numbers.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Decays only params of `rank` or more axes, unless their group says otherwise: 2 decays matrices and embeddings,
    /// not biases and gains.
    pub fn decay_from_rank(mut self, rank: usize) -> Optimiser<R> {
        self.decay_from_rank = rank;
        self
    }

    /// Keeps a moving average of each trained param in a state `ema.<param>`: the param itself after the first step,
    /// `decay·ema + (1 − decay)·param` after later ones, as in `torch.optim.swa_utils.get_ema_avg_fn`. `decay` is in
    /// [0, 1).
    pub fn ema(mut self, decay: f64) -> Optimiser<R> {
        self.ema = Some(decay);
        self
    }

    /// Makes a step of `k` micro-batches and one update, by the mean of their gradients; 0 and 1 are a step on the
    /// whole batch. Every input of the graph gets a first axis of `k`; the loss is the mean, and other outputs are
    /// stacked along a first axis of `k`.
    ///
    /// Where a loss is a mean over the labels that are not ignored, the mean of these means is not the mean over the
    /// whole batch: [`Optimiser::accumulate_by`] weighs them.
    pub fn accumulate(mut self, k: usize) -> Optimiser<R> {
        self.accumulate = k;
        self
    }

    /// [`Optimiser::accumulate`] with a weight for each micro-batch: the output `weight` of the graph, a scalar of a
    /// float type that is not negative, such as the number of labels that a loss counts. Gradient and loss are Σ wᵢ·xᵢ
    /// / Σ wᵢ. A micro-batch of weight 0 has no part, also if its loss is NaN.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let (x, labels) = (g.input("x", [4, 3], DType::F32), g.input("labels", [4], DType::I32));
    /// let loss = nn::linear(&g, "fc", x, 5).cross_entropy(labels).named("loss");
    /// let counted = labels.not_equal(-100.0).cast(DType::F32).sum(..).named("counted");
    /// let step = train(&g.finish([loss, counted])?, "loss", optim::Sgd::new(0.1).accumulate_by(2, "counted"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn accumulate_by(mut self, k: usize, weight: &str) -> Optimiser<R> {
        (self.accumulate, self.accumulate_by) = (k, Some(weight.to_string()));
        self
    }

    /// Ascends instead of descending, as `maximize=True` of torch's optimisers: every gradient has the other sign,
    /// before it is clipped and before weight decay is added. The loss that is an output keeps its sign.
    pub fn maximize(mut self, on: bool) -> Optimiser<R> {
        self.maximize = on;
        self
    }

    /// Scales the loss before it is differentiated, and divides gradients by the scale before they are clipped, as in
    /// `torch.amp.GradScaler`. The scale is the state `opt.loss_scale`. In a step in which a gradient is not finite,
    /// all that the optimiser updates stays as it is (params, moments, averages, the step count), and the scale
    /// shrinks. So a step that overflows in `f16` ([`Keep::F16`](crate::session::Keep::F16)) does no harm. The loss
    /// that is an output is not scaled. A select keeps each old value until the new one is known, so updates are not in
    /// place. The default is no scale.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let w = g.param("w", [2], DType::F32, Init::Ones);
    /// let loss = (w * g.input("x", [2], DType::F32)).sum(..).named("loss");
    /// let opt = optim::Sgd::new(0.5).loss_scale(optim::LossScale::dynamic());
    /// let mut p = Session::new().compile(&train(&g.finish([loss])?, "loss", opt)?)?;
    /// p.init(0)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[1.0, f32::INFINITY]);
    /// p.step()?;
    /// assert_eq!((p.values::<f32>("w")?, p.values::<f32>("opt.loss_scale")?), (&[1.0, 1.0][..], &[32768.0][..]));
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[1.0, 2.0]);
    /// p.step()?;
    /// assert_eq!((p.values::<f32>("w")?, p.values::<f32>("opt.loss_scale")?), (&[0.5, 0.0][..], &[32768.0][..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn loss_scale(mut self, scale: LossScale) -> Optimiser<R> {
        self.loss_scale = Some(scale);
        self
    }

    /// Checks that each number is in its range. The error names the first one that is not.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: &str, x: f64, must: &str| Err(Error::new(Kind::Data, format!("{what} is {x}; {must}")));
        self.rule.validate()?;
        for (pattern, group) in &self.groups {
            let named = |e: Error| e.context(format!("group {pattern:?}"));
            group.validate(self.rule).map_err(named)?;
        }
        if self.accumulate > grad_accumulation::MAX {
            let text = format!("accumulate is {}; it goes to {}", self.accumulate, grad_accumulation::MAX);
            return Err(Error::new(Kind::Data, text));
        }
        clip::check_norm_limits(&self.into())?;
        self.loss_scale.map_or(Ok(()), |s| s.validate())?;
        match self.ema {
            Some(d) if !(0.0..1.0).contains(&d) => bad("ema", d, "it is a decay, in [0, 1)"),
            _ if !self.lr.is_finite() || self.lr < 0.0 => bad("lr", self.lr, "it must be finite and not negative"),
            _ => Ok(()),
        }
    }
}

/// Makes a training step of `g`: adds the gradient of the scalar output `loss` and the update of every param that is
/// not frozen. The result is a graph with one more input, [`LR`], which starts at the optimiser's rate, with states
/// `opt.*` (and `ema.*`), and with the outputs of `g`. A param that is used in several places gets the sum of its
/// gradients. The nodes that this function adds have the caller's line as their location.
///
/// Errors: `loss` is no output, or no scalar; a param gets no gradient; a pattern of a group or of frozen params
/// matches nothing; a number of the rule is out of range; Muon is to update a param that is no matrix; a projection
/// changes a type, or is for a param of L-BFGS; a leaf of `g` is called `lr` or `opt.…`.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("line");
/// let (x, y) = (g.input("x", [8, 1], DType::F32), g.input("y", [8, 1], DType::F32));
/// let graph = g.finish([nn::linear(&g, "fc", x, 1).mse(y).named("loss")])?;
/// let step = train(&graph, "loss", optim::Adam::new(1e-2))?;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn train<'a>(g: impl Into<Graph<'a>>, loss: &str, opt: impl Into<Optimiser>) -> Result<GraphBuf> {
    let caller = Location::caller();
    train_at((caller.file(), caller.line()), g, loss, opt)
}

/// [`train`] for callers that are no Rust: the nodes that it adds have file and line `at` as their location.
pub fn train_at<'a>(
    at: (&str, u32),
    g: impl Into<Graph<'a>>,
    loss: &str,
    opt: impl Into<Optimiser>,
) -> Result<GraphBuf> {
    let (g, opt) = (g.into(), &opt.into());
    let trained = TrainedParams::new(g, loss, opt)?;
    let names = trained.names();
    let rules = trained.rules();
    let step = append_to_gradients("train", g, (loss, opt, &rules), &names, at, |b, params, grads| {
        append_updates(b, opt, &trained.settings, &names, params, grads);
    });
    rows::without_unread_sums(step?)
}

/// The graph of the loss with the gradients of the params `names`, and what `append` adds: it gets the params and
/// their gradients, over all micro-batches if there are several. Gradients of tables stay rows over them if one of
/// `rules`, those of the params, takes rows; without rules none does.
fn append_to_gradients(
    pass: &str,
    g: Graph<'_>,
    (loss, opt, rules): (&str, &Optimiser, &[Rule]),
    names: &[&str],
    at: (&str, u32),
    append: impl for<'g> FnOnce(&'g Builder, &[Var<'g>], Vec<Var<'g>>),
) -> Result<GraphBuf> {
    let options = grad_options(opt);
    if opt.accumulate > 1 {
        let one = differentiate_from_seed(g, loss, &options, &|b, loss| loss_scale::first_cotangent(b, opt, loss))?;
        return rebuilt_by_pass(pass, |bump| {
            let b = Builder::rewriting(Emit::like(&one.view()));
            let (params, grads) = grad_accumulation::accumulate_grads(one.view(), &b, loss, names, (opt, rules))?;
            b.come_from_line(at.0, at.1);
            append(&b, &params, grads);
            finish_rebuild(b, bump)
        });
    }
    let prepared = derivable_form(g, names, &[loss], Mode::Reverse)?;
    let g = prepared.view();
    rebuilt_by_pass(pass, |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        b.come_from_line(at.0, at.1);
        let seed = loss_scale::first_cotangent(&b, opt, c.map[output_by_name(g, loss)?]);
        let codes = Codes::of(g);
        let grads = ReverseGrad::new(&codes, &b, &c, names)?.run(&[(loss, seed)], options.missing)?;
        let signature = Signature::new(g);
        let params: Vec<Var<'_>> = names.iter().map(|n| signature.leaf(n).map(|v| c.map[v])).collect::<Result<_>>()?;
        b.come_from_line(at.0, at.1);
        append(&b, &params, grads);
        drop(c);
        finish_rebuild(b, bump)
    })
}

/// Writes the updates of `params`, each by the settings of its group.
fn append_updates<'g>(
    b: &'g Builder,
    opt: &Optimiser,
    settings: &Settings,
    names: &[&str],
    params: &[Var<'g>],
    grads: Vec<Var<'g>>,
) {
    // A complex param is stepped as pairs of reals.
    let leaves = params;
    let params: Vec<Var<'g>> = leaves.iter().map(|p| p.view_as_real()).collect();
    let mut grads: Vec<Var<'g>> = grads.into_iter().map(Var::view_as_real).collect();
    let rows = rows::take_rows(opt, settings, &params, &mut grads);
    // First: all that follows reads the gradients of the loss itself.
    let scaled = loss_scale::unscale_grads(b, &mut grads);
    // Before clipping, which it is there to tell of.
    let norm = opt.grad_norm.then(|| clip::norm_of_gradients(&grads, 2.0)).flatten();
    let norm = norm.map(|norm| norm.cast(grads[0].dtype()).named(GRAD_NORM));
    if let Some(norm) = norm {
        b.output(GRAD_NORM, norm);
    }
    clip::limit_gradients(opt, &mut grads, norm);
    let dtype = params.first().map_or(DType::F32, |p| p.dtype());
    let rates = settings.rates(b, dtype, opt.lr);
    let momenta = if opt.moving_momentum { settings.momenta(b, dtype) } else { vec![None; settings.kinds.len()] };
    let counts = count::count_steps(b, opt, settings);
    let schedules = count::nadam_schedules(b, settings, &counts);
    let rate_of = |i: usize| rates[settings.kind_of[i]];
    let count_of = |i: usize| counts[settings.kind_of[i]];
    let step = |i: usize| lbfgs::Step { lr: rate_of(i).cast(DType::F64), t: count_of(i) };
    let moves = lbfgs::compute_moves(b, settings, &params, &grads, step);
    for (i, ((name, &p), g)) in names.iter().zip(&params).zip(grads).enumerate() {
        let leaf = leaves[i];
        let kind = &settings.kinds[settings.kind_of[i]];
        let (lr, t) = (rate_of(i), count_of(i));
        let momentum = momenta[settings.kind_of[i]];
        let wide = lr.cast(DType::F64);
        // The input itself, if the group does not scale it: no value is rounded twice.
        let (lr, lr64) = match kind.lr_scale {
            1.0 => (lr.cast(p.dtype()), wide),
            scale => ((wide * scale).cast(p.dtype()), wide * scale),
        };
        let mu = schedules[settings.kind_of[i]];
        let projections = &opt.projections;
        let lbfgs = moves[i];
        let rows = rows[i];
        let next = UpdateTarget { b, name, leaf, p, g, rows, lr, lr64, momentum, t, mu, lbfgs, projections }
            .update(&kind.rule);
        // Of the next value, which is behind rule and projections.
        if let Some(decay) = opt.ema {
            let old = b.average(&format!("{EMA}{name}"), name, leaf.dims(), leaf.dtype());
            let (was, is) = (old.view_as_real(), next.view_as_real());
            let later = without_subnormals(was * decay + is * (1.0 - decay));
            b.update(old, t.equal(1.0).select(is, later).viewed_as_complex_like(leaf));
        }
    }
    // Last: it wraps all updates that are there.
    if let Some((step, how)) = scaled.zip(opt.loss_scale.as_ref()) {
        step.guard_updates(b, how);
    }
}
