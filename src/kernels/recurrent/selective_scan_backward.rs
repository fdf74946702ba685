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
//! A stretch of steps is computed for one number of the states after another: its decays, its states, then its
//! gradients from the last step to the first. So a number of λ and one of Ā stay in registers.
//!
//! Invariant: `sums` is [`SequenceUnits::sums`]. The terms of B̄ and C̄ of a group of vectors are added in eight
//! lanes: the lower half of a vector, then its upper half, in the order of the vectors. Their sum is a tree: lanes l
//! and l + 4, then l and l + 2, then l and l + 1. A unit adds groups in ascending order; the lowering adds the units.

use super::lanes::{self, HALF, LANES, Lanes, add_lane_products, largest_magnitudes};
use super::selective_scan_params::{
    BACKWARD_ROW, GROUP, ScanBackwardGroupScratch, ScanBackwardVectorScratch, SelectiveScan,
};
use super::selective_scan_rows::{
    DECAY, DELTA, INFLOW, ScanRow, ScanRowOperands, ScanRowVector, ScanStepNumbers, X, next_state_of_scan_row,
    prefetch_scan_slice, scan_channel_groups, share_of_scan_steps, write_scan_row_decays,
};
use super::sequence_units::{SequencePart, SequenceUnits};
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::gemm::{GemmFloat, transpose};
use crate::simd;
use std::array::from_fn;
use std::ops::Range;

/// One number of the states before the step.
const STATE: usize = 4;
/// ȳ.
const DY: usize = 5;
/// Σ λ·B over the states.
const TO_INFLOW: usize = 6;
/// Σ λ·rate·a·h over the states.
const TO_DECAY: usize = 7;
/// The vectors of one step.
type ScanBackwardRow<T> = ScanRow<T, BACKWARD_ROW>;

/// A vector of channels and its scratch; each state has one vector for each of its numbers.
struct ScanBackwardVector<'a, T> {
    v: ScanRowVector,
    /// A·log₂ e.
    rates: &'a mut [Lanes<T>],
    /// [`largest_magnitudes`] of them.
    most: Lanes<T>,
    /// The state before each stretch; empty if an operand keeps them.
    kept: &'a mut [Lanes<T>],
    /// The state before one stretch.
    before: &'a mut [Lanes<T>],
    /// a_(t+1)∘λ_(t+1).
    carry: &'a mut [Lanes<T>],
    /// Ā.
    da: &'a mut [Lanes<T>],
    /// D.
    d: Option<Lanes<T>>,
    /// D̄.
    dd: Lanes<T>,
    /// The steps of one stretch.
    rows: &'a mut [ScanBackwardRow<T>],
    /// Whether all their decays are normal numbers.
    normal: bool,
}

impl<'a, T: GemmFloat> ScanBackwardVector<'a, T> {
    /// Before the last step.
    fn new(
        p: &SelectiveScan,
        x: &ScanRowOperands<'_, T>,
        dlast: Option<&[T]>,
        v: ScanRowVector,
        scratch: &'a mut [Lanes<T>],
    ) -> ScanBackwardVector<'a, T> {
        let n = p.states;
        let ScanBackwardVectorScratch { rates, before, carry, da, rows, kept } =
            ScanBackwardVectorScratch::cut(p, scratch);
        v.load_rates(p, x, rates);
        if let Some(first) = kept.get_mut(..n) {
            v.load_h0(p, x, first);
        }
        match dlast {
            Some(dlast) => lanes::transpose_rows(&dlast[v.state(p)..], v.width, carry),
            None => carry.fill([T::ZERO; LANES]),
        }
        da.fill([T::ZERO; LANES]);
        let most = largest_magnitudes(rates);
        let (d, rows) = (x.d.map(|d| lanes::load_vector(d, v.channel, v.width)), rows.as_chunks_mut().0);
        ScanBackwardVector { v, rates, most, kept, before, carry, da, d, dd: [T::ZERO; LANES], rows, normal: true }
    }

    /// Loads the state before stretch `k`, and prefetches the one before.
    fn load_state_before(&mut self, p: &SelectiveScan, kept: Option<&[T]>, k: usize) {
        let (n, width) = (p.states, self.v.width);
        let state = |k: usize| k * n..(k + 1) * n;
        match kept {
            Some(kept) => {
                prefetch_scan_slice(&kept[self.v.kept_state(p, k.saturating_sub(1))..][..width * n]);
                lanes::transpose_rows(&kept[self.v.kept_state(p, k)..], width, self.before);
            }
            None => self.before.copy_from_slice(&self.kept[state(k)]),
        }
    }
}

