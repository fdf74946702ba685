//! The interned shapes of a graph: equal shapes have equal ids.
//!
//! Invariant: [`Shapes`] is the only code that multiplies dimensions. An interned shape has at most `isize::MAX / 16`
//! elements, so its size in bytes fits an `isize`. No other code checks for overflow.

use super::dims::{Dims, MAX_RANK};
use super::ids::{Id, Shape};
use super::intern::InternedRuns;
use super::pool::RunPool;
use bumpalo::Bump;

/// The shapes of a graph under construction.
pub struct Shapes(InternedRuns<usize>);

impl Default for Shapes {
    fn default() -> Self {
        Shapes(InternedRuns::new())
    }
}

impl Shapes {
    /// Starts from the shapes of a frozen graph, with the same ids.
    pub fn seeded(pool: RunPool<'_, usize>) -> Self {
        Shapes(InternedRuns::seeded(pool))
    }

    /// The id of `dims`. `Err` says why there is none: the rank is above [`MAX_RANK`], or the tensor does not fit in
    /// memory.
    pub fn intern(&mut self, dims: &[usize]) -> Result<Shape, String> {
        if dims.len() > MAX_RANK {
            return Err(format!("rank {} is above the largest rank, {MAX_RANK}", dims.len()));
        }
        // A zero must not hide an overflow of the other dimensions: strides are products of those alone.
        let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
        match count {
            Some(n) if n <= isize::MAX as usize / 16 => Ok(Shape::new(self.0.intern(dims))),
            _ => Err(format!("a tensor of shape {dims:?} does not fit in memory")),
        }
    }

    /// The dimensions of `s`.
    #[inline]
    pub fn dims(&self, s: Shape) -> Dims {
        // A stored run never exceeds the largest rank.
        Dims::new(self.0.run(s.at())).unwrap_or_default()
    }

    /// Number of shapes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no shape.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the pool into `bump`.
    pub fn freeze<'b>(&self, bump: &'b Bump) -> RunPool<'b, usize> {
        self.0.freeze(bump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shapes_have_equal_ids() {
        let mut s = Shapes::default();
        let a = s.intern(&[2, 3]).unwrap();
        assert_eq!(a, s.intern(&[2, 3]).unwrap());
        assert_ne!(a, s.intern(&[3, 2]).unwrap());
        assert_eq!(s.dims(a).to_string(), "[2,3]");
        assert_eq!(s.dims(a).strides()[..], [3, 1]);
    }

    #[test]
    fn sizes_that_overflow_have_no_id() {
        let mut s = Shapes::default();
        assert!(s.intern(&[usize::MAX, 2]).is_err());
        assert!(s.intern(&[1 << 40, 1 << 40, 0]).is_err(), "a zero must not hide an overflow");
        assert!(s.intern(&[1; 9]).is_err());
    }
}
