//! Rules with an elementwise update: one sweep of the tile interpreter for each param, in place.
//!
//! The sweep is a `map` region. It is written here directly, because it has several yields (the param and its moments),
//! and the fusion pass makes only regions of one yield. Factors that depend on the step alone are f64 scalars, computed
//! once a step for all params (equal nodes merge), and rounded to the param's dtype at their use. Moments below the
//! smallest normal number are flushed to zero. Otherwise the moments of params that get no gradient would decay to
//! subnormal numbers, which are slow.
//!
//! Formulas follow torch's order of operations (`torch/optim/*.py`, `_single_tensor_*`).

use super::projection::Projection;
use super::rule::Rule;
use crate::arena::Value;
use crate::names;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ops::optim::step_options::{AdamOptions, SgdOptions};
use crate::nodes::ops::pointwise::arith::without_subnormals;
use crate::nodes::ops::pointwise::attrs::MapAttrs;
use crate::nodes::{Builder, DType, Init, Op, Ty, Var};

/// A param that is updated.
pub(super) struct UpdateTarget<'s, 'g> {
    /// The builder.
    pub b: &'g Builder,
    /// Name of the param.
    pub name: &'s str,
    /// The param.
    pub leaf: Var<'g>,
    /// The param as real numbers: itself, or the pairs of a complex one.
    pub p: Var<'g>,
    /// Its gradient, of the type of `p`; rows of it if there are `rows`.
    pub g: Var<'g>,
    /// The indices of the rows that the gradient has, if it is that of a table.
    pub rows: Option<Var<'g>>,
    /// Its learning rate, of the param's dtype.
    pub lr: Var<'g>,
    /// Its learning rate in f64.
    pub lr64: Var<'g>,
    /// Its momentum, if that is an input.
    pub momentum: Option<Var<'g>>,
    /// The number of this step, from 1, an `i64`, if the rule reads it.
    pub t: Var<'g>,
    /// For NAdam: Π after this step, and μ of this and of the next step.
    pub mu: Option<[Var<'g>; 3]>,
    /// For L-BFGS: what is added to the param, of its type.
    pub lbfgs: Option<Var<'g>>,
    /// The projections of the optimiser.
    pub projections: &'s [Projection],
}

/// g + wd·p. With wd = 0 it is g, even if p is infinite.
pub(super) fn add_weight_decay<'g>(g: Var<'g>, p: Var<'g>, decay: f64) -> Var<'g> {
    if decay == 0.0 { g } else { g + p * decay }
}

/// `from + weight·(to − from)`, computed from the nearer end, as in torch's lerp.
pub(super) fn lerp_nearer_end<'g>(from: Var<'g>, to: Var<'g>, weight: f64) -> Var<'g> {
    let d = to - from;
    if weight.abs() < 0.5 { from + d * weight } else { to - d * (1.0 - weight) }
}

/// [`lerp_nearer_end`] for a weight that is a value.
pub(super) fn lerp_by<'g>(from: Var<'g>, to: Var<'g>, weight: Var<'g>) -> Var<'g> {
    let d = to - from;
    weight.abs().less(0.5).select(from + d * weight, to - d * (1.0 - weight))
}

/// β·v + (1 − β)·g².
pub(super) fn average_squares<'g>(v: Var<'g>, g: Var<'g>, beta: f64) -> Var<'g> {
    without_subnormals(v * beta + g * (1.0 - beta) * g)
}

/// 1 − βᵗ, in f64.
pub(super) fn bias_divisor<'g>(t: Var<'g>, beta: f64) -> Var<'g> {
    let t = t.cast(DType::F64);
    1.0 - t.full_like(beta).pow(t)
}

