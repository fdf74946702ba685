//! Updates of the rows of a table that a step has read: SGD, Adagrad and the lazy Adam of `torch.optim.SparseAdam`.
//!
//! Invariants: rows that no index names are neither read nor written. Gradient rows with equal indices are first added
//! up, to 0 and in the order of the indices, as a scatter adds them; then their row is updated once. So results do not
//! depend on the units. Every index is checked before the call writes anything.
//!
//! | kernel | reads | writes (each may be in place of the read of the same name) | params |
//! |---|---|---|---|
//! | [`sgd_rows_kernel`] | p: `T[n, inner]`, g: `T[k, inner]`, idx: `I[k]`, lr: `T[]` | p, scratch | [`Rows`] |
//! | [`adagrad_rows_kernel`] | p, g, idx, sum: `T[n, inner]`, lr | p, sum, scratch | [`Rows`], [`AdagradRows`] |
//! | [`adam_rows_kernel`] | p, g, idx, m, v: `T[n, inner]`, lr, t: `i64[]` | p, m, v, scratch | [`Rows`], [`AdamRows`] |
//! | [`coalesce_kernel`] | g: `T[k, inner]`, idx: `I[k]` | `T[k, inner]`, scratch | [`Rows`] |
//!
//! The scratch of each thread is `u32` of [`Rows::places`] and `T` of `inner`; [`coalesce_kernel`] has the first only.

use super::{flush_moment, read_scalar};
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::index::{Index, first_out_of_range, report_out_of_range};
use crate::params::params;
use crate::simd;
use std::ops::Range;

/// Approximate number of elements in a unit.
const UNIT: usize = 4096;

/// The most gradient rows: places are 31 bits.
pub const MOST_INDICES: usize = LAST as usize;

params! {
    /// Params of the kernels of this file, before those of the rule.
    pub struct Rows {
        /// Rows of the table.
        pub n: usize,
        /// Rows of the gradient.
        pub k: usize,
        /// Elements of a row.
        pub inner: usize,
    }
}

params! {
    /// Params of [`adagrad_rows_kernel`].
    pub struct AdagradRows {
        /// Added to the denominator.
        pub eps: f64,
    }
}

params! {
    /// Params of [`adam_rows_kernel`].
    pub struct AdamRows {
        /// Decay of the first moment.
        pub beta1: f64,
        /// Decay of the second moment.
        pub beta2: f64,
        /// Added to the denominator.
        pub eps: f64,
        /// A row shrinks by lr times this before its update.
        pub weight_decay: f64,
    }
}

impl Rows {
    fn rows_per_unit(&self) -> usize {
        (UNIT / self.inner.max(1)).max(1)
    }

    /// Elements in a unit, of the table and of coalesced rows.
    pub fn per_unit(&self) -> usize {
        self.rows_per_unit() * self.inner
    }

    /// Units of `rows` rows: those of the table, or of the gradient for [`coalesce_kernel`].
    pub fn units(&self, rows: usize) -> usize {
        rows.div_ceil(self.rows_per_unit())
    }

    /// Elements of the gradient.
    pub fn elements(&self) -> u64 {
        (self.k * self.inner) as u64
    }

    /// Slots of the table of places: a power of two, at least twice as many as there are indices.
    fn slots(&self) -> usize {
        (2 * self.k).next_power_of_two()
    }

    /// Elements of the scratch that finds equal indices.
    pub fn places(&self) -> usize {
        self.slots() + self.k
    }
}

/// Set in the link of a place whose row has an earlier place, and of one that is left out.
const LATER: u32 = 1 << 31;
/// The link of the last place of a row.
const LAST: u32 = LATER - 1;
/// A slot without a place.
const EMPTY: u32 = u32::MAX;

