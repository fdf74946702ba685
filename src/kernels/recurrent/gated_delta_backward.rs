//! All gradients of the gated delta rule in one sweep from the last step to the first.
//!
//! R is the gradient of the state after a step; at first it is that of the last state. At each step R += q·ōᵀ/√keys,
//! then q̄ = S·ō/√keys, d̄ = Rᵀk, ū = −β·d̄, k̄ = R·d + T·ū, v̄ = β·d̄, β̄ = d̄·(v − u), T̄ = R + k·ūᵀ, ḡ = Σ T̄∘T,
//! and R becomes e^g·T̄. After the first step R is the gradient of S_0.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`gated_delta_backward_kernel`] | ō: `T[batch, steps, heads, values]`, the gradient of the last state if `last`, the operands of the rule | q̄, k̄: `T[batch, steps, heads, keys]`, v̄: `T[batch, steps, heads, values]`, ḡ, β̄: `T[batch, steps, heads]`, the gradient of S_0: `T[batch, heads, keys, values]` if `state`, scratch | [`GatedDelta`] |
//!
//! Invariant: see `mod.rs`. A dot product has a fixed number of partial sums.

use super::gated_delta::{GatedDelta, GatedDeltaOperands};
use super::sequence_units::SequencePart;
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::matrix_rows::{add_scaled_matrix_row, dot_rows, scale_matrix_row};
use crate::scratch::scratch;
use crate::simd;
use std::ops::Range;

impl GatedDelta {
    /// Elements of scratch for each thread of the backward kernel.
    pub fn backward_scratch(&self) -> usize {
        GatedDeltaBackwardScratch::len(self)
    }
}

scratch! {
    /// Scratch of a head.
    struct GatedDeltaBackwardScratch(p: &GatedDelta) {
        /// The state before each stretch.
        kept: p.stretches().saturating_mul(p.state_len()),
        /// The states of one stretch: before its first step, then after each step.
        states: (p.stretch() + 1).saturating_mul(p.state_len()),
        /// R.
        carry: p.state_len(),
        d: p.values,
        /// v − u.
        miss: p.values,
        /// d̄.
        dd: p.values,
        /// ū.
        du: p.values,
        /// Terms of ḡ, one of each key.
        terms: p.keys,
    }
}

/// The rows of steps that a head writes.
struct GatedDeltaBackwardRows<'a, T> {
    dq: MatrixMut<'a, T>,
    dk: MatrixMut<'a, T>,
    dv: MatrixMut<'a, T>,
    dg: MatrixMut<'a, T>,
    dbeta: MatrixMut<'a, T>,
}

simd! {
    /// Writes the state before each stretch. The first is there.
    fn keep_gated_delta_backward_states[T: Float](
        p: &GatedDelta,
        x: &GatedDeltaOperands<'_, T>,
        at: [usize; 2],
        kept: &mut [T],
        d: &mut [T],
    ) {
        let n = p.state_len();
        for k in 1..p.stretches() {
            kept.copy_within((k - 1) * n..k * n, k * n);
            for t in (k - 1) * p.stretch()..k * p.stretch() {
                x.step(p, at, t).advance(&mut kept[k * n..(k + 1) * n], d);
            }
        }
    }
}

simd! {
    /// Writes the states of the steps `of`. The first state is there.
    fn repeat_gated_delta_backward_stretch[T: Float](
        p: &GatedDelta,
        x: &GatedDeltaOperands<'_, T>,
        at: [usize; 2],
        of: Range<usize>,
        states: &mut [T],
        d: &mut [T],
    ) {
        let n = p.state_len();
        for (i, t) in of.enumerate() {
            states.copy_within(i * n..(i + 1) * n, (i + 1) * n);
            x.step(p, at, t).advance(&mut states[(i + 1) * n..(i + 2) * n], d);
        }
    }
}

