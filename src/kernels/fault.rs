//! Faults: bad values, such as an index out of range or a singular matrix, that kernels find in their operands.
//!
//! Invariant: of the faults of one thread the one at the lowest element is kept, whatever the order of the calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a bad value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// An index out of range.
    #[default]
    Index,
    /// An integer divisor that is 0.
    ZeroDivisor,
    /// A singular matrix.
    Singular,
    /// A matrix that is not positive definite.
    NotPositiveDefinite,
    /// A number of iterations out of range.
    Iterations,
    /// A loop that goes on at its bound.
    StillGoing,
    /// A tile of an image with more splats than its list holds.
    SplatList,
    /// A tile with a pixel that more splats cover than are blended.
    SplatSteps,
    /// Sizes of groups whose sum is not the number of rows.
    GroupSizes,
    /// A row of logits with a NaN or +∞.
    Logit,
    /// A row of logits without one above −∞.
    NoLogit,
    /// A scale of quantised numbers that is no normal number above 0.
    Scale,
}

impl Cause {
    /// All causes; each is at its own number.
    const ALL: [Cause; 12] = [
        Cause::Index,
        Cause::ZeroDivisor,
        Cause::Singular,
        Cause::NotPositiveDefinite,
        Cause::Iterations,
        Cause::StillGoing,
        Cause::SplatList,
        Cause::SplatSteps,
        Cause::GroupSizes,
        Cause::Logit,
        Cause::NoLogit,
        Cause::Scale,
    ];
}

/// A bad value that a kernel found in an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bad {
    /// Its position in the operand; of a matrix, its number in the batch; of a tile, its number in the image.
    pub element: usize,
    /// The value and its exclusive upper bound, if they were reported; of a tile, how many splats it has and the most
    /// that there may be; of sizes of groups, their sum and the number of rows;
    /// of a logit, its position in the row.
    pub value: Option<(i64, usize)>,
    /// What it is.
    pub cause: Cause,
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
    /// The number of the cause.
    cause: AtomicU64,
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
        self.cause.store(bad.cause as u64, Ordering::Relaxed);
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
        let cause = Cause::ALL.get(self.cause.load(Ordering::Relaxed) as usize).copied().unwrap_or_default();
        Some(Bad { element: (code - 1) as usize, value, cause })
    }

    /// Clears the record.
    pub fn clear(&self) {
        self.code.store(0, Ordering::Relaxed);
    }
}
