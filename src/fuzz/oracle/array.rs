//! The tensors of the oracle: numbers, and for each a bound of how far the engine's number may be from it.
//!
//! Invariant: numbers and bounds are columns of equal length. A float is an `f64` whatever its dtype is; a
//! complex number is two, and its bound holds for each part; any other element (an integer, a bool) is a whole number,
//! which is exact (bound 0) or unknown (bound ∞).

use super::rounding::{Rounding, spread_of_ends};
use crate::arena::dims::MAX_RANK;
use crate::nodes::DType;

/// The elements of an array.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Numbers {
    /// Those of a float type.
    Real(Vec<f64>),
    /// Those of a complex type: real and imaginary part.
    Pair(Vec<[f64; 2]>),
    /// Those of any other type.
    Whole(Vec<i128>),
}

/// A tensor with bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
    pub(super) numbers: Numbers,
    pub(super) bound: Vec<f64>,
}

/// Number of elements of a tensor of this shape.
pub(super) fn count_elements(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// The coordinates of element `i` in row-major order.
pub(super) fn unravel_position(mut i: usize, dims: &[usize]) -> [usize; MAX_RANK] {
    let mut at = [0; MAX_RANK];
    for (a, &d) in dims.iter().enumerate().rev() {
        at[a] = i % d.max(1);
        i /= d.max(1);
    }
    at
}

/// The position of the element at these coordinates.
pub(super) fn ravel_position(at: &[usize], dims: &[usize]) -> usize {
    dims.iter().zip(at).fold(0, |i, (&d, &a)| i * d + a)
}

/// Elements before, along and after an axis: a tensor as `[before, along, after]`.
pub(super) fn sizes_around_axis(dims: &[usize], axis: usize) -> [usize; 3] {
    [count_elements(&dims[..axis]), dims[axis], count_elements(&dims[axis + 1..])]
}

impl Array {
    /// Floats with their bounds.
    pub fn reals(dtype: DType, dims: &[usize], all: impl Iterator<Item = (f64, f64)>) -> Array {
        let (numbers, bound) = all.unzip();
        Array { dtype, dims: dims.to_vec(), numbers: Numbers::Real(numbers), bound }
    }

    /// Complex numbers with their bounds.
    pub(super) fn pairs(dtype: DType, dims: &[usize], all: impl Iterator<Item = ([f64; 2], f64)>) -> Array {
        let (numbers, bound) = all.unzip();
        Array { dtype, dims: dims.to_vec(), numbers: Numbers::Pair(numbers), bound }
    }

    /// Whole numbers; `None` is unknown.
    pub(super) fn wholes(dtype: DType, dims: &[usize], all: impl Iterator<Item = Option<i128>>) -> Array {
        let one = |x: Option<i128>| (x.unwrap_or(0), if x.is_some() { 0.0 } else { f64::INFINITY });
        let (numbers, bound) = all.map(one).unzip();
        Array { dtype, dims: dims.to_vec(), numbers: Numbers::Whole(numbers), bound }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bound.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// Element `i` as a number of `f64`, which rounds whole numbers above 2⁵³; of a complex one, its real part.
    pub fn number(&self, i: usize) -> f64 {
        match &self.numbers {
            Numbers::Real(x) => x[i],
            Numbers::Pair(x) => x[i][0],
            Numbers::Whole(x) => x[i] as f64,
        }
    }

    /// The bound of each element: 0 if the engine's element is this one exactly, ∞ if it may be any.
    pub fn bounds(&self) -> &[f64] {
        &self.bound
    }

    /// These elements with the bounds of `other`, which has the same shape.
    pub(in crate::fuzz) fn bounded_as(&self, other: &Array) -> Array {
        Array { bound: other.bound.clone(), ..self.clone() }
    }

    /// These floats plus `by` times those of `direction`, all exact.
    pub(in crate::fuzz) fn moved_along(&self, direction: &Array, by: f64) -> Array {
        let one = |i: usize| (self.number(i) + by * direction.number(i), 0.0);
        Array::reals(self.dtype, &self.dims, (0..self.len()).map(one))
    }

    /// These elements, each float with a bound of `units` units in its last place.
    pub(in crate::fuzz) fn bounded_by_units(&self, units: f64) -> Array {
        let r = Rounding::of(self.dtype);
        let bound = |i: usize| if self.is_real() { r.ulps(self.number(i), units) } else { 0.0 };
        Array { bound: (0..self.len()).map(bound).collect(), ..self.clone() }
    }

    /// Float `i` with its bound.
    pub(super) fn real(&self, i: usize) -> (f64, f64) {
        (self.number(i), self.bound[i])
    }

    /// Whole number `i`, if it is known.
    pub fn whole(&self, i: usize) -> Option<i128> {
        match &self.numbers {
            Numbers::Whole(x) if self.bound[i] == 0.0 => Some(x[i]),
            _ => None,
        }
    }

    /// The parts of complex number `i`.
    pub fn pair(&self, i: usize) -> Option<[f64; 2]> {
        match &self.numbers {
            Numbers::Pair(x) => x.get(i).copied(),
            _ => None,
        }
    }

    /// All floats with their bounds.
    pub(super) fn each_real(&self) -> impl Iterator<Item = (f64, f64)> {
        (0..self.len()).map(|i| self.real(i))
    }

    /// All whole numbers.
    pub(super) fn each_whole(&self) -> impl Iterator<Item = Option<i128>> {
        (0..self.len()).map(|i| self.whole(i))
    }

    /// Whether the elements are floats.
    pub(super) fn is_real(&self) -> bool {
        matches!(self.numbers, Numbers::Real(_))
    }

    /// The elements at these positions, as a tensor of shape `dims`.
    pub(super) fn pick(&self, dims: &[usize], from: impl Iterator<Item = usize> + Clone) -> Array {
        let numbers = match &self.numbers {
            Numbers::Real(x) => Numbers::Real(from.clone().map(|i| x[i]).collect()),
            Numbers::Pair(x) => Numbers::Pair(from.clone().map(|i| x[i]).collect()),
            Numbers::Whole(x) => Numbers::Whole(from.clone().map(|i| x[i]).collect()),
        };
        let bound = from.map(|i| self.bound[i]).collect();
        Array { dtype: self.dtype, dims: dims.to_vec(), numbers, bound }
    }

    /// The same elements in another shape.
    pub(super) fn reshaped(&self, dims: &[usize]) -> Array {
        Array { dims: dims.to_vec(), ..self.clone() }
    }

    /// Copies element `i` of `from`, which has the same type, to place `to`.
    pub(super) fn put(&mut self, to: usize, from: &Array, i: usize) {
        match (&mut self.numbers, &from.numbers) {
            (Numbers::Real(x), Numbers::Real(y)) => x[to] = y[i],
            (Numbers::Pair(x), Numbers::Pair(y)) => x[to] = y[i],
            (Numbers::Whole(x), Numbers::Whole(y)) => x[to] = y[i],
            _ => {}
        }
        self.bound[to] = from.bound[i];
    }

    /// These elements in bounds that hold for those of `other` too, which has the same type.
    pub(super) fn or_else(&self, other: &Array) -> Array {
        let apart = |x: f64, y: f64| spread_of_ends(x, &[y]);
        let bound = |i: usize| {
            let apart = match (&self.numbers, &other.numbers) {
                (Numbers::Real(x), Numbers::Real(y)) => apart(x[i], y[i]),
                (Numbers::Pair(x), Numbers::Pair(y)) => apart(x[i][0], y[i][0]).max(apart(x[i][1], y[i][1])),
                (Numbers::Whole(x), Numbers::Whole(y)) if x[i] == y[i] => 0.0,
                _ => f64::INFINITY,
            };
            self.bound[i].max(apart + other.bound[i])
        };
        Array { bound: (0..self.len()).map(bound).collect(), ..self.clone() }
    }

    /// The same with all elements unknown.
    pub(super) fn unknown(mut self) -> Array {
        self.bound.fill(f64::INFINITY);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_either_hold_for_both() {
        let real = |all: &[(f64, f64)]| Array::reals(DType::F64, &[all.len()], all.iter().copied());
        let (x, y) = (real(&[(1.0, 0.1), (2.0, 0.0), (0.0, 0.0)]), real(&[(1.5, 0.2), (2.0, 0.0), (f64::NAN, 0.0)]));
        assert_eq!(x.or_else(&y), real(&[(1.0, 0.7), (2.0, 0.0), (0.0, f64::INFINITY)]));
        let whole = |all: &[i128]| Array::wholes(DType::I64, &[all.len()], all.iter().map(|&x| Some(x)));
        assert_eq!(whole(&[1, 2]).or_else(&whole(&[1, 3])).each_whole().collect::<Vec<_>>(), [Some(1), None]);
    }

    #[test]
    fn coordinates_go_both_ways() {
        let dims = [2, 3, 4];
        for i in 0..count_elements(&dims) {
            assert_eq!(ravel_position(&unravel_position(i, &dims)[..3], &dims), i);
        }
        assert_eq!(unravel_position(17, &dims)[..3], [1, 1, 1]);
        assert_eq!(sizes_around_axis(&dims, 1), [2, 3, 4]);
    }
}
