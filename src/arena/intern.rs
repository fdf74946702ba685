//! Interners: equal shapes and equal strings have equal ids, so comparing them compares integers.
//!
//! Invariant: [`Shapes`] is the only code that multiplies dimensions. An interned shape has at most `isize::MAX / 16`
//! elements, so its size in bytes fits an `isize`. No other code checks for overflow.

use super::ids::{Id, Shape, Sym};
use bumpalo::Bump;
use hashbrown::HashTable;
use std::hash::BuildHasher;
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

/// A frozen pool of runs: run `i` is `items[at[i]..at[i + 1]]`.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a, T> {
    at: &'a [u32],
    items: &'a [T],
}

impl<'a, T> Pool<'a, T> {
    /// Run `i`.
    #[inline]
    pub fn run(&self, i: usize) -> &'a [T] {
        &self.items[self.at[i] as usize..self.at[i + 1] as usize]
    }

    /// Number of runs.
    pub fn len(&self) -> usize {
        self.at.len() - 1
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the pool.
    pub fn bytes(&self) -> usize {
        size_of_val(self.at) + size_of_val(self.items)
    }
}

/// A growing pool of distinct runs.
struct Runs<T> {
    at: Vec<u32>,
    items: Vec<T>,
    table: HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl<T: Copy + Eq + std::hash::Hash> Runs<T> {
    fn new() -> Self {
        Runs { at: vec![0], items: Vec::new(), table: HashTable::new(), hasher: Default::default() }
    }

    fn run(&self, i: usize) -> &[T] {
        &self.items[self.at[i] as usize..self.at[i + 1] as usize]
    }

    fn intern(&mut self, run: &[T]) -> usize {
        let hash = self.hasher.hash_one(run);
        let (at, items) = (&self.at, &self.items);
        let of = |i: u32| &items[at[i as usize] as usize..at[i as usize + 1] as usize];
        if let Some(&i) = self.table.find(hash, |&i| of(i) == run) {
            return i as usize;
        }
        let i = (self.at.len() - 1) as u32;
        let hasher = &self.hasher;
        self.table.insert_unique(hash, i, |&i| hasher.hash_one(of(i)));
        self.items.extend_from_slice(run);
        self.at.push(self.items.len() as u32);
        i as usize
    }

    fn freeze<'b>(&self, bump: &'b Bump) -> Pool<'b, T> {
        Pool { at: bump.alloc_slice_copy(&self.at), items: bump.alloc_slice_copy(&self.items) }
    }

    fn seeded(pool: Pool<'_, T>) -> Self {
        let (at, items, hasher) = (pool.at.to_vec(), pool.items.to_vec(), hashbrown::DefaultHashBuilder::default());
        let mut table = HashTable::with_capacity(pool.len());
        // The runs of a pool are distinct, so no lookup is needed.
        for i in 0..pool.len() {
            table.insert_unique(hasher.hash_one(pool.run(i)), i as u32, |&i| hasher.hash_one(pool.run(i as usize)));
        }
        Runs { at, items, table, hasher }
    }
}

/// The shapes of a graph under construction.
pub struct Shapes(Runs<usize>);

impl Default for Shapes {
    fn default() -> Self {
        Shapes(Runs::new())
    }
}

impl Shapes {
    /// Starts from the shapes of a frozen graph, with the same ids.
    pub fn seeded(pool: Pool<'_, usize>) -> Self {
        Shapes(Runs::seeded(pool))
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
        self.0.at.len() - 1
    }

    /// Whether there is no shape.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the pool into `bump`.
    pub fn freeze<'b>(&self, bump: &'b Bump) -> Pool<'b, usize> {
        self.0.freeze(bump)
    }
}

/// The strings of a graph under construction.
pub struct Strings(Runs<u8>);

impl Default for Strings {
    fn default() -> Self {
        Strings(Runs::new())
    }
}

impl Strings {
    /// Starts from the strings of a frozen graph, with the same ids.
    pub fn seeded(pool: Pool<'_, u8>) -> Self {
        Strings(Runs::seeded(pool))
    }

    /// The id of `s`.
    pub fn intern(&mut self, s: &str) -> Sym {
        Sym::new(self.0.intern(s.as_bytes()))
    }

    /// The string of `s`; empty for [`Sym::NONE`].
    pub fn str(&self, s: Sym) -> &str {
        if s == Sym::NONE { "" } else { std::str::from_utf8(self.0.run(s.at())).unwrap_or_default() }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.0.at.len() - 1
    }

    /// Whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the pool into `bump`.
    pub fn freeze<'b>(&self, bump: &'b Bump) -> Pool<'b, u8> {
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

    #[test]
    fn a_frozen_pool_seeds_the_same_ids() {
        let mut s = Strings::default();
        let (a, b) = (s.intern("w"), s.intern(""));
        let bump = Bump::new();
        let mut t = Strings::seeded(s.freeze(&bump));
        assert_eq!((t.intern("w"), t.intern(""), t.str(a)), (a, b, "w"));
    }
}