impl<'g> UpdateTarget<'_, 'g> {
    /// A state of shape `dims`, zeros at first, called `opt.<kind>.<param>`.
    pub fn state_of(&self, kind: &str, dims: &[usize]) -> Var<'g> {
        self.b.state(&format!("opt.{kind}.{}", self.name), dims, self.p.dtype(), Init::Zeros)
    }

    /// A state of the param's type.
    pub fn state(&self, kind: &str) -> Var<'g> {
        self.state_of(kind, &self.p.dims())
    }

    /// The results of `f` on `tensors` and `scalars` in one sweep, a region called `called`. Tensors have the param's
    /// type; scalars are rounded to its dtype and repeated to its shape.
    pub fn sweep(
        &self,
        called: &str,
        tensors: &[Var<'g>],
        scalars: &[Var<'g>],
        f: impl FnOnce(&[Var<'g>], &[Var<'g>]) -> Vec<Var<'g>>,
    ) -> Vec<Var<'g>> {
        let dims = self.p.dims();
        let rounded = scalars.iter().map(|s| s.cast(self.p.dtype()));
        let args: Vec<Var<'g>> = tensors.iter().copied().chain(rounded).collect();
        let tys: Vec<Ty> = args.iter().map(|a| a.ty()).collect();
        let routine = self.b.region(called, &tys, |args| {
            let (tensors, scalars) = args.split_at(tensors.len());
            let wide: Vec<Var<'g>> = scalars.iter().map(|s| s.broadcast(dims)).collect();
            f(tensors, &wide)
        });
        self.b.emit(Op::MAP, &args, &MapAttrs { body: routine.region }.list()).into()
    }

    /// Updates the param and `states` in one sweep. `f` gets p, g, the states and the scalars, and returns the next p
    /// and the next states.
    pub fn step(
        &self,
        states: &[Var<'g>],
        scalars: &[Var<'g>],
        f: impl FnOnce(Var<'g>, Var<'g>, &[Var<'g>], &[Var<'g>]) -> Vec<Var<'g>>,
    ) -> Var<'g> {
        let tensors = [&[self.p, self.g], states].concat();
        let new = self.sweep("update", &tensors, scalars, |t, s| f(t[0], t[1], &t[2..], s));
        self.hold(&[&[self.p], states].concat(), &new)
    }

    /// Adds updates: after a step, the leaves `old` have the values `new`, the param its projection. Returns the first
    /// next value.
    pub fn hold(&self, old: &[Var<'g>], new: &[Var<'g>]) -> Var<'g> {
        let mut first = None;
        for (&leaf, &next) in old.iter().zip(new) {
            let (leaf, next) = match leaf.is_same_value(self.p) {
                true => (self.leaf, self.projected(next.viewed_as_complex_like(self.leaf))),
                false => (leaf, next),
            };
            self.b.update(leaf, next);
            first.get_or_insert(next);
        }
        first.unwrap_or(self.b.var(Value::NONE))
    }

    /// What the projections of this param make of `next`, one after another.
    fn projected(&self, next: Var<'g>) -> Var<'g> {
        let mine = self.projections.iter().filter(|p| names::matches_name(&p.pattern, self.name));
        mine.fold(next, |next, p| p.after_update(self.b, self.name, next))
    }

    /// Writes the update of the param and its states. Returns the next value of the param.
    pub fn update(&self, rule: &Rule) -> Var<'g> {
        match *rule {
            Rule::Sgd { momentum, dampening, nesterov, weight_decay } => {
                self.sgd(SgdOptions { momentum, dampening, nesterov, weight_decay })
            }
            Rule::Adam { betas, eps, weight_decay, decoupled, amsgrad: false } if self.momentum.is_none() => {
                self.adam(AdamOptions { betas: betas.into(), eps, weight_decay, decoupled })
            }
            Rule::Adam { .. } => self.adam_in_parts(rule),
            Rule::SparseAdam { .. } => self.sparse_adam(rule),
            Rule::Adamax { betas, eps, weight_decay } => self.adamax(betas, eps, weight_decay),
            Rule::RAdam { .. } => self.radam(rule),
            Rule::Lbfgs { .. } => self.moved_by_lbfgs(),
            Rule::RmsProp { momentum, centered, .. } => self.rmsprop(rule, momentum != 0.0, centered),
            Rule::Adagrad { .. } => self.adagrad(rule),
            Rule::Adadelta { rho, eps, weight_decay } => self.adadelta(rho, eps, weight_decay),
            Rule::NAdam { .. } => self.nadam(rule),
            Rule::Lion { betas, weight_decay } => self.lion(betas, weight_decay),
            Rule::Lamb { betas, eps, weight_decay } => self.matrix_lamb(betas, eps, weight_decay),
            Rule::Adafactor { .. } => self.matrix_adafactor(rule),
            Rule::Muon { .. } => self.matrix_muon(rule),
        }
    }

    /// Step `op` on the rows `idx`. Updates the param and `states`.
    pub fn step_rows(
        &self,
        op: Op,
        idx: Var<'g>,
        states: &[Var<'g>],
        scalars: &[Var<'g>],
        attrs: &[Attr<'_>],
    ) -> Var<'g> {
        let args = [&[self.p, self.g, idx], states, scalars].concat();
        let new: Vec<Var<'g>> = self.b.emit(op, &args, attrs).into();
        self.hold(&[&[self.p], states].concat(), &new)
    }

    fn sgd(&self, options: SgdOptions) -> Var<'g> {
        if let Some(idx) = self.rows {
            return self.step_rows(Op::SGD_ROWS, idx, &[], &[self.lr], &[]);
        }
        if options.momentum == 0.0 {
            return self.hold(&[self.p], &[self.p.sgd_step(self.g, self.lr, options.weight_decay)]);
        }
        if let Some(momentum) = self.momentum {
            return self.sgd_of_moving_momentum(momentum, options);
        }
        let buf = self.state("momentum_buffer");
        self.hold(&[self.p, buf], &self.p.sgd_momentum_step(self.g, buf, self.lr, self.t, options))
    }

    fn lion(&self, betas: (f64, f64), weight_decay: f64) -> Var<'g> {
        let m = self.state("exp_avg");
        self.step(&[m], &[self.lr64], |p, g, s, k| {
            let way = (s[0] * betas.0 + g * (1.0 - betas.0)).sign();
            vec![
                p - k[0] * add_weight_decay(way, p, weight_decay),
                without_subnormals(s[0] * betas.1 + g * (1.0 - betas.1)),
            ]
        })
    }
}
