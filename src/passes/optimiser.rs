//! The optimiser as graph: gradients, clipping and updates appended to a loss, all of it one step program.
//!
//! Here is what surrounds a rule: rates, groups of params, clipping, moving averages. `rule` has the rules and their
//! numbers, `groups` finds the settings of each param, `sweep` writes element-wise updates (one instruction per param,
//! in place), `matrix` those that look at a param as a whole, `micro` sums gradients over micro-batches. Invariant: the
//! input [`LR`] is the one thing that a caller writes; all else that persists is a state, so a checkpoint of params and
//! states continues to the same bits.

mod elementwise_rules;
mod grad_accumulation;
mod groups;
mod matrix;
mod rule;

use super::rebuild::{Copier, Signature, finish, loss_named, output_named, written};
use crate::arena::Value;
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::reduce::length::length;
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, Init, Op, Var};
use crate::passes::ad::grad::{GradOptions, Reverse, grad};
use crate::passes::ad::prepare::for_autodiff;
use elementwise_rules::Target;
use groups::Settings;
use std::panic::Location;

pub use groups::Group;
pub use rule::{MuonScale, Rule};

/// Name of the input that holds the learning rate.
pub const LR: &str = "lr";
/// Name of the state that counts steps.
pub const STEP: &str = "opt.step";
/// What the names of moving averages begin with; the param's name follows.
pub const EMA: &str = "ema.";

/// A rule with what surrounds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimiser {
    /// The rule.
    pub rule: Rule,
    /// The learning rate: what the input [`LR`], which the graph reads at each step, holds until the caller writes it.
    pub lr: f64,
    /// Largest global norm of all gradients together: larger ones are scaled down to it.
    pub clip_norm: Option<f64>,
    /// Params to leave as they are, by name; the first `*` of one stands for any characters.
    pub frozen: Vec<String>,
    /// Params with settings of their own: a pattern, as in `frozen`, and what differs.
    pub groups: Vec<(String, Group)>,
    /// Params of fewer axes have no weight decay, unless their group says so.
    pub decay_from_rank: usize,
    /// The decay of the params' moving averages.
    pub ema: Option<f64>,
    /// Micro-batches of a step: see [`Optimiser::accumulate`]. 0 and 1 are a step on the whole batch.
    pub accumulate: usize,
}

impl Optimiser {
    /// `rule` at this rate, with nothing around it.
    pub fn new(rule: Rule, lr: f64) -> Optimiser {
        let (frozen, groups) = (Vec::new(), Vec::new());
        Optimiser { rule, lr, clip_norm: None, frozen, groups, decay_from_rank: 0, ema: None, accumulate: 1 }
    }

    /// Plain gradient descent.
    pub fn sgd(lr: f64) -> Optimiser {
        Optimiser::new(Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 }, lr)
    }

    /// Gradient descent with momentum.
    pub fn momentum(lr: f64, momentum: f64) -> Optimiser {
        Optimiser::new(Rule::Sgd { momentum, dampening: 0.0, nesterov: false, weight_decay: 0.0 }, lr)
    }

    /// Adam with β = (0.9, 0.999), ε = 1e-8.
    pub fn adam(lr: f64) -> Optimiser {
        let rule = Rule::Adam { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, decoupled: false };
        Optimiser::new(rule, lr)
    }

    /// AdamW with β = (0.9, 0.999), ε = 1e-8, weight decay 1e-2.
    pub fn adamw(lr: f64) -> Optimiser {
        let rule = Rule::Adam { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 1e-2, decoupled: true };
        Optimiser::new(rule, lr)
    }

    /// With global-norm clipping.
    pub fn clip_norm(mut self, max: f64) -> Optimiser {
        self.clip_norm = Some(max);
        self
    }

    /// Without updates of the params that match `pattern`.
    pub fn freeze(mut self, pattern: &str) -> Optimiser {
        self.frozen.push(pattern.to_string());
        self
    }

    /// With other settings for the params that match `pattern` (a name, or one where a `*` stands for any characters:
    /// `fc1.*`, `*.bias`). Of several groups, the first that matches a param is its group; a pattern that matches no
    /// trained param is an error of [`train`].
    pub fn group(mut self, pattern: &str, group: Group) -> Optimiser {
        self.groups.push((pattern.to_string(), group));
        self
    }

    /// With weight decay for params of `rank` or more axes only, unless their group says otherwise: 2 leaves biases and
    /// gains alone, and decays matrices and embeddings.
    pub fn decay_from_rank(mut self, rank: usize) -> Optimiser {
        self.decay_from_rank = rank;
        self
    }

    /// With a moving average of each trained param, a state `ema.<param>`: the param itself after the first step,
    /// `decay·ema + (1 − decay)·param` after later ones, as `torch.optim.swa_utils.get_ema_avg_fn`.
    pub fn ema(mut self, decay: f64) -> Optimiser {
        self.ema = Some(decay);
        self
    }

    /// With steps that take `k` micro-batches and update once, by the mean of their gradients. Every input of the graph
    /// has one more axis in front, of `k`; the loss is the mean, and other outputs are stacked along such an axis.
    pub fn accumulate(mut self, k: usize) -> Optimiser {
        self.accumulate = k;
        self
    }

    /// Whether all numbers are what the formulas can take; the error names the one that is not.
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

