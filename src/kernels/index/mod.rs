//! Gather and take along an axis. Their adjoints are in [`scatter`](mod@scatter).
//!
//! Invariant: every index is checked before it is used; by gathers and scatters, before the call writes anything. An
//! index that is negative or not less than `n` is a fault at its position in the index operand. Duplicates add up in
//! the order of the indices.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`gather_kernel`] | table: `T[outer, n, inner]`, idx: `I[k]` | `T[outer, k, inner]` | [`Indexed`] |
//! | [`take_along_axis_kernel`] | x: `T[outer, n, inner]`, idx: `I[outer, k, inner]` | `T[outer, k, inner]` | [`Indexed`] |
//! | [`scatter::scatter_add_kernel`] | updates: `T[outer, k, inner]`, idx: `I[k]` | `T[outer, n, inner]` | [`Indexed`] |
//! | those of [`scatter`](mod@scatter) | base, updates, idx | base with the updates | [`scatter::Scatter`] |
//! | [`scatter::scatter_along_axis_add_kernel`] | updates, idx: `I[outer, k, inner]` | `T[outer, n, inner]` | [`Indexed`] |

pub mod ravel;
pub mod scatter;

use crate::abi::Args;
use crate::by_dtype::by_size;
use crate::params::params;
use crate::simd;
use bytemuck::Pod;
use std::fmt::Debug;
use std::ops::Range;

/// Approximate number of elements in a unit.
const UNIT: usize = 4096;

/// An index or a label: `i32` or `i64`.
pub trait Index: Pod + Send + Sync + Debug {
    /// Position `i` as an index.
    fn index_of_place(i: usize) -> Self;
    /// The number, of which the lowest bits are kept.
    fn index_of_i64(i: i64) -> Self;
    /// Widens to `i64`.
    fn index_to_i64(self) -> i64;

    /// The position, if it lies in `0..n`.
    #[inline(always)]
    fn within(self, n: usize) -> Option<usize> {
        // A negative index is huge as `u64`, so one comparison checks both bounds.
        let i = self.index_to_i64() as u64;
        if i < n as u64 { Some(i as usize) } else { None }
    }
}

impl Index for i32 {
    #[inline(always)]
    fn index_of_place(i: usize) -> i32 {
        i as i32
    }
    #[inline(always)]
    fn index_of_i64(i: i64) -> i32 {
        i as i32
    }
    #[inline(always)]
    fn index_to_i64(self) -> i64 {
        i64::from(self)
    }
}

impl Index for i64 {
    #[inline(always)]
    fn index_of_place(i: usize) -> i64 {
        i as i64
    }
    #[inline(always)]
    fn index_of_i64(i: i64) -> i64 {
        i
    }
    #[inline(always)]
    fn index_to_i64(self) -> i64 {
        self
    }
}

params! {
    /// Params of the kernels of this file: views `[outer, n, inner]` (table) and `[outer, k, inner]` (values).
    pub struct Indexed {
        /// Product of the axes before the indexed one.
        pub outer: usize,
        /// Length of the indexed axis in the table.
        pub n: usize,
        /// Number of indices along that axis.
        pub k: usize,
        /// Product of the axes after it.
        pub inner: usize,
    }
}

impl Indexed {
    /// Rows of `inner` elements in a unit of the values.
    fn rows_per_unit(&self) -> usize {
        (UNIT / self.inner.max(1)).max(1)
    }

    /// Elements of the values `[outer, k, inner]` in a unit of [`gather_kernel`] and [`take_along_axis_kernel`].
    pub fn per_unit(&self) -> usize {
        self.rows_per_unit() * self.inner
    }

    /// Number of units of [`gather_kernel`] and [`take_along_axis_kernel`].
    pub fn units(&self) -> usize {
        (self.outer * self.k).div_ceil(self.rows_per_unit())
    }

    /// The rows `o * k + j` of the values that this call computes.
    fn value_rows(&self, args: &Args<'_>) -> Range<usize> {
        let (units, rows) = (args.units(), self.rows_per_unit());
        (units.start * rows).min(self.outer * self.k)..(units.end * rows).min(self.outer * self.k)
    }

    /// Splits `rows` at outer rows: (outer row, range of `j`).
    fn by_outer(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let k = self.k.max(1);
        (rows.start / k..rows.end.div_ceil(k)).map(move |o| {
            let from = o * k;
            (o, rows.start.max(from) - from..rows.end.min(from + k) - from)
        })
    }
}

simd! {
    /// Whether an index is outside `0..n`.
    fn any_out_of_range[I: Index](indices: &[I], n: usize) -> bool {
        // The loop has no early exit, so it vectorises.
        let mut any = false;
        for i in indices {
            any |= i.within(n).is_none();
        }
        any
    }
}

/// Position of the first index outside `0..n`.
pub(crate) fn first_out_of_range<I: Index>(indices: &[I], n: usize) -> Option<usize> {
    if any_out_of_range(indices, n) { indices.iter().position(|i| i.within(n).is_none()) } else { None }
}

