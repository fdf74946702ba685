//! Handles: named tensors of a program, found once and read or written without a look-up.
//!
//! Invariant: a handle names a binding of the program whose id it holds, and its element type is that binding's.

use super::elem::Elem;
use super::program::Program;
use crate::error::Error;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A named tensor of one program, with elements of type `T`.
///
/// `program[handle]` is a slice of its elements, in row-major order; `program.get(handle)` is the same, with an error
/// instead of a panic.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("double");
/// let x = g.input("x", [3], DType::F32);
/// let graph = g.finish([(x * 2.0).named("y")])?;
/// let mut program = Session::new().compile(&graph)?;
/// let (x, y) = (program.input::<f32>("x")?, program.output::<f32>("y")?);
/// program[x].copy_from_slice(&[1.0, 2.0, 3.0]);
/// program.step()?;
/// assert_eq!(program[y], [2.0, 4.0, 6.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Handle<T> {
    pub(super) program: u64,
    pub(super) binding: u32,
    elem: PhantomData<T>,
}

impl<T> Handle<T> {
    /// The handle of binding `binding` of the program with id `program`.
    pub(super) fn new(program: u64, binding: u32) -> Handle<T> {
        Handle { program, binding, elem: PhantomData }
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T: Elem> Index<Handle<T>> for Program {
    type Output = [T];

    /// The elements of a tensor; see [`Program::get`].
    ///
    /// # Panics
    /// If the handle is of another program.
    #[track_caller]
    fn index(&self, h: Handle<T>) -> &[T] {
        self.get(h).unwrap_or_else(|e| refuse_index(&e))
    }
}

impl<T: Elem> IndexMut<Handle<T>> for Program {
    /// The elements of an input, param or state, writable; see [`Program::get_mut`].
    ///
    /// # Panics
    /// If the handle is an output's, or of another program.
    #[track_caller]
    fn index_mut(&mut self, h: Handle<T>) -> &mut [T] {
        self.get_mut(h).unwrap_or_else(|e| refuse_index(&e))
    }
}

/// An index that no program has, as with slices.
#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "the contract of indexing; `get` and `get_mut` give errors")]
fn refuse_index(e: &Error) -> ! {
    panic!("{e}")
}
