//! All gradients of the selective scan in one sweep from the last step to the first.
//!
//! With a_t = e^(Δ_t·A) and λ_t = C_t·ȳ_t + a_(t+1)∘λ_(t+1), where the last term of the last step is the gradient of
//! the last state: x̄_t = Δ_t·Σ_n λ_t·B_t + D·ȳ_t, Δ̄_t = Σ_n λ_t·(A·a_t·h_(t−1) + B_t·x_t), Ā = Σ_t
//! λ_t·Δ_t·a_t·h_(t−1), B̄_t = Σ λ_t·Δ_t·x_t and C̄_t = Σ ȳ_t·h_t over the channels, D̄ = Σ_t ȳ_t·x_t, and the
//! gradient of h_0 is a_1∘λ_1.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`selective_scan_backward_kernel`] | ȳ: `T[batch, steps, channels]`, the gradient of the last state if `last`, the operands of the scan | x̄, Δ̄: `T[batch, steps, channels]`, Ā: `T[batch, channels, states]`, B̄, C̄: `T[sums, batch, steps, states]`, D̄: `T[batch, channels]` if `d`, the gradient of h_0: `T[batch, channels, states]` if `h0`, scratch | [`SelectiveScan`] |
//!
//! Invariant: `sums` is [`SequenceUnits::sums`]. A unit adds vectors of channels in ascending order, each summed in a
//! tree; the lowering adds the units.

use super::lanes::{
    LANES, Lanes, load_lanes, store_lanes, sum_lanes_to_four, transpose_from_lanes, transpose_to_lanes,
};
use super::selective_scan::{
    ScanOperands, ScanStep, ScanVector, SelectiveScan, largest_rates, selective_scan_decay, selective_scan_next,
};
use super::sequence_units::{SequencePart, SequenceUnits};
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::simd;
use std::array::from_fn;
use std::ops::Range;

/// Scratch of a vector of channels; each state has one vector for each of its numbers.
struct BackwardScratch<'a, T> {
    a: &'a [Lanes<T>],
    /// [`largest_rates`] of A.
    most: Lanes<T>,
    /// The state before each stretch.
    kept: &'a mut [Lanes<T>],
    /// The states of one stretch: before its first step, then after each step.
    states: &'a mut [Lanes<T>],
    /// The decays of one stretch.
    decays: &'a mut [Lanes<T>],
    /// a_(t+1)∘λ_(t+1).
    carry: &'a mut [Lanes<T>],
    /// Ā.
    da: &'a mut [Lanes<T>],
    /// As in [`StepVectors`].
    partial: &'a mut [[T; 4]],
}

/// Gradients that a vector of channels writes.
struct BackwardRows<'a, T> {
    dx: MatrixMut<'a, T>,
    ddelta: MatrixMut<'a, T>,
    /// Rows of steps, to which the vector adds.
    db: &'a mut [T],
    dc: &'a mut [T],
    /// D̄.
    dd: Lanes<T>,
}

/// Moves the state by one step.
#[inline(always)]
fn move_state<T: Float, const NORMAL: bool>(step: &ScanStep<'_, T>, a: &[Lanes<T>], h: &mut [Lanes<T>]) {
    for ((h, a), b) in h.iter_mut().zip(a).zip(step.b) {
        *h = selective_scan_next(&selective_scan_decay::<T, NORMAL>(a, &step.delta), h, &step.inflow, *b);
    }
}

simd! {
    /// Writes the state before each stretch. The first is there.
    fn keep_selective_scan_states[T: Float](
        p: &SelectiveScan,
        x: &ScanOperands<'_, T>,
        v: ScanVector,
        a: &[Lanes<T>],
        kept: &mut [Lanes<T>],
    ) {
        let (n, most) = (p.states, largest_rates(a));
        for k in 1..p.stretches() {
            kept.copy_within((k - 1) * n..k * n, k * n);
            let h = &mut kept[k * n..(k + 1) * n];
            for t in (k - 1) * p.stretch()..k * p.stretch() {
                let step = ScanStep::load(p, x, v, t, &most);
                match step.normal {
                    true => move_state::<T, true>(&step, a, h),
                    false => move_state::<T, false>(&step, a, h),
                }
            }
        }
    }
}

