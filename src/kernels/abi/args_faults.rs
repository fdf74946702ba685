//! How a kernel reports a fault.

use super::Args;
use crate::fault::{Bad, Cause, INDEX};

impl Args<'_> {
    /// Reports a bad value at `element` of the index operand, for example an index out of range. The step then ends
    /// with an error.
    #[cold]
    pub fn fault(&self, element: usize) {
        self.report(&INDEX, element, None);
    }

    /// As [`Args::fault`], for an integer divisor or exponent.
    #[cold]
    pub fn fault_integer(&self, element: usize, cause: &'static Cause) {
        self.report(cause, element, None);
    }

    /// As [`Args::fault`], for an index `value` outside `0..bound`.
    #[cold]
    pub fn fault_index(&self, element: usize, value: i64, bound: usize) {
        self.report(&INDEX, element, Some((value, bound)));
    }

    /// As [`Args::fault`], for any cause: `element` and `value` are the numbers that its text names, such as the number
    /// of a matrix in its batch.
    #[cold]
    pub fn report(&self, cause: &'static Cause, element: usize, value: Option<(i64, usize)>) {
        self.fault.record(Bad { element, value, cause });
    }
}
