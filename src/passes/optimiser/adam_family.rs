//! Adam and its relatives: AMSGrad, Adamax, RAdam, NAdam, RMSprop, Adagrad and Adadelta. Each update is one sweep for
//! each param, in place.
//!
//! Formulas follow torch's order of operations (`torch/optim/*.py`, `_single_tensor_*`).

use super::rule::Rule;
use super::update_target::{UpdateTarget, add_weight_decay, average_squares, bias_divisor, lerp_by, lerp_nearer_end};
use crate::nodes::ops::optim::attrs::{AdagradRowsAttrs, AdamRowsAttrs};
use crate::nodes::ops::optim::step_options::AdamOptions;
use crate::nodes::ops::pointwise::arith::without_subnormals;
use crate::nodes::{Builder, DType, Init, Op, Var};

/// The name of the region of a SparseAdam that updates all rows, by which the warnings of a graph find it.
pub const WHOLE_SPARSE_ADAM: &str = "sparseadam";

impl<'g> UpdateTarget<'_, 'g> {
    /// Adam or AdamW with amsgrad, or with a first β that is an input.
    pub fn adam_in_parts(&self, rule: &Rule) -> Var<'g> {
        let &Rule::Adam { betas, eps, weight_decay, decoupled, amsgrad } = rule else { return self.p };
        let moving = self.momentum.map(|x| x.cast(DType::F64));
        let first = moving.map_or_else(|| bias_divisor(self.t, betas.0), |x| 1.0 - x.pow(self.t.cast(DType::F64)));
        let mut scalars = vec![-self.lr64 / first, bias_divisor(self.t, betas.1).sqrt()];
        scalars.extend(decoupled.then(|| -self.lr64 * weight_decay + 1.0));
        scalars.extend(moving.map(|x| 1.0 - x));
        let mut states = vec![self.state("exp_avg"), self.state("exp_avg_sq")];
        states.extend(amsgrad.then(|| self.state("max_exp_avg_sq")));
        self.step(&states, &scalars, |p, g, s, k| {
            let g = if decoupled { g } else { add_weight_decay(g, p, weight_decay) };
            let p = if decoupled { p * k[2] } else { p };
            let m = without_subnormals(match k.last().filter(|_| moving.is_some()) {
                Some(&weight) => lerp_by(s[0], g, weight),
                None => lerp_nearer_end(s[0], g, 1.0 - betas.0),
            });
            let v = average_squares(s[1], g, betas.1);
            let most = s.get(2).map(|&most| most.maximum(v));
            let size = most.unwrap_or(v);
            let next = p + k[0] * m / (size.sqrt() / k[1] + eps);
            [next, m, v].into_iter().chain(most).collect()
        })
    }

    /// See the rule.
    pub fn sparse_adam(&self, rule: &Rule) -> Var<'g> {
        let &Rule::SparseAdam { betas, eps, weight_decay } = rule else { return self.p };
        let states = [self.state("exp_avg"), self.state("exp_avg_sq")];
        if let Some(idx) = self.rows {
            let attrs = AdamRowsAttrs { beta1: betas.0, beta2: betas.1, eps, weight_decay };
            return self.step_rows(Op::ADAM_ROWS, idx, &states, &[self.lr, self.t], &attrs.list());
        }
        let size = self.lr64 * bias_divisor(self.t, betas.1).sqrt() / bias_divisor(self.t, betas.0);
        let [m, v] = states;
        let scalars = [size, -self.lr64 * weight_decay + 1.0];
        let new = self.sweep(WHOLE_SPARSE_ADAM, &[self.p, self.g, m, v], &scalars, |t, k| {
            let [p, g, m, v] = *t else { return Vec::new() };
            let m = without_subnormals(m + (g - m) * (1.0 - betas.0));
            let v = without_subnormals(v + (g * g - v) * (1.0 - betas.1));
            vec![p * k[1] - k[0] * (m / (v.sqrt() + eps)), m, v]
        });
        self.hold(&[self.p, m, v], &new)
    }

    /// See the rule.
    pub fn adamax(&self, betas: (f64, f64), eps: f64, weight_decay: f64) -> Var<'g> {
        let size = -self.lr64 / bias_divisor(self.t, betas.0);
        self.step(&[self.state("exp_avg"), self.state("exp_inf")], &[size], |p, g, s, k| {
            let g = add_weight_decay(g, p, weight_decay);
            let m = without_subnormals(lerp_nearer_end(s[0], g, 1.0 - betas.0));
            let most = without_subnormals((s[1] * betas.1).maximum(g.abs() + eps));
            vec![p + k[0] * m / most, m, most]
        })
    }

    /// See the rule.
    pub fn radam(&self, rule: &Rule) -> Var<'g> {
        let &Rule::RAdam { betas, eps, weight_decay, decoupled_weight_decay: decoupled } = rule else {
            return self.p;
        };
        let rectifier = RectifiedRate::new(self.t, betas.1);
        let scalars = [
            bias_divisor(self.t, betas.0),
            self.lr64,
            rectifier.root,
            rectifier.factor,
            rectifier.adapts,
            -self.lr64 * weight_decay + 1.0,
        ];
        let states = [self.state("exp_avg"), self.state("exp_avg_sq")];
        self.step(&states, &scalars[..if decoupled { 6 } else { 5 }], |p, g, s, k| {
            let g = if decoupled { g } else { add_weight_decay(g, p, weight_decay) };
            let p = if decoupled { p * k[5] } else { p };
            let m = without_subnormals(lerp_nearer_end(s[0], g, 1.0 - betas.0));
            let v = average_squares(s[1], g, betas.1);
            let plain = m / k[0] * k[1];
            let adapted = plain * (k[2] / (v.sqrt() + eps)) * k[3];
            vec![p - k[4].greater(0.0).select(adapted, plain), m, v]
        })
    }

    /// See the rule.
    pub fn nadam(&self, rule: &Rule) -> Var<'g> {
        let &Rule::NAdam { betas, eps, weight_decay, decoupled, .. } = rule else { return self.p };
        let Some([product, now, next]) = self.mu else { return self.p };
        let lr = -self.lr64;
        let scalars = [
            lr * (1.0 - now) / (1.0 - product),
            lr * next / (1.0 - product * next),
            bias_divisor(self.t, betas.1),
            lr * weight_decay + 1.0,
        ];
        let states = [self.state("exp_avg"), self.state("exp_avg_sq")];
        self.step(&states, &scalars[..if decoupled { 4 } else { 3 }], |p, g, s, k| {
            let g = if decoupled { g } else { add_weight_decay(g, p, weight_decay) };
            let p = if decoupled { p * k[3] } else { p };
            let m = without_subnormals(lerp_nearer_end(s[0], g, 1.0 - betas.0));
            let v = average_squares(s[1], g, betas.1);
            let d = (v / k[2]).sqrt() + eps;
            vec![p + k[0] * g / d + k[1] * m / d, m, v]
        })
    }

    pub fn adam(&self, options: AdamOptions) -> Var<'g> {
        let moments = [self.state("exp_avg"), self.state("exp_avg_sq")];
        let new = self.p.adam_step(self.g, moments, self.lr, self.t, options);
        self.hold(&[self.p, moments[0], moments[1]], &new)
    }

    pub fn rmsprop(&self, rule: &Rule, moves: bool, centered: bool) -> Var<'g> {
        let &Rule::RmsProp { alpha, eps, momentum, weight_decay, .. } = rule else { return self.p };
        let mut states = vec![self.state("square_avg")];
        if centered {
            states.push(self.state("grad_avg"));
        }
        if moves {
            states.push(self.state("momentum_buffer"));
        }
        self.step(&states, &[-self.lr64], |p, g, s, k| {
            let g = add_weight_decay(g, p, weight_decay);
            let v = average_squares(s[0], g, alpha);
            let mut next = vec![v];
            let mut spread = v;
            if centered {
                let mean = without_subnormals(lerp_nearer_end(s[1], g, 1.0 - alpha));
                // Rounding, or a v that is flushed before ḡ, could make the difference negative and the param NaN.
                spread = (v - mean * mean).maximum(0.0);
                next.push(mean);
            }
            let d = spread.sqrt() + eps;
            let p = match s.last().filter(|_| moves) {
                Some(&buf) => {
                    let buf = without_subnormals(buf * momentum + g / d);
                    next.push(buf);
                    p + k[0] * buf
                }
                None => p + k[0] * g / d,
            };
            next.insert(0, p);
            next
        })
    }

    /// The rate `lr` of Adagrad after its decay.
    fn adagrad_rate(&self, lr: Var<'g>, decay: f64) -> Var<'g> {
        if decay == 0.0 { lr } else { lr / ((self.t.cast(DType::F64) - 1.0) * decay + 1.0) }
    }

    pub fn adagrad(&self, rule: &Rule) -> Var<'g> {
        let &Rule::Adagrad { lr_decay, initial_accumulator_value: start, eps, weight_decay } = rule else {
            return self.p;
        };
        if let Some(idx) = self.rows {
            let lr = self.adagrad_rate(self.lr64, lr_decay).cast(self.p.dtype());
            let attrs = AdagradRowsAttrs { eps };
            return self.step_rows(Op::ADAGRAD_ROWS, idx, &[self.state("sum")], &[lr], &attrs.list());
        }
        let mut scalars = vec![self.adagrad_rate(-self.lr64, lr_decay)];
        if start != 0.0 {
            let (at, zero) = (self.lr64.full_like(start), self.lr64.full_like(0.0));
            scalars.push(self.t.equal(1.0).select(at, zero));
        }
        self.step(&[self.state("sum")], &scalars, |p, g, s, k| {
            let g = add_weight_decay(g, p, weight_decay);
            let before = k.get(1).map_or(s[0], |&start| s[0] + start);
            let sum = without_subnormals(before + g * g);
            vec![p + k[0] * g / (sum.sqrt() + eps), sum]
        })
    }

    pub fn adadelta(&self, rho: f64, eps: f64, weight_decay: f64) -> Var<'g> {
        let states = [self.state("square_avg"), self.state("acc_delta")];
        self.step(&states, &[-self.lr64], |p, g, s, k| {
            let g = add_weight_decay(g, p, weight_decay);
            let v = average_squares(s[0], g, rho);
            let delta = (s[1] + eps).sqrt() / (v + eps).sqrt() * g;
            vec![p + k[0] * delta, v, average_squares(s[1], delta, rho)]
        })
    }
}