/// Writes the decays of a step, and the state after it.
#[inline(always)]
fn repeat_step<T: Float, const NORMAL: bool>(
    step: &ScanStep<'_, T>,
    a: &[Lanes<T>],
    before: &[Lanes<T>],
    after: &mut [Lanes<T>],
    decays: &mut [Lanes<T>],
) {
    for ((((to, h), decay), a), b) in after.iter_mut().zip(before).zip(decays).zip(a).zip(step.b) {
        *decay = selective_scan_decay::<T, NORMAL>(a, &step.delta);
        *to = selective_scan_next(decay, h, &step.inflow, *b);
    }
}

simd! {
    /// Writes the states and the decays of the steps `of`. The first state is there.
    fn repeat_selective_scan_stretch[T: Float](
        p: &SelectiveScan,
        x: &ScanOperands<'_, T>,
        v: ScanVector,
        of: Range<usize>,
        s: &mut BackwardScratch<'_, T>,
    ) {
        let n = p.states;
        for (i, t) in of.enumerate() {
            let step = ScanStep::load(p, x, v, t, &s.most);
            let (before, after) = s.states[i * n..(i + 2) * n].split_at_mut(n);
            let decays = &mut s.decays[i * n..(i + 1) * n];
            match step.normal {
                true => repeat_step::<T, true>(&step, s.a, before, after, decays),
                false => repeat_step::<T, false>(&step, s.a, before, after, decays),
            }
        }
    }
}

/// The sums over the states of one step: Σ λ·B and Σ λ·A·a·h.
struct StateSums<T> {
    inflow: Lanes<T>,
    decay: Lanes<T>,
}

/// What step `t` adds for one number of the states: moves the carry, and returns the terms of B̄ and C̄.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // One caller, whose loop has these vectors.
fn selective_scan_backward_number<T: Float>(
    step: &ScanStep<'_, T>,
    dy: &Lanes<T>,
    n: usize,
    (a, decay): (&Lanes<T>, &Lanes<T>),
    [before, after]: [&Lanes<T>; 2],
    carry: &mut Lanes<T>,
    da: &mut Lanes<T>,
    sums: &mut StateSums<T>,
) -> [Lanes<T>; 2] {
    let (b, c) = (step.b[n], step.c[n]);
    // Each vector is whole before it is stored: a store between two loads would keep them from being one instruction.
    let lambda: Lanes<T> = from_fn(|l| c.mul_add(dy[l], carry[l]));
    let next: Lanes<T> = from_fn(|l| lambda[l] * decay[l]);
    let moved: Lanes<T> = from_fn(|l| next[l] * before[l]);
    let more: Lanes<T> = from_fn(|l| step.delta[l].mul_add(moved[l], da[l]));
    sums.inflow = from_fn(|l| lambda[l].mul_add(b, sums.inflow[l]));
    sums.decay = from_fn(|l| a[l].mul_add(moved[l], sums.decay[l]));
    (*carry, *da) = (next, more);
    [from_fn(|l| lambda[l] * step.inflow[l]), from_fn(|l| dy[l] * after[l])]
}

/// The vectors of one step, one for each number of the states.
struct StepVectors<'a, T> {
    before: &'a [Lanes<T>],
    after: &'a [Lanes<T>],
    a: &'a [Lanes<T>],
    decays: &'a [Lanes<T>],
    carry: &'a mut [Lanes<T>],
    da: &'a mut [Lanes<T>],
    /// Four partial sums of the terms of each number of B̄, then of C̄.
    partial: [&'a mut [[T; 4]]; 2],
}

/// The states of one step: moves the carries, and writes the partial sums of B̄ and C̄. `FULL` if all lanes are
/// channels, else the first `width` are.
#[inline(always)]
fn backward_states<T: Float, const FULL: bool>(
    step: &ScanStep<'_, T>,
    dy: &Lanes<T>,
    width: usize,
    s: StepVectors<'_, T>,
) -> StateSums<T> {
    let mut sums = StateSums { inflow: [T::ZERO; LANES], decay: [T::ZERO; LANES] };
    let [to_b, to_c] = s.partial;
    let states = s.before.iter().zip(s.after).zip(s.a.iter().zip(s.decays));
    let moved = s.carry.iter_mut().zip(s.da).zip(to_b.iter_mut().zip(to_c));
    for (n, (((before, after), (a, decay)), ((carry, da), (to_b, to_c)))) in states.zip(moved).enumerate() {
        let terms = selective_scan_backward_number(step, dy, n, (a, decay), [before, after], carry, da, &mut sums);
        [*to_b, *to_c] = terms.map(|x| sum_lanes_to_four(x, if FULL { LANES } else { width }));
    }
    sums
}

