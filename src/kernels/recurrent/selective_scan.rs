//! The selective scan: h_t = e^(Δ_t·A)∘h_(t−1) + Δ_t·B_t·x_t and y_t = Σ_n C_t·h_t + D∘x_t, for each channel a state of
//! `states` numbers (Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023).
//!
//! Lanes are channels, so y is a sum of vectors, and B and C are scalars of them. A = −∞ counts as the lowest finite
//! number: its decay is 0, and 1 for Δ = 0.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`selective_scan_kernel`] | x, Δ: `T[batch, steps, channels]`, A: `T[channels, states]`, B, C: `T[batch, steps, states]`, D: `T[channels]` if `d`, h_0: `T[batch, channels, states]` if `h0` | y: `T[batch, steps, channels]`, the last h: `T[batch, channels, states]`, scratch | [`SelectiveScan`] |
//!
//! Invariant: each number of a state is one chain of `mul_add` over the steps, and each y one over the states.

use super::lanes::{LANES, Lanes, load_lanes, store_lanes, transpose_from_lanes, transpose_to_lanes};
use super::recurrent_stretch_of;
use super::sequence_units::SequenceUnits;
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::simd;
use crate::vmath;
use std::ops::Range;

/// The most runs of channels: a sum over the channels has no more parts.
const RUNS: usize = 32;

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
    }
}

impl SelectiveScan {
    /// How units divide the channels.
    pub fn units(&self) -> SequenceUnits {
        let vectors = self.channels.div_ceil(LANES);
        SequenceUnits { batch: self.batch, channels: self.channels, width: vectors.div_ceil(RUNS).max(1) * LANES }
    }

    /// Elements of scratch for each thread of the forward kernel: A and the state of a vector of channels.
    pub fn scratch(&self) -> usize {
        (2 * LANES).saturating_mul(self.states)
    }

    /// Steps between two states that the backward kernel keeps.
    pub fn stretch(&self) -> usize {
        recurrent_stretch_of(self.steps)
    }

    /// States that the backward kernel keeps: those before each stretch.
    pub fn stretches(&self) -> usize {
        self.steps.div_ceil(self.stretch())
    }

    /// Elements of B̄ and of C̄ that a unit of the backward kernel writes.
    pub fn sums_per_unit(&self) -> usize {
        let member = self.steps * self.states;
        if self.units().by_batch() { member } else { self.batch * member }
    }

    /// Elements of scratch for each thread of the backward kernel.
    pub fn backward_scratch(&self) -> usize {
        let states = self.stretches() + 2 * self.stretch() + 5;
        LANES.saturating_mul(states).saturating_mul(self.states)
    }
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

    /// Writes A, with a lowest finite number for −∞.
    pub fn load_a<T: Float>(&self, p: &SelectiveScan, x: &ScanOperands<'_, T>, to: &mut [Lanes<T>]) {
        transpose_to_lanes(&x.a[self.channel * p.states..], self.width, to);
        for a in to.as_flattened_mut() {
            *a = if *a < T::LOWEST { T::LOWEST } else { *a };
        }
    }

    /// Writes h_0.
    pub fn load_h0<T: Float>(&self, p: &SelectiveScan, x: &ScanOperands<'_, T>, to: &mut [Lanes<T>]) {
        match x.h0 {
            Some(h0) => transpose_to_lanes(&h0[self.state(p)..], self.width, to),
            None => to.fill([T::ZERO; LANES]),
        }
    }