/// The vectors of a group.
type ScanBackwardGroup<'a, T> = [Option<ScanBackwardVector<'a, T>>; GROUP];

/// The terms of B̄ and of C̄ of one step, in half of the lanes.
type Terms<T> = [[T; HALF]; 2];

/// What the vectors of a group share.
struct GroupScratch<'a, T> {
    /// Those of one number of the states, for each step of a stretch.
    terms: &'a mut [Terms<T>],
    /// B̄ and C̄ of one stretch: for each number of the states, those of the steps.
    sums: [&'a mut [T]; 2],
    /// The same for each step.
    turned: &'a mut [T],
    /// Whether it is the first group of a unit. It writes B̄ and C̄, the others add to them.
    is_first: bool,
    /// B and C of one stretch.
    numbers: ScanStepNumbers<'a, T>,
}

/// Gradients of steps that a group writes.
struct ScanBackwardRows<'a, T> {
    /// The first channel of the group.
    channel: usize,
    dx: MatrixMut<'a, T>,
    ddelta: MatrixMut<'a, T>,
    /// Rows of steps, to which the group adds.
    db: &'a mut [T],
    dc: &'a mut [T],
}

impl<T> ScanBackwardRows<'_, T> {
    /// The columns of a vector.
    #[inline(always)]
    fn columns(&self, v: ScanRowVector) -> Range<usize> {
        v.channel - self.channel..v.channel - self.channel + v.width
    }
}

simd! {
    /// Writes the state after stretch `k`, whose steps are `of`. The state before it is already there.
    fn keep_scan_backward_state[T: Float](
        p: &SelectiveScan,
        x: &ScanRowOperands<'_, T>,
        k: usize,
        of: Range<usize>,
        s: &mut ScanBackwardVector<'_, T>,
        numbers: &ScanStepNumbers<'_, T>,
    ) {
        let (n, rows) = (p.states, &mut s.rows[..of.len()]);
        let (before, after) = s.kept[k * n..(k + 2) * n].split_at_mut(n);
        let normal = s.v.load_steps(p, x, of.start, &s.most, rows);
        for (n, ((before, after), rates)) in before.iter().zip(after).zip(s.rates.iter()).enumerate() {
            write_scan_row_decays(rates, normal, rows);
            let [b, _] = numbers.of(n, rows.len());
            *after = rows.iter().zip(b).fold(*before, |h, (row, b)| next_state_of_scan_row(row, &h, *b));
        }
    }
}

/// Writes the state before each step, for number `n` of the states, and adds the terms of C̄.
#[inline(always)]
fn write_scan_backward_states<T: Float, const FULL: bool>(
    s: &mut ScanBackwardVector<'_, T>,
    n: usize,
    numbers: &ScanStepNumbers<'_, T>,
    terms: &mut [Terms<T>],
) {
    let ([b, _], mut h) = (numbers.of(n, terms.len()), s.before[n]);
    for ((row, terms), b) in s.rows.iter_mut().zip(terms).zip(b) {
        row[STATE] = h;
        h = next_state_of_scan_row(row, &h, *b);
        add_lane_products::<T, FULL>(&row[DY], &h, s.v.width, &mut terms[1]);
    }
}