simd! {
    /// The gradients of the steps `of`, from the last to the first.
    fn gated_delta_backward_stretch[T: Float](
        p: &GatedDelta,
        x: &GatedDeltaOperands<'_, T>,
        grads: &[T],
        at: [usize; 2],
        of: Range<usize>,
        s: &mut GatedDeltaBackwardScratch<'_, T>,
        to: &mut GatedDeltaBackwardRows<'_, T>,
    ) {
        let (n, m, scale) = (p.state_len(), p.values, p.scale::<T>());
        let (d, miss, dd, du) = (&mut *s.d, &mut *s.miss, &mut *s.dd, &mut *s.du);
        for t in of.clone().rev() {
            let (i, step) = (t - of.start, x.step(p, at, t));
            let (before, after) = s.states[i * n..(i + 2) * n].split_at(n);
            let grad = &grads[((at[0] * p.steps + t) * p.heads + at[1]) * m..][..m];
            miss.fill(T::ZERO);
            for (row, k) in before.chunks_exact(m).zip(step.k) {
                add_scaled_matrix_row(*k * step.decay, row, miss);
            }
            for ((d, miss), v) in d.iter_mut().zip(miss.iter_mut()).zip(step.v) {
                *miss = *v - *miss;
                *d = step.beta * *miss;
            }
            dd.fill(T::ZERO);
            let rows = s.carry.chunks_exact_mut(m).zip(after.chunks_exact(m)).zip(to.dq.row(t));
            for (((r, after), dq), (q, k)) in rows.zip(step.q.iter().zip(step.k)) {
                *dq = scale * dot_rows(after, grad);
                add_scaled_matrix_row(*q * scale, grad, r);
                add_scaled_matrix_row(*k, r, dd);
            }
            for ((du, dv), dd) in du.iter_mut().zip(to.dv.row(t)).zip(dd.iter()) {
                *dv = step.beta * *dd;
                *du = -*dv;
            }
            let rows = s.carry.chunks_exact_mut(m).zip(before.chunks_exact(m)).zip(s.terms.iter_mut());
            for (((r, before), term), (k, dk)) in rows.zip(step.k.iter().zip(to.dk.row(t))) {
                *dk = dot_rows(before, du).mul_add(step.decay, dot_rows(r, d));
                add_scaled_matrix_row(*k, du, r);
                scale_matrix_row(step.decay, r);
                *term = dot_rows(r, before);
            }
            to.dg.row(t)[0] = s.terms.iter().fold(T::ZERO, |sum, term| sum + *term);
            to.dbeta.row(t)[0] = dot_rows(dd, miss);
        }
    }
}

/// Writes of the kernel, by position.
struct GatedDeltaBackwardParts<'a, T> {
    dq: SequencePart<'a, T>,
    dk: SequencePart<'a, T>,
    dv: SequencePart<'a, T>,
    dg: SequencePart<'a, T>,
    dbeta: SequencePart<'a, T>,
    dstate: Option<SequencePart<'a, T>>,
    scratch: &'a mut [T],
}

impl<'a, T: Float> GatedDeltaBackwardParts<'a, T> {
    fn of(p: &GatedDelta, args: &mut Args<'a>) -> GatedDeltaBackwardParts<'a, T> {
        let units = p.units();
        GatedDeltaBackwardParts {
            dq: units.part(args, 0, p.steps, p.keys),
            dk: units.part(args, 1, p.steps, p.keys),
            dv: units.part(args, 2, p.steps, p.values),
            dg: units.part(args, 3, p.steps, 1),
            dbeta: units.part(args, 4, p.steps, 1),
            dstate: p.state.then(|| units.part(args, 5, 1, p.state_len())),
            scratch: args.write(5 + usize::from(p.state)),
        }
    }

    /// All steps of a head, given ō and the gradient of the last state.
    fn head(&mut self, p: &GatedDelta, x: &GatedDeltaOperands<'_, T>, grads: [&[T]; 2], [b, h]: [usize; 2]) {
        let (head, at, n) = (h..h + 1, [b, h], p.state_len());
        let mut s = GatedDeltaBackwardScratch::cut(p, self.scratch);
        let mut to = GatedDeltaBackwardRows {
            dq: self.dq.at(b, &head),
            dk: self.dk.at(b, &head),
            dv: self.dv.at(b, &head),
            dg: self.dg.at(b, &head),
            dbeta: self.dbeta.at(b, &head),
        };
        match p.last {
            true => s.carry.copy_from_slice(&grads[1][(b * p.heads + h) * n..][..n]),
            false => s.carry.fill(T::ZERO),
        }
        if let Some(first) = s.kept.get_mut(..n) {
            x.load_state(p, at, first);
        }
        keep_gated_delta_backward_states(p, x, at, s.kept, s.d);
        for k in (0..p.stretches()).rev() {
            let of = k * p.stretch()..((k + 1) * p.stretch()).min(p.steps);
            s.states[..n].copy_from_slice(&s.kept[k * n..(k + 1) * n]);
            repeat_gated_delta_backward_stretch(p, x, at, of.clone(), s.states, s.d);
            gated_delta_backward_stretch(p, x, grads[0], at, of, &mut s, &mut to);
        }
        if let Some(dstate) = &mut self.dstate {
            dstate.at(b, &head).row(0).copy_from_slice(s.carry);
        }
    }
}

/// All gradients of the gated delta rule.
///
/// Reads and writes as the head of the file says; all but scratch is divided by
/// [`SequenceUnits::split`](super::sequence_units::SequenceUnits::split). Scratch has
/// [`GatedDelta::backward_scratch`] elements (`Split::PerThread`); params [`GatedDelta`].
pub fn gated_delta_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let p = GatedDelta::from_words(args.params());
    let x = GatedDeltaOperands::<T>::read(&p, args, 1 + usize::from(p.last));
    let grads: [&[T]; 2] = [args.read(0), if p.last { args.read(1) } else { &[] }];
    let mut parts = GatedDeltaBackwardParts::<T>::of(&p, args);
    for unit in args.units().map(|unit| p.units().unit(unit)) {
        for (b, h) in unit.batch.flat_map(|b| unit.channels.clone().map(move |h| (b, h))) {
            parts.head(&p, &x, grads, [b, h]);
        }
    }
}

by_dtype!(gated_delta_backward_kernel_for = gated_delta_backward_kernel::<floats>);
