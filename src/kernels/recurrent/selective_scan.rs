//! The selective scan: h_t = e^(Δ_t·A)∘h_(t−1) + Δ_t·B_t·x_t and y_t = Σ_n C_t·h_t + D∘x_t, for each channel a state of
//! `states` numbers (Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023).
//!
//! Lanes are channels, so y is a sum of vectors, and a number of B or of C is the same for all lanes. A decay is
//! computed as 2^(Δ_t·A·log₂ e), where A is multiplied by log₂ e once, in advance. If that product is −∞, the lowest
//! finite number replaces it, so the decay for Δ = 0 is 1, not NaN, and that for any Δ that is not tiny is 0. If A is
//! finite and the product is ∞, the largest finite number replaces it.
//!
//! A block of steps is computed for one number of the states after another: its decays, then its part of y. So a number
//! of the state stays in a register, as do the constants of a power of two.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`selective_scan_kernel`] | x, Δ: `T[batch, steps, channels]`, A: `T[channels, states]`, B, C: `T[batch, steps, states]`, D: `T[channels]` if `d`, h_0: `T[batch, channels, states]` if `h0` | y: `T[batch, steps, channels]`, the last h: `T[batch, channels, states]`, if `keep` the h before each stretch: `T[batch, stretches, channels, states]`, scratch | [`SelectiveScan`] |
//!
//! Invariant: each number of a state is one chain of `mul_add` over the steps, and each y one over the states.

use super::lanes::{self, LANES, Lanes, largest_magnitudes};
use super::selective_scan_params::{BLOCK, FORWARD_ROW, GROUP, GroupScratch, SelectiveScan, VectorScratch};
use super::selective_scan_rows::{
    ScanRow, ScanRowOperands, ScanRowVector, ScanStepNumbers, X, next_state_of_scan_row, prefetch_scan_slice,
    scan_channel_groups, share_of_scan_steps, write_scan_row_decays,
};
use super::sequence_units::SequencePart;
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::gemm::GemmFloat;
use crate::simd;
use std::array::from_fn;
use std::ops::Range;

/// The position of y in the rows of the forward kernel.
const Y: usize = 4;

/// Parts of `steps`, each of at most [`BLOCK`].
fn blocks_of_steps(steps: Range<usize>) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let (start, len) = (steps.start, steps.len());
    (0..len.div_ceil(BLOCK)).map(move |k| start + k * BLOCK..start + ((k + 1) * BLOCK).min(len))
}

/// A vector of channels and its scratch.
struct SelectiveScanVector<'a, T> {
    v: ScanRowVector,
    /// A·log₂ e.
    rates: &'a mut [Lanes<T>],
    /// [`largest_magnitudes`] of them.
    most: Lanes<T>,
    /// The state.
    h: &'a mut [Lanes<T>],
    /// D.
    d: Option<Lanes<T>>,
    /// The steps of a block.
    rows: &'a mut [ScanRow<T, FORWARD_ROW>],
}

impl<'a, T: GemmFloat> SelectiveScanVector<'a, T> {
    /// Before the first step.
    fn new(
        p: &SelectiveScan,
        x: &ScanRowOperands<'_, T>,
        v: ScanRowVector,
        scratch: &'a mut [Lanes<T>],
    ) -> SelectiveScanVector<'a, T> {
        let VectorScratch { rates, h, rows } = VectorScratch::cut(p, scratch);
        v.load_rates(p, x, rates);
        v.load_h0(p, x, h);
        let (most, d) = (largest_magnitudes(rates), x.d.map(|d| lanes::load_vector(d, v.channel, v.width)));
        SelectiveScanVector { v, rates, most, h, d, rows: rows.as_chunks_mut().0 }
    }
}

/// The vectors of a group.
type SelectiveScanGroup<'a, T> = [Option<SelectiveScanVector<'a, T>>; GROUP];