/// What the steps of a stretch, from the last, add for number `n` of the states: moves the carry, and adds to Ā and to
/// the terms of B̄.
#[inline(always)]
fn scan_backward_number<T: Float, const FULL: bool>(
    s: &mut ScanBackwardVector<'_, T>,
    n: usize,
    numbers: &ScanStepNumbers<'_, T>,
    terms: &mut [Terms<T>],
) {
    let ([b, c], rows) = (numbers.of(n, terms.len()), &mut s.rows[..terms.len()]);
    let (rates, mut carry, mut da) = (s.rates[n], s.carry[n], s.da[n]);
    for (((row, terms), b), c) in rows.iter_mut().zip(terms).zip(b).zip(c).rev() {
        let lambda: Lanes<T> = from_fn(|l| c.mul_add(row[DY][l], carry[l]));
        carry = from_fn(|l| lambda[l] * row[DECAY][l]);
        let moved: Lanes<T> = from_fn(|l| carry[l] * row[STATE][l]);
        da = from_fn(|l| row[DELTA][l].mul_add(moved[l], da[l]));
        row[TO_INFLOW] = from_fn(|l| lambda[l].mul_add(*b, row[TO_INFLOW][l]));
        row[TO_DECAY] = from_fn(|l| rates[l].mul_add(moved[l], row[TO_DECAY][l]));
        add_lane_products::<T, FULL>(&lambda, &row[INFLOW], s.v.width, &mut terms[0]);
    }
    (s.carry[n], s.da[n]) = (carry, da);
}

/// Writes the sums of the terms of each step, which become 0: B̄, then C̄.
#[inline(always)]
fn sum_scan_backward_terms<T: Float>(terms: &mut [Terms<T>], [b, c]: [&mut [T]; 2]) {
    let sums = b.as_chunks_mut::<4>().0.iter_mut().zip(c.as_chunks_mut::<4>().0);
    for (terms, (b, c)) in terms.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
        let halves = |i: usize, of: usize| -> [T; 4] { from_fn(|l| terms[i][of][l] + terms[i][of][l + 4]) };
        (*b, *c) =
            (lanes::sum_four_vectors(from_fn(|i| halves(i, 0))), lanes::sum_four_vectors(from_fn(|i| halves(i, 1))));
        *terms = [[[T::ZERO; HALF]; 2]; 4];
    }
}

/// Writes x̄ and Δ̄ of the steps `of`, and adds their terms of D̄.
#[inline(always)]
fn write_scan_backward_rows<T: Float>(
    s: &mut ScanBackwardVector<'_, T>,
    of: Range<usize>,
    to: &mut ScanBackwardRows<'_, T>,
) {
    let columns = to.columns(s.v);
    for (row, t) in s.rows[..of.len()].iter().zip(of).rev() {
        let mut dx: Lanes<T> = from_fn(|l| row[TO_INFLOW][l] * row[DELTA][l]);
        // The rates have the factor log₂ e.
        let ddelta: Lanes<T> = from_fn(|l| row[TO_INFLOW][l].mul_add(row[X][l], row[TO_DECAY][l] * T::LN2_HI));
        if let Some(d) = &s.d {
            dx = from_fn(|l| d[l].mul_add(row[DY][l], dx[l]));
            s.dd = from_fn(|l| row[X][l].mul_add(row[DY][l], s.dd[l]));
        }
        lanes::store_vector(&dx, &mut to.dx.row(t)[columns.clone()]);
        lanes::store_vector(&ddelta, &mut to.ddelta.row(t)[columns.clone()]);
    }
}

