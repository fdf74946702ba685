//! The selective scan: h_t = e^(Δ_t·A)∘h_(t−1) + Δ_t·B_t·x_t and y_t = Σ_n C_t·h_t + D∘x_t, for each channel a state of
//! `states` numbers (Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023).
//!
//! Lanes are channels, so y is a sum of vectors, and a number of B or of C is the same for all lanes. A decay is
//! computed as 2^(Δ_t·A·log₂ e), where A is multiplied by log₂ e once, in advance. If that product is −∞, the lowest
//! finite number replaces it, so the decay for Δ = 0 is 1, not NaN, and that for any Δ that is not tiny is 0. If A is
//! finite and the product is ∞, the largest finite number replaces it.
//!
//! The rows of neighbouring steps are `channels` elements apart. So the rows of several steps are copied at a time:
//! then their cache misses overlap.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`selective_scan_kernel`] | x, Δ: `T[batch, steps, channels]`, A: `T[channels, states]`, B, C: `T[batch, steps, states]`, D: `T[channels]` if `d`, h_0: `T[batch, channels, states]` if `h0` | y: `T[batch, steps, channels]`, the last h: `T[batch, channels, states]`, if `keep` the h before each stretch: `T[batch, stretches, channels, states]`, scratch | [`SelectiveScan`] |
//!
//! Invariant: each number of a state is one chain of `mul_add` over the steps, and each y one over the states.

use super::lanes::{LANES, Lanes, PARTS, load_lanes, store_lanes, transpose_from_lanes, transpose_to_lanes};
use super::recurrent_stretch_of;
use super::sequence_units::SequenceUnits;
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::gemm::GemmFloat;
use crate::params::params;
use crate::simd;
use crate::vmath;
use std::array::from_fn;
use std::ops::Range;

/// The most runs of channels: a sum over the channels has no more parts.
const RUNS: usize = 32;

/// Steps whose rows a vector copies at a time.
pub(super) const BLOCK: usize = 16;

/// A row for each step of a block.
pub(super) type BlockRows<T> = [Lanes<T>; BLOCK];

params! {
    /// Params of the kernels of the selective scan.
    pub struct SelectiveScan {
        /// Sequences.
        pub batch: usize,
        /// Steps of each.
        pub steps: usize,
        /// Channels, at least 1.
        pub channels: usize,
        /// Numbers of the state of a channel, at least 1.
        pub states: usize,
        /// Whether D is an operand.
        pub d: bool,
        /// Whether h_0 is an operand; else it is 0.
        pub h0: bool,
        /// Whether the backward kernel reads the gradient of the last state.
        pub last: bool,
        /// Steps between two states that a result or an operand keeps; 0 if none does.
        pub keep: usize,
    }
}

impl SelectiveScan {
    /// How units divide the channels.
    pub fn units(&self) -> SequenceUnits {
        let vectors = self.channels.div_ceil(LANES);
        SequenceUnits { batch: self.batch, channels: self.channels, width: vectors.div_ceil(RUNS).max(1) * LANES }
    }

    /// Elements of scratch for each thread of the forward kernel: the rates, the state and the decays of a vector of
    /// channels.
    pub fn scratch(&self) -> usize {
        (3 * LANES).saturating_mul(self.states)
    }

    /// Steps between two states that are kept.
    pub fn stretch(&self) -> usize {
        if self.keep > 0 { self.keep } else { selective_scan_stretch(self.steps) }
    }

    /// States that are kept: those before each stretch.
    pub fn stretches(&self) -> usize {
        self.steps.div_ceil(self.stretch())
    }

