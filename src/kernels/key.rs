//! Advances the random key, once per step of a program.
//!
//! Invariant: the upper two words of a key are a 64-bit counter, low word first. Used by the lowering of `rng_next`.

use super::abi::Args;

/// Words of a key: seed low, seed high, step low, step high.
pub const WORDS: usize = 4;

/// The key of the next step: the counter plus 1.
///
/// Reads key: `u32[4]`; writes key: `u32[4]`, in place or not. One unit.
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
