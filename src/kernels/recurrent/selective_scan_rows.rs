//! What the kernels of the selective scan share: vectors of channels, their rows, decays, and the numbers B and C of a
//! block of steps.
//!
//! The rows of neighbouring steps are `channels` elements apart. A vector copies those of a block together, and
//! prefetches those of the next block one after another while it computes: many at once would keep its own loads
//! waiting.
//!
//! Invariant: the vectors of a step lie side by side, so that a loop over the steps has one pointer.

use super::lanes::{self, LANES, Lanes};
use super::selective_scan_params::{GROUP, SelectiveScan};
use crate::abi::Args;
use crate::float::Float;
use crate::gemm::{GemmFloat, transpose};
use crate::simd;
use crate::vmath;
use std::array::from_fn;
use std::ops::Range;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The vectors of one step, by the positions below and those of each kernel.
pub(super) type ScanRow<T, const K: usize> = [Lanes<T>; K];

/// x.
pub(super) const X: usize = 0;
/// Δ.
pub(super) const DELTA: usize = 1;
/// Δ·x.
pub(super) const INFLOW: usize = 2;
/// e^(Δ·A) of one number of the states.
pub(super) const DECAY: usize = 3;

/// The operands of a scan.
#[derive(Clone, Copy)]
pub(super) struct ScanRowOperands<'a, T> {
    pub x: &'a [T],
    pub delta: &'a [T],
    pub a: &'a [T],
    pub b: &'a [T],
    pub c: &'a [T],
    pub d: Option<&'a [T]>,
    pub h0: Option<&'a [T]>,
}

impl<'a, T: Float> ScanRowOperands<'a, T> {
    /// The reads from `first` on.
    pub fn read(p: &SelectiveScan, args: &Args<'a>, first: usize) -> ScanRowOperands<'a, T> {
        let [x, delta, a, b, c] = [0, 1, 2, 3, 4].map(|i| args.read(first + i));
        let h0 = first + 5 + usize::from(p.d);
        ScanRowOperands { x, delta, a, b, c, d: p.d.then(|| args.read(first + 5)), h0: p.h0.then(|| args.read(h0)) }
    }
}

/// Up to sixteen channels of one sequence.
#[derive(Clone, Copy)]
pub(super) struct ScanRowVector {
    pub b: usize,
    pub channel: usize,
    pub width: usize,
}

impl ScanRowVector {
    /// The vectors of some channels of member `b`.
    pub fn all(b: usize, channels: Range<usize>) -> impl Iterator<Item = ScanRowVector> {
        let end = channels.end;
        channels.step_by(LANES).map(move |channel| ScanRowVector { b, channel, width: LANES.min(end - channel) })
    }

    /// The channels.
    pub fn channels(&self) -> Range<usize> {
        self.channel..self.channel + self.width
    }

    /// Writes A·log₂ e, with the lowest finite number for −∞, and the largest for a finite A.
    pub fn load_rates<T: GemmFloat>(&self, p: &SelectiveScan, x: &ScanRowOperands<'_, T>, to: &mut [Lanes<T>]) {
        lanes::transpose_rows(&x.a[self.channel * p.states..], self.width, to);
        for a in to.as_flattened_mut() {
            let rate = *a * T::LOG2E;
            let overflows = rate == T::INFINITY && *a < T::INFINITY;
            let rate = if overflows { -T::LOWEST } else { rate };
            *a = if rate < T::LOWEST { T::LOWEST } else { rate };
        }
    }

