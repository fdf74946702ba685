//! The kernel ABI: what an instruction passes to a kernel. Arena bytes become slices in this file only.
//!
//! Invariant, proved for every program by `sched::checker` before it may run: the operands of an instruction lie inside
//! the arena, each in one block of it. A write overlaps no read, except an in-place read, which is reached through the
//! write only. The threads that share an instruction get disjoint ranges of its units.

use crate::fault::Fault;
use arenagrad_arena::tensor::LINE;
use bytemuck::Pod;
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

mod arena_ptr;
mod args_faults;
mod matrix_mut;
mod operand_ref;
#[cfg(test)]
mod tests;

pub use arena_ptr::ArenaPtr;
pub use matrix_mut::MatrixMut;
pub use operand_ref::{DEPTH, LoopOffsets, OperandRef, Split, Strides};

/// The entry point of a kernel.
pub type Kernel = fn(&mut Args<'_>);

/// What a kernel needs beside its parameter words, made once when a program is compiled: tables of a Fourier transform.
pub type Prepared = Arc<dyn Any + Send + Sync>;

/// One call of a kernel: parameters, a range of units, and the operands as slices.
pub struct Args<'a> {
    arena: ArenaPtr,
    reads: &'a [OperandRef],
    writes: &'a [OperandRef],
    params: &'a [u64],
    prepared: Option<&'a Prepared>,
    units: Range<usize>,
    thread: usize,
    taken: u64,
    fault: &'a Fault,
    moves: &'a LoopOffsets<'a>,
    owner: PhantomData<&'a mut [u8]>,
}

