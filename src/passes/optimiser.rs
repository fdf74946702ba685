//! The optimiser: appends gradients, clipping and updates to the graph of a loss, which makes one training step.
//!
//! This file adds clipping and moving averages to a rule. `options` has what a user says, `rule` the rules and their
//! numbers, `builders` the types that users name ([`AdamW`] …), `groups` finds the settings of each param,
//! `elementwise_rules` writes elementwise updates (one instruction per param, in place), `matrix` those that need the
//! whole param, `grad_accumulation` sums gradients over micro-batches. Invariant: the optimiser adds
//! one input, [`LR`]; all that it keeps is states, so a run resumed from params and states gives the same bits.

mod builders;
mod elementwise_rules;
mod grad_accumulation;
mod groups;
mod matrix;
mod options;
mod rule;

use super::rebuild::{Copier, Signature, finish, loss_named, output_named, written};
use crate::arena::Value;
use crate::error::Result;
use crate::nodes::ops::reduce::euclidean_length::euclidean_length;
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, Init, Op, Var};
use crate::passes::ad::grad::{GradOptions, Reverse, grad};
use crate::passes::ad::prepare::for_autodiff;
pub use builders::{Adadelta, Adafactor, Adagrad, Adam, AdamW, Lamb, Lion, Muon, NAdam, NAdamW, RmsProp, Sgd};
use elementwise_rules::Target;
use groups::Settings;
use std::panic::Location;

pub use options::{Group, Optimiser};
pub use rule::{MuonScale, Rule};

/// Name of the input that holds the learning rate.
pub const LR: &str = "lr";
/// Name of the state that counts steps.
pub const STEP: &str = "opt.step";
/// Prefix of the names of moving averages. The param's name follows.
pub const EMA: &str = "ema.";

/// Makes a training step of `g`: adds the gradient of the scalar output `loss` and the update of every param that is
/// not frozen. The result is a graph with one more input, [`LR`], which starts at the optimiser's rate, with states
/// `opt.*` (and `ema.*`), and with the outputs of `g`. A param that is used in several places gets the sum of its
/// gradients. The nodes that this function adds have the caller's line as their location.
///
/// Errors: `loss` is no output, or no scalar; a param gets no gradient; a pattern of a group or of frozen params
/// matches nothing; a number of the rule is out of range; Muon is to update a param that is no matrix.
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
    let (g, opt) = (g.into(), &opt.into());
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

/// Scales all gradients by min(1, max / (‖g‖ + 1e-6)), as `torch.nn.utils.clip_grad_norm_`. The result is right even if
/// the squares overflow or underflow.
fn clip(grads: &mut [Var<'_>], max: f64) {
    let Some(wide) = euclidean_length(grads) else { return };
    let dtype = grads.first().map_or(DType::F64, |g| g.dtype());
    let norm = wide.cast(dtype).named("grad_norm");
    // A norm that overflows its dtype comes from finite gradients, unless it is infinite in f64 too.
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
        // The input itself, if the group does not scale it: no value is rounded twice.
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

/// The NAdam schedule of each kind of settings that has one. Equal schedules share a state.
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
