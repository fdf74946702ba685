//! Which leaves hold a value. A step that would read an unset leaf is refused.
//!
//! Invariant: `missing` counts the unset leaves that a step needs, so that a step looks at one number. Only
//! [`Program`](super::Program) uses it.

use super::bindings::{Binding, Role};
use crate::error::{Error, Kind};
use crate::nodes::Init;

/// See the file's head.
pub struct Fresh {
    /// Of each binding: whether a step reads it.
    read: Vec<bool>,
    /// Of each binding: whether it was initialised, loaded or written.
    set: Vec<bool>,
    /// Of each binding: whether a step needs it set.
    needed: Vec<bool>,
    missing: usize,
}

impl Fresh {
    /// Nothing is set; `read` says of each binding whether a step reads it.
    pub fn new(bindings: &[Binding], read: &[bool]) -> Fresh {
        let needs = |b: &Binding| match b.role {
            Role::Input => b.default.is_none(),
            Role::Param => true,
            // Zeros are there from the beginning, and a state's own start value is meant.
            Role::State => b.init != Some(Init::Zeros),
            Role::Output => false,
        };
        let needed: Vec<bool> = bindings.iter().zip(read).map(|(b, &read)| read && b.bytes > 0 && needs(b)).collect();
        let missing = needed.iter().filter(|n| **n).count();
        Fresh { read: read.to_vec(), set: vec![false; bindings.len()], needed, missing }
    }

    /// Binding `i` was written.
    #[inline]
    pub fn put(&mut self, i: usize) {
        if !self.set[i] {
            self.set[i] = true;
            self.missing -= usize::from(self.needed[i]);
        }
    }

    /// Whether a step reads binding `i`.
    pub fn is_read(&self, i: usize) -> bool {
        self.read[i]
    }

    /// Whether binding `i` was written.
    pub fn is_set(&self, i: usize) -> bool {
        self.set[i]
    }

    /// Whether a step may run.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.missing == 0
    }

    /// Why a step may not run.
    #[cold]
    pub fn error(&self, bindings: &[Binding]) -> Error {
        let open = (0..bindings.len()).filter(|&i| self.needed[i] && !self.set[i]).map(|i| &bindings[i]);
        // What the caller writes anew each time is the likelier slip.
        let first = open.clone().min_by_key(|b| b.role != Role::Input);
        let Some(b) = first else { return Error::new(Kind::Data, "a value was never written") };
        let what = format!("{} {:?} ({}{})", b.role.binding_name(), b.name, b.dtype, b.dims);
        let others = open.filter(|o| o.role == b.role).count() - 1;
        let others = if others > 0 { format!(", nor were {others} more") } else { String::new() };
        let text = match b.role {
            Role::Input => format!("{what} was never written{others}: write it before the step, or give it a default"),
            _ => format!(
                "{what} was neither initialised nor loaded{others}: call init(seed), or load it, before the step"
            ),
        };
        Error::new(Kind::Data, text)
    }
}