/// Links each place of `idx` whose row is in `rows` to the next place of the same row. `slots` finds the first place of
/// a row.
fn link_places<I: Index>(idx: &[I], rows: &Range<usize>, slots: &mut [u32], links: &mut [u32]) {
    let mask = slots.len() - 1;
    slots.fill(EMPTY);
    for (place, i) in idx.iter().enumerate().rev() {
        let row = i.index_to_i64() as usize;
        if !rows.contains(&row) {
            links[place] = LATER | LAST;
            continue;
        }
        // Fibonacci hashing: neighbours go far apart, so clusters stay short.
        let mut slot = ((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            let first = slots[slot];
            if first == EMPTY {
                links[place] = LAST;
                break;
            }
            if idx[first as usize].index_to_i64() as usize == row {
                links[first as usize] |= LATER;
                links[place] = first;
                break;
            }
            slot = (slot + 1) & mask;
        }
        slots[slot] = place as u32;
    }
}

/// Adds up the gradient rows of the places from `place` on.
#[inline(always)]
fn sum_places<T: Float>(g: &[T], place: usize, links: &[u32], sum: &mut [T]) {
    let inner = sum.len();
    for (s, g) in sum.iter_mut().zip(&g[place * inner..][..inner]) {
        *s = T::ZERO + *g;
    }
    let mut at = links[place];
    while at != LAST {
        for (s, g) in sum.iter_mut().zip(&g[at as usize * inner..][..inner]) {
            *s += *g;
        }
        at = links[at as usize] & LAST;
    }
}

/// How a row follows its gradient.
trait RowRule<T>: Copy {
    /// Updates the row `p` and its states, which are empty if the rule has none.
    fn update(self, g: &[T], p: &mut [T], m: &mut [T], v: &mut [T]);
}

#[derive(Clone, Copy)]
struct SgdRule<T> {
    lr: T,
}

impl<T: Float> RowRule<T> for SgdRule<T> {
    #[inline(always)]
    fn update(self, g: &[T], p: &mut [T], _: &mut [T], _: &mut [T]) {
        for (p, g) in p.iter_mut().zip(g) {
            *p -= self.lr * *g;
        }
    }
}

#[derive(Clone, Copy)]
struct AdagradRule<T> {
    lr: T,
    eps: T,
}

impl<T: Float> RowRule<T> for AdagradRule<T> {
    #[inline(always)]
    fn update(self, g: &[T], p: &mut [T], sum: &mut [T], _: &mut [T]) {
        for ((p, g), sum) in p.iter_mut().zip(g).zip(sum) {
            *sum = flush_moment(*sum + *g * *g);
            *p -= self.lr * *g / (sum.sqrt() + self.eps);
        }
    }
}

/// The constants of a step, computed in `f64` as torch does.
#[derive(Clone, Copy)]
struct AdamRule<T> {
    one_less_beta1: T,
    one_less_beta2: T,
    /// lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ).
    size: T,
    eps: T,
    /// Factor of the row before the update.
    shrink: T,
}

impl<T: Float> AdamRule<T> {
    fn new(a: &AdamRows, lr: T, t: i64) -> AdamRule<T> {
        let f = T::from_f64;
        let t = t as f64;
        AdamRule {
            one_less_beta1: f(1.0 - a.beta1),
            one_less_beta2: f(1.0 - a.beta2),
            size: f(lr.to_f64() * (1.0 - a.beta2.powf(t)).sqrt() / (1.0 - a.beta1.powf(t))),
            eps: f(a.eps),
            shrink: f(1.0 - lr.to_f64() * a.weight_decay),
        }
    }
}

impl<T: Float> RowRule<T> for AdamRule<T> {
    #[inline(always)]
    fn update(self, g: &[T], p: &mut [T], m: &mut [T], v: &mut [T]) {
        for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            *m = flush_moment(*m + (*g - *m) * self.one_less_beta1);
            *v = flush_moment(*v + (*g * *g - *v) * self.one_less_beta2);
            *p = *p * self.shrink - self.size * (*m / (v.sqrt() + self.eps));
        }
    }
}