impl<'a> Args<'a> {
    /// Assembles a call.
    ///
    /// # Safety
    /// `reads` and `writes` must satisfy the invariant in the head of this file for `arena`. No other reference to the
    /// written bytes may be alive during the call.
    #[allow(unsafe_code)]
    #[inline]
    pub unsafe fn new(
        arena: ArenaPtr,
        reads: &'a [OperandRef],
        writes: &'a [OperandRef],
        params: &'a [u64],
        units: Range<usize>,
        thread: usize,
        fault: &'a Fault,
    ) -> Args<'a> {
        Args {
            arena,
            reads,
            writes,
            params,
            prepared: None,
            units,
            thread,
            taken: 0,
            fault,
            moves: &LoopOffsets::NONE,
            owner: PhantomData,
        }
    }

    /// The same call inside loops at iteration `moves`. The invariant in the head of this file must hold for the
    /// operands at the offsets of that iteration.
    #[inline]
    pub fn moved(self, moves: &'a LoopOffsets<'a>) -> Args<'a> {
        Args { moves, ..self }
    }

    /// The same call with what was prepared for it.
    #[inline]
    pub fn with_prepared(self, prepared: Option<&'a Prepared>) -> Args<'a> {
        Args { prepared, ..self }
    }

    /// What was prepared for this call.
    ///
    /// # Panics
    /// If nothing was, or something of another type.
    #[inline]
    pub fn prepared<T: Any>(&self) -> &'a T {
        match self.prepared.and_then(|p| p.downcast_ref()) {
            Some(prepared) => prepared,
            None => unreachable!("the call has no {}", std::any::type_name::<T>()),
        }
    }

    /// The units to compute in this call.
    #[inline]
    pub fn units(&self) -> Range<usize> {
        self.units.clone()
    }

    /// Parameter words, written by the lowering of the op.
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

    /// The write that shares bytes with read `i`, if the plan paired them.
    #[inline]
    pub fn inplace(&self, i: usize) -> Option<usize> {
        self.reads[i].inplace.map(usize::from)
    }

    /// Read operand `i`, all of it. `T` is aligned to 64 bytes at most, as the arena is; another one does not compile.
    ///
    /// # Panics
    /// If the operand is in place (its bytes are reached through [`Args::write`] only), or if its element size is not
    /// that of `T`.
    #[inline]
    pub fn read<T: Pod>(&self, i: usize) -> &'a [T] {
        const { assert!(align_of::<T>() <= LINE, "an arena is aligned to 64 bytes") };
        assert_element_size::<T>(&self.reads[i]);
        bytemuck::cast_slice(self.read_bytes(i))
    }

    /// Read operand `i` as bytes, all of it, whatever the size of its elements.
    ///
    /// # Panics
    /// As [`Args::read`] does for an operand in place.
    #[inline(always)]
    pub fn read_bytes(&self, i: usize) -> &'a [u8] {
        let s = &self.reads[i];
        assert!(s.inplace.is_none(), "read of an operand that is written in place");
        let (at, len) = self.arena_byte_bounds(s);
        // SAFETY: in bounds (checked above); by the file's invariant nothing writes these bytes now.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(at, len)
        }
    }

    /// Written operand `j`: the part that belongs to this call's units, or to its thread. `T` is aligned to 64 bytes at
    /// most, as the arena is; another one does not compile:
    ///
    /// ```compile_fail,E0080
    /// use arenagrad_kernels::abi::Args;
    ///
    /// #[derive(Clone, Copy)]
    /// #[repr(C, align(128))]
    /// struct Wide([u8; 128]);
    /// # #[allow(unsafe_code)]
    /// unsafe impl bytemuck::Zeroable for Wide {}
    /// # #[allow(unsafe_code)]
    /// unsafe impl bytemuck::Pod for Wide {}
    ///
    /// fn kernel(args: &mut Args<'_>) {
    ///     args.write::<Wide>(0);
    /// }
    /// let kernel: arenagrad_kernels::abi::Kernel = kernel;
    /// # let _ = kernel;
    /// ```
    ///
    /// # Panics
    /// If this call has taken operand `j` before (two mutable slices would overlap), if units divide it by columns, or
    /// if its element size is not that of `T`.
    #[inline]
    pub fn write<T: Pod>(&mut self, j: usize) -> &'a mut [T] {
        let s = self.take_operand(j);
        let (from, to) = self.part(j, s);
        let at = self.arena_bounds::<T>(s);
        // SAFETY: in bounds and aligned (checked above); taken once; by the file's invariant nothing else touches
        // this part of the operand during the call.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(at.add(from), to - from)
        }
    }

    /// What [`Args::write`] gives, as bytes, whatever the size of the elements.
    ///
    /// # Panics
    /// As [`Args::write`] does, but for the size of elements.
    #[inline(always)]
    pub fn write_bytes(&mut self, j: usize) -> &'a mut [u8] {
        let s = self.take_operand(j);
        let (from, to) = self.part(j, s);
        let (at, len) = self.arena_byte_bounds(s);
        let (from, to) = (from * s.size, (to * s.size).min(len));
        // SAFETY: in bounds (checked above); taken once; by the file's invariant nothing else touches this part of the
        // operand during the call.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(at.add(from), to - from)
        }
    }

    /// The elements of written operand `j` that belong to this call's units, or to its thread.
    #[inline(always)]
    fn part(&self, j: usize, s: &OperandRef) -> (usize, usize) {
        assert!(s.split.operand_columns().is_none(), "written operand {j} is divided by columns");
        match s.split {
            Split::Whole | Split::Columns { .. } => (0, s.len),
            Split::PerUnit(n) => ((self.units.start * n).min(s.len), (self.units.end * n).min(s.len)),
            Split::PerThread(n) => ((self.thread * n).min(s.len), ((self.thread + 1) * n).min(s.len)),
        }
    }

    /// Written operand `j`, which units divide by columns: the columns of this call.
    ///
    /// # Panics
    /// If this call has taken operand `j` before, if units do not divide it by columns, or if its element size is not
    /// that of `T`.
    #[inline]
    pub fn panel<T: Pod>(&mut self, j: usize) -> MatrixMut<'a, T> {
        let s = self.take_operand(j);
        let columns = s.split.operand_columns();
        assert!(columns.is_some(), "written operand {j} is not divided by columns");
        let (row, width) = columns.unwrap_or_default();
        let at = self.arena_bounds::<T>(s);
        // The operand lies in the arena, aligned, and by the file's invariant nothing else touches these columns during
        // the call. This is the invariant of `MatrixMut`.
        let all = MatrixMut { at, step: row, rows: s.len / row.max(1), cols: row, owner: PhantomData };
        let rows = all.rows;
        all.cut(0..rows, (self.units.start * width).min(row)..(self.units.end * width).min(row))
    }

    /// Written operand `j`, marked as taken.
    #[inline(always)]
    fn take_operand(&mut self, j: usize) -> &'a OperandRef {
        assert!(self.taken & (1 << j) == 0, "written operand {j} taken twice");
        self.taken |= 1 << j;
        &self.writes[j]
    }

    /// The first element of `s`, after checks of element size, alignment and the bounds of its block.
    #[inline]
    fn arena_bounds<T: Pod>(&self, s: &OperandRef) -> *mut T {
        const { assert!(align_of::<T>() <= LINE, "an arena is aligned to 64 bytes") };
        assert_element_size::<T>(s);
        let off = self.moves.operand_offset(s);
        let (at, end) = self.arena.block_of(off);
        // The address, not the offset: bytes that are no arena's may begin anywhere.
        assert!(at.addr().is_multiple_of(align_of::<T>()) && off <= end);
        assert!(s.len <= (end - off) / size_of::<T>());
        at.cast()
    }

    /// The first byte of `s` and its length in bytes, after a check of the bounds of its block.
    #[inline(always)]
    fn arena_byte_bounds(&self, s: &OperandRef) -> (*mut u8, usize) {
        let off = self.moves.operand_offset(s);
        let (at, end) = self.arena.block_of(off);
        let len = s.len.checked_mul(s.size);
        assert!(off <= end && len.is_some_and(|len| len <= end - off));
        (at, s.len * s.size)
    }
}

#[inline]
fn assert_element_size<T>(s: &OperandRef) {
    let size = size_of::<T>();
    assert!(s.size == size, "an operand of {}-byte elements is taken as {size}-byte elements", s.size);
}
