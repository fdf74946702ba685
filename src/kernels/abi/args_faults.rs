//! How a kernel reports a fault.

use super::Args;
use crate::fault::{Bad, Cause};

impl Args<'_> {
    /// Reports a bad value at `element` of the index operand, for example an index out of range. The step then ends
    /// with an error.
    #[cold]
    pub fn fault(&self, element: usize) {
        self.fault.record(Bad { element, ..Bad::default() });
    }

    /// As [`Args::fault`], for an integer divisor of 0.
    #[cold]
    pub fn fault_divisor(&self, element: usize) {
        self.fault.record(Bad { element, value: None, cause: Cause::ZeroDivisor });
    }

    /// As [`Args::fault`], for an index `value` outside `0..bound`.
    #[cold]
    pub fn fault_index(&self, element: usize, value: i64, bound: usize) {
        self.fault.record(Bad { element, value: Some((value, bound)), cause: Cause::Index });
    }

    /// As [`Args::fault`], for matrix `number` of a batch.
    #[cold]
    pub fn fault_matrix(&self, number: usize, cause: Cause) {
        self.fault.record(Bad { element: number, value: None, cause });
    }

    /// As [`Args::fault`], for tile `number`, which has `count` splats where at most `most` may be.
    #[cold]
    pub fn fault_limit(&self, number: usize, count: usize, most: usize, cause: Cause) {
        self.fault.record(Bad { element: number, value: Some((count as i64, most)), cause });
    }

    /// As [`Args::fault`], for sizes of groups that sum to `sum`, where there are `rows` rows.
    #[cold]
    pub fn fault_group_sizes(&self, sum: i64, rows: usize) {
        self.fault.record(Bad { element: 0, value: Some((sum, rows)), cause: Cause::GroupSizes });
    }

    /// As [`Args::fault`], for a row of logits: one at `position` is NaN or +∞, or none is above −∞.
    #[cold]
    pub fn fault_logits(&self, row: usize, position: Option<usize>) {
        let cause = if position.is_some() { Cause::Logit } else { Cause::NoLogit };
        self.fault.record(Bad { element: row, value: position.map(|i| (i as i64, 0)), cause });
    }
}
