//! The dimensions of one shape, by value.

use std::ops::Deref;

/// The largest rank of a shape.
pub const MAX_RANK: usize = 8;

/// The dimensions of one shape, by value. `[]` is the only scalar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Dims {
    rank: u8,
    dims: [usize; MAX_RANK],
}

impl Dims {
    /// The dimensions in `dims`, or `None` if the rank is above [`MAX_RANK`].
    pub fn new(dims: &[usize]) -> Option<Dims> {
        let mut d = Dims { rank: u8::try_from(dims.len()).ok()?, dims: [0; MAX_RANK] };
        d.dims.get_mut(..dims.len())?.copy_from_slice(dims);
        Some(d)
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.iter().product()
    }

    /// Row-major element strides.
    pub fn strides(&self) -> Dims {
        let mut s = *self;
        let mut step = 1;
        for i in (0..self.len()).rev() {
            s.dims[i] = step;
            step *= self[i];
        }
        s
    }

    /// Appends a dimension; the rank must be below [`MAX_RANK`].
    pub fn push(&mut self, d: usize) {
        self.dims[self.rank as usize] = d;
        self.rank += 1;
    }

    /// The dimensions, mutable.
    pub fn make_mut(&mut self) -> &mut [usize] {
        &mut self.dims[..self.rank as usize]
    }
}

impl Deref for Dims {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }
}

impl AsRef<[usize]> for Dims {
    fn as_ref(&self) -> &[usize] {
        self
    }
}

impl std::fmt::Debug for Dims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[")?;
        for (i, d) in self.iter().enumerate() {
            write!(f, "{}{d}", if i == 0 { "" } else { "," })?;
        }
        write!(f, "]")
    }
}

impl std::fmt::Display for Dims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}