/// Adds the sum of each four to its number.
#[inline(always)]
fn add_partial_sums<T: Float>(partial: &[[T; 4]], to: &mut [T]) {
    let (fours, rest) = partial.as_chunks::<4>();
    let (to_fours, to_rest) = to.as_chunks_mut::<4>();
    // Four at a time, the sums are vectors.
    for (to, x) in to_fours.iter_mut().zip(fours) {
        let even: [T; 4] = from_fn(|i| x[i][0] + x[i][2]);
        let odd: [T; 4] = from_fn(|i| x[i][1] + x[i][3]);
        *to = from_fn(|i| to[i] + (even[i] + odd[i]));
    }
    for (to, x) in to_rest.iter_mut().zip(rest) {
        *to += (x[0] + x[2]) + (x[1] + x[3]);
    }
}

simd! {
    /// The gradients of the steps `of`, from the last to the first.
    fn selective_scan_backward_stretch[T: Float](
        p: &SelectiveScan,
        x: &ScanOperands<'_, T>,
        dy: &[T],
        v: ScanVector,
        of: Range<usize>,
        s: &mut BackwardScratch<'_, T>,
        to: &mut BackwardRows<'_, T>,
    ) {
        let n = p.states;
        let d = x.d.map(|d| load_lanes(d, v.channel, v.width));
        for t in of.clone().rev() {
            let i = t - of.start;
            let step = ScanStep::load(p, x, v, t, &s.most);
            let dy = load_lanes(dy, (v.b * p.steps + t) * p.channels + v.channel, v.width);
            let (before, after) = s.states[i * n..(i + 2) * n].split_at(n);
            let (to_b, to_c) = s.partial.split_at_mut(n);
            let vectors = StepVectors {
                before,
                after,
                a: s.a,
                decays: &s.decays[i * n..(i + 1) * n],
                carry: s.carry,
                da: s.da,
                partial: [to_b, to_c],
            };
            let sums = match v.width == LANES {
                true => backward_states::<T, true>(&step, &dy, LANES, vectors),
                false => backward_states::<T, false>(&step, &dy, v.width, vectors),
            };
            let (to_b, to_c) = s.partial.split_at(n);
            add_partial_sums(to_b, &mut to.db[t * n..(t + 1) * n]);
            add_partial_sums(to_c, &mut to.dc[t * n..(t + 1) * n]);
            let (mut dx, mut ddelta) = ([T::ZERO; LANES], [T::ZERO; LANES]);
            for ((to, sum), delta) in dx.iter_mut().zip(&sums.inflow).zip(&step.delta) {
                *to = *sum * *delta;
            }
            for ((to, (sum, decay)), x) in ddelta.iter_mut().zip(sums.inflow.iter().zip(&sums.decay)).zip(&step.x) {
                *to = sum.mul_add(*x, *decay);
            }
            if let Some(d) = &d {
                for ((to, d), dy) in dx.iter_mut().zip(d).zip(&dy) {
                    *to = d.mul_add(*dy, *to);
                }
                for ((to, x), dy) in to.dd.iter_mut().zip(&step.x).zip(&dy) {
                    *to = x.mul_add(*dy, *to);
                }
            }
            store_lanes(&dx, to.dx.row(t));
            store_lanes(&ddelta, to.ddelta.row(t));
        }
    }
}

/// All steps of a vector of channels. The state before the first step is the first of those kept.
fn selective_scan_backward_vector<T: Float>(
    p: &SelectiveScan,
    x: &ScanOperands<'_, T>,
    dy: &[T],
    v: ScanVector,
    s: &mut BackwardScratch<'_, T>,
    to: &mut BackwardRows<'_, T>,
) {
    keep_selective_scan_states(p, x, v, s.a, s.kept);
    for k in (0..p.stretches()).rev() {
        let of = k * p.stretch()..((k + 1) * p.stretch()).min(p.steps);
        s.states[..p.states].copy_from_slice(&s.kept[k * p.states..(k + 1) * p.states]);
        repeat_selective_scan_stretch(p, x, v, of.clone(), s);
        selective_scan_backward_stretch(p, x, dy, v, of, s, to);
    }
}

/// Writes of the kernel, by position.
struct BackwardParts<'a, T> {
    units: SequenceUnits,
    dx: SequencePart<'a, T>,
    ddelta: SequencePart<'a, T>,
    da: SequencePart<'a, T>,
    db: &'a mut [T],
    dc: &'a mut [T],
    dd: Option<SequencePart<'a, T>>,
    dh0: Option<SequencePart<'a, T>>,
    scratch: &'a mut [T],
}

