//! Rules that need the whole param: its norm (LAMB), its row and column means (Adafactor), its products (Muon).
//!
//! They are ordinary nodes, which are fused, planned and divided among threads like the rest of the step. Scalars that
//! depend on norms are computed in f64, as torch does in Python's floats.

use super::rule::Rule;
use crate::nodes::ops::pointwise::arith::without_subnormals;
use crate::nodes::ops::reduce::euclidean_length::euclidean_length;
use crate::nodes::{DType, Op, Var};
use crate::passes::optimiser::update_target::{
    UpdateTarget, add_weight_decay, average_squares, bias_divisor, lerp_nearer_end,
};

/// √Σx² in f64. If the sum is in range of x's dtype, it is rounded to that dtype.
fn rounded_norm(x: Var<'_>) -> Var<'_> {
    euclidean_length(&[x]).unwrap_or(x)
}

/// √(Σx²/n) in f64, where n is the number of elements.
fn root_mean_square(x: Var<'_>) -> Var<'_> {
    rounded_norm(x) / (x.numel().max(1) as f64).sqrt()
}

impl<'g> UpdateTarget<'_, 'g> {
    /// The f64 scalar `k` in the param's dtype.
    fn matrix_rounded(&self, k: Var<'g>) -> Var<'g> {
        k.cast(self.p.dtype())
    }

    /// See the rule.
    pub fn matrix_lamb(&self, betas: (f64, f64), eps: f64, weight_decay: f64) -> Var<'g> {
        let Some(u) = self.lamb_direction(betas, eps, weight_decay) else { return self.p };
        let (long, far) = (rounded_norm(self.p), rounded_norm(u));
        // If the squares of the update underflow, the param is idle, and the update is no direction to scale up.
        let least = if u.dtype() == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) }.sqrt();
        let both = long.greater(0.0).logical_and(far.greater(least));
        let trust = both.select(long / far, long.full_like(1.0));
        self.hold(&[self.p], &[self.p - self.matrix_rounded(self.lr64 * trust) * u])
    }

    /// See the rule.
    pub fn matrix_adafactor(&self, rule: &Rule) -> Var<'g> {
        let &Rule::Adafactor { beta2_decay, eps, d, weight_decay } = rule else { return self.p };
        let spacing = if self.p.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let (eps1, eps2) = (eps.0.unwrap_or(spacing), eps.1);
        let t = self.t.cast(DType::F64);
        let fresh = self.matrix_rounded(t.pow(beta2_decay));
        let rate = self.lr64.minimum(1.0 / t.sqrt()) * root_mean_square(self.p).maximum(eps2);
        let p = match weight_decay {
            0.0 => self.p,
            decay => self.p * self.matrix_rounded(1.0 - self.lr64 * decay),
        };
        let square = self.g * self.g;
        let average = |kind: &str, now: Var<'g>| {
            let old = self.state_of(kind, &now.dims());
            let new = without_subnormals(old + (now - old) * fresh);
            self.b.update(old, new);
            new
        };
        let variance = if self.p.rank() > 1 {
            let row = average("row_var", square.reduce(Op::REDUCE_MEAN, -1, true));
            let column = average("col_var", square.reduce(Op::REDUCE_MEAN, -2, true));
            row * column / row.reduce(Op::REDUCE_MEAN, -2, true).maximum(eps1)
        } else {
            average("variance", square)
        };
        let u = variance.maximum(eps1 * eps1).rsqrt() * self.g;
        let size = rate / (root_mean_square(u) / d).maximum(1.0);
        self.hold(&[self.p], &[p - self.matrix_rounded(size) * u])
    }

    /// See the rule.
    pub fn matrix_muon(&self, rule: &Rule) -> Var<'g> {
        let &Rule::Muon { momentum, nesterov, ns_coefficients, ns_steps, eps, weight_decay, scale } = rule else {
            return self.p;
        };
        let &[rows, columns] = &self.p.dims()[..] else { return self.p };
        let old = self.state("momentum_buffer");
        let buf = without_subnormals(lerp_nearer_end(old, self.g, 1.0 - momentum));
        self.b.update(old, buf);
        let u = if nesterov { lerp_nearer_end(self.g, buf, momentum) } else { buf };
        let x = orthogonalise(u, ns_coefficients, ns_steps, eps);
        let keep = self.matrix_rounded(1.0 - self.lr64 * weight_decay);
        let size = self.matrix_rounded(self.lr64 * scale.factor(rows, columns));
        self.hold(&[self.p], &[self.p * keep - size * x])
    }

    /// Updates the moments of LAMB. Returns the unscaled update m̂/(√v̂ + ε) + wd·p.
    fn lamb_direction(&self, betas: (f64, f64), eps: f64, weight_decay: f64) -> Option<Var<'g>> {
        let states = [self.state("exp_avg"), self.state("exp_avg_sq")];
        let scalars = [bias_divisor(self.t, betas.0), bias_divisor(self.t, betas.1)];
        let tensors = [self.p, self.g, states[0], states[1]];
        let out = self.sweep("update", &tensors, &scalars, |t, k| {
            let m = without_subnormals(lerp_nearer_end(t[2], t[1], 1.0 - betas.0));
            let v = average_squares(t[3], t[1], betas.1);
            vec![add_weight_decay(m / k[0] / ((v / k[1]).sqrt() + eps), t[0], weight_decay), m, v]
        });
        self.hold(&states, out.get(1..)?);
        out.first().copied()
    }
}

/// A matrix with the singular vectors of `u` and singular values near 1, by the quintic Newton–Schulz iteration
/// (kellerjordan.github.io/posts/muon). The products are square in the shorter side.
fn orthogonalise<'g>(u: Var<'g>, (a, b, c): (f64, f64, f64), steps: u32, eps: f64) -> Var<'g> {
    let d = u.dims();
    let tall = d[0] > d[1];
    let mut x = if tall { u.t() } else { u };
    x = x / rounded_norm(x).cast(x.dtype()).maximum(eps);
    for _ in 0..steps {
        let gram = x.matmul_t(x, false, true);
        let poly = gram * b + gram.matmul(gram) * c;
        x = x * a + poly.matmul(x);
    }
    if tall { x.t() } else { x }
}
