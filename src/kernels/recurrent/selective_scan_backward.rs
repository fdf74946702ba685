//! All gradients of the selective scan in one sweep from the last step to the first.
//!
//! With a_t = e^(Δ_t·A) and λ_t = C_t·ȳ_t + a_(t+1)∘λ_(t+1), where the last term of the last step is the gradient of
//! the last state: x̄_t = Δ_t·Σ_n λ_t·B_t + D·ȳ_t, Δ̄_t = Σ_n λ_t·(A·a_t·h_(t−1) + B_t·x_t), Ā = Σ_t
//! λ_t·Δ_t·a_t·h_(t−1), B̄_t = Σ λ_t·Δ_t·x_t and C̄_t = Σ ȳ_t·h_t over the channels, D̄ = Σ_t ȳ_t·x_t, and the
//! gradient of h_0 is a_1∘λ_1.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`selective_scan_backward_kernel`] | ȳ: `T[batch, steps, channels]`, the gradient of the last state if `last`, the operands of the scan, if `keep` the states that it kept: `T[batch, stretches, channels, states]` | x̄, Δ̄: `T[batch, steps, channels]`, Ā: `T[batch, channels, states]`, B̄, C̄: `T[sums, batch, steps, states]`, D̄: `T[batch, channels]` if `d`, the gradient of h_0: `T[batch, channels, states]` if `h0`, scratch | [`SelectiveScan`] |
//!
//! Invariant: `sums` is [`SequenceUnits::sums`]. A unit adds vectors of channels in ascending order, each summed in a
//! tree; the lowering adds the units.

use super::lanes::{
    LANES, Lanes, PARTS, load_lanes, store_lanes, sum_lanes_to_four, transpose_from_lanes, transpose_to_lanes,
};
use super::selective_scan::{
    BLOCK, BlockRows, ScanBlock, ScanOperands, ScanStep, ScanVector, SelectiveScan, largest_of_lanes, move_state,
    scan_blocks, selective_scan_next,
};
use super::sequence_units::{SequencePart, SequenceUnits};
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::gemm::GemmFloat;
use crate::simd;
use std::array::from_fn;
use std::ops::Range;

/// Scratch of a vector of channels; each state has one vector for each of its numbers.
struct BackwardScratch<'a, T> {
    /// A·log₂ e.
    rates: &'a [Lanes<T>],
    /// [`largest_of_lanes`] of them.
    most: Lanes<T>,
    /// The state before each stretch; empty if an operand keeps them.
    kept: &'a mut [Lanes<T>],
    /// The states of one stretch: before its first step, then after each step.
    states: &'a mut [Lanes<T>],
    /// The decays of one stretch.
    decays: &'a mut [Lanes<T>],
    /// a_(t+1)∘λ_(t+1).
    carry: &'a mut [Lanes<T>],
    /// Ā.
    da: &'a mut [Lanes<T>],
    /// Partial sums of the terms of B̄, then of C̄: for each step of a block, each number of the states.
    partial: [&'a mut [[T; PARTS]]; 2],
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

/// Writes the state after a step.
#[inline(always)]
fn write_state_after<T: Float>(
    step: &ScanStep<'_, T>,
    decays: &[Lanes<T>],
    before: &[Lanes<T>],
    after: &mut [Lanes<T>],
) {
    for (((to, h), decay), b) in after.iter_mut().zip(before).zip(decays).zip(step.b) {
        *to = selective_scan_next(decay, h, &step.inflow, *b);
    }
}

simd! {
    /// Writes the state before each stretch. The first is there.
    fn keep_selective_scan_states[T: Float](
        p: &SelectiveScan,
        x: &ScanOperands<'_, T>,
        v: ScanVector,
        s: &mut BackwardScratch<'_, T>,
        block: &mut ScanBlock<T>,
    ) {
        let n = p.states;
        let decays = &mut s.decays[..n];
        for k in 1..p.stretches() {
            s.kept.copy_within((k - 1) * n..k * n, k * n);
            let h = &mut s.kept[k * n..(k + 1) * n];
            for steps in scan_blocks((k - 1) * p.stretch()..k * p.stretch()) {
                block.load(p, x, v, steps.clone(), &s.most);
                for at in steps.enumerate() {
                    let step = block.step(p, x, v, at);
                    step.write_decays(s.rates, decays);
                    move_state(&step, decays, h);
                }
            }
        }
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
        block: &mut ScanBlock<T>,
    ) {
        let n = p.states;
        for steps in scan_blocks(of.clone()) {
            block.load(p, x, v, steps.clone(), &s.most);
            for (i, t) in steps.enumerate() {
                let step = block.step(p, x, v, (i, t));
                let at = (t - of.start) * n;
                let (before, after) = s.states[at..at + 2 * n].split_at_mut(n);
                let decays = &mut s.decays[at..at + n];
                step.write_decays(s.rates, decays);
                write_state_after(&step, decays, before, after);
            }
        }
    }
}

/// The sums over the states of one step: Σ λ·B, and Σ λ·rate·a·h.
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
    [b, c]: [T; 2],
    (rates, decay): (&Lanes<T>, &Lanes<T>),
    [before, after]: [&Lanes<T>; 2],
    carry: &mut Lanes<T>,
    da: &mut Lanes<T>,
    sums: &mut StateSums<T>,
) -> [Lanes<T>; 2] {
    // Each vector is whole before it is stored: a store between two loads would keep them from being one instruction.
    let lambda: Lanes<T> = from_fn(|l| c.mul_add(dy[l], carry[l]));
    let next: Lanes<T> = from_fn(|l| lambda[l] * decay[l]);
    let moved: Lanes<T> = from_fn(|l| next[l] * before[l]);
    let more: Lanes<T> = from_fn(|l| step.delta[l].mul_add(moved[l], da[l]));
    sums.inflow = from_fn(|l| lambda[l].mul_add(b, sums.inflow[l]));
    sums.decay = from_fn(|l| rates[l].mul_add(moved[l], sums.decay[l]));
    (*carry, *da) = (next, more);
    [from_fn(|l| lambda[l] * step.inflow[l]), from_fn(|l| dy[l] * after[l])]
}