/// Reports element `at` of the indices, which lies outside `0..n`.
#[cold]
pub(crate) fn report_out_of_range<I: Index>(args: &Args<'_>, idx: &[I], at: usize, n: usize) {
    args.fault_index(at, idx[at].index_to_i64(), n);
}

/// Copies rows `idx` of a table.
fn gather_rows<T: Pod, I: Index>(table: &[T], idx: &[I], inner: usize, out: &mut [T]) {
    if inner == 1 {
        for (o, i) in out.iter_mut().zip(idx) {
            *o = table[i.index_to_i64() as usize];
        }
        return;
    }
    for (o, i) in out.chunks_exact_mut(inner).zip(idx) {
        o.copy_from_slice(&table[i.index_to_i64() as usize * inner..][..inner]);
    }
}

/// Rows of a table by index along one axis: `out[o, j, i] = table[o, idx[j], i]`.
///
/// Reads table: `T[outer, n, inner]`, idx: `I[k]`; writes `T[outer, k, inner]`, [`Indexed::per_unit`]; params
/// [`Indexed`].
pub fn gather_kernel<T: Pod, I: Index>(args: &mut Args<'_>) {
    let p = Indexed::from_words(args.params());
    let (table, idx) = (args.read::<T>(0), args.read::<I>(1));
    let rows = p.value_rows(args);
    if p.inner == 0 || rows.is_empty() {
        return;
    }
    // A call within one outer row uses only some of the indices.
    let used =
        if rows.start / p.k == (rows.end - 1) / p.k { rows.start % p.k..(rows.end - 1) % p.k + 1 } else { 0..p.k };
    if let Some(bad) = first_out_of_range(&idx[used.clone()], p.n) {
        return report_out_of_range(args, idx, used.start + bad, p.n);
    }
    let mut rest = args.write::<T>(0);
    for (o, part) in p.by_outer(rows) {
        let (out, after) = rest.split_at_mut(part.len() * p.inner);
        gather_rows(&table[o * p.n * p.inner..][..p.n * p.inner], &idx[part], p.inner, out);
        rest = after;
    }
}

by_size!(gather_kernel_for = gather_kernel::<index>);

/// Elements `idx` of `x`. Returns the position of the first index that is outside: elements from there on are
/// not written.
// Not inlined: inlined, each check of a bound takes more instructions.
#[inline(never)]
fn take_elements<T: Pod, I: Index>(x: &[T], idx: &[I], out: &mut [T]) -> Option<usize> {
    // Eight at a time, because a loop that may end at each element is not unrolled.
    let ((idx8, idx), (out8, out)) = (idx.as_chunks::<8>(), out.as_chunks_mut::<8>());
    for (j, (out, idx)) in out8.iter_mut().zip(idx8).enumerate() {
        for l in 0..8 {
            match idx[l].within(x.len()) {
                Some(i) => out[l] = x[i],
                None => return Some(8 * j + l),
            }
        }
    }
    for (j, (out, i)) in out.iter_mut().zip(idx).enumerate() {
        match i.within(x.len()) {
            Some(i) => *out = x[i],
            None => return Some(8 * out8.len() + j),
        }
    }
    None
}

/// Each element of rows `out` from its own column of the row of `x` with its index. Returns as [`take_elements`].
fn take_columns<T: Pod, I: Index>(x: &[T], idx: &[I], inner: usize, out: &mut [T]) -> Option<usize> {
    let rows = x.len() / inner;
    for (r, (out, idx)) in out.chunks_exact_mut(inner).zip(idx.chunks_exact(inner)).enumerate() {
        for (column, (out, i)) in out.iter_mut().zip(idx).enumerate() {
            let Some(row) = i.within(rows) else { return Some(r * inner + column) };
            *out = x[row * inner + column];
        }
    }
    None
}

/// Elements of `x` by index along one axis: `out[o, j, i] = x[o, idx[o, j, i], i]`.
///
/// Reads x: `T[outer, n, inner]`, idx: `I[outer, k, inner]`; writes `T[outer, k, inner]`, [`Indexed::per_unit`];
/// params [`Indexed`].
pub fn take_along_axis_kernel<T: Pod, I: Index>(args: &mut Args<'_>) {
    let p = Indexed::from_words(args.params());
    let (x, idx) = (args.read::<T>(0), args.read::<I>(1));
    let rows = p.value_rows(args);
    if p.inner == 0 || rows.is_empty() {
        return;
    }
    let mut rest = args.write::<T>(0);
    for (o, part) in p.by_outer(rows) {
        let x = &x[o * p.n * p.inner..][..p.n * p.inner];
        let (out, after) = rest.split_at_mut(part.len() * p.inner);
        let first = (o * p.k + part.start) * p.inner;
        let own = &idx[first..][..out.len()];
        let bad = if p.inner == 1 { take_elements(x, own, out) } else { take_columns(x, own, p.inner, out) };
        if let Some(bad) = bad {
            return report_out_of_range(args, idx, first + bad, p.n);
        }
        rest = after;
    }
}

by_size!(take_along_axis_kernel_for = take_along_axis_kernel::<index>);

#[cfg(test)]
mod tests;