    /// The steps of each stretch.
    pub fn stretches_of_steps(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + ExactSizeIterator + use<> {
        let (steps, stretch) = (self.steps, self.stretch());
        (0..self.stretches()).map(move |k| k * stretch..((k + 1) * stretch).min(steps))
    }

    /// Elements of B̄ and of C̄ that a unit of the backward kernel writes.
    pub fn sums_per_unit(&self) -> usize {
        let member = self.steps * self.states;
        if self.units().by_batch() { member } else { self.batch * member }
    }

    /// Elements of scratch for each thread of the backward kernel.
    pub fn backward_scratch(&self) -> usize {
        let kept = if self.keep > 0 { 0 } else { self.stretches() };
        let states = kept + 2 * self.stretch() + 4;
        let partial_sums = 2 * BLOCK * PARTS;
        (LANES.saturating_mul(states).saturating_add(partial_sums)).saturating_mul(self.states)
    }
}

/// The number of steps between two states that are kept for a gradient: half of the root of the steps, at least 1. With
/// the whole root fewer states would be kept, but a stretch, which has states and decays, would not fit into a cache.
pub fn selective_scan_stretch(steps: usize) -> usize {
    recurrent_stretch_of(steps).div_ceil(2)
}

/// The operands of a scan.
#[derive(Clone, Copy)]
pub(super) struct ScanOperands<'a, T> {
    pub x: &'a [T],
    pub delta: &'a [T],
    pub a: &'a [T],
    pub b: &'a [T],
    pub c: &'a [T],
    pub d: Option<&'a [T]>,
    pub h0: Option<&'a [T]>,
}

impl<'a, T: Float> ScanOperands<'a, T> {
    /// The reads from `first` on.
    pub fn read(p: &SelectiveScan, args: &Args<'a>, first: usize) -> ScanOperands<'a, T> {
        let [x, delta, a, b, c] = [0, 1, 2, 3, 4].map(|i| args.read(first + i));
        let h0 = first + 5 + usize::from(p.d);
        ScanOperands { x, delta, a, b, c, d: p.d.then(|| args.read(first + 5)), h0: p.h0.then(|| args.read(h0)) }
    }
}

/// Up to sixteen channels of one sequence.
#[derive(Clone, Copy)]
pub(super) struct ScanVector {
    pub b: usize,
    pub channel: usize,
    pub width: usize,
}

impl ScanVector {
    /// The vectors of some channels of member `b`.
    pub fn all(b: usize, channels: Range<usize>) -> impl Iterator<Item = ScanVector> {
        let end = channels.end;
        channels.step_by(LANES).map(move |channel| ScanVector { b, channel, width: LANES.min(end - channel) })
    }

    /// The channels.
    pub fn channels(&self) -> Range<usize> {
        self.channel..self.channel + self.width
    }

    /// Writes A·log₂ e, with the lowest finite number for −∞, and the largest for a finite A.
    pub fn load_rates<T: GemmFloat>(&self, p: &SelectiveScan, x: &ScanOperands<'_, T>, to: &mut [Lanes<T>]) {
        transpose_to_lanes(&x.a[self.channel * p.states..], self.width, to);
        for a in to.as_flattened_mut() {
            let rate = *a * T::LOG2E;
            let overflows = rate == T::INFINITY && *a < T::INFINITY;
            let rate = if overflows { -T::LOWEST } else { rate };
            *a = if rate < T::LOWEST { T::LOWEST } else { rate };
        }
    }

    /// Writes h_0.
    pub fn load_h0<T: GemmFloat>(&self, p: &SelectiveScan, x: &ScanOperands<'_, T>, to: &mut [Lanes<T>]) {
        match x.h0 {
            Some(h0) => transpose_to_lanes(&h0[self.state(p)..], self.width, to),
            None => to.fill([T::ZERO; LANES]),
        }
    }

    /// The first number of the states in `[batch, channels, states]`.
    pub fn state(&self, p: &SelectiveScan) -> usize {
        (self.b * p.channels + self.channel) * p.states
    }

    /// The first number of the states before stretch `k` in `[batch, stretches, channels, states]`.
    pub fn kept_state(&self, p: &SelectiveScan, k: usize) -> usize {
        ((self.b * p.stretches() + k) * p.channels + self.channel) * p.states
    }

    /// Copies the rows of some steps, of a `[batch, steps, channels]`.
    #[inline(always)]
    pub fn load_rows<T: Float>(&self, p: &SelectiveScan, from: &[T], steps: Range<usize>, to: &mut BlockRows<T>) {
        let first = self.b * p.steps * p.channels + self.channel;
        for (to, t) in to.iter_mut().zip(steps) {
            *to = load_lanes(from, first + t * p.channels, self.width);
        }
    }
}

/// Parts of `steps`, each of at most [`BLOCK`].
pub(super) fn scan_blocks(steps: Range<usize>) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let (start, len) = (steps.start, steps.len());
    (0..len.div_ceil(BLOCK)).map(move |k| start + k * BLOCK..start + ((k + 1) * BLOCK).min(len))
}