impl<'a, T: Float> BackwardParts<'a, T> {
    fn of(p: &SelectiveScan, args: &mut Args<'a>) -> BackwardParts<'a, T> {
        let units = p.units();
        let h0 = 5 + usize::from(p.d);
        BackwardParts {
            units,
            dx: units.part(args, 0, p.steps, 1),
            ddelta: units.part(args, 1, p.steps, 1),
            da: units.part(args, 2, 1, p.states),
            db: args.write(3),
            dc: args.write(4),
            dd: p.d.then(|| units.part(args, 5, 1, 1)),
            dh0: p.h0.then(|| units.part(args, h0, 1, p.states)),
            scratch: args.write(h0 + usize::from(p.h0)),
        }
    }

    /// One vector of channels, with its rows of B̄ and C̄ from element `sums` on.
    fn vector(&mut self, p: &SelectiveScan, x: &ScanOperands<'_, T>, dy: [&[T]; 2], v: ScanVector, sums: usize) {
        let (n, channels, rows) = (p.states, v.channels(), sums..sums + p.steps * p.states);
        let (all, _) = self.scratch[..p.backward_scratch()].as_chunks_mut();
        let (a, rest) = all.split_at_mut(n);
        let (kept, rest) = rest.split_at_mut(p.stretches() * n);
        let (states, rest) = rest.split_at_mut((p.stretch() + 1) * n);
        let (decays, rest) = rest.split_at_mut(p.stretch() * n);
        let (carry, rest) = rest.split_at_mut(n);
        let (da, rest) = rest.split_at_mut(n);
        let partial = &mut rest.as_flattened_mut().as_chunks_mut().0[..2 * n];
        v.load_a(p, x, a);
        if let Some(first) = kept.get_mut(..n) {
            v.load_h0(p, x, first);
        }
        match p.last {
            true => transpose_to_lanes(&dy[1][v.state(p)..], v.width, carry),
            false => carry.fill([T::ZERO; LANES]),
        }
        da.fill([T::ZERO; LANES]);
        let mut s = BackwardScratch { a, most: largest_rates(a), kept, states, decays, carry, da, partial };
        let mut to = BackwardRows {
            dx: self.dx.at(v.b, &channels),
            ddelta: self.ddelta.at(v.b, &channels),
            db: &mut self.db[rows.clone()],
            dc: &mut self.dc[rows],
            dd: [T::ZERO; LANES],
        };
        selective_scan_backward_vector(p, x, dy[0], v, &mut s, &mut to);
        let dd = to.dd;
        transpose_from_lanes(s.da, self.da.at(v.b, &channels).row(0));
        if let Some(to) = &mut self.dd {
            store_lanes(&dd, to.at(v.b, &channels).row(0));
        }
        if let Some(dh0) = &mut self.dh0 {
            transpose_from_lanes(s.carry, dh0.at(v.b, &channels).row(0));
        }
    }
}

/// All gradients of the selective scan.
///
/// Reads and writes as the head of the file says; x̄, Δ̄, Ā, D̄ and the gradient of h_0 are divided by
/// [`SequenceUnits::split`], B̄ and C̄ by units, and scratch has [`SelectiveScan::backward_scratch`] elements
/// (`Split::PerThread`); params [`SelectiveScan`].
pub fn selective_scan_backward_kernel<T: Float>(args: &mut Args<'_>) {
    let p = SelectiveScan::from_words(args.params());
    let x = ScanOperands::<T>::read(&p, args, 1 + usize::from(p.last));
    let dy: [&[T]; 2] = [args.read(0), if p.last { args.read(1) } else { &[] }];
    let mut parts = BackwardParts::<T>::of(&p, args);
    let member = p.steps * p.states;
    for (k, unit) in args.units().enumerate() {
        let unit = parts.units.unit(unit);
        for (i, b) in unit.batch.clone().enumerate() {
            let sums = (k * unit.batch.len() + i) * member;
            // Zeros that the vectors find in a cache.
            parts.db[sums..sums + member].fill(T::ZERO);
            parts.dc[sums..sums + member].fill(T::ZERO);
            for v in ScanVector::all(b, unit.channels.clone()) {
                parts.vector(&p, &x, dy, v, sums);
            }
        }
    }
}

by_dtype!(selective_scan_backward_kernel_for = selective_scan_backward_kernel::<floats>);
