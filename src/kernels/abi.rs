//! The kernel ABI: what an instruction hands to a kernel, and the only place where arena bytes become slices.
//!
//! Invariant, proved for every program by `sched::check` before it may run: the operands of one instruction lie inside
//! the arena; a write overlaps no read (an in-place operand is listed as a write only); the unit ranges that
//! different threads get of one instruction are disjoint.

use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// The entry point of a kernel.
pub type Kernel = fn(&mut Args<'_>);

/// How the units of an instruction divide a written operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The operand is read whole, or written whole by an instruction of one unit.
    Whole,
    /// Unit `u` owns elements `u * n .. (u + 1) * n`, cut at the operand's end.
    PerUnit(usize),
    /// The operand is a matrix of rows of `row` elements: unit `u` owns columns `u * width .. (u + 1) * width`, cut at
    /// the row's end, of all rows. Reached as a [`MatrixMut`].
    Columns {
        /// Elements of a row.
        row: usize,
        /// Columns of a unit.
        width: usize,
    },
    /// Thread `t` owns elements `t * n .. (t + 1) * n`: scratch.
    PerThread(usize),
}

impl Split {
    /// Elements of a row and columns of a unit, where units divide columns.
    #[inline]
    fn columns(self) -> Option<(usize, usize)> {
        match self {
            Split::Columns { row, width } => Some((row, width)),
            Split::Whole | Split::PerUnit(_) | Split::PerThread(_) => None,
        }
    }
}

/// One operand, resolved to a place in the arena.
#[derive(Clone, Copy, Debug)]
pub struct OperandRef {
    /// Byte offset from the arena's start; a multiple of the element's size.
    pub off: usize,
    /// Number of elements.
    pub len: usize,
    /// Bytes of one element. A kernel reaches the operand as elements of this size only, so a kernel that was paired
    /// with the wrong type cannot reach beyond its operand.
    pub size: usize,
    /// Which part a call may touch.
    pub split: Split,
    /// For a read: the write (by index) that shares its bytes. Such a read is reached through that write only.
    pub inplace: Option<u8>,
    /// For an operand that moves with the iterations of loops around the instruction: how, as an index into
    /// [`LoopOffsets::strides`]; 0 for one that stays.
    pub moves: u32,
}

impl OperandRef {
    /// The slot of a whole operand that stays where it is.
    pub fn new(off: usize, len: usize, size: usize, split: Split) -> OperandRef {
        OperandRef { off, len, size, split, inplace: None, moves: 0 }
    }
}

/// Most loops that may stand in one another.
pub const DEPTH: usize = 6;

/// Bytes by which an operand moves in one iteration of each loop around its instruction, the outermost first.
pub type Strides = [usize; DEPTH];

/// Where the loops around an instruction stand.
#[derive(Clone, Copy)]
pub struct LoopOffsets<'a> {
    /// Ways to move; the first is to stay.
    pub strides: &'a [Strides],
    /// The iteration of each loop.
    pub at: [usize; DEPTH],
}

impl LoopOffsets<'_> {
    /// Those of an instruction that no loop is around.
    pub const NONE: LoopOffsets<'static> = LoopOffsets { strides: &[], at: [0; DEPTH] };

    /// Where `s` begins now. Wraps where a plan would be wrong: bounds are checked by whoever uses it.
    #[inline]
    fn offset(&self, s: &OperandRef) -> usize {
        match s.moves {
            0 => s.off,
            m => self.strides[m as usize]
                .iter()
                .zip(&self.at)
                .fold(s.off, |off, (stride, i)| off.wrapping_add(stride.wrapping_mul(*i))),
        }
    }
}

/// A bad value that a kernel met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bad {
    /// Its element of the index operand.
    pub element: usize,
    /// The value, and the bound that it should be below, if the kernel told.
    pub value: Option<(i64, usize)>,
}

