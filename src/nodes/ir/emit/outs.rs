//! The results of a node, as [`Emit`](super::Emit) returns them.

use crate::arena::Value;

/// The results of a node: consecutive values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outs {
    pub(super) first: Value,
    pub(super) len: u32,
}

impl Outs {
    /// Result `i`; [`Value::NONE`] after an error.
    #[inline]
    pub fn at(self, i: usize) -> Value {
        if self.first == Value::NONE { Value::NONE } else { Value(self.first.0 + i as u32) }
    }

    /// Number of results.
    #[inline]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// True if there is no result, as after an error.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// All results.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Value> {
        (0..self.len as usize).map(move |i| self.at(i))
    }
}
