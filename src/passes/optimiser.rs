//! The optimiser as graph: gradients, clipping and updates appended to a loss, all of it one step program.

use super::grad::{GradOptions, Reverse};
use super::prepare::for_autodiff;
use super::rebuild::{Copier, finish, leaf_named, output_named};
use crate::error::{Error, Kind, Result};
use crate::nodes::attrs::Attr;
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, Init, Op, Var};

/// Name of the input that holds the learning rate.
pub const LR: &str = "lr";
/// Name of the state that counts steps.
pub const STEP: &str = "opt.step";

/// The update rule, with torch's names, formulas and defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// `g += wd·p; buf = μ·buf + (1 − damp)·g (g at the first step); p −= lr·(buf, or g + μ·buf with nesterov)`.
    Sgd {
        /// μ.
        momentum: f64,
        /// damp.
        dampening: f64,
        /// Whether to look ahead.
        nesterov: bool,
        /// wd.
        weight_decay: f64,
    },
    /// `m += (1 − β₁)(g − m); v = β₂v + (1 − β₂)g²; p −= lr/(1 − β₁ᵗ)·m / (√v/√(1 − β₂ᵗ) + ε)`.
    Adam {
        /// β₁ and β₂.
        betas: (f64, f64),
        /// ε.
        eps: f64,
        /// Weight decay.
        weight_decay: f64,
        /// AdamW: `p *= 1 − lr·wd` before the update, instead of `g += wd·p`.
        decoupled: bool,
    },
}

/// A rule with what surrounds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimiser {
    /// The rule.
    pub rule: Rule,
    /// The learning rate that a trainer starts from. The graph reads it from the input [`LR`] at each step.
    pub lr: f64,
    /// Largest global norm of all gradients together: larger ones are scaled down to it.
    pub clip_norm: Option<f64>,
    /// Params to leave as they are, by name; a trailing `*` matches any ending.
    pub frozen: Vec<String>,
}

impl Optimiser {
    fn new(rule: Rule, lr: f64) -> Optimiser {
        Optimiser { rule, lr, clip_norm: None, frozen: Vec::new() }
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

    fn validate(&self) -> Result<()> {
        let bad = |what: &str, x: f64| Err(Error::new(Kind::Data, format!("{what} is {x}")));
        let unit = |x: f64| (0.0..1.0).contains(&x);
        match self.rule {
            Rule::Sgd { momentum, .. } if !momentum.is_finite() || momentum < 0.0 => return bad("momentum", momentum),
            Rule::Sgd { momentum, dampening, nesterov: true, .. } if momentum <= 0.0 || dampening != 0.0 => {
                return Err(Error::new(Kind::Data, "nesterov needs a momentum and no dampening"));
            }
            Rule::Sgd { weight_decay, .. } | Rule::Adam { weight_decay, .. }
                if !weight_decay.is_finite() || weight_decay < 0.0 =>
            {
                return bad("weight_decay", weight_decay);
            }
            Rule::Adam { betas, .. } if !unit(betas.0) => return bad("beta1", betas.0),
            Rule::Adam { betas, .. } if !unit(betas.1) => return bad("beta2", betas.1),
            Rule::Adam { eps, .. } if !eps.is_finite() || eps < 0.0 => return bad("eps", eps),
            _ => {}
        }
        match self.clip_norm {
            Some(c) if !c.is_finite() || c <= 0.0 => bad("clip_norm", c),
            _ if !self.lr.is_finite() || self.lr < 0.0 => bad("lr", self.lr),
            _ => Ok(()),
        }
    }
}

/// Appends to `g` the gradient of the scalar output `loss` and the update of every param that is not frozen. The
/// result is a step program: an input [`LR`], states `opt.*`, and updates in place.
pub fn train(g: Graph<'_>, loss: &str, opt: &Optimiser) -> Result<GraphBuf> {
    opt.validate()?;
    let options = GradOptions { frozen: opt.frozen.clone(), ..Default::default() };
    let leaves = options.leaves(g)?;
    let names: Vec<&str> = leaves.iter().map(String::as_str).collect();
    let v = output_named(g, loss)?;
    if !g.dims(v).is_empty() {
        return Err(Error::new(Kind::Derivative, format!("the loss {loss:?} is {}, not a scalar", g.ty_text(v))));
    }
    let prepared = for_autodiff(g, &names, &[loss])?;
    let g = prepared.view();
    GraphBuf::make(|bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let seed = c.map[output_named(g, loss)?].full_like(1.0);
        let mut grads = Reverse::new(g, &b, &c, &names)?.run(&[(loss, seed)], options.missing)?;
        if let Some(max) = opt.clip_norm {
            clip(&mut grads, max);
        }
        let params: Vec<Var<'_>> = names.iter().map(|n| leaf_named(g, n).map(|v| c.map[v])).collect::<Result<_>>()?;
        append(&b, opt, &names, &params, &grads);
        drop(c);
        finish(b, bump)
    })
}

