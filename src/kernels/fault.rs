//! Faults: bad values, such as an index out of range or a singular matrix, that kernels find in their operands.
//!
//! A fault carries its own text: a [`Cause`] is a `static` beside the kernel that reports it. Invariant: of the faults
//! of one thread the one at the lowest element is kept, whatever the order of the calls.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a bad value is, and how a message says it. Two causes are equal if their names are.
#[non_exhaustive]
pub struct Cause {
    /// The name, unique.
    pub name: &'static str,
    /// Writes the message, such as "matrix 3 is singular".
    pub text: fn(&Bad, &mut fmt::Formatter<'_>) -> fmt::Result,
}

impl Cause {
    /// A cause. `text` writes the message.
    pub const fn new(name: &'static str, text: fn(&Bad, &mut fmt::Formatter<'_>) -> fmt::Result) -> Cause {
        Cause { name, text }
    }
}

impl Eq for Cause {}

impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An index out of range.
pub static INDEX: Cause = Cause {
    name: "index",
    text: |bad, f| match bad.value {
        Some((value, bound)) => {
            write!(f, "element {} of the index operand is {value}; it must be in 0..{bound}", bad.element)
        }
        None => write!(f, "element {} of the index operand is out of range", bad.element),
    },
};

/// An integer divisor that is 0.
pub static ZERO_DIVISOR: Cause =
    Cause { name: "zero divisor", text: |bad, f| write!(f, "element {} of the divisor is 0", bad.element) };

/// An exponent of an integer that is below 0.
pub static NEGATIVE_EXPONENT: Cause =
    Cause { name: "negative exponent", text: |bad, f| write!(f, "element {} of the exponent is below 0", bad.element) };

/// A number of iterations out of range: the value and its exclusive upper bound.
pub static ITERATIONS: Cause = Cause {
    name: "iterations",
    text: |bad, f| {
        let (count, bound) = bad.value.unwrap_or_default();
        write!(f, "the number of iterations is {count}; it must be in 0..{bound}")
    },
};

/// A loop that goes on at its bound: the value is the number of iterations.
pub static STILL_GOING: Cause = Cause {
    name: "still going",
    text: |bad, f| {
        let (n, _) = bad.value.unwrap_or_default();
        write!(f, "still going after {n} iteration{}", if n == 1 { "" } else { "s" })
    },
};

/// A bad value that a kernel found in an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bad {
    /// Its position in the operand; of a matrix, its number in the batch; of a tile, its number in the image.
    pub element: usize,
    /// The value and its exclusive upper bound, if they were reported, or two other numbers that the cause's text
    /// names.
    pub value: Option<(i64, usize)>,
    /// What it is.
    pub cause: &'static Cause,
}

impl Bad {
    /// The bad value at `element`.
    pub fn new(element: usize, value: Option<(i64, usize)>, cause: &'static Cause) -> Bad {
        Bad { element, value, cause }
    }

    /// The one at the lower element, whichever thread found it.
    pub fn lower(self, other: Bad) -> Bad {
        let order = |bad: &Bad| (bad.element, bad.value, bad.cause.name);
        if order(&other) < order(&self) { other } else { self }
    }
}

/// The lowest bad element that the kernels of one thread found, such as an index out of range. Only that thread writes
/// it; others read it after the step. A step without a fault never takes the lock.
#[derive(Default)]
pub struct Fault {
    /// Element plus 1; 0 means no fault.
    code: AtomicU64,
    bad: Mutex<Option<Bad>>,
}

impl Fault {
    /// Records `bad` unless a lower element is recorded already. So the report does not depend on timing.
    pub fn record(&self, bad: Bad) {
        let (old, code) = (self.code.load(Ordering::Relaxed), (bad.element as u64).saturating_add(1));
        if old != 0 && old <= code {
            return;
        }
        *self.bad.lock().unwrap_or_else(PoisonError::into_inner) = Some(bad);
        self.code.store(code, Ordering::Relaxed);
    }

    /// The recorded fault.
    #[inline]
    pub fn get(&self) -> Option<Bad> {
        match self.code.load(Ordering::Relaxed) {
            0 => None,
            _ => *self.bad.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Clears the record.
    pub fn clear(&self) {
        self.code.store(0, Ordering::Relaxed);
    }
}
