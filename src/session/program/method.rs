//! Methods: the graphs of one program, each with its own inputs, outputs and plan.
//!
//! Invariant: a method's number is below the number of methods of the program whose id it holds. All methods run in one
//! arena behind one `&mut Program`, so no two of them can run at once, and none while a slice of a tensor is borrowed.

use super::Program;
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::session::elem::Elem;
use crate::session::{Binding, Handle, PlanReport, Role};

/// A method of one program; see [`Session::compile_all`](crate::session::Session::compile_all).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    program: u64,
    at: u32,
}

impl Program {
    /// The method called `name`. Errors: there is none.
    pub fn method(&self, name: &str) -> Result<Method> {
        match self.methods.iter().position(|m| m.name == name) {
            Some(at) => Ok(Method { program: self.id, at: at as u32 }),
            None => {
                let near = names::nearest_name(name, self.methods());
                let known = names::list_names(self.methods());
                Err(Error::new(Kind::Name, format!("there is no method {name:?}; the program has {known}{near}")))
            }
        }
    }

    /// The names of all methods, the first one first.
    pub fn methods(&self) -> impl Iterator<Item = &str> + Clone {
        self.methods.iter().map(|m| m.name.as_str())
    }

    /// The number of a method of this program.
    #[inline]
    fn method_number(&self, m: Method) -> Result<usize> {
        if m.program != self.id {
            return Err(Error::new(Kind::Data, "a method of another program"));
        }
        Ok(m.at as usize)
    }

    /// Runs one step of method `m`. It reads and writes the params and states that the other methods see; nothing is
    /// copied. The outputs of the other methods stay as they are. Errors as for [`Program::step`]; `m` is of another
    /// program.
    pub fn run(&mut self, m: Method) -> Result<()> {
        let at = self.method_number(m)?;
        self.step_of(at)
    }

    /// The input of method `m` called `name`. Errors: there is none, or its elements are not of type `T`; `m` is of
    /// another program.
    pub fn input_of<T: Elem>(&self, m: Method, name: &str) -> Result<Handle<T>> {
        self.handle(self.method_number(m)?, Role::Input, name)
    }

    /// The output of method `m` called `name`. Errors as for [`Program::input_of`].
    pub fn output_of<T: Elem>(&self, m: Method, name: &str) -> Result<Handle<T>> {
        self.handle(self.method_number(m)?, Role::Output, name)
    }

    /// The named tensors of method `m`: its inputs, params and states in the graph's order, then its outputs. Errors:
    /// `m` is of another program.
    pub fn bindings_of(&self, m: Method) -> Result<impl Iterator<Item = &Binding>> {
        let named = &self.methods[self.method_number(m)?].named;
        Ok(named.iter().map(|&i| &self.bindings[i as usize]))
    }

    /// The memory plan of method `m`. Its arena is that of the whole program. Errors: `m` is of another program.
    pub fn plan_of(&self, m: Method) -> Result<&PlanReport> {
        Ok(&self.methods[self.method_number(m)?].report)
    }
}