simd! {
    /// The steps `of`, at most a block. Moves the states. `y` has the channels of the group.
    fn selective_scan_block[T: Float](
        p: &SelectiveScan,
        x: &ScanRowOperands<'_, T>,
        of: Range<usize>,
        vectors: &mut SelectiveScanGroup<'_, T>,
        numbers: &ScanStepNumbers<'_, T>,
        y: &mut MatrixMut<'_, T>,
    ) {
        let mut columns = 0..0;
        for s in vectors.iter_mut().flatten() {
            columns = columns.end..columns.end + s.v.width;
            let rows = &mut s.rows[..of.len()];
            let normal = s.v.load_steps(p, x, of.start, &s.most, rows);
            for row in rows.iter_mut() {
                row[Y] = s.d.map_or([T::ZERO; LANES], |d| from_fn(|l| d[l] * row[X][l]));
            }
            for (n, (h, rates)) in s.h.iter_mut().zip(s.rates.iter()).enumerate() {
                if of.end < p.steps {
                    share_of_scan_steps(&of, n, p.states, |t| {
                        simd::prefetch_l2(y.row(t)[columns.clone()].as_ptr().addr());
                        [x.x, x.delta].iter().for_each(|x| s.v.prefetch_row(p, x, t + of.len()));
                        numbers.prefetch(p, x, s.v.b, t + of.len());
                    });
                }
                write_scan_row_decays(rates, normal, rows);
                let ([b, c], mut now) = (numbers.of(n, rows.len()), *h);
                for ((row, b), c) in rows.iter_mut().zip(b).zip(c) {
                    now = next_state_of_scan_row(row, &now, *b);
                    row[Y] = from_fn(|l| c.mul_add(now[l], row[Y][l]));
                }
                *h = now;
            }
            for (row, t) in rows.iter().zip(of.clone()) {
                lanes::store_vector(&row[Y], &mut y.row(t)[columns.clone()]);
            }
        }
    }
}

/// Writes of the kernel, by position.
struct SelectiveScanParts<'a, T> {
    y: SequencePart<'a, T>,
    last: SequencePart<'a, T>,
    /// The state before each stretch.
    kept: Option<SequencePart<'a, T>>,
    scratch: &'a mut [T],
}

impl<'a, T: GemmFloat> SelectiveScanParts<'a, T> {
    fn of(p: &SelectiveScan, args: &mut Args<'a>) -> SelectiveScanParts<'a, T> {
        let units = p.units();
        SelectiveScanParts {
            y: units.part(args, 0, p.steps, 1),
            last: units.part(args, 1, 1, p.states),
            kept: (p.keep > 0).then(|| units.part(args, 2, p.stretches(), p.states)),
            scratch: args.write(2 + usize::from(p.keep > 0)),
        }
    }

    /// A group of channels of member `b`.
    fn group(&mut self, p: &SelectiveScan, x: &ScanRowOperands<'_, T>, b: usize, channels: Range<usize>) {
        let GroupScratch { vectors, numbers } = GroupScratch::cut(p, self.scratch);
        let own = vectors.as_chunks_mut().0.chunks_exact_mut(VectorScratch::len(p));
        let mut own = own.zip(ScanRowVector::all(b, channels.clone()));
        let mut vectors: SelectiveScanGroup<'_, T> =
            from_fn(|_| own.next().map(|(own, v)| SelectiveScanVector::new(p, x, v, own)));
        let (mut numbers, mut y) = (ScanStepNumbers::new(p, BLOCK, numbers), self.y.at(b, &channels));
        let mut scan = |of: Range<usize>, vectors: &mut SelectiveScanGroup<'_, T>| {
            for steps in blocks_of_steps(of) {
                numbers.load(p, x, b, steps.clone());
                selective_scan_block(p, x, steps, vectors, &numbers, &mut y);
            }
        };
        match &mut self.kept {
            None => scan(0..p.steps, &mut vectors),
            Some(kept) => {
                for (k, of) in p.stretches_of_steps().enumerate() {
                    for s in vectors.iter().flatten() {
                        let mut kept = kept.at(b, &s.v.channels());
                        lanes::transpose_to_rows(s.h, kept.row(k));
                        prefetch_scan_slice(kept.row((k + 1).min(p.stretches() - 1)));
                    }
                    scan(of, &mut vectors);
                }
            }
        }
        for s in vectors.iter().flatten() {
            lanes::transpose_to_rows(s.h, self.last.at(b, &s.v.channels()).row(0));
        }
    }
}

/// The selective scan and the last state.
///
/// Reads x, Δ, A, B, C, D and h_0 as the head of the file says; writes y, the last state and those that are kept, all
/// divided by [`SequenceUnits::split`](super::sequence_units::SequenceUnits::split), and scratch (`Split::PerThread`,
/// [`SelectiveScan::scratch`]); params [`SelectiveScan`].
pub fn selective_scan_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let p = SelectiveScan::from_words(args.params());
    let x = ScanRowOperands::<T>::read(&p, args, 0);
    let mut parts = SelectiveScanParts::<T>::of(&p, args);
    for unit in args.units().map(|unit| p.units().unit(unit)) {
        for b in unit.batch {
            scan_channel_groups(unit.channels.clone()).for_each(|channels| parts.group(&p, &x, b, channels));
        }
    }
}

by_dtype!(selective_scan_kernel_for = selective_scan_kernel::<floats>);