/// Appends to `g` the gradient of the scalar output `loss` and the update of every param that is not frozen. The
/// result is a step program: an input [`LR`], states `opt.*` (and `ema.*`), and updates in place. A param that is used
/// in several places gets the sum of their gradients. What it adds for itself comes from the caller's line.
#[track_caller]
pub fn train(g: Graph<'_>, loss: &str, opt: &Optimiser) -> Result<GraphBuf> {
    opt.validate()?;
    let caller = Location::caller();
    let options = GradOptions { frozen: opt.frozen.clone(), ..Default::default() };
    let leaves = options.leaves(g)?;
    let names: Vec<&str> = leaves.iter().map(String::as_str).collect();
    loss_named(g, loss)?;
    let settings = groups::settings(g, opt, &names)?;
    if opt.accumulate > 1 {
        let one = grad(g, loss, &options)?;
        return written("train", |bump| {
            let b = Builder::rewriting(Emit::like(&one.view()));
            let (params, grads) = grad_accumulation::accumulate(one.view(), &b, loss, &names, opt.accumulate)?;
            b.come_from(caller);
            append(&b, opt, &settings, &names, &params, grads);
            finish(b, bump)
        });
    }
    let prepared = for_autodiff(g, &names, &[loss])?;
    let g = prepared.view();
    written("train", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        b.come_from(caller);
        let seed = c.map[output_named(g, loss)?].full_like(1.0);
        let grads = Reverse::new(g, &b, &c, &names)?.run(&[(loss, seed)], options.missing)?;
        let signature = Signature::new(g);
        let params: Vec<Var<'_>> = names.iter().map(|n| signature.leaf(n).map(|v| c.map[v])).collect::<Result<_>>()?;
        b.come_from(caller);
        append(&b, opt, &settings, &names, &params, grads);
        drop(c);
        finish(b, bump)
    })
}

/// Scales all gradients by min(1, max / (‖g‖ + 1e-6)), as `torch.nn.utils.clip_grad_norm_`; where the squares overflow
/// or underflow, too.
fn clip(grads: &mut [Var<'_>], max: f64) {
    let Some(wide) = length(grads) else { return };
    let dtype = grads.first().map_or(DType::F64, |g| g.dtype());
    let norm = wide.cast(dtype).named("grad_norm");
    // A norm that its type cannot hold is one of finite gradients, unless it is infinite in f64, too.
    let beyond = (max / wide).cast(dtype);
    let scale = norm.less(f64::INFINITY).select((max / (norm + 1e-6)).minimum(1.0), beyond);
    for g in grads.iter_mut() {
        *g = *g * scale;
    }
}

/// The step counter after this step, 1-based.
fn count(b: &Builder) -> Var<'_> {
    let t = b.state(STEP, [], DType::I64, Init::Zeros);
    let next = t.pair(Op::ADD, t.full_like(1.0));
    b.update(t, next);
    next
}

/// Writes the updates of `params`, each by the settings of its group.
fn append<'g>(
    b: &'g Builder,
    opt: &Optimiser,
    settings: &Settings,
    names: &[&str],
    params: &[Var<'g>],
    mut grads: Vec<Var<'g>>,
) {
    if let Some(max) = opt.clip_norm {
        clip(&mut grads, max);
    }
    let dtype = params.first().map_or(DType::F32, |p| p.dtype());
    let lr = b.input_or(LR, [], dtype, opt.lr);
    let counts = opt.ema.is_some() || settings.kinds.iter().any(|k| k.rule.counts());
    let t = if counts { count(b) } else { b.var(Value::NONE) };
    let schedules = schedules(b, settings, t);
    for (i, ((name, &p), g)) in names.iter().zip(params).zip(grads).enumerate() {
        let kind = &settings.kinds[settings.kind_of[i]];
        let wide = lr.cast(DType::F64);
        // The input itself where a group does not scale it: nothing is rounded twice.
        let (lr, lr64) = match kind.lr_scale {
            1.0 => (lr.cast(p.dtype()), wide),
            scale => ((wide * scale).cast(p.dtype()), wide * scale),
        };
        let mu = schedules[settings.kind_of[i]];
        let next = Target { b, name, p, g, lr, lr64, t, mu }.update(&kind.rule);
        if let Some(decay) = opt.ema {
            let old = b.average(&format!("{EMA}{name}"), name, p.dims(), p.dtype());
            let later = elementwise_rules::flush(old * decay + next * (1.0 - decay));
            b.update(old, t.equal(1.0).select(next, later));
        }
    }
}

/// The schedule of each kind of settings that has one; equal ones share a state.
fn schedules<'g>(b: &'g Builder, settings: &Settings, t: Var<'g>) -> Vec<Option<[Var<'g>; 3]>> {
    let mut known: Vec<((f64, f64), [Var<'g>; 3])> = Vec::new();
    let mut all = Vec::new();
    for kind in &settings.kinds {
        let Rule::NAdam { betas, momentum_decay, .. } = kind.rule else {
            all.push(None);
            continue;
        };
        let key = (betas.0, momentum_decay);
        if !known.iter().any(|k| k.0 == key) {
            let name = match known.len() {
                0 => "opt.mu_product".to_string(),
                n => format!("opt.mu_product.{}", n + 1),
            };
            known.push((key, elementwise_rules::nadam_schedule(b, &name, t, key.0, key.1)));
        }
        all.push(known.iter().find(|k| k.0 == key).map(|k| k.1));
    }
    all
}
