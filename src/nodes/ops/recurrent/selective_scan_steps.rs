//! The selective scan as scans over its steps: the decompositions of the op and of its backward op, and its tangents.

use super::attrs::SelectiveScanAttrs;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::control::scan::Loop;

/// The operands of a scan.
pub(super) struct ScanSteps<'g> {
    g: &'g Builder,
    /// [B,S,H].
    x: Var<'g>,
    delta: Var<'g>,
    /// [H,N]; −∞ is the lowest finite number.
    a: Var<'g>,
    /// [B,S,N].
    b: Var<'g>,
    c: Var<'g>,
    d: Option<Var<'g>>,
    h0: Option<Var<'g>>,
}

/// An operand with the axis of steps first, or back again.
fn swap_step_axis(x: Var<'_>) -> Var<'_> {
    x.transpose(&[1, 0, 2])
}

/// The lowest finite number of the type of `x`.
fn scan_step_lowest_finite(x: Var<'_>) -> f64 {
    if x.dtype().size() == 4 { f64::from(f32::MIN) } else { f64::MIN }
}

/// What one step reads, [B,H,N] or broadcast to it.
struct SelectiveScanStepTerms<'g> {
    /// [B,H,1].
    x: Var<'g>,
    delta: Var<'g>,
    /// [B,1,N].
    b: Var<'g>,
    c: Var<'g>,
}

impl<'g> SelectiveScanStepTerms<'g> {
    /// From slices of x, Δ, B and C.
    fn of(xs: &[Var<'g>]) -> SelectiveScanStepTerms<'g> {
        SelectiveScanStepTerms {
            x: xs[0].unsqueeze(2),
            delta: xs[1].unsqueeze(2),
            b: xs[2].unsqueeze(1),
            c: xs[3].unsqueeze(1),
        }
    }

    /// exp(Δ·A).
    fn decay(&self, a: Var<'g>) -> Var<'g> {
        (self.delta * a).exp()
    }

    /// The next state.
    fn next(&self, decay: Var<'g>, h: Var<'g>) -> Var<'g> {
        decay * h + self.delta * self.x * self.b
    }
}

impl<'g> ScanSteps<'g> {
    /// The operands of a node from `first` on.
    pub fn of(s: &Site<'_, 'g>, first: usize) -> ScanSteps<'g> {
        let SelectiveScanAttrs { d, h0 } = SelectiveScanAttrs::of(&s.attrs);
        let o = &s.args[first..];
        let a = o[2].clamp(scan_step_lowest_finite(o[2]), f64::INFINITY);
        let h0 = h0.then(|| o[5 + usize::from(d)]);
        ScanSteps { g: s.g, x: o[0], delta: o[1], a, b: o[3], c: o[4], d: d.then(|| o[5]), h0 }
    }

    /// x, Δ, B and C with the axis of steps first.
    fn slices(&self) -> [Var<'g>; 4] {
        [self.x, self.delta, self.b, self.c].map(swap_step_axis)
    }

    /// Zeros of the shape of the states.
    fn no_state(&self) -> Var<'g> {
        let (x, a) = (self.x.dims(), self.a.dims());
        self.g.full(0.0, [x[0], x[2], a[1]], self.x.dtype())
    }