    /// The first number of the states in `[batch, channels, states]`.
    pub fn state(&self, p: &SelectiveScan) -> usize {
        (self.b * p.channels + self.channel) * p.states
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

impl<'a, T: Float> ScanStep<'a, T> {
    /// Step `t` of a vector, where `most` is [`largest_rates`] of its A.
    #[inline(always)]
    pub fn load(
        p: &SelectiveScan,
        from: &ScanOperands<'a, T>,
        v: ScanVector,
        t: usize,
        most: &Lanes<T>,
    ) -> ScanStep<'a, T> {
        let row = v.b * p.steps + t;
        let at = row * p.channels + v.channel;
        let (x, delta) = (load_lanes(from.x, at, v.width), load_lanes(from.delta, at, v.width));
        let mut inflow = [T::ZERO; LANES];
        for ((to, x), delta) in inflow.iter_mut().zip(&x).zip(&delta) {
            *to = *x * *delta;
        }
        let mut normal = true;
        for (most, delta) in most.iter().zip(&delta) {
            normal &= (*most * *delta).abs() <= T::EXP_MIDDLE;
        }
        let row = row * p.states;
        ScanStep { x, delta, inflow, normal, b: &from.b[row..row + p.states], c: &from.c[row..row + p.states] }
    }
}

/// The largest magnitude of A in each lane.
#[inline(always)]
pub(super) fn largest_rates<T: Float>(a: &[Lanes<T>]) -> Lanes<T> {
    let mut most = [T::ZERO; LANES];
    for a in a {
        for (most, a) in most.iter_mut().zip(a) {
            *most = if a.abs() > *most { a.abs() } else { *most };
        }
    }
    most
}

/// e^(Δ·A) for one number of the states; `NORMAL` as in the step.
#[inline(always)]
pub(super) fn selective_scan_decay<T: Float, const NORMAL: bool>(a: &Lanes<T>, delta: &Lanes<T>) -> Lanes<T> {
    let mut decay = [T::ZERO; LANES];
    for ((to, a), delta) in decay.iter_mut().zip(a).zip(delta) {
        *to = if NORMAL { vmath::exp_middle(*a * *delta) } else { vmath::exp(*a * *delta) };
    }
    decay
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

/// Moves the state by one step, and adds Σ C·h to `sum`.
#[inline(always)]
fn scan_and_sum<T: Float, const NORMAL: bool>(
    step: &ScanStep<'_, T>,
    a: &[Lanes<T>],
    h: &mut [Lanes<T>],
    sum: &mut Lanes<T>,
) {
    for (((h, a), b), c) in h.iter_mut().zip(a).zip(step.b).zip(step.c) {
        *h = selective_scan_next(&selective_scan_decay::<T, NORMAL>(a, &step.delta), h, &step.inflow, *b);
        for (to, h) in sum.iter_mut().zip(h.iter()) {
            *to = c.mul_add(*h, *to);
        }
    }
}

simd! {
    /// All steps of a vector of channels. `h` holds h_0, then the last state.
    fn selective_scan_vector[T: Float](
        p: &SelectiveScan,
        x: &ScanOperands<'_, T>,
        v: ScanVector,
        a: &[Lanes<T>],
        h: &mut [Lanes<T>],
        y: &mut MatrixMut<'_, T>,
    ) {
        let (d, most) = (x.d.map(|d| load_lanes(d, v.channel, v.width)), largest_rates(a));
        for t in 0..p.steps {
            let step = ScanStep::load(p, x, v, t, &most);
            let mut sum = [T::ZERO; LANES];
            if let Some(d) = &d {
                for ((to, d), x) in sum.iter_mut().zip(d).zip(&step.x) {
                    *to = *d * *x;
                }
            }
            match step.normal {
                true => scan_and_sum::<T, true>(&step, a, h, &mut sum),
                false => scan_and_sum::<T, false>(&step, a, h, &mut sum),
            }
            store_lanes(&sum, y.row(t));
        }
    }
}

/// The selective scan and the last state.
///
/// Reads x, Δ, A, B, C, D and h_0 as the head of the file says; writes y and the last state, both divided by
/// [`SequenceUnits::split`], and scratch (`Split::PerThread`, [`SelectiveScan::scratch`]); params [`SelectiveScan`].
pub fn selective_scan_kernel<T: Float>(args: &mut Args<'_>) {
    let p = SelectiveScan::from_words(args.params());
    let (units, x) = (p.units(), ScanOperands::<T>::read(&p, args, 0));
    let mut y = units.part::<T>(args, 0, p.steps, 1);
    let mut last = units.part::<T>(args, 1, 1, p.states);
    let (a, h) = args.write::<T>(2)[..p.scratch()].as_chunks_mut().0.split_at_mut(p.states);
    for unit in args.units().map(|unit| units.unit(unit)) {
        for v in unit.batch.flat_map(|b| ScanVector::all(b, unit.channels.clone())) {
            v.load_a(&p, &x, a);
            v.load_h0(&p, &x, h);
            selective_scan_vector(&p, &x, v, a, h, &mut y.at(v.b, &v.channels()));
            transpose_from_lanes(h, last.at(v.b, &v.channels()).row(0));
        }
    }
}

by_dtype!(selective_scan_kernel_for = selective_scan_kernel::<floats>);