/// The first bad element that the kernels of one thread met: an index out of range, say. Only that thread records; the
/// others read when the step is over.
#[derive(Default)]
pub struct Fault {
    /// The element plus 1; 0 means none.
    code: AtomicU64,
    /// The value's bits.
    value: AtomicU64,
    /// Its bound plus 1; 0 means that the kernel did not tell.
    bound: AtomicU64,
}

impl Fault {
    /// Records `bad` unless an earlier element is there already, so that the report does not depend on timing.
    pub fn record(&self, bad: Bad) {
        let (old, code) = (self.code.load(Ordering::Relaxed), (bad.element as u64).saturating_add(1));
        if old != 0 && old <= code {
            return;
        }
        let (value, bound) = bad.value.map_or((0, 0), |(v, n)| (v as u64, (n as u64).saturating_add(1)));
        self.code.store(code, Ordering::Relaxed);
        self.value.store(value, Ordering::Relaxed);
        self.bound.store(bound, Ordering::Relaxed);
    }

    /// What is recorded, if anything.
    #[inline]
    pub fn get(&self) -> Option<Bad> {
        let code = self.code.load(Ordering::Relaxed);
        if code == 0 {
            return None;
        }
        let bound = self.bound.load(Ordering::Relaxed).checked_sub(1);
        let value = bound.map(|n| (self.value.load(Ordering::Relaxed) as i64, n as usize));
        Some(Bad { element: (code - 1) as usize, value })
    }

    /// Forgets what is recorded.
    pub fn clear(&self) {
        self.code.store(0, Ordering::Relaxed);
    }
}

/// The arena as the executor sees it while a step runs.
#[derive(Clone, Copy)]
pub struct ArenaPtr {
    base: *mut u8,
    len: usize,
}

// SAFETY: a frame is only a pointer and a length. Its bytes are reached through `Args`, whose contract (above) is that
// concurrent calls touch disjoint bytes unless they only read.
#[allow(unsafe_code)]
unsafe impl Send for ArenaPtr {}
// SAFETY: as for `Send`; a frame has no interior state of its own.
#[allow(unsafe_code)]
unsafe impl Sync for ArenaPtr {}

impl ArenaPtr {
    /// The frame of an arena's bytes. The caller keeps the arena alive and unborrowed while kernels run on the frame.
    pub fn new(bytes: &mut [u8]) -> ArenaPtr {
        ArenaPtr { base: bytes.as_mut_ptr(), len: bytes.len() }
    }

    /// The frame as a pointer and a length, to hand to another thread.
    pub fn parts(self) -> (*mut u8, usize) {
        (self.base, self.len)
    }

    /// The frame of [`ArenaPtr::parts`]. Making one is harmless: only [`Args::new`] trusts it.
    pub fn from_parts(base: *mut u8, len: usize) -> ArenaPtr {
        ArenaPtr { base, len }
    }
}

/// What a kernel gets for one call: parameters, a range of units, and its operands as slices.
pub struct Args<'a> {
    frame: ArenaPtr,
    reads: &'a [OperandRef],
    writes: &'a [OperandRef],
    params: &'a [u64],
    units: Range<usize>,
    lane: usize,
    taken: u64,
    fault: &'a Fault,
    moves: &'a LoopOffsets<'a>,
    arena: PhantomData<&'a mut [u8]>,
}

