//! The random key's step: once per step of a program.
//!
//! Invariant: the upper two words of a key are a 64-bit counter, low word first. For the lowering of `rng_next`.

use super::abi::Args;

/// Words of a key: seed low, seed high, step low, step high.
pub const WORDS: usize = 4;

/// The key of the next step.
///
/// Reads key: `u32[4]`; writes the same, in place of it or not, in one unit.
pub fn step_key(args: &mut Args<'_>) {
    if args.units().is_empty() {
        return;
    }
    let from = args.inplace(0).is_none().then(|| args.read::<u32>(0));
    let key = args.write::<u32>(0);
    if let Some(from) = from {
        key.copy_from_slice(from);
    }
    let [_, _, low, high] = key else { return };
    let (next, carry) = low.overflowing_add(1);
    *low = next;
    *high = high.wrapping_add(u32::from(carry));
}
