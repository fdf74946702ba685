//! Reductions of what a pointwise program computes: the terms of a unit are computed into scratch and reduced there, so
//! the whole of them is never stored.
//!
//! Invariant: the order of a reduction is that of [`plan_steps`], so its bits are those of the program and then the
//! reduction. Used by the lowering of regions that end in a reduction.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`sum_terms`], [`mean_terms`], [`max_terms`], [`min_terms`] | the inputs of a [`TileCode`] | `T[outer, chunks, inner]`, scratch | [`Divided`] |
//!
//! The scratch is the terms of a unit, `T`, `PerThread(`[`Divided::scratch_len`]`)`, then that of the program if it has
//! some. The program's [`TileCode`] is prepared for the call.

use super::pairwise::{self, PairwiseReducer};
use super::{Reduce, UNIT, fill_output, plan_steps};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::num::Num;
use crate::params::params;
use crate::tile::{TileCode, compute_terms};
use bytemuck::cast_slice_mut;

/// The most terms of a unit: they must stay in a cache of the second level.
const MOST_UNIT_TERMS: usize = 32 << 10;
/// The most terms of a reduction that is one unit: a program of more is worth two threads.
const MOST_LONE_TERMS: usize = 8 << 10;
/// Scratch is a multiple of this many elements: threads share no cache line.
const ALIGNED: usize = 64;

params! {
    /// Params of the reductions of terms: the view, and how it is divided.
    pub struct Divided {
        /// Product of the axes before the reduced ones.
        pub outer: usize,
        /// Product of the reduced axes.
        pub n: usize,
        /// Product of the axes after them.
        pub inner: usize,
        /// Rows of the reduced axis in a chunk; the last chunk may be shorter.
        pub chunk: usize,
        /// Columns of a unit: a divisor of `inner`.
        pub columns: usize,
        /// The divisor of [`mean_terms`].
        pub divisor: usize,
    }
}

/// A reduction of terms as one instruction or two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// The first instruction, which computes the terms.
    pub first: Divided,
    /// The reduction of its results, if it has several chunks.
    pub last: Option<Reduce>,
}

/// Plans the reduction of terms `[outer, n, inner]`; `None` if a unit would have too many of them, or if there are
/// none. There is no plan in a module for browsers, which would be too large with these kernels.
#[inline]
pub fn plan_terms(outer: usize, n: usize, inner: usize) -> Option<Steps> {
    if cfg!(target_arch = "wasm32") {
        return None;
    }
    let plan = plan_steps(outer, n, inner);
    let mut first = Divided { outer, n, inner, chunk: plan.partial.map_or(n, |p| p.chunk), columns: inner, divisor: n };
    if inner > pairwise::NARROW && !first.fits() {
        // Chunks are blocks of the column order, so the bits stay.
        if (pairwise::ROWS + 1..pairwise::ROWS.pow(3)).contains(&first.chunk) {
            first.chunk = pairwise::ROWS;
        }
        if !first.fits() {
            first.columns = first.fitting_columns();
        }
    }
    let last = Reduce { n: first.chunks(), divisor: n, ..plan.last };
    (outer > 0 && first.unit_terms() > 0 && first.fits())
        .then_some(Steps { first, last: (first.chunk < n).then_some(last) })
}

impl Divided {
    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.n.div_ceil(self.chunk.max(1))
    }

    /// Elements of the output `[outer, chunks, inner]`.
    pub fn out_len(&self) -> usize {
        self.outer * self.chunks() * self.inner
    }

    /// Outer rows, or chunks of one, in a unit.
    fn unit_rows(&self) -> usize {
        if self.chunk < self.n || self.inner > pairwise::NARROW {
            return 1;
        }
        (UNIT / (self.n * self.inner).max(1)).clamp(1, self.outer.max(1))
    }

    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        self.unit_rows() * self.columns
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.out_len().div_ceil(self.per_unit().max(1))
    }

    /// Terms of a unit.
    fn unit_terms(&self) -> usize {
        self.unit_rows() * self.chunk * self.columns
    }

    /// Whether a unit has few enough terms.
    fn fits(&self) -> bool {
        self.unit_terms() <= if self.out_len() > self.per_unit() { MOST_UNIT_TERMS } else { MOST_LONE_TERMS }
    }

    /// The greatest divisor of `inner`, other than itself, whose columns fit in a unit; `inner` if there is none. As
    /// few columns as [`pairwise::NARROW`] are added in another order.
    fn fitting_columns(&self) -> usize {
        let most = (MOST_UNIT_TERMS / self.chunk.max(1)).min(self.inner / 2);
        (pairwise::NARROW + 1..=most).rev().find(|w| self.inner.is_multiple_of(*w)).unwrap_or(self.inner)
    }

    /// Elements of scratch for the terms of a unit.
    pub fn scratch_len(&self) -> usize {
        self.unit_terms().next_multiple_of(ALIGNED)
    }

    /// The first term of unit `u`, and how many terms each of its results has.
    fn part(&self, u: usize) -> (usize, usize) {
        let pieces = self.inner / self.columns;
        let (u, column) = (u / pieces, u % pieces * self.columns);
        let (row, from) = match self.chunks() {
            1 => (u * self.unit_rows(), 0),
            chunks => (u / chunks, u % chunks * self.chunk),
        };
        ((row * self.n + from) * self.inner + column, self.chunk.min(self.n - from))
    }
}

fn run_terms<T: Num, F: PairwiseReducer<T>>(args: &mut Args<'_>, f: F, finish: impl Fn(T, &Divided) -> T) {
    let p = Divided::from_words(args.params());
    let code: &TileCode = args.prepared();
    let (out, terms) = (args.write::<T>(0), args.write::<T>(1));
    let slots = if args.writes() > 2 { args.write_bytes(2) } else { &mut [] };
    for (u, out) in args.units().zip(out.chunks_mut(p.per_unit())) {
        let (from, n) = p.part(u);
        let terms = &mut terms[..out.len() * n];
        // Adjacent terms: those of one row, if a unit has a part of the columns.
        let run = if p.columns < p.inner { p.columns } else { terms.len() };
        for (row, terms) in terms.chunks_mut(run).enumerate() {
            let from = from + row * p.inner;
            compute_terms(args, code, (from, from + terms.len()), cast_slice_mut(terms), slots);
        }
        fill_output(f, terms, n, p.columns, 0, out);
        for o in out {
            *o = finish(*o, &p);
        }
    }
}

/// Σ of the terms. Integers wrap.
pub fn sum_terms<T: Num>(args: &mut Args<'_>) {
    run_terms::<T, _>(args, pairwise::Sum, |x, _| x);
}

/// Σ of the terms / divisor.
pub fn mean_terms<T: Float>(args: &mut Args<'_>) {
    run_terms::<T, _>(args, pairwise::Sum, |x, p| x / T::from_f64(p.divisor as f64));
}

/// The greatest of the terms; NaN if any is NaN.
pub fn max_terms<T: Num>(args: &mut Args<'_>) {
    run_terms::<T, _>(args, pairwise::Max, |x, _| x);
}

/// The least of the terms; NaN if any is NaN.
pub fn min_terms<T: Num>(args: &mut Args<'_>) {
    run_terms::<T, _>(args, pairwise::Min, |x, _| x);
}

by_dtype!(sum_terms_for = sum_terms::<numbers>);
by_dtype!(mean_terms_for = mean_terms::<floats>);
by_dtype!(max_terms_for = max_terms::<floats>);
by_dtype!(min_terms_for = min_terms::<floats>);