/// The `inner` elements of `x` from `at` on; empty if the rule has no such state.
#[inline(always)]
fn row_of<T>(x: &mut [T], at: usize, inner: usize) -> &mut [T] {
    if x.is_empty() { x } else { &mut x[at..at + inner] }
}

simd! {
    /// Updates the rows from `first` on, of which p, m and v hold a part, by the gradient rows that `links` joins.
    fn update_rows[T: Float, I: Index, R: RowRule<T>](
        rule: R, g: &[T], idx: &[I], links: &[u32], first: usize, sum: &mut [T], p: &mut [T], m: &mut [T], v: &mut [T]
    ) {
        let inner = sum.len();
        for (place, i) in idx.iter().enumerate() {
            if links[place] & LATER != 0 {
                continue;
            }
            sum_places(g, place, links, sum);
            let at = (i.index_to_i64() as usize - first) * inner;
            rule.update(sum, row_of(p, at, inner), row_of(m, at, inner), row_of(v, at, inner));
        }
    }
}

/// Runs the rows of a call with `states` states behind p.
fn run_rows<T: Float, I: Index, R: RowRule<T>>(args: &mut Args<'_>, states: usize, rule: R) {
    let p = Rows::from_words(&args.params()[..Rows::WORDS]);
    let (g, idx) = (args.read::<T>(1), args.read::<I>(2));
    if let Some(bad) = first_out_of_range(idx, p.n) {
        return report_out_of_range(args, idx, bad, p.n);
    }
    let first = args.units().start * p.rows_per_unit();
    let mut to: [&mut [T]; 3] = [&mut [], &mut [], &mut []];
    for (j, to) in to.iter_mut().enumerate().take(1 + states) {
        let read = if j == 0 { 0 } else { 2 + j };
        *to = args.write::<T>(j);
        if args.inplace(read).is_none() {
            to.copy_from_slice(&args.read::<T>(read)[first * p.inner..][..to.len()]);
        }
    }
    let (places, sum) = (args.write::<u32>(1 + states), args.write::<T>(2 + states));
    if to[0].is_empty() || p.k == 0 {
        return;
    }
    let (slots, links) = places[..p.places()].split_at_mut(p.slots());
    link_places(idx, &(first..first + to[0].len() / p.inner), slots, links);
    let [table, m, v] = to;
    update_rows(rule, g, idx, links, first, &mut sum[..p.inner], table, m, v);
}

/// One step of SGD on rows: `p[i] −= lr·g`.
///
/// Reads p: `T[n, inner]`, g: `T[k, inner]`, idx: `I[k]`, lr: `T[]`; writes p: `T[n, inner]`, [`Rows::per_unit`], in
/// place or not; scratch; params [`Rows`].
pub fn sgd_rows_kernel<T: Float, I: Index>(args: &mut Args<'_>) {
    let lr = read_scalar(args, 3);
    run_rows::<T, I, _>(args, 0, SgdRule { lr });
}

/// One step of Adagrad on rows: `sum[i] += g²; p[i] −= lr·g/(√sum[i] + ε)`.
///
/// Reads p: `T[n, inner]`, g: `T[k, inner]`, idx: `I[k]`, sum: `T[n, inner]`, lr: `T[]`; writes p, sum: `T[n, inner]`,
/// [`Rows::per_unit`], in place or not; scratch; params [`Rows`], [`AdagradRows`].
pub fn adagrad_rows_kernel<T: Float, I: Index>(args: &mut Args<'_>) {
    let a = AdagradRows::from_words(&args.params()[Rows::WORDS..]);
    let lr = read_scalar(args, 4);
    run_rows::<T, I, _>(args, 1, AdagradRule { lr, eps: T::from_f64(a.eps) });
}