/// Prefetches the rows that step `t` writes, and those that the step `ahead` steps before it reads.
#[inline(always)]
fn prefetch_scan_backward_step<T: Float>(
    p: &SelectiveScan,
    (x, dy): (&ScanRowOperands<'_, T>, &[T]),
    v: ScanRowVector,
    (t, ahead): (usize, usize),
    numbers: &ScanStepNumbers<'_, T>,
    to: &mut ScanBackwardRows<'_, T>,
) {
    let columns = to.columns(v);
    simd::prefetch_l2(to.dx.row(t)[columns.clone()].as_ptr().addr());
    simd::prefetch_l2(to.ddelta.row(t)[columns].as_ptr().addr());
    if let Some(before) = t.checked_sub(ahead) {
        [x.x, x.delta, dy].iter().for_each(|x| v.prefetch_row(p, x, before));
        numbers.prefetch(p, x, v.b, before);
    }
}

simd! {
    /// The gradients of the steps `of`, from the last to the first. Terms are 0, and become it.
    fn selective_scan_backward_stretch[T: Float](
        p: &SelectiveScan,
        x: &ScanRowOperands<'_, T>,
        dy: &[T],
        of: Range<usize>,
        vectors: &mut ScanBackwardGroup<'_, T>,
        s: &mut GroupScratch<'_, T>,
        to: &mut ScanBackwardRows<'_, T>,
    ) {
        for s in vectors.iter_mut().flatten() {
            let rows = &mut s.rows[..of.len()];
            s.normal = s.v.load_steps(p, x, of.start, &s.most, rows);
            s.v.load_rows(p, dy, of.start, rows, DY);
            for row in rows.iter_mut() {
                (row[TO_INFLOW], row[TO_DECAY]) = ([T::ZERO; LANES], [T::ZERO; LANES]);
            }
        }
        let fours = of.len().next_multiple_of(4);
        let [sums_b, sums_c] = s.sums.each_mut().map(|x| x.chunks_exact_mut(s.terms.len()));
        for (n, (sums_b, sums_c)) in sums_b.zip(sums_c).enumerate() {
            let (numbers, terms) = (&s.numbers, &mut s.terms[..of.len()]);
            for vector in vectors.iter_mut().flatten() {
                share_of_scan_steps(&of, n, p.states, |t| {
                    prefetch_scan_backward_step(p, (x, dy), vector.v, (t, of.len()), numbers, to)
                });
                write_scan_row_decays(&vector.rates[n], vector.normal, &mut vector.rows[..of.len()]);
                match vector.v.width == LANES {
                    true => {
                        write_scan_backward_states::<T, true>(vector, n, numbers, terms);
                        scan_backward_number::<T, true>(vector, n, numbers, terms);
                    }
                    false => {
                        write_scan_backward_states::<T, false>(vector, n, numbers, terms);
                        scan_backward_number::<T, false>(vector, n, numbers, terms);
                    }
                }
            }
            sum_scan_backward_terms(&mut s.terms[..fours], [sums_b, sums_c]);
        }
        for vector in vectors.iter_mut().flatten() {
            write_scan_backward_rows(vector, of.clone(), to);
        }
    }
}

/// Adds B̄ and C̄ of a stretch to those of the unit.
fn add_scan_backward_sums<T: GemmFloat>(
    p: &SelectiveScan,
    of: Range<usize>,
    s: &mut GroupScratch<'_, T>,
    to: &mut ScanBackwardRows<'_, T>,
) {
    let (n, room, rows) = (p.states, s.numbers.room, of.start * p.states..of.end * p.states);
    for (sums, to) in s.sums.iter().zip([&mut *to.db, &mut *to.dc]) {
        let to = &mut to[rows.clone()];
        if s.is_first {
            transpose(sums, room, to, n, of.len(), n);
        } else {
            transpose(sums, room, s.turned, n, of.len(), n);
            to.iter_mut().zip(s.turned.iter()).for_each(|(to, x)| *to += *x);
        }
    }
}

/// What the kernel reads beside the operands of the scan.
#[derive(Clone, Copy)]
struct ScanBackwardReads<'a, T> {
    dy: &'a [T],
    /// The gradient of the last state.
    dlast: Option<&'a [T]>,
    /// The state before each stretch.
    kept: Option<&'a [T]>,
}

