//! A mutable view of some rows and columns of a matrix.

use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::Range;

/// A mutable view of some rows and columns of a matrix. Each row is a slice. The elements between the rows belong to
/// other calls.
///
/// Invariant: element `(i, j)` with `i < rows` and `j < cols` is at `at + i * step + j`. All elements lie in one
/// allocation and are aligned. During `'a` only this view accesses them.
pub struct MatrixMut<'a, T> {
    pub(super) at: *mut T,
    pub(super) step: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) owner: PhantomData<&'a mut [T]>,
}

impl<'a, T> MatrixMut<'a, T> {
    /// The matrix of `rows` adjacent rows of `cols` elements at the start of a slice.
    ///
    /// # Panics
    /// If the slice has fewer than `rows * cols` elements.
    #[inline]
    pub fn new(matrix: &'a mut [T], rows: usize, cols: usize) -> MatrixMut<'a, T> {
        assert!(rows.checked_mul(cols).is_some_and(|len| len <= matrix.len()));
        MatrixMut { at: matrix.as_mut_ptr(), step: cols, rows, cols, owner: PhantomData }
    }

    /// Number of rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[inline(always)]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Stride between rows, in elements.
    #[inline(always)]
    pub fn step(&self) -> usize {
        self.step
    }

    /// Pointer to element (0, 0). Row `i` has `cols` elements from `i * step` on; no other element may be touched.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.at
    }

    /// The view of rows `rows` and columns `cols`.
    ///
    /// # Panics
    /// If the ranges reach beyond the view.
    #[inline]
    pub fn part(&mut self, rows: Range<usize>, cols: Range<usize>) -> MatrixMut<'_, T> {
        let all = MatrixMut { at: self.at, step: self.step, rows: self.rows, cols: self.cols, owner: PhantomData };
        all.cut(rows, cols)
    }

    /// As [`MatrixMut::part`], of a view that is given up.
    ///
    /// # Panics
    /// If the ranges reach beyond the view.
    #[inline]
    pub fn cut(self, rows: Range<usize>, cols: Range<usize>) -> MatrixMut<'a, T> {
        assert!(rows.start <= rows.end && rows.end <= self.rows && cols.start <= cols.end && cols.end <= self.cols);
        let at = self.at.wrapping_add(rows.start * self.step + cols.start);
        MatrixMut { at, rows: rows.len(), cols: cols.len(), ..self }
    }

    /// The same elements, reinterpreted as type `U`.
    ///
    /// # Panics
    /// If `U` has another size or alignment.
    #[inline]
    pub fn cast<U: Pod>(self) -> MatrixMut<'a, U>
    where
        T: Pod,
    {
        assert!(size_of::<T>() == size_of::<U>() && align_of::<T>() == align_of::<U>());
        MatrixMut { at: self.at.cast(), step: self.step, rows: self.rows, cols: self.cols, owner: PhantomData }
    }

    /// A view of one row as `rows` adjacent rows of `cols` elements.
    ///
    /// # Panics
    /// If the view has several rows, or another number of elements.
    #[inline]
    pub fn wrapped(self, rows: usize, cols: usize) -> MatrixMut<'a, T> {
        assert!(self.rows == 1 && rows.checked_mul(cols) == Some(self.cols));
        MatrixMut { step: cols, rows, cols, ..self }
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows);
        // SAFETY: by the invariant the row lies in one allocation and is reached through `self` alone, which stays
        // borrowed as long as the slice.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.at.add(i * self.step), self.cols)
        }
    }

    /// Row `i`, shared.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn get(&self, i: usize) -> &[T] {
        assert!(i < self.rows);
        // SAFETY: as for `row`; nothing writes while `self` is borrowed.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.at.add(i * self.step), self.cols)
        }
    }

    /// All rows, shared.
    #[inline]
    pub fn each(&self) -> impl Iterator<Item = &[T]> {
        (0..self.rows).map(|i| self.get(i))
    }

    /// The whole view as one slice, if its rows are adjacent.
    #[inline]
    pub fn flat(&mut self) -> Option<&mut [T]> {
        if self.step != self.cols && self.rows > 1 {
            return None;
        }
        // SAFETY: as for `row`; the rows are adjacent.
        #[allow(unsafe_code)]
        Some(unsafe { std::slice::from_raw_parts_mut(self.at, self.rows * self.cols) })
    }
}