/// One step of lazy Adam on rows: `m[i] += (1 − β₁)(g − m[i]); v[i] += (1 − β₂)(g² − v[i]);
/// p[i] = p[i]·(1 − lr·weight_decay) − lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ)·m[i]/(√v[i] + ε)`.
///
/// Reads p: `T[n, inner]`, g: `T[k, inner]`, idx: `I[k]`, m, v: `T[n, inner]`, lr: `T[]`, t: `i64[]`; writes p, m, v:
/// `T[n, inner]`, [`Rows::per_unit`], in place or not; scratch; params [`Rows`], [`AdamRows`].
pub fn adam_rows_kernel<T: Float, I: Index>(args: &mut Args<'_>) {
    let a = AdamRows::from_words(&args.params()[Rows::WORDS..]);
    let rule = AdamRule::<T>::new(&a, read_scalar(args, 5), read_scalar(args, 6));
    run_rows::<T, I, _>(args, 2, rule);
}

/// Rows with equal indices added up: the first of them gets the sum, the others get zeros.
///
/// Reads g: `T[k, inner]`, idx: `I[k]`; writes `T[k, inner]`, [`Rows::per_unit`]; scratch; params [`Rows`].
pub fn coalesce_kernel<T: Float, I: Index>(args: &mut Args<'_>) {
    let p = Rows::from_words(args.params());
    let (g, idx) = (args.read::<T>(0), args.read::<I>(1));
    if let Some(bad) = first_out_of_range(idx, p.n) {
        return report_out_of_range(args, idx, bad, p.n);
    }
    let first = args.units().start * p.rows_per_unit();
    let (out, places) = (args.write::<T>(0), args.write::<u32>(1));
    if out.is_empty() {
        return;
    }
    let (slots, links) = places[..p.places()].split_at_mut(p.slots());
    link_places(idx, &(0..p.n), slots, links);
    for (place, out) in (first..).zip(out.chunks_exact_mut(p.inner)) {
        match links[place] & LATER {
            0 => sum_places(g, place, links, out),
            _ => out.fill(T::ZERO),
        }
    }
}