/// All steps of a group of member `b`. The state before the first step is the first of those kept in scratch, if they
/// are no operand.
fn run_group<T: GemmFloat>(
    p: &SelectiveScan,
    x: &ScanRowOperands<'_, T>,
    reads: ScanBackwardReads<'_, T>,
    b: usize,
    vectors: &mut ScanBackwardGroup<'_, T>,
    s: &mut GroupScratch<'_, T>,
    to: &mut ScanBackwardRows<'_, T>,
) {
    if reads.kept.is_none() {
        for (k, of) in p.stretches_of_steps().enumerate().take(p.stretches().saturating_sub(1)) {
            s.numbers.load(p, x, b, of.clone());
            for vector in vectors.iter_mut().flatten() {
                keep_scan_backward_state(p, x, k, of.clone(), vector, &s.numbers);
            }
        }
    }
    s.terms.fill([[T::ZERO; HALF]; 2]);
    for (k, of) in p.stretches_of_steps().enumerate().rev() {
        s.numbers.load(p, x, b, of.clone());
        vectors.iter_mut().flatten().for_each(|vector| vector.load_state_before(p, reads.kept, k));
        selective_scan_backward_stretch(p, x, reads.dy, of.clone(), vectors, s, to);
        add_scan_backward_sums(p, of, s, to);
    }
}

/// Writes of the kernel, by position.
struct ScanBackwardParts<'a, T> {
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

impl<'a, T: GemmFloat> ScanBackwardParts<'a, T> {
    fn of(p: &SelectiveScan, args: &mut Args<'a>) -> ScanBackwardParts<'a, T> {
        let units = p.units();
        let h0 = 5 + usize::from(p.d);
        ScanBackwardParts {
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

    /// A group of channels of member `b`, with its rows of B̄ and C̄ from element `sums` on.
    fn group(
        &mut self,
        p: &SelectiveScan,
        x: &ScanRowOperands<'_, T>,
        reads: ScanBackwardReads<'_, T>,
        (b, channels, is_first): (usize, Range<usize>, bool),
        sums: usize,
    ) {
        let rows = sums..sums + p.steps * p.states;
        let ScanBackwardGroupScratch { vectors, terms, turned, sums_b, sums_c, numbers } =
            ScanBackwardGroupScratch::cut(p, self.scratch);
        let numbers = ScanStepNumbers::new(p, p.backward_padded_stretch(), numbers);
        let own = vectors.as_chunks_mut().0.chunks_exact_mut(ScanBackwardVectorScratch::len(p));
        let mut own = own.zip(ScanRowVector::all(b, channels.clone()));
        let mut vectors = from_fn(|_| own.next().map(|(own, v)| ScanBackwardVector::new(p, x, reads.dlast, v, own)));
        let terms = terms.as_chunks_mut().0.as_chunks_mut().0;
        let mut s = GroupScratch { terms, sums: [sums_b, sums_c], turned, is_first, numbers };
        let mut to = ScanBackwardRows {
            channel: channels.start,
            dx: self.dx.at(b, &channels),
            ddelta: self.ddelta.at(b, &channels),
            db: &mut self.db[rows.clone()],
            dc: &mut self.dc[rows],
        };
        run_group(p, x, reads, b, &mut vectors, &mut s, &mut to);
        for vector in vectors.iter().flatten() {
            let channels = vector.v.channels();
            lanes::transpose_to_rows(vector.da, self.da.at(b, &channels).row(0));
            if let Some(to) = &mut self.dd {
                lanes::store_vector(&vector.dd, to.at(b, &channels).row(0));
            }
            if let Some(dh0) = &mut self.dh0 {
                lanes::transpose_to_rows(vector.carry, dh0.at(b, &channels).row(0));
            }
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
    let x = ScanRowOperands::<T>::read(&p, args, first);
    let reads = ScanBackwardReads::<T> {
        dy: args.read(0),
        dlast: p.last.then(|| args.read(1)),
        kept: (p.keep > 0).then(|| args.read(kept)),
    };
    let mut parts = ScanBackwardParts::<T>::of(&p, args);
    let member = p.steps * p.states;
    for (k, unit) in args.units().enumerate() {
        let unit = parts.units.unit(unit);
        for (i, b) in unit.batch.clone().enumerate() {
            let sums = (k * unit.batch.len() + i) * member;
            for channels in scan_channel_groups(unit.channels.clone()) {
                let is_first = channels.start == unit.channels.start;
                parts.group(&p, &x, reads, (b, channels, is_first), sums);
            }
        }
    }
}

by_dtype!(selective_scan_backward_kernel_for = selective_scan_backward_kernel::<floats>);
