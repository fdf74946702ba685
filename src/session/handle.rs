//! Handles: named tensors of a program, found once and read or written without a look-up.
//!
//! Invariant: a handle names a binding of the program whose id it holds, and its element type is that binding's.

use std::marker::PhantomData;

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
