//! Faults: bad values, such as an index out of range, that kernels find in their operands.
//!
//! Invariant: of the faults of one thread the one at the lowest element is kept, whatever the order of the calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bad value that a kernel found in an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bad {
    /// Its position in the operand.
    pub element: usize,
    /// The value.
    pub value: BadValue,
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BadValue {
    /// An index out of range.
    Index,
    /// An index out of range, which the kernel reported.
    IndexOf {
        /// The index.
        value: i64,
        /// Its exclusive upper bound.
        bound: usize,
    },
    /// An integer divisor that is 0.
    ZeroDivisor,
}

/// The lowest bad element that the kernels of one thread found, such as an index out of range. Only that thread writes
/// it; others read it after the step.
#[derive(Default)]
pub struct Fault {
    /// Element plus 1; 0 means no fault.
    code: AtomicU64,
    /// Bits of the value.
    value: AtomicU64,
    /// Bound plus 1, [`NO_VALUE`] or [`ZERO_DIVISOR`].
    bound: AtomicU64,
}

/// A bound that says that the kernel reported no value.
const NO_VALUE: u64 = 0;
/// A bound that says that the value is a divisor.
const ZERO_DIVISOR: u64 = u64::MAX;

impl Fault {
    /// Records `bad` unless a lower element is recorded already. So the report does not depend on timing.
    pub fn record(&self, bad: Bad) {
        let (old, code) = (self.code.load(Ordering::Relaxed), (bad.element as u64).saturating_add(1));
        if old != 0 && old <= code {
            return;
        }
        let (value, bound) = match bad.value {
            BadValue::Index => (0, NO_VALUE),
            BadValue::IndexOf { value, bound } => {
                (value as u64, (bound as u64).saturating_add(1).min(ZERO_DIVISOR - 1))
            }
            BadValue::ZeroDivisor => (0, ZERO_DIVISOR),
        };
        self.code.store(code, Ordering::Relaxed);
        self.value.store(value, Ordering::Relaxed);
        self.bound.store(bound, Ordering::Relaxed);
    }

    /// The recorded fault.
    #[inline]
    pub fn get(&self) -> Option<Bad> {
        let code = self.code.load(Ordering::Relaxed);
        if code == 0 {
            return None;
        }
        let value = match self.bound.load(Ordering::Relaxed) {
            NO_VALUE => BadValue::Index,
            ZERO_DIVISOR => BadValue::ZeroDivisor,
            n => BadValue::IndexOf { value: self.value.load(Ordering::Relaxed) as i64, bound: (n - 1) as usize },
        };
        Some(Bad { element: (code - 1) as usize, value })
    }

    /// Clears the record.
    pub fn clear(&self) {
        self.code.store(0, Ordering::Relaxed);
    }
}