    /// Writes h_0.
    pub fn load_h0<T: GemmFloat>(&self, p: &SelectiveScan, x: &ScanRowOperands<'_, T>, to: &mut [Lanes<T>]) {
        match x.h0 {
            Some(h0) => lanes::transpose_rows(&h0[self.state(p)..], self.width, to),
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

    /// Copies the rows of the steps from `first` on, of a `[batch, steps, channels]`, to position `to`.
    #[inline(always)]
    pub fn load_rows<T: Float, const K: usize>(
        &self,
        p: &SelectiveScan,
        from: &[T],
        first: usize,
        rows: &mut [ScanRow<T, K>],
        to: usize,
    ) {
        let first = (self.b * p.steps + first) * p.channels + self.channel;
        for (i, row) in rows.iter_mut().enumerate() {
            lanes::copy_padded(&from[first + i * p.channels..][..self.width], &mut row[to]);
        }
    }

    /// Prefetches the row of step `t`, which may be no step.
    #[inline(always)]
    pub fn prefetch_row<T>(&self, p: &SelectiveScan, from: &[T], t: usize) {
        let row = (self.b * p.steps).wrapping_add(t).wrapping_mul(p.channels).wrapping_add(self.channel);
        simd::prefetch_l2(from.as_ptr().addr().wrapping_add(row.wrapping_mul(size_of::<T>())));
    }

    /// Copies x and Δ of the steps from `first` on, and writes Δ·x. Returns whether all decays are normal numbers.
    /// `most` is [`largest_magnitudes`](super::lanes::largest_magnitudes) of the rates.
    #[inline(always)]
    pub fn load_steps<T: Float, const K: usize>(
        &self,
        p: &SelectiveScan,
        from: &ScanRowOperands<'_, T>,
        first: usize,
        most: &Lanes<T>,
        rows: &mut [ScanRow<T, K>],
    ) -> bool {
        self.load_rows(p, from.x, first, rows, X);
        self.load_rows(p, from.delta, first, rows, DELTA);
        let mut longest = [T::ZERO; LANES];
        for row in rows {
            row[INFLOW] = from_fn(|l| row[X][l] * row[DELTA][l]);
            longest = lanes::larger_magnitudes(&longest, &row[DELTA]);
        }
        most.iter().zip(&longest).fold(true, |normal, (most, delta)| normal & (*most * *delta <= T::EXP_MIDDLE))
    }
}

/// Prefetches a slice.
#[inline(always)]
pub(super) fn prefetch_scan_slice<T>(x: &[T]) {
    (0..size_of_val(x)).step_by(LINE).for_each(|line| simd::prefetch_l2(x.as_ptr().addr() + line));
}

/// Calls `f` for every `parts`-th of `steps`, from number `i` on.
#[inline(always)]
pub(super) fn share_of_scan_steps(steps: &Range<usize>, i: usize, parts: usize, mut f: impl FnMut(usize)) {
    let mut t = steps.start + i;
    while t < steps.end {
        f(t);
        t += parts;
    }
}

/// B and C of neighbouring steps of a sequence: for each number of the states, those of the steps.
pub(super) struct ScanStepNumbers<'a, T> {
    /// Steps for which there is room.
    pub room: usize,
    pub b: &'a mut [T],
    pub c: &'a mut [T],
}

impl<'a, T: GemmFloat> ScanStepNumbers<'a, T> {
    /// Room for `room` steps in scratch of `2 * room * states` elements.
    pub fn new(p: &SelectiveScan, room: usize, scratch: &'a mut [T]) -> ScanStepNumbers<'a, T> {
        let (b, c) = scratch.split_at_mut(room * p.states);
        ScanStepNumbers { room, b, c }
    }

    /// Copies those of member `member` of the batch.
    pub fn load(&mut self, p: &SelectiveScan, x: &ScanRowOperands<'_, T>, member: usize, steps: Range<usize>) {
        let first = (member * p.steps + steps.start) * p.states;
        for (from, to) in [(x.b, &mut *self.b), (x.c, &mut *self.c)] {
            let from = &from[first..first + steps.len() * p.states];
            match steps.len() {
                1 => to.chunks_exact_mut(self.room).zip(from).for_each(|(to, x)| to[0] = *x),
                len => transpose(from, p.states, to, self.room, p.states, len),
            }
        }
    }
}

impl<T> ScanStepNumbers<'_, T> {
    /// Prefetches those of step `t`, which may be no step.
    #[inline(always)]
    pub fn prefetch(&self, p: &SelectiveScan, x: &ScanRowOperands<'_, T>, member: usize, t: usize) {
        let row = (member * p.steps).wrapping_add(t).wrapping_mul(p.states);
        for x in [x.b, x.c] {
            let row = x.as_ptr().addr().wrapping_add(row.wrapping_mul(size_of::<T>()));
            (0..p.states * size_of::<T>()).step_by(LINE).for_each(|line| simd::prefetch_l2(row.wrapping_add(line)));
        }
    }

    /// B and C of the first `steps` steps, for number `n` of the states.
    #[inline(always)]
    pub fn of(&self, n: usize, steps: usize) -> [&[T]; 2] {
        [&*self.b, &*self.c].map(|x| &x[n * self.room..n * self.room + steps])
    }
}

/// The groups of some channels.
pub(super) fn scan_channel_groups(channels: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = channels.end;
    channels.step_by(GROUP * LANES).map(move |channel| channel..(channel + GROUP * LANES).min(end))
}

/// Writes e^(Δ·A) for one number of the states, of its rates A·log₂ e. This is a loop of its own, whose constants fit
/// into registers.
#[inline(always)]
pub(super) fn write_scan_row_decays<T: Float, const K: usize>(
    rates: &Lanes<T>,
    normal: bool,
    rows: &mut [ScanRow<T, K>],
) {
    match normal {
        true => rows.iter_mut().for_each(|x| x[DECAY] = from_fn(|l| vmath::exp2_middle(rates[l] * x[DELTA][l]))),
        false => rows.iter_mut().for_each(|x| x[DECAY] = from_fn(|l| vmath::exp2(rates[l] * x[DELTA][l]))),
    }
}

/// decay∘h + Δ·x·B for one number of the states.
#[inline(always)]
pub(super) fn next_state_of_scan_row<T: Float, const K: usize>(row: &ScanRow<T, K>, h: &Lanes<T>, b: T) -> Lanes<T> {
    from_fn(|l| row[DECAY][l].mul_add(h[l], row[INFLOW][l] * b))
}
