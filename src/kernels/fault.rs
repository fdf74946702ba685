//! Faults: bad values, such as an index out of range, that kernels find in their operands.
//!
//! Invariant: of the faults of one thread the one at the lowest element is kept, whatever the order of the calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bad value that a kernel found in an index operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bad {
    /// Its position in the index operand.
    pub element: usize,
    /// The value and its exclusive upper bound, if the kernel reported them.
    pub value: Option<(i64, usize)>,
}

/// The lowest bad element that the kernels of one thread found, such as an index out of range. Only that thread writes
/// it; others read it after the step.
#[derive(Default)]
pub struct Fault {
    /// Element plus 1; 0 means no fault.
    code: AtomicU64,
    /// Bits of the value.
    value: AtomicU64,
    /// Bound plus 1; 0 means that the kernel reported no value.
    bound: AtomicU64,
}

impl Fault {
    /// Records `bad` unless a lower element is recorded already. So the report does not depend on timing.
    pub fn record(&self, bad: Bad) {
        let (old, code) = (self.code.load(Ordering::Relaxed), (bad.element as u64).saturating_add(1));
        if old != 0 && old <= code {
            return;
        }
        let (value, bound) = bad.value.map_or((0, 0), |(v, n)| (v as u64, (n as u64).saturating_add(1)));
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
        let bound = self.bound.load(Ordering::Relaxed).checked_sub(1);
        let value = bound.map(|n| (self.value.load(Ordering::Relaxed) as i64, n as usize));
        Some(Bad { element: (code - 1) as usize, value })
    }

    /// Clears the record.
    pub fn clear(&self) {
        self.code.store(0, Ordering::Relaxed);
    }
}