/// The vectors of one step, one for each number of the states.
struct StepVectors<'a, T> {
    before: &'a [Lanes<T>],
    after: &'a [Lanes<T>],
    rates: &'a [Lanes<T>],
    decays: &'a [Lanes<T>],
    carry: &'a mut [Lanes<T>],
    da: &'a mut [Lanes<T>],
    /// As in [`BackwardScratch`], of this step.
    partial: [&'a mut [[T; PARTS]]; 2],
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
    let states = s.before.iter().zip(s.after).zip(s.rates.iter().zip(s.decays));
    let moved = s.carry.iter_mut().zip(s.da).zip(to_b.iter_mut().zip(to_c));
    let numbers = states.zip(moved).zip(step.b.iter().zip(step.c));
    for ((((before, after), (rates, decay)), ((carry, da), (to_b, to_c))), (b, c)) in numbers {
        let (of_state, states) = ((rates, decay), [before, after]);
        let terms = selective_scan_backward_number(step, dy, [*b, *c], of_state, states, carry, da, &mut sums);
        [*to_b, *to_c] = terms.map(|x| sum_lanes_to_four(x, if FULL { LANES } else { width }));
    }
    sums
}

/// Adds the sum of each four to its number.
#[inline(always)]
fn add_partial_sums<T: Float>(partial: &[[T; PARTS]], to: &mut [T]) {
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

/// Writes x̄ and Δ̄ of step `t`, and adds its term of D̄.
#[inline(always)]
fn write_backward_row<T: Float>(
    step: &ScanStep<'_, T>,
    dy: &Lanes<T>,
    sums: &StateSums<T>,
    d: &Option<Lanes<T>>,
    t: usize,
    to: &mut BackwardRows<'_, T>,
) {
    let mut dx: Lanes<T> = from_fn(|l| sums.inflow[l] * step.delta[l]);
    // The rates have the factor log₂ e.
    let ddelta: Lanes<T> = from_fn(|l| sums.inflow[l].mul_add(step.x[l], sums.decay[l] * T::LN2_HI));
    if let Some(d) = d {
        dx = from_fn(|l| d[l].mul_add(dy[l], dx[l]));
        to.dd = from_fn(|l| step.x[l].mul_add(dy[l], to.dd[l]));
    }
    store_lanes(&dx, to.dx.row(t));
    store_lanes(&ddelta, to.ddelta.row(t));
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
        block: &mut ScanBlock<T>,
        dys: &mut BlockRows<T>,
        to: &mut BackwardRows<'_, T>,
    ) {
        let n = p.states;
        let d = x.d.map(|d| load_lanes(d, v.channel, v.width));
        for steps in scan_blocks(of.clone()).rev() {
            block.load(p, x, v, steps.clone(), &s.most);
            v.load_rows(p, dy, steps.clone(), dys);
            for (i, t) in steps.clone().enumerate().rev() {
                let (step, dy) = (block.step(p, x, v, (i, t)), &dys[i]);
                let at = (t - of.start) * n;
                let (before, after) = s.states[at..at + 2 * n].split_at(n);
                let vectors = StepVectors {
                    before,
                    after,
                    rates: s.rates,
                    decays: &s.decays[at..at + n],
                    carry: s.carry,
                    da: s.da,
                    partial: s.partial.each_mut().map(|to| &mut to[i * n..(i + 1) * n]),
                };
                let sums = match v.width == LANES {
                    true => backward_states::<T, true>(&step, dy, LANES, vectors),
                    false => backward_states::<T, false>(&step, dy, v.width, vectors),
                };
                write_backward_row(&step, dy, &sums, &d, t, to);
            }
            // The terms of a block at a time: vectors that load what was just stored would wait.
            let rows = steps.start * n..steps.end * n;
            let [db, dc] = s.partial.each_ref().map(|partial| &partial[..rows.len()]);
            add_partial_sums(db, &mut to.db[rows.clone()]);
            add_partial_sums(dc, &mut to.dc[rows]);
        }
    }
}