/// Scales all gradients by min(1, max / (‖g‖ + 1e-6)), as `torch.nn.utils.clip_grad_norm_`.
fn clip(grads: &mut [Var<'_>], max: f64) {
    let mut total = None;
    for g in grads.iter() {
        let s = (*g * *g).sum(..);
        total = Some(total.map_or(s, |t: Var<'_>| t + s));
    }
    if let Some(t) = total {
        let norm = t.sqrt().named("grad_norm");
        let scale = (max / (norm + 1e-6)).minimum(1.0);
        for g in grads.iter_mut() {
            *g = *g * scale;
        }
    }
}

/// The step counter after this step, 1-based.
fn count(b: &Builder) -> Var<'_> {
    let t = b.state(STEP, [], DType::I64, Init::Zeros);
    let next = t.pair(Op::ADD, t.full_like(1.0));
    b.update(t, next);
    next
}

fn append(b: &Builder, opt: &Optimiser, names: &[&str], params: &[Var<'_>], grads: &[Var<'_>]) {
    let dtype = params.first().map_or(DType::F32, |p| p.dtype());
    let lr = b.input(LR, [], dtype);
    let needs_count = !matches!(opt.rule, Rule::Sgd { momentum: 0.0, .. });
    let t = needs_count.then(|| count(b));
    for ((name, &p), &g) in names.iter().zip(params).zip(grads) {
        let like = |kind: &str| b.state(&format!("opt.{kind}.{name}"), p.dims(), p.dtype(), Init::Zeros);
        let lr = lr.cast(p.dtype());
        match (opt.rule, t) {
            (Rule::Sgd { momentum, dampening, nesterov, weight_decay }, Some(t)) => {
                let buf = like("momentum_buffer");
                let attrs = [Attr::F64(momentum), Attr::F64(dampening), Attr::Bool(nesterov), Attr::F64(weight_decay)];
                let new = b.emit(Op::SGD_MOMENTUM, &[p, g, buf, lr, t], &attrs);
                update(b, &[p, buf], &new);
            }
            (Rule::Sgd { weight_decay, .. }, None) => {
                let new = b.emit(Op::SGD, &[p, g, lr], &[Attr::F64(weight_decay)]);
                update(b, &[p], &new);
            }
            (Rule::Adam { betas, eps, weight_decay, decoupled }, t) => {
                let (m, v) = (like("exp_avg"), like("exp_avg_sq"));
                let attrs = [
                    Attr::F64(betas.0),
                    Attr::F64(betas.1),
                    Attr::F64(eps),
                    Attr::F64(weight_decay),
                    Attr::Bool(decoupled),
                ];
                let t = t.unwrap_or_else(|| count(b));
                let new = b.emit(Op::ADAM, &[p, g, m, v, lr, t], &attrs);
                update(b, &[p, m, v], &new);
            }
        }
    }
}

fn update<'g>(b: &'g Builder, old: &[Var<'g>], new: &[Var<'g>]) {
    for (&leaf, &next) in old.iter().zip(new) {
        b.update(leaf, next);
    }
}

/// Whether `name` is that of a state that this module makes.
pub fn is_optimiser_state(name: &str) -> bool {
    name.starts_with("opt.")
}