/// x and Δ of the steps of a block.
pub(super) struct ScanBlock<T> {
    x: BlockRows<T>,
    delta: BlockRows<T>,
    /// Whether all decays are normal numbers.
    normal: bool,
}

impl<T: Float> ScanBlock<T> {
    /// A block of zeros.
    #[inline(always)]
    pub fn zeros() -> ScanBlock<T> {
        ScanBlock { x: [[T::ZERO; LANES]; BLOCK], delta: [[T::ZERO; LANES]; BLOCK], normal: true }
    }

    /// Copies the rows of some steps. `most` is [`largest_of_lanes`] of the vector's rates.
    #[inline(always)]
    pub fn load(
        &mut self,
        p: &SelectiveScan,
        from: &ScanOperands<'_, T>,
        v: ScanVector,
        steps: Range<usize>,
        most: &Lanes<T>,
    ) {
        v.load_rows(p, from.x, steps.clone(), &mut self.x);
        v.load_rows(p, from.delta, steps.clone(), &mut self.delta);
        let longest = largest_of_lanes(&self.delta[..steps.len()]);
        self.normal = true;
        for (most, delta) in most.iter().zip(&longest) {
            self.normal &= *most * *delta <= T::EXP_MIDDLE;
        }
    }

    /// Number `i` of the steps, which is step `t` of the vector.
    #[inline(always)]
    pub fn step<'a>(
        &self,
        p: &SelectiveScan,
        from: &ScanOperands<'a, T>,
        v: ScanVector,
        (i, t): (usize, usize),
    ) -> ScanStep<'a, T> {
        let (x, delta) = (self.x[i], self.delta[i]);
        let mut inflow = [T::ZERO; LANES];
        for ((to, x), delta) in inflow.iter_mut().zip(&x).zip(&delta) {
            *to = *x * *delta;
        }
        let row = (v.b * p.steps + t) * p.states;
        let (b, c) = (&from.b[row..row + p.states], &from.c[row..row + p.states]);
        ScanStep { x, delta, inflow, normal: self.normal, b, c }
    }
}

/// What one step of a vector reads.
pub(super) struct ScanStep<'a, T> {
    pub x: Lanes<T>,
    pub delta: Lanes<T>,
    /// Δ·x.
    pub inflow: Lanes<T>,
    /// Whether all decays are normal numbers.
    pub normal: bool,
    pub b: &'a [T],
    pub c: &'a [T],
}

/// The largest magnitude in each lane; NaN if one is.
#[inline(always)]
pub(super) fn largest_of_lanes<T: Float>(x: &[Lanes<T>]) -> Lanes<T> {
    let mut most = [T::ZERO; LANES];
    for x in x {
        for (most, x) in most.iter_mut().zip(x) {
            *most = if x.abs() <= *most || most.is_nan() { *most } else { x.abs() };
        }
    }
    most
}

impl<T: Float> ScanStep<'_, T> {
    /// Writes e^(Δ·A) for each number of the states, of its rates A·log₂ e. This is a loop of its own, whose constants
    /// fit into registers.
    #[inline(always)]
    pub fn write_decays(&self, rates: &[Lanes<T>], decays: &mut [Lanes<T>]) {
        let each = decays.iter_mut().zip(rates);
        match self.normal {
            true => each.for_each(|(to, rates)| *to = from_fn(|l| vmath::exp2_middle(rates[l] * self.delta[l]))),
            false => each.for_each(|(to, rates)| *to = from_fn(|l| vmath::exp2(rates[l] * self.delta[l]))),
        }
    }
}

/// decay∘h + Δ·x·B for one number of the states.
#[inline(always)]
pub(super) fn selective_scan_next<T: Float>(decay: &Lanes<T>, h: &Lanes<T>, inflow: &Lanes<T>, b: T) -> Lanes<T> {
    let mut next = [T::ZERO; LANES];
    for (((to, decay), h), inflow) in next.iter_mut().zip(decay).zip(h).zip(inflow) {
        *to = decay.mul_add(*h, *inflow * b);
    }
    next
}

/// Moves the state by one step.
#[inline(always)]
pub(super) fn move_state<T: Float>(step: &ScanStep<'_, T>, decays: &[Lanes<T>], h: &mut [Lanes<T>]) {
    for ((h, decay), b) in h.iter_mut().zip(decays).zip(step.b) {
        *h = selective_scan_next(decay, h, &step.inflow, *b);
    }
}

