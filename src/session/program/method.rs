//! Methods: the graphs of one program, each with its own inputs, outputs and plan.
//!
//! Invariant: a method's number is below the number of methods of the program whose id it holds. All methods run in one
//! arena behind one `&mut Program`, so no two of them can run at once, and none while a slice of a tensor is borrowed.

use super::Program;
use crate::error::{Error, Kind, Result};
use crate::names;

/// A method of one program; see [`Session::compile_all`](crate::session::Session::compile_all).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    program: u64,
    pub(super) at: u32,
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
    pub(super) fn method_number(&self, m: Method) -> Result<usize> {
        if m.program != self.id {
            return Err(Error::new(Kind::Data, "a method of another program"));
        }
        Ok(m.at as usize)
    }
}