impl<'a> Args<'a> {
    /// Puts a call together.
    ///
    /// # Safety
    /// `reads` and `writes` must keep the invariant in the head of this file for `frame`, and no other reference to
    /// the written bytes may be alive during the call.
    #[allow(unsafe_code)]
    #[inline]
    pub unsafe fn new(
        frame: ArenaPtr,
        reads: &'a [OperandRef],
        writes: &'a [OperandRef],
        params: &'a [u64],
        units: Range<usize>,
        lane: usize,
        fault: &'a Fault,
    ) -> Args<'a> {
        Args {
            frame,
            reads,
            writes,
            params,
            units,
            lane,
            taken: 0,
            fault,
            moves: &LoopOffsets::NONE,
            arena: PhantomData,
        }
    }

    /// The same call inside loops that stand at `moves`. The invariant in the head of this file must hold for the
    /// operands where they are then.
    #[inline]
    pub fn moved(self, moves: &'a LoopOffsets<'a>) -> Args<'a> {
        Args { moves, ..self }
    }

    /// The units to compute in this call.
    #[inline]
    pub fn units(&self) -> Range<usize> {
        self.units.clone()
    }

    /// The parameter words that the op's `lower` wrote.
    #[inline]
    pub fn params(&self) -> &'a [u64] {
        self.params
    }

    /// Number of read operands.
    #[inline]
    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Number of written operands.
    #[inline]
    pub fn writes(&self) -> usize {
        self.writes.len()
    }

    /// The write that shares its bytes with read `i`, if the plan made the operand in-place.
    #[inline]
    pub fn inplace(&self, i: usize) -> Option<usize> {
        self.reads[i].inplace.map(usize::from)
    }

    /// Read operand `i`, whole.
    ///
    /// # Panics
    /// If the operand is in-place: its bytes are reached through [`Args::write`] alone.
    #[inline]
    pub fn read<T: Pod>(&self, i: usize) -> &'a [T] {
        let s = &self.reads[i];
        assert!(s.inplace.is_none(), "read of an operand that is written in place");
        let off = self.bounds::<T>(s);
        // SAFETY: in bounds and aligned (checked above); by the file's invariant nothing writes these bytes now.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.frame.base.add(off).cast::<T>(), s.len)
        }
    }

    /// Written operand `j`: all of it, or this call's units or lane of it.
    ///
    /// # Panics
    /// If it was taken before in this call: two writable slices must not overlap. If units divide it by columns.
    #[inline]
    pub fn write<T: Pod>(&mut self, j: usize) -> &'a mut [T] {
        let s = self.take(j);
        assert!(s.split.columns().is_none(), "written operand {j} is divided by columns");
        let (from, to) = match s.split {
            Split::Whole | Split::Columns { .. } => (0, s.len),
            Split::PerUnit(n) => ((self.units.start * n).min(s.len), (self.units.end * n).min(s.len)),
            Split::PerThread(n) => ((self.lane * n).min(s.len), ((self.lane + 1) * n).min(s.len)),
        };
        let off = self.bounds::<T>(s);
        // SAFETY: in bounds and aligned (checked above); taken once; by the file's invariant nothing else touches
        // this part of the operand during the call.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.frame.base.add(off).cast::<T>().add(from), to - from)
        }
    }

    /// Written operand `j`, which units divide by columns: this call's columns.
    ///
    /// # Panics
    /// If it was taken before in this call, or if units do not divide it by columns.
    #[inline]
    pub fn panel<T: Pod>(&mut self, j: usize) -> MatrixMut<'a, T> {
        let s = self.take(j);
        let columns = s.split.columns();
        assert!(columns.is_some(), "written operand {j} is not divided by columns");
        let (row, width) = columns.unwrap_or_default();
        let at = self.frame.base.wrapping_add(self.bounds::<T>(s)).cast::<T>();
        // The operand lies in the arena, aligned, and by the file's invariant nothing else touches these columns of it
        // during the call: what a panel promises.
        let all = MatrixMut { at, step: row, rows: s.len / row.max(1), cols: row, owner: PhantomData };
        let rows = all.rows;
        all.cut(0..rows, (self.units.start * width).min(row)..(self.units.end * width).min(row))
    }

    /// The place of written operand `j`, which is taken once.
    #[inline]
    fn take(&mut self, j: usize) -> &'a OperandRef {
        assert!(self.taken & (1 << j) == 0, "written operand {j} taken twice");
        self.taken |= 1 << j;
        &self.writes[j]
    }

    /// Reports a bad value (an index out of range) at `element` of the op's index operand; the step ends with an error.
    #[cold]
    pub fn fault(&self, element: usize) {
        self.fault.record(Bad { element, value: None });
    }

    /// As [`Args::fault`], for an index `value` that is not one of `0..bound`.
    #[cold]
    pub fn fault_index(&self, element: usize, value: i64, bound: usize) {
        self.fault.record(Bad { element, value: Some((value, bound)) });
    }

    /// Where `s` begins, after checks that it lies in the arena and is aligned.
    #[inline]
    fn bounds<T: Pod>(&self, s: &OperandRef) -> usize {
        let size = size_of::<T>();
        assert!(s.size == size, "an operand of {}-byte elements is taken as {}-byte elements", s.size, size);
        let off = self.moves.offset(s);
        assert!(off.is_multiple_of(align_of::<T>()) && off <= self.frame.len);
        assert!(s.len <= (self.frame.len - off) / size);
        off
    }
}

