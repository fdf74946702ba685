//! `program[handle]`: a tensor as a slice.

use super::Program;
use crate::error::Error;
use crate::session::elem::Elem;
use crate::session::handle::Handle;
use std::ops::{Index, IndexMut};

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
