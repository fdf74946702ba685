//! The gated delta rule as scans over its steps: the decompositions of the op and of its backward op, and its tangents.

use super::attrs::GatedDeltaAttrs;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::control::scan::Loop;

/// The operands of a rule.
pub(super) struct DeltaSteps<'g> {
    g: &'g Builder,
    /// q, k, v, g and β, with the axis of steps second.
    operands: [Var<'g>; 5],
    state: Option<Var<'g>>,
}

/// An operand with the axis of steps first, or back again.
fn exchange_delta_steps(x: Var<'_>) -> Var<'_> {
    x.movedim(&[1], &[0])
}

/// What one step reads, [B,H,N,M] or broadcast to it.
struct DeltaStepTerms<'g> {
    /// [B,H,N,1].
    q: Var<'g>,
    k: Var<'g>,
    /// [B,H,1,M].
    v: Var<'g>,
    /// [B,H,1,1].
    g: Var<'g>,
    beta: Var<'g>,
}

impl<'g> DeltaStepTerms<'g> {
    /// From slices of q, k, v, g and β.
    fn of(xs: &[Var<'g>]) -> DeltaStepTerms<'g> {
        let [g, beta] = [xs[3], xs[4]].map(|x| x.unsqueeze(2).unsqueeze(3));
        DeltaStepTerms { q: xs[0].unsqueeze(3), k: xs[1].unsqueeze(3), v: xs[2].unsqueeze(2), g, beta }
    }

    /// v − Tᵀk.
    fn miss(&self, faded: Var<'g>) -> Var<'g> {
        self.v - sum_over_keys(faded, self.k)
    }

    /// The state after the step, from T.
    fn next(&self, faded: Var<'g>) -> Var<'g> {
        faded + self.k * (self.beta * self.miss(faded))
    }
}

/// Σ over the keys of a state and a vector of them: [B,H,1,M].
fn sum_over_keys<'g>(state: Var<'g>, keys: Var<'g>) -> Var<'g> {
    keys.t().matmul(state)
}

/// Σ over the values of a state and a vector of them: [B,H,N,1].
fn sum_over_values<'g>(state: Var<'g>, values: Var<'g>) -> Var<'g> {
    state.matmul(values.t())
}

impl<'g> DeltaSteps<'g> {
    /// The operands of a node from `first` on.
    pub fn of(s: &Site<'_, 'g>, first: usize) -> DeltaSteps<'g> {
        let o = &s.args[first..];
        let state = GatedDeltaAttrs::of(&s.attrs).state.then(|| o[5]);
        DeltaSteps { g: s.g, operands: [o[0], o[1], o[2], o[3], o[4]], state }
    }

    fn slices(&self) -> [Var<'g>; 5] {
        self.operands.map(exchange_delta_steps)
    }

    /// Zeros of the shape of the states.
    fn no_state(&self) -> Var<'g> {
        let (q, v) = (self.operands[0].dims(), self.operands[2].dims());
        self.g.full(0.0, [q[0], q[2], q[3], v[3]], self.operands[0].dtype())
    }

    /// The state before the first step.
    fn first(&self) -> Var<'g> {
        self.state.unwrap_or_else(|| self.no_state())
    }

    /// The factor of the outputs.
    fn scale(&self) -> f64 {
        1.0 / (self.operands[0].dims()[3] as f64).sqrt()
    }

    /// o and the last state.
    pub fn forward(&self) -> [Var<'g>; 2] {
        let (last, o) = self.g.scan(&[self.first()], &self.slices(), |s, xs| {
            let step = DeltaStepTerms::of(xs);
            let next = step.next(step.g.exp() * s[0]);
            (vec![next], vec![sum_over_keys(next, step.q * self.scale()).squeeze(2)])
        });
        [exchange_delta_steps(o[0]), last[0]]
    }

    /// Tangents of o and of the last state, given those of the operands: the state and its tangent run together.
    pub fn jvp(&self, t: &[Option<Var<'g>>]) -> [Var<'g>; 2] {
        let tangent = |i: usize, x: Var<'g>| t.get(i).copied().flatten().unwrap_or_else(|| x.full_like(0.0));
        let tangents = [0, 1, 2, 3, 4].map(|i| exchange_delta_steps(tangent(i, self.operands[i])));
        let carries = [self.first(), tangent(5, self.first())];
        let (last, o) = self.g.scan(&carries, &[self.slices(), tangents].concat(), |s, xs| {
            let (step, t) = (DeltaStepTerms::of(xs), DeltaStepTerms::of(&xs[5..]));
            let decay = step.g.exp();
            let faded = decay * s[0];
            let moved = decay * s[1] + faded * t.g;
            let (miss, next) = (step.miss(faded), step.next(faded));
            let drift = t.v - sum_over_keys(moved, step.k) - sum_over_keys(faded, t.k);
            let moved = moved + t.k * (step.beta * miss) + step.k * (t.beta * miss + step.beta * drift);
            let o = sum_over_keys(moved, step.q) + sum_over_keys(next, t.q);
            (vec![next, moved], vec![(o * self.scale()).squeeze(2)])
        });
        [exchange_delta_steps(o[0]), last[1]]
    }

    /// The results of the backward op: a scan that keeps the state before each step, and one from the last step on.
    pub fn backward(&self, grad: Var<'g>, dlast: Option<Var<'g>>) -> Vec<Var<'g>> {
        let (_, before) = self.g.scan(&[self.first()], &self.slices(), |s, xs| {
            let step = DeltaStepTerms::of(xs);
            (vec![step.next(step.g.exp() * s[0])], vec![s[0]])
        });
        let xs = [&self.slices()[..], &[exchange_delta_steps(grad), before[0]]].concat();
        let carry = dlast.unwrap_or_else(|| self.no_state());
        let (carry, ys) = self.g.scan_with(Loop::default().reverse(true), &[carry], &xs, |carry, xs| {
            let (step, grad, before) = (DeltaStepTerms::of(xs), xs[5].unsqueeze(2) * self.scale(), xs[6]);
            let decay = step.g.exp();
            let faded = decay * before;
            let (miss, next) = (step.miss(faded), step.next(faded));
            let r = carry[0] + step.q * grad;
            let dd = sum_over_keys(r, step.k);
            let dv = step.beta * dd;
            let dq = sum_over_values(next, grad);
            let dk = sum_over_values(r, step.beta * miss) - sum_over_values(faded, dv);
            let back = r - step.k * dv;
            let dg = (back * faded).sum([2, 3]);
            let dbeta = (dd * miss).sum([2, 3]);
            (vec![back * decay], vec![dq.squeeze(3), dk.squeeze(3), dv.squeeze(2), dg, dbeta])
        });
        let all = ys.into_iter().map(exchange_delta_steps);
        all.chain(self.state.map(|_| carry[0])).collect()
    }
}