    /// The state before the first step.
    fn first(&self) -> Var<'g> {
        self.h0.unwrap_or_else(|| self.no_state())
    }

    /// y and the last state.
    pub fn forward(&self) -> [Var<'g>; 2] {
        let (last, y) = self.g.scan(&[self.first()], &self.slices(), |h, xs| {
            let step = SelectiveScanStepTerms::of(xs);
            let h = step.next(step.decay(self.a), h[0]);
            (vec![h], vec![(h * step.c).sum(-1)])
        });
        let y = swap_step_axis(y[0]);
        [self.d.map_or(y, |d| y + self.x * d), last[0]]
    }

    /// y, the last state, and the state before every `every`-th step.
    pub fn forward_and_keep(&self, every: usize) -> [Var<'g>; 3] {
        let before = self.states_before_steps();
        let every = every.min(self.x.dims()[1].max(1));
        let (dims, ones) = (before.dims(), vec![1; before.rank()]);
        let kept = before.slice(&[0; 4], &dims, &[&[every], &ones[1..]].concat());
        let [y, last] = self.forward();
        [y, last, kept.transpose(&[1, 0, 2, 3])]
    }

    /// The state before each step, [S,B,H,N].
    pub fn states_before_steps(&self) -> Var<'g> {
        let (_, before) = self.g.scan(&[self.first()], &self.slices(), |h, xs| {
            let step = SelectiveScanStepTerms::of(xs);
            (vec![step.next(step.decay(self.a), h[0])], vec![h[0]])
        });
        before[0]
    }

    /// The same from `kept`, the states before every `every`-th step, [B,⌈S/every⌉,H,N]: the stretches are members of a
    /// batch.
    pub fn states_from_kept(&self, kept: Var<'g>, every: usize) -> Var<'g> {
        let [batch, stretches, channels, states] = kept.dims()[..] else { return kept };
        let steps = self.x.dims()[1];
        let every = every.min(steps.max(1));
        let rows = self.slices().map(|x| {
            // Zeros behind the last step: a step with Δ = 0 leaves the state as it is.
            let x = swap_step_axis(x).pad(&[0; 3], &[0, stretches * every - steps, 0], 0.0);
            let last = x.dims()[2];
            swap_step_axis(x.reshape([batch * stretches, every, last]))
        });
        let (_, before) = self.g.scan(&[kept.reshape([batch * stretches, channels, states])], &rows, |h, xs| {
            let step = SelectiveScanStepTerms::of(xs);
            (vec![step.next(step.decay(self.a), h[0])], vec![h[0]])
        });
        let before = before[0].reshape([every, batch, stretches, channels, states]).transpose(&[2, 0, 1, 3, 4]);
        before.reshape([stretches * every, batch, channels, states]).narrow(0, 0, steps)
    }

    /// Tangents of y and of the last state, given those of the operands: the state and its tangent run together.
    pub fn jvp(&self, t: &[Option<Var<'g>>]) -> [Var<'g>; 2] {
        let zeros = |x: Var<'g>| x.full_like(0.0);
        let [dx, ddelta, da, db, dc] = [self.x, self.delta, self.a, self.b, self.c]
            .iter()
            .zip(t)
            .map(|(x, t)| t.unwrap_or_else(|| zeros(*x)))
            .collect::<Vec<_>>()[..]
        else {
            return [self.x; 2];
        };
        let (more, extra) = (usize::from(self.d.is_some()), t.get(5).copied().flatten());
        let dh0 = self.h0.and_then(|_| t.get(5 + more).copied().flatten()).unwrap_or_else(|| self.no_state());
        let tangents = [dx, ddelta, db, dc].map(swap_step_axis);
        let (last, y) = self.g.scan(&[self.first(), dh0], &[self.slices(), tangents].concat(), |h, xs| {
            let (step, t) = (SelectiveScanStepTerms::of(xs), SelectiveScanStepTerms::of(&xs[4..]));
            let decay = step.decay(self.a);
            let next = step.next(decay, h[0]);
            let bends = decay * (t.delta * self.a + step.delta * da);
            let flows = (t.delta * step.x + step.delta * t.x) * step.b + step.delta * step.x * t.b;
            let moved = decay * h[1] + bends * h[0] + flows;
            (vec![next, moved], vec![(moved * step.c + next * t.c).sum(-1)])
        });
        let y = swap_step_axis(y[0]);
        let from_d = self.d.and(extra).map(|t| self.x * t);
        let from_x = self.d.map(|d| dx * d);
        [[from_d, from_x].into_iter().flatten().fold(y, |y, more| y + more), last[1]]
    }

    /// The results of the backward op, from the state before each step: a scan from the last step on.
    pub fn backward(&self, before: Var<'g>, dy: Var<'g>, dlast: Option<Var<'g>>) -> Vec<Var<'g>> {
        let xs = [&self.slices()[..], &[swap_step_axis(dy), before]].concat();
        let carries = [dlast.unwrap_or_else(|| self.no_state()), self.no_state()];
        let (carries, ys) = self.g.scan_with(Loop::default().reverse(true), &carries, &xs, |carry, xs| {
            let (step, dy, before) = (SelectiveScanStepTerms::of(xs), xs[4].unsqueeze(2), xs[5]);
            let decay = step.decay(self.a);
            let lambda = step.c * dy + carry[0];
            let next = lambda * decay;
            let moved = next * before;
            let from_b = (lambda * step.b).sum(-1);
            let dx = from_b * xs[1];
            let ddelta = from_b * xs[0] + (moved * self.a).sum(-1);
            let db = (lambda * (step.delta * step.x)).sum(1);
            let dc = (step.next(decay, before) * dy).sum(1);
            (vec![next, carry[1] + moved * step.delta], vec![dx, ddelta, db, dc])
        });
        let [dx, ddelta, db, dc] = [0, 1, 2, 3].map(|i| swap_step_axis(ys[i]));
        let dx = self.d.map_or(dx, |d| dx + dy * d);
        let dd = self.d.map(|_| (dy * self.x).sum(1));
        let all = [Some(dx), Some(ddelta), Some(carries[1]), Some(db), Some(dc), dd, self.h0.map(|_| carries[0])];
        all.into_iter().flatten().collect()
    }
}