/// Some columns of rows of a matrix, to write. Rows are slices; what lies between them belongs to others.
///
/// Invariant: element `j < cols` of row `i < rows` is the one at `at + i * step + j`; it lies in one allocation with
/// the others, aligned, and for `'a` it is reached through this panel alone.
pub struct MatrixMut<'a, T> {
    at: *mut T,
    step: usize,
    rows: usize,
    cols: usize,
    owner: PhantomData<&'a mut [T]>,
}

impl<'a, T> MatrixMut<'a, T> {
    /// The matrix of `rows` adjacent rows of `cols` elements that begins a slice.
    ///
    /// # Panics
    /// If the slice is shorter.
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

    /// Distance between neighbours of a column, in elements.
    #[inline(always)]
    pub fn step(&self) -> usize {
        self.step
    }

    /// The first element. Row `i` has `cols` elements from `i * step` on; no other may be touched.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.at
    }

    /// Some columns of some rows.
    ///
    /// # Panics
    /// If there are no such rows or columns.
    #[inline]
    pub fn part(&mut self, rows: Range<usize>, cols: Range<usize>) -> MatrixMut<'_, T> {
        let all = MatrixMut { at: self.at, step: self.step, rows: self.rows, cols: self.cols, owner: PhantomData };
        all.cut(rows, cols)
    }

    #[inline]
    fn cut(self, rows: Range<usize>, cols: Range<usize>) -> MatrixMut<'a, T> {
        assert!(rows.start <= rows.end && rows.end <= self.rows && cols.start <= cols.end && cols.end <= self.cols);
        let at = self.at.wrapping_add(rows.start * self.step + cols.start);
        MatrixMut { at, rows: rows.len(), cols: cols.len(), ..self }
    }

    /// The same elements as numbers of another type.
    ///
    /// # Panics
    /// If those have another size or alignment.
    #[inline]
    pub fn cast<U: Pod>(self) -> MatrixMut<'a, U>
    where
        T: Pod,
    {
        assert!(size_of::<T>() == size_of::<U>() && align_of::<T>() == align_of::<U>());
        MatrixMut { at: self.at.cast(), step: self.step, rows: self.rows, cols: self.cols, owner: PhantomData }
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows);
        // SAFETY: by the invariant the row's elements lie in an allocation and are reached through `self` alone, which
        // is borrowed for as long as the slice is.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.at.add(i * self.step), self.cols)
        }
    }

    /// Row `i`, to read.
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

    /// The rows, to read.
    #[inline]
    pub fn each(&self) -> impl Iterator<Item = &[T]> {
        (0..self.rows).map(|i| self.get(i))
    }

    /// All of it, if no stranger's element lies between the rows.
    #[inline]
    pub fn flat(&mut self) -> Option<&mut [T]> {
        if self.step != self.cols && self.rows > 1 {
            return None;
        }
        // SAFETY: as for `row`; the rows follow one another.
        #[allow(unsafe_code)]
        Some(unsafe { std::slice::from_raw_parts_mut(self.at, self.rows * self.cols) })
    }
}
