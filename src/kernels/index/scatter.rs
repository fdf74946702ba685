//! Scatters into an existing tensor: set, add, multiply, max, min. Also the scatters that add to zeros, which are the
//! adjoints of gather and of take along an axis.
//!
//! Invariant: every index is checked before the call writes anything, in place or not. Updates of one element are
//! applied in the order of the indices, whatever the units.

use super::{Indexed, first_out_of_range, report_out_of_range};
use crate::abi::Args;
use crate::by_dtype::{by_dtype, by_size};
use crate::params::params;
use crate::simd;
use crate::{index::Index, num::Num};
use bytemuck::Pod;
use std::ops::Range;

impl Indexed {
    /// Rows of the table in a unit of a scatter: part of the one outer row, or whole outer rows.
    fn scatter_rows(&self) -> usize {
        if self.outer == 1 { self.rows_per_unit() } else { self.n }
    }

    /// Elements of the table `[outer, n, inner]` in a unit of [`scatter_add_kernel`] and
    /// [`scatter_along_axis_add_kernel`].
    pub fn per_unit_scatter(&self) -> usize {
        self.scatter_rows() * self.inner
    }

    /// Number of units of [`scatter_add_kernel`] and [`scatter_along_axis_add_kernel`].
    pub fn units_scatter(&self) -> usize {
        (self.outer * self.n).div_ceil(self.scatter_rows().max(1))
    }
}

params! {
    /// Params of the scatters.
    pub struct Scatter {
        /// Product of the axes before the indexed one.
        pub outer: usize,
        /// Length of the indexed axis in the result.
        pub n: usize,
        /// Number of indices along that axis.
        pub k: usize,
        /// Product of the axes after it.
        pub inner: usize,
        /// True: indices are `[outer, k, inner]`, one for each update. False: `[k]`.
        pub own: bool,
    }
}

impl Scatter {
    fn view(&self) -> Indexed {
        Indexed { outer: self.outer, n: self.n, k: self.k, inner: self.inner }
    }

    /// Elements of the result in a unit.
    pub fn per_unit(&self) -> usize {
        self.view().per_unit_scatter()
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.view().units_scatter()
    }
}

/// How an update combines with an element.
trait ScatterJoin<T>: Copy {
    /// The new value.
    fn join(self, old: T, new: T) -> T;
}

macro_rules! joins {
    ($($name:ident: $t:ident, $bound:ident, $f:expr;)*) => {
        $(#[derive(Clone, Copy)]
        struct $name;

        impl<$t: $bound> ScatterJoin<$t> for $name {
            #[inline(always)]
            fn join(self, old: $t, new: $t) -> $t {
                $f(old, new)
            }
        })*
    };
}

joins! {
    Set: T, Pod, |_, new| new;
    Add: T, Num, |old: T, new| old.plus(new);
    Mul: T, Num, |old: T, new| old.times(new);
    Max: T, Num, |old: T, new| old.greater(new);
    Min: T, Num, |old: T, new| old.lesser(new);
}

simd! {
    /// Applies each row of `updates` to the row of `out` with its index, if that lies in `rows`, the rows that `out`
    /// holds.
    fn scatter_join_rows[T: Pod, I: Index, J: ScatterJoin<T>](
        join: J, updates: &[T], idx: &[I], inner: usize, rows: Range<usize>, out: &mut [T]
    ) {
        for (x, i) in updates.chunks_exact(inner).zip(idx) {
            let at = (i.index_to_i64() as usize).wrapping_sub(rows.start);
            if at < rows.len() {
                for (o, x) in out[at * inner..][..inner].iter_mut().zip(x) {
                    *o = join.join(*o, *x);
                }
            }
        }
    }
}

/// Applies each element of `updates` to its own column of the row of `out` with its index.
fn join_elements<T: Pod, I: Index, J: ScatterJoin<T>>(
    join: J,
    updates: &[T],
    idx: &[I],
    inner: usize,
    rows: Range<usize>,
    out: &mut [T],
) {
    if inner == 1 {
        for (x, i) in updates.iter().zip(idx) {
            if let Some(o) = out.get_mut((i.index_to_i64() as usize).wrapping_sub(rows.start)) {
                *o = join.join(*o, *x);
            }
        }
        return;
    }
    for (x, idx) in updates.chunks_exact(inner).zip(idx.chunks_exact(inner)) {
        for (column, (x, i)) in x.iter().zip(idx).enumerate() {
            let at = (i.index_to_i64() as usize).wrapping_sub(rows.start);
            if at < rows.len() {
                let o = &mut out[at * inner + column];
                *o = join.join(*o, *x);
            }
        }
    }
}