by_dtype!(sgd_rows_kernel_for = sgd_rows_kernel::<floats, index>);
by_dtype!(adagrad_rows_kernel_for = adagrad_rows_kernel::<floats, index>);
by_dtype!(adam_rows_kernel_for = adam_rows_kernel::<floats, index>);
by_dtype!(coalesce_kernel_for = coalesce_kernel::<floats, index>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Kernel, Split};
    use crate::harness::{In, Out, Outcome, noise, run_in_ranges, written_elements};

    /// The tensors of a table, its states, and a gradient.
    struct Case {
        p: Rows,
        tensors: Vec<Vec<f64>>,
        g: Vec<f64>,
        idx: Vec<i64>,
    }

    fn case(n: usize, k: usize, inner: usize, states: usize) -> Case {
        let tensors = (0..=states).map(|j| noise(n * inner, 1 + j as u64).iter().map(|x| x.abs()).collect()).collect();
        let idx = noise(k, 9).iter().map(|x| ((x + 1.0) / 2.0 * n as f64) as i64).collect();
        Case { p: Rows { n, k, inner }, tensors, g: noise(k * inner, 8), idx }
    }

    fn call(c: &Case, kernel: Kernel, rule: &[u64], scalars: &[In], over: bool) -> Outcome {
        let place = |j: usize| if over { In::of(&c.tensors[j]).over(j as u8) } else { In::of(&c.tensors[j]) };
        let mut reads = vec![place(0), In::of(&c.g), In::of(&c.idx)];
        reads.extend((1..c.tensors.len()).map(place));
        reads.extend_from_slice(scalars);
        let mut writes: Vec<Out> =
            c.tensors.iter().map(|_| Out::of::<f64>(c.p.n * c.p.inner, c.p.per_unit())).collect();
        writes.push(Out(c.p.places(), 4, Split::PerThread(c.p.places())));
        writes.push(Out(c.p.inner, 8, Split::PerThread(c.p.inner)));
        run_in_ranges(kernel, &[&c.p.to_words()[..], rule].concat(), &reads, &writes, c.p.units(c.p.n))
    }

    /// The rows that `c` names, in order, and the sums of their gradients.
    fn sums(c: &Case) -> std::collections::BTreeMap<usize, Vec<f64>> {
        let mut all = std::collections::BTreeMap::new();
        for (g, i) in c.g.chunks_exact(c.p.inner).zip(&c.idx) {
            let sum = all.entry(*i as usize).or_insert_with(|| vec![0.0; c.p.inner]);
            sum.iter_mut().zip(g).for_each(|(s, g)| *s += g);
        }
        all
    }

    const SHAPES: [[usize; 3]; 6] = [[1, 1, 1], [9, 0, 3], [5000, 40, 16], [700, 900, 5], [3, 200, 1], [40, 7, 5000]];

    #[test]
    fn only_named_rows_change_and_equal_indices_add_up_first() {
        let (lr, t) = (In::of(&[0.1f64]), In::of(&[3i64]));
        let adam = AdamRows { beta1: 0.9, beta2: 0.99, eps: 1e-3, weight_decay: 0.2 };
        for [n, k, inner] in SHAPES {
            for states in 0..3 {
                let c = case(n, k, inner, states);
                let mut want = c.tensors.clone();
                for (row, g) in sums(&c) {
                    for (at, g) in (row * inner..).zip(g) {
                        let [p, rest @ ..] = &mut want[..] else { continue };
                        match rest {
                            [] => p[at] -= 0.1 * g,
                            [s] => {
                                s[at] += g * g;
                                p[at] -= 0.1 * g / (s[at].sqrt() + 1e-3);
                            }
                            [m, v, ..] => {
                                m[at] += (g - m[at]) * (1.0 - adam.beta1);
                                v[at] += (g * g - v[at]) * (1.0 - adam.beta2);
                                let size = 0.1 * (1.0 - 0.99f64.powf(3.0)).sqrt() / (1.0 - 0.9f64.powf(3.0));
                                p[at] = p[at] * (1.0 - 0.1 * 0.2) - size * (m[at] / (v[at].sqrt() + 1e-3));
                            }
                        }
                    }
                }
                let (kernel, rule, scalars): (Kernel, _, Vec<In>) = match states {
                    0 => (sgd_rows_kernel::<f64, i64>, vec![], vec![lr.clone()]),
                    1 => (adagrad_rows_kernel::<f64, i64>, AdagradRows { eps: 1e-3 }.to_words(), vec![lr.clone()]),
                    _ => (adam_rows_kernel::<f64, i64>, adam.to_words(), vec![lr.clone(), t.clone()]),
                };
                for over in [false, true] {
                    let got = call(&c, kernel, &rule, &scalars, over);
                    for (j, want) in want.iter().enumerate() {
                        assert_eq!(written_elements::<f64>(&got, j), *want, "{:?}, {states} states, tensor {j}", c.p);
                    }
                }
            }
        }
    }

    #[test]
    fn coalesced_rows_hold_each_sum_once() {
        for [n, k, inner] in SHAPES {
            let c = case(n, k, inner, 0);
            let writes =
                [Out::of::<f64>(k * inner, c.p.per_unit()), Out(c.p.places(), 4, Split::PerThread(c.p.places()))];
            let reads = [In::of(&c.g), In::of(&c.idx)];
            let got = run_in_ranges(coalesce_kernel::<f64, i64>, &c.p.to_words(), &reads, &writes, c.p.units(k));
            let (mut left, mut want) = (sums(&c), Vec::new());
            for i in &c.idx {
                want.extend(left.remove(&(*i as usize)).unwrap_or_else(|| vec![0.0; inner]));
            }
            assert_eq!(written_elements::<f64>(&got, 0), want, "{:?}", c.p);
        }
    }

    #[test]
    fn a_bad_index_is_found_before_anything_is_written() {
        for bad in [-1, 5000, i64::MIN] {
            let mut c = case(5000, 40, 16, 0);
            (c.idx[7], c.idx[12]) = (bad, bad);
            assert_eq!(call(&c, sgd_rows_kernel::<f64, i64>, &[], &[In::of(&[0.1f64])], true), Err(7));
        }
    }
}
