//! Axes as callers write them, checks of axes, and shape arithmetic on axes.

use crate::arena::dims::Dims;
use crate::ensure;

/// Axes as a caller writes them: one, several, or `..` for all. Negative axes count from the end.
pub trait Axes {
    /// The axes in `0..rank`, for a shape of rank `rank`. The error is the first axis out of range.
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64>;
}

fn resolve_axis(a: i64, rank: usize) -> Result<i64, i64> {
    let plain = if a < 0 { a + rank as i64 } else { a };
    if (0..rank as i64).contains(&plain) { Ok(plain) } else { Err(a) }
}

/// `axis` of a shape of rank `rank`, counted from the front. One outside the shape stays as the caller wrote it, so
/// that shape inference names it in its error.
pub(in crate::nodes) fn axis_from_front(axis: i64, rank: usize) -> i64 {
    resolve_axis(axis, rank).unwrap_or(axis)
}

impl Axes for i64 {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        Ok(vec![resolve_axis(*self, rank)?])
    }
}

impl<const N: usize> Axes for [i64; N] {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        self.as_slice().resolve(rank)
    }
}

impl Axes for [i64] {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        self.iter().map(|&a| resolve_axis(a, rank)).collect()
    }
}

impl Axes for &[i64] {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        (**self).resolve(rank)
    }
}

impl Axes for std::ops::RangeFull {
    fn resolve(&self, rank: usize) -> Result<Vec<i64>, i64> {
        Ok((0..rank as i64).collect())
    }
}

/// `axis` if it is in `0..rank`. The builder has resolved negative axes.
pub fn check_axis(axis: i64, rank: usize) -> Result<usize, String> {
    match usize::try_from(axis) {
        Ok(a) if a < rank => Ok(a),
        _ => Err(format!("axis {axis} is outside rank {rank}")),
    }
}

/// `axes` if they are distinct and in `0..rank`.
pub fn check_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    let axes = axes.iter().map(|&a| check_axis(a, rank)).collect::<Result<Vec<_>, _>>()?;
    for (k, a) in axes.iter().enumerate() {
        ensure!(!axes[..k].contains(a), "axis {a} is named twice");
    }
    Ok(axes)
}

/// `dims` without the axes `axes`. If `keep`, these axes stay with size 1.
pub fn dims_without_axes(dims: &[usize], axes: &[usize], keep: bool) -> Vec<usize> {
    let kept = dims.iter().enumerate().filter_map(|(i, &d)| match axes.contains(&i) {
        true => keep.then_some(1),
        false => Some(d),
    });
    kept.collect()
}

/// A shape as three axes: `[outer, n, inner]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisSplit {
    /// The product of the lengths of the axes before it.
    pub outer: usize,
    /// The length of the axis.
    pub n: usize,
    /// The product of the lengths of the axes after it.
    pub inner: usize,
}

/// `dims` as the axes before `axis`, `axis`, and the axes after it.
pub fn split_at_axis(dims: &Dims, axis: usize) -> AxisSplit {
    AxisSplit { outer: dims[..axis].iter().product(), n: dims[axis], inner: dims[axis + 1..].iter().product() }
}
