//! Cotangents of slices of one value: the sum of those that do not overlap is one concatenation.
//!
//! The cotangent of a slice is padded with zeros to the shape of the sliced value. An addition of two of them would
//! write and read tensors of zeros, so the gradient of n slices would cost n times the sliced value. The reverse walk
//! collects these cotangents, and this file joins those that differ along one axis: first neighbours, then those with a
//! gap between them, which zeros fill. Slices that overlap come into several concatenations, which are added.

use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::emit::Definition;
use crate::nodes::ops::layout::attrs::PadAttrs;
use crate::nodes::{Op, Var};
use std::collections::BTreeMap;

/// A value padded with zeros.
pub struct Padded<'g> {
    /// The parts of the inner value along `axis`, in order.
    parts: Vec<Var<'g>>,
    axis: usize,
    /// Where the inner value begins and ends along each axis.
    low: Vec<usize>,
    end: Vec<usize>,
    /// The shape with the zeros.
    dims: Vec<usize>,
}

impl<'g> Padded<'g> {
    /// The parts of `x`, if it is padded with zeros.
    pub fn of(x: Var<'g>) -> Option<Padded<'g>> {
        let (inner, a) = x.g.with(|e| match e.def(x.v)? {
            Definition { op: Op::PAD, args, attrs } => Some((args[0], PadAttrs::of(&attrs))),
            _ => None,
        })?;
        let (low, high) = (to_size_attrs(&a.low), to_size_attrs(&a.high));
        let end = x.dims().iter().zip(&high).map(|(n, high)| n - high).collect();
        (a.value.to_bits() == 0).then(|| Padded {
            parts: vec![x.g.var(inner)],
            axis: 0,
            low,
            end,
            dims: x.dims().to_vec(),
        })
    }

    /// The extent along all axes but `axis`.
    fn across(&self, axis: usize) -> Vec<(usize, usize)> {
        let extent = self.low.iter().copied().zip(self.end.iter().copied());
        extent.enumerate().filter(|e| e.0 != axis).map(|e| e.1).collect()
    }

    /// The inner value.
    fn inner(&self) -> Var<'g> {
        match &self.parts[..] {
            [one] => *one,
            parts => parts[0].concat(&parts[1..], self.axis as i64),
        }
    }

    /// This and `next`, which begins along `axis` where this one ends, or behind that.
    fn followed_by(mut self, next: Padded<'g>, axis: usize) -> Padded<'g> {
        if self.axis != axis {
            (self.parts, self.axis) = (vec![self.inner()], axis);
        }
        let first = next.inner();
        if next.low[axis] > self.end[axis] {
            let mut gap = first.dims().to_vec();
            gap[axis] = next.low[axis] - self.end[axis];
            self.parts.push(first.g.full(0.0, gap, first.dtype()));
        }
        match next.axis == axis {
            true => self.parts.extend(next.parts),
            false => self.parts.push(first),
        }
        self.end[axis] = next.end[axis];
        self
    }

    /// The padded value.
    fn padded(&self) -> Var<'g> {
        let high: Vec<usize> = self.dims.iter().zip(&self.end).map(|(n, end)| n - end).collect();
        let inner = self.inner();
        if self.low.iter().chain(&high).all(|&n| n == 0) { inner } else { inner.pad(&self.low, &high, 0.0) }
    }
}

/// Values with the same sum as `all`, which have one shape: as few as there are slices at one place, if these differ
/// along one axis.
pub fn merge_padded<'g>(mut all: Vec<Padded<'g>>) -> Vec<Var<'g>> {
    for gaps in [false, true] {
        loop {
            let before = all.len();
            for axis in (0..all.first().map_or(0, |p| p.low.len())).rev() {
                all = merge_along_axis(all, axis, gaps);
            }
            if all.len() == before {
                break;
            }
        }
    }
    all.iter().map(Padded::padded).collect()
}

/// Joins what differs along `axis` alone and does not overlap. Unless `gaps`, it must be adjacent.
fn merge_along_axis(all: Vec<Padded<'_>>, axis: usize, gaps: bool) -> Vec<Padded<'_>> {
    let mut order = BTreeMap::<_, Vec<Padded<'_>>>::new();
    for p in all {
        order.entry(p.across(axis)).or_default().push(p);
    }
    let mut joined = Vec::new();
    for mut group in order.into_values() {
        group.sort_by_key(|p| (p.low[axis], p.end[axis]));
        // Rows of joined pieces, by where they end.
        let mut rows = BTreeMap::<usize, Vec<Padded<'_>>>::new();
        for p in group {
            let row = match gaps {
                true => rows.range(..=p.low[axis]).next_back().map(|r| *r.0),
                false => rows.contains_key(&p.low[axis]).then_some(p.low[axis]),
            };
            let row = row.and_then(|end| {
                let ending = rows.get_mut(&end)?;
                let row = ending.pop();
                if ending.is_empty() {
                    rows.remove(&end);
                }
                row
            });
            let row = match row {
                Some(row) => row.followed_by(p, axis),
                None => p,
            };
            rows.entry(row.end[axis]).or_default().push(row);
        }
        joined.extend(rows.into_values().flatten());
    }
    joined
}