/// The factors of RAdam that depend on the step alone, in f64.
struct RectifiedRate<'g> {
    /// √(1 − β₂ᵗ).
    root: Var<'g>,
    /// r; see [`Rule::RAdam`].
    factor: Var<'g>,
    /// 1 if ρ is above 5, else 0.
    adapts: Var<'g>,
}

impl<'g> RectifiedRate<'g> {
    fn new(t: Var<'g>, beta2: f64) -> RectifiedRate<'g> {
        let correction = bias_divisor(t, beta2);
        let t = t.cast(DType::F64);
        let most = 2.0 / (1.0 - beta2) - 1.0;
        let now = most - t * 2.0 * t.full_like(beta2).pow(t) / correction;
        let limit = (most - 4.0) * (most - 2.0);
        // ρ goes from 1 to ρ∞. If ρ∞ is at most 5, the rate never adapts, and the factor is not read.
        let factor = match most > 5.0 {
            true => ((now - 4.0) * (now - 2.0) * most / (now * limit)).maximum(0.0).sqrt(),
            false => t.full_like(1.0),
        };
        let (one, zero) = (t.full_like(1.0), t.full_like(0.0));
        RectifiedRate { root: correction.sqrt(), factor, adapts: now.greater(5.0).select(one, zero) }
    }
}

/// For all params of one NAdam: Π after this step, and μ of this and of the next step. Π is a state called `name`.
pub(super) fn nadam_schedule<'g>(b: &'g Builder, name: &str, t: Var<'g>, beta1: f64, decay: f64) -> [Var<'g>; 3] {
    let t = t.cast(DType::F64);
    let mu = |t: Var<'g>| (1.0 - t.full_like(0.96).pow(t * decay) * 0.5) * beta1;
    let product = b.state(name, [], DType::F64, Init::Ones);
    let (now, next) = (mu(t), mu(t + 1.0));
    let after = product * now;
    b.update(product, after);
    [after, now, next]
}