/// What the kernel reads beside the operands of the scan.
#[derive(Clone, Copy)]
struct BackwardReads<'a, T> {
    dy: &'a [T],
    /// The gradient of the last state.
    dlast: Option<&'a [T]>,
    /// The state before each stretch.
    kept: Option<&'a [T]>,
}

/// All steps of a vector of channels. The state before the first step is the first of those kept in scratch, if they
/// are no operand.
fn selective_scan_backward_vector<T: GemmFloat>(
    p: &SelectiveScan,
    x: &ScanOperands<'_, T>,
    reads: BackwardReads<'_, T>,
    v: ScanVector,
    s: &mut BackwardScratch<'_, T>,
    to: &mut BackwardRows<'_, T>,
) {
    let (n, mut block, mut dys) = (p.states, ScanBlock::zeros(), [[T::ZERO; LANES]; BLOCK]);
    if reads.kept.is_none() {
        keep_selective_scan_states(p, x, v, s, &mut block);
    }
    for (k, of) in p.stretches_of_steps().enumerate().rev() {
        match reads.kept {
            Some(kept) => transpose_to_lanes(&kept[v.kept_state(p, k)..], v.width, &mut s.states[..n]),
            None => s.states[..n].copy_from_slice(&s.kept[k * n..(k + 1) * n]),
        }
        repeat_selective_scan_stretch(p, x, v, of.clone(), s, &mut block);
        selective_scan_backward_stretch(p, x, reads.dy, v, of, s, &mut block, &mut dys, to);
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

impl<'a, T: GemmFloat> BackwardParts<'a, T> {
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
    fn vector(
        &mut self,
        p: &SelectiveScan,
        x: &ScanOperands<'_, T>,
        reads: BackwardReads<'_, T>,
        v: ScanVector,
        sums: usize,
    ) {
        let (n, channels, rows) = (p.states, v.channels(), sums..sums + p.steps * p.states);
        let (all, _) = self.scratch[..p.backward_scratch()].as_chunks_mut();
        let (rates, rest) = all.split_at_mut(n);
        let (kept, rest) = rest.split_at_mut(if p.keep > 0 { 0 } else { p.stretches() * n });
        let (states, rest) = rest.split_at_mut((p.stretch() + 1) * n);
        let (decays, rest) = rest.split_at_mut(p.stretch() * n);
        let (carry, rest) = rest.split_at_mut(n);
        let (da, rest) = rest.split_at_mut(n);
        let (db, dc) = rest.as_flattened_mut().as_chunks_mut().0[..2 * BLOCK * n].split_at_mut(BLOCK * n);
        v.load_rates(p, x, rates);
        if let Some(first) = kept.get_mut(..n) {
            v.load_h0(p, x, first);
        }
        match reads.dlast {
            Some(dlast) => transpose_to_lanes(&dlast[v.state(p)..], v.width, carry),
            None => carry.fill([T::ZERO; LANES]),
        }
        da.fill([T::ZERO; LANES]);
        let mut s = BackwardScratch {
            most: largest_of_lanes(rates),
            rates,
            kept,
            states,
            decays,
            carry,
            da,
            partial: [db, dc],
        };
        let mut to = BackwardRows {
            dx: self.dx.at(v.b, &channels),
            ddelta: self.ddelta.at(v.b, &channels),
            db: &mut self.db[rows.clone()],
            dc: &mut self.dc[rows],
            dd: [T::ZERO; LANES],
        };
        selective_scan_backward_vector(p, x, reads, v, &mut s, &mut to);
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
pub fn selective_scan_backward_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let p = SelectiveScan::from_words(args.params());
    let first = 1 + usize::from(p.last);
    let kept = first + 5 + usize::from(p.d) + usize::from(p.h0);
    let x = ScanOperands::<T>::read(&p, args, first);
    let reads = BackwardReads::<T> {
        dy: args.read(0),
        dlast: p.last.then(|| args.read(1)),
        kept: (p.keep > 0).then(|| args.read(kept)),
    };
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
                parts.vector(&p, &x, reads, v, sums);
            }
        }
    }
}

by_dtype!(selective_scan_backward_kernel_for = selective_scan_backward_kernel::<floats>);