/// Applies each row of `updates` to the row of `out` with its index. A loop over rows of one element would take longer
/// than its work.
fn join_rows<T: Pod, I: Index, J: ScatterJoin<T>>(
    join: J,
    updates: &[T],
    idx: &[I],
    inner: usize,
    rows: Range<usize>,
    out: &mut [T],
) {
    if inner == 1 {
        join_elements(join, updates, idx, inner, rows, out);
    } else {
        scatter_join_rows(join, updates, idx, inner, rows, out);
    }
}

fn run_join<T: Pod, I: Index, J: ScatterJoin<T>>(args: &mut Args<'_>, join: J) {
    let p = Scatter::from_words(args.params());
    let view = p.view();
    let (updates, idx) = (args.read::<T>(1), args.read::<I>(2));
    if let Some(bad) = first_out_of_range(idx, p.n) {
        return report_out_of_range(args, idx, bad, p.n);
    }
    let base = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let first = args.units().start * view.scatter_rows();
    let out = args.write::<T>(0);
    if out.is_empty() {
        return;
    }
    if let Some(base) = base {
        out.copy_from_slice(&base[first * p.inner..][..out.len()]);
    }
    let size = p.k * p.inner;
    let one = |o: usize, rows: Range<usize>, out: &mut [T]| {
        let updates = &updates[o * size..][..size];
        match p.own {
            true => join_elements(join, updates, &idx[o * size..][..size], p.inner, rows, out),
            false => join_rows(join, updates, idx, p.inner, rows, out),
        }
    };
    if p.outer == 1 {
        let rows = first..first + out.len() / p.inner;
        return one(0, rows, out);
    }
    for (i, out) in out.chunks_exact_mut(p.n * p.inner).enumerate() {
        one(first / p.n + i, 0..p.n, out);
    }
}

