//! Catches panics of kernels.
//!
//! Invariant: no panic leaves [`panicked`], whatever a kernel throws. A thread that unwound from a step would let its
//! caller have the arena while other threads write it, or would never count as done.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `part`. True if it panicked.
///
/// What the panic carries is dropped here. If that drop panics as well, what the second panic carries is leaked: its
/// drop may panic, too.
pub fn panicked(part: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(part)) else { return false };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::tests::bomb::Bomb;

    #[test]
    fn a_payload_whose_drop_panics_goes_no_further() {
        assert!(!panicked(|| ()));
        assert!(panicked(|| std::panic::resume_unwind(Box::new("text"))));
        // The second one's drop would panic with a payload whose drop panics.
        assert!(panicked(|| std::panic::resume_unwind(Box::new(Bomb { left: 1 }))));
        assert!(panicked(|| std::panic::resume_unwind(Box::new(Bomb { left: 3 }))));
    }
}