/// Moves the state by one step, and adds Σ C·h to `sum`.
#[inline(always)]
fn scan_and_sum<T: Float>(step: &ScanStep<'_, T>, decays: &[Lanes<T>], h: &mut [Lanes<T>], sum: &mut Lanes<T>) {
    for (((h, decay), b), c) in h.iter_mut().zip(decays).zip(step.b).zip(step.c) {
        *h = selective_scan_next(decay, h, &step.inflow, *b);
        for (to, h) in sum.iter_mut().zip(h.iter()) {
            *to = c.mul_add(*h, *to);
        }
    }
}

/// What a vector of channels has besides its operands.
struct ForwardScratch<'a, T> {
    /// A·log₂ e.
    rates: &'a mut [Lanes<T>],
    /// [`largest_of_lanes`] of them.
    most: Lanes<T>,
    /// The state.
    h: &'a mut [Lanes<T>],
    /// The decays of one step.
    decays: &'a mut [Lanes<T>],
    block: ScanBlock<T>,
}

simd! {
    /// The steps `of` of a vector of channels. Moves the state.
    fn selective_scan_steps[T: Float](
        p: &SelectiveScan,
        x: &ScanOperands<'_, T>,
        v: ScanVector,
        of: Range<usize>,
        s: &mut ForwardScratch<'_, T>,
        y: &mut MatrixMut<'_, T>,
    ) {
        let d = x.d.map(|d| load_lanes(d, v.channel, v.width));
        for steps in scan_blocks(of) {
            s.block.load(p, x, v, steps.clone(), &s.most);
            for at in steps.enumerate() {
                let step = s.block.step(p, x, v, at);
                let mut sum = [T::ZERO; LANES];
                if let Some(d) = &d {
                    for ((to, d), x) in sum.iter_mut().zip(d).zip(&step.x) {
                        *to = *d * *x;
                    }
                }
                step.write_decays(s.rates, s.decays);
                scan_and_sum(&step, s.decays, s.h, &mut sum);
                store_lanes(&sum, y.row(at.1));
            }
        }
    }
}

/// The selective scan and the last state.
///
/// Reads x, Δ, A, B, C, D and h_0 as the head of the file says; writes y, the last state and those that are kept, all
/// divided by [`SequenceUnits::split`], and scratch (`Split::PerThread`, [`SelectiveScan::scratch`]); params
/// [`SelectiveScan`].
pub fn selective_scan_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let p = SelectiveScan::from_words(args.params());
    let (units, x) = (p.units(), ScanOperands::<T>::read(&p, args, 0));
    let mut y = units.part::<T>(args, 0, p.steps, 1);
    let mut last = units.part::<T>(args, 1, 1, p.states);
    let mut kept = (p.keep > 0).then(|| units.part::<T>(args, 2, p.stretches(), p.states));
    let scratch = args.write::<T>(2 + usize::from(p.keep > 0));
    let (rates, rest) = scratch[..p.scratch()].as_chunks_mut().0.split_at_mut(p.states);
    let (h, decays) = rest.split_at_mut(p.states);
    let mut s = ForwardScratch { rates, most: [T::ZERO; LANES], h, decays, block: ScanBlock::zeros() };
    for unit in args.units().map(|unit| units.unit(unit)) {
        for v in unit.batch.flat_map(|b| ScanVector::all(b, unit.channels.clone())) {
            v.load_rates(&p, &x, s.rates);
            v.load_h0(&p, &x, s.h);
            s.most = largest_of_lanes(s.rates);
            let (channels, mut y) = (v.channels(), y.at(v.b, &v.channels()));
            match &mut kept {
                None => selective_scan_steps(&p, &x, v, 0..p.steps, &mut s, &mut y),
                Some(kept) => {
                    for (k, steps) in p.stretches_of_steps().enumerate() {
                        transpose_from_lanes(s.h, kept.at(v.b, &channels).row(k));
                        selective_scan_steps(&p, &x, v, steps, &mut s, &mut y);
                    }
                }
            }
            transpose_from_lanes(s.h, last.at(v.b, &channels).row(0));
        }
    }
}

by_dtype!(selective_scan_kernel_for = selective_scan_kernel::<floats>);
