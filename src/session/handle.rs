//! Handles: named tensors of a program, found once and read or written without a look-up.
//!
//! Invariant: a handle names a binding of the program whose id it holds, and its element type is that binding's.

use super::bindings::{Binding, Role};
use super::elem::{self, Elem};
use super::program::Program;
use crate::error::{Error, Kind, Result};
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
    program: u64,
    binding: u32,
    elem: PhantomData<T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl Program {
    /// The input called `name` of the first method. Errors: there is none, or its elements are not of type `T`.
    pub fn input<T: Elem>(&self, name: &str) -> Result<Handle<T>> {
        self.handle(0, Role::Input, name)
    }

    /// The param called `name`. Errors as for [`Program::input`].
    pub fn param<T: Elem>(&self, name: &str) -> Result<Handle<T>> {
        self.handle(0, Role::Param, name)
    }

    /// The state called `name`. Errors as for [`Program::input`].
    pub fn state<T: Elem>(&self, name: &str) -> Result<Handle<T>> {
        self.handle(0, Role::State, name)
    }

    /// The output called `name` of the first method. Errors as for [`Program::input`].
    pub fn output<T: Elem>(&self, name: &str) -> Result<Handle<T>> {
        self.handle(0, Role::Output, name)
    }

    /// The tensor called `name` of the method at `at`.
    pub(super) fn handle<T: Elem>(&self, at: usize, role: Role, name: &str) -> Result<Handle<T>> {
        let i = self.named(at, role.name(), name, |r| r == role)?;
        self.typed(i)
    }

    /// The handle of binding `i`.
    fn typed<T: Elem>(&self, i: usize) -> Result<Handle<T>> {
        let b = &self.bindings[i];
        if !T::holds(b.dtype) {
            let e = format!("{} {:?} is {}{}; it is asked for as {}", b.role.name(), b.name, b.dtype, b.dims, T::NAME);
            return Err(Error::new(Kind::Data, e));
        }
        Ok(Handle { program: self.id, binding: i as u32, elem: PhantomData })
    }

    fn binding<T>(&self, h: Handle<T>) -> Result<&Binding> {
        if h.program != self.id {
            return Err(Error::new(Kind::Data, "a handle of another program"));
        }
        Ok(&self.bindings[h.binding as usize])
    }

    /// The name of a handle's tensor. Errors: the handle is of another program.
    pub fn name_of<T>(&self, h: Handle<T>) -> Result<&str> {
        Ok(&self.binding(h)?.name)
    }

    /// The elements of a tensor, in row-major order; an output's are those of the last step. Errors: the handle is of
    /// another program.
    pub fn get<T: Elem>(&self, h: Handle<T>) -> Result<&[T]> {
        let b = self.binding(h)?;
        Ok(bytemuck::cast_slice(&self.arena.bytes()[b.range()]))
    }

    /// The elements of an input, param or state, writable; those of a bool must be 0 or 1. Errors: the handle is an
    /// output's, or of another program.
    pub fn get_mut<T: Elem>(&mut self, h: Handle<T>) -> Result<&mut [T]> {
        let b = self.binding(h)?;
        if b.role == Role::Output {
            return Err(Error::new(Kind::Data, format!("output {:?} cannot be written", b.name)));
        }
        let range = b.range();
        self.fresh.put(h.binding as usize);
        Ok(bytemuck::cast_slice_mut(&mut self.arena.bytes_mut()[range]))
    }

    /// Writes all elements of an input, param or state. Errors as for [`Program::get_mut`]; `data` has another length;
    /// an element of a bool is neither 0 nor 1.
    pub fn write<T: Elem>(&mut self, h: Handle<T>, data: &[T]) -> Result<()> {
        let b = self.binding(h)?;
        if data.len() != b.dims.numel() {
            let e =
                format!("{} {:?} is {}{}; {} elements are written", b.role.name(), b.name, b.dtype, b.dims, data.len());
            return Err(Error::new(Kind::Data, e));
        }
        elem::proven(b, bytemuck::cast_slice(data))?;
        self.get_mut(h)?.copy_from_slice(data);
        Ok(())
    }

    /// The elements of the tensor called `name`, whatever its role: for set-up and tools, as it looks the name up.
    /// Errors: there is none, its elements are not of type `T`, or an input, param or state has the same name as an
    /// output.
    pub fn values<T: Elem>(&self, name: &str) -> Result<&[T]> {
        let i = self.named(0, "tensor", name, |_| true)?;
        let role = self.bindings[i].role;
        if role != Role::Output && self.named(0, "output", name, |r| r == Role::Output).is_ok() {
            let (role, a) = (role.name(), if role == Role::Input { "an" } else { "a" });
            let e = format!("{a} {role} and an output are called {name:?}: ask for {role}(..) or output(..)");
            return Err(Error::new(Kind::Name, e));
        }
        self.get(self.typed(i)?)
    }

    /// The elements of the input, param or state called `name`, writable: for set-up and tools, as it looks the name
    /// up. Errors: there is none, or its elements are not of type `T`.
    pub fn values_mut<T: Elem>(&mut self, name: &str) -> Result<&mut [T]> {
        let i = self.named(0, "input, param or state", name, |role| role != Role::Output)?;
        self.get_mut(self.typed(i)?)
    }
}

impl<T: Elem> Index<Handle<T>> for Program {
    type Output = [T];

    /// The elements of a tensor; see [`Program::get`].
    ///
    /// # Panics
    /// If the handle is of another program.
    #[track_caller]
    fn index(&self, h: Handle<T>) -> &[T] {
        self.get(h).unwrap_or_else(|e| wrong(&e))
    }
}

impl<T: Elem> IndexMut<Handle<T>> for Program {
    /// The elements of an input, param or state, writable; see [`Program::get_mut`].
    ///
    /// # Panics
    /// If the handle is an output's, or of another program.
    #[track_caller]
    fn index_mut(&mut self, h: Handle<T>) -> &mut [T] {
        self.get_mut(h).unwrap_or_else(|e| wrong(&e))
    }
}

/// An index that no program has, as with slices.
#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "the contract of indexing; `get` and `get_mut` give errors")]
fn wrong(e: &Error) -> ! {
    panic!("{e}")
}