macro_rules! scatters {
    ($($(#[$doc:meta])* $name:ident($bound:ident) = $join:ident;)*) => {
        $($(#[$doc])*
        ///
        /// Reads base: `T[outer, n, inner]`, updates: `T[outer, k, inner]`, idx: `I[k]` or, if [`Scatter::own`],
        /// `I[outer, k, inner]`; writes `T[outer, n, inner]`, [`Scatter::per_unit`], in place of base or not; params
        /// [`Scatter`].
        pub fn $name<T: $bound, I: Index>(args: &mut Args<'_>) {
            run_join::<T, I, _>(args, $join);
        })*
    };
}

scatters! {
    /// Each update replaces the element; the last one wins.
    set(Pod) = Set;
    /// Updates are added.
    add(Num) = Add;
    /// Updates are multiplied.
    mul(Num) = Mul;
    /// The maximum of element and updates; NaN if any is NaN.
    max(Num) = Max;
    /// The minimum of element and updates; NaN if any is NaN.
    min(Num) = Min;
}

by_size!(set_for = set::<index>);
by_dtype!(add_for = add::<numbers, index>);
by_dtype!(mul_for = mul::<numbers, index>);
by_dtype!(max_for = max::<numbers, index>);
by_dtype!(min_for = min::<numbers, index>);

/// Runs a scatter: fills `out` with zeros, then calls `add(outer row, rows, out)` for each outer row of this call, or a
/// part of one.
fn add_onto_zeros<T: Num>(args: &mut Args<'_>, p: &Indexed, mut add: impl FnMut(usize, Range<usize>, &mut [T])) {
    let first = args.units().start * p.scatter_rows();
    let out = args.write::<T>(0);
    out.fill(T::EMPTY_SUM);
    if out.is_empty() || p.k == 0 {
        return;
    }
    if p.outer == 1 {
        let rows = first..first + out.len() / p.inner;
        return add(0, rows, out);
    }
    for (i, out) in out.chunks_exact_mut(p.n * p.inner).enumerate() {
        add(first / p.n + i, 0..p.n, out);
    }
}

/// The adjoint of [`gather_kernel`](super::gather_kernel): zeros, then `out[o, idx[j], i] += updates[o, j, i]` for
/// j = 0, 1, …
///
/// Reads updates: `T[outer, k, inner]`, idx: `I[k]`; writes `T[outer, n, inner]`, [`Indexed::per_unit_scatter`] (and
/// [`Indexed::units_scatter`] units); params [`Indexed`].
pub fn scatter_add_kernel<T: Num, I: Index>(args: &mut Args<'_>) {
    let p = Indexed::from_words(args.params());
    let (updates, idx) = (args.read::<T>(0), args.read::<I>(1));
    if let Some(bad) = first_out_of_range(idx, p.n) {
        return report_out_of_range(args, idx, bad, p.n);
    }
    let size = p.k * p.inner;
    add_onto_zeros(args, &p, |o, rows, out| {
        join_rows(Add, &updates[o * size..][..size], idx, p.inner, rows, out);
    });
}

by_dtype!(scatter_add_kernel_for = scatter_add_kernel::<numbers, index>);

/// The adjoint of [`take_along_axis_kernel`](super::take_along_axis_kernel): zeros, then
/// `out[o, idx[o, j, i], i] += updates[o, j, i]` for j = 0, 1, …
///
/// Reads updates: `T[outer, k, inner]`, idx: `I[outer, k, inner]`; writes `T[outer, n, inner]`,
/// [`Indexed::per_unit_scatter`] (and [`Indexed::units_scatter`] units); params [`Indexed`].
pub fn scatter_along_axis_add_kernel<T: Num, I: Index>(args: &mut Args<'_>) {
    let p = Indexed::from_words(args.params());
    let (updates, idx) = (args.read::<T>(0), args.read::<I>(1));
    if let Some(bad) = first_out_of_range(idx, p.n) {
        return report_out_of_range(args, idx, bad, p.n);
    }
    let size = p.k * p.inner;
    add_onto_zeros(args, &p, |o, rows, out| {
        join_elements(Add, &updates[o * size..][..size], &idx[o * size..][..size], p.inner, rows, out);
    });
}

by_dtype!(scatter_along_axis_add_kernel_for = scatter_along_axis_add_kernel::<numbers, index>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Kernel;
    use crate::harness::{In, Out, Outcome, noise, run_in_ranges, written_elements};

    fn call<T: Pod, I: Index>(k: Kernel, p: &Scatter, base: &[T], updates: &[T], idx: &[I], over: bool) -> Outcome {
        assert_eq!(Scatter::from_words(&p.to_words()), *p);
        let first = if over { In::of(base).over(0) } else { In::of(base) };
        let out = [Out::of::<T>(base.len(), p.per_unit())];
        run_in_ranges(k, &p.to_words(), &[first, In::of(updates), In::of(idx)], &out, p.units())
    }

    #[test]
    fn agree_with_the_naive_loops() {
        let shapes = [[1, 1, 1, 1], [1, 5, 0, 1], [1, 9000, 500, 1], [1, 700, 900, 33], [5, 7, 4, 1], [300, 7, 40, 2]];
        let modes: [(Kernel, Kernel, fn(f64, f64) -> f64); 5] = [
            (set::<f64, i64>, set::<f64, i32>, |_, b| b),
            (add::<f64, i64>, add::<f64, i32>, |a, b| a + b),
            (mul::<f64, i64>, mul::<f64, i32>, |a, b| a * b),
            (max::<f64, i64>, max::<f64, i32>, f64::max),
            (min::<f64, i64>, min::<f64, i32>, f64::min),
        ];
        for [outer, n, k, inner] in shapes {
            for own in [false, true] {
                let p = Scatter { outer, n, k, inner, own };
                let (base, updates) = (noise(outer * n * inner, 1), noise(outer * k * inner, 2));
                let count = if own { updates.len() } else { k };
                let idx: Vec<i64> = noise(count, 5).iter().map(|x| ((x + 1.0) / 2.0 * n as f64) as i64).collect();
                let idx32: Vec<i32> = idx.iter().map(|i| *i as i32).collect();
                for (kernel, kernel32, f) in modes {
                    let mut want = base.clone();
                    for (e, u) in updates.iter().enumerate() {
                        let (o, j, i) = (e / (k * inner), e / inner % k, e % inner);
                        let at = (o * n + idx[if own { e } else { j }] as usize) * inner + i;
                        want[at] = f(want[at], *u);
                    }
                    let apart = call(kernel, &p, &base, &updates, &idx, false);
                    assert_eq!(written_elements::<f64>(&apart, 0), want, "{p:?}");
                    assert_eq!(call(kernel32, &p, &base, &updates, &idx32, true), apart);
                }
            }
        }
    }

    #[test]
    fn a_bad_index_is_found_before_anything_is_written() {
        let base: Vec<f32> = (0..9000).map(|i| i as f32).collect();
        let (updates, mut idx) = (vec![1f32; 20], vec![3i32; 20]);
        for own in [false, true] {
            let p = Scatter { outer: 1, n: 9000, k: 20, inner: 1, own };
            for bad in [-1, 9000, i32::MIN] {
                (idx[7], idx[12]) = (bad, bad);
                assert_eq!(call(add::<f32, i32>, &p, &base, &updates, &idx, true), Err(7));
            }
        }
    }
}
