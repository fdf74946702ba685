//! Random keys: the key of the next step of a program, and new keys for the same step.
//!
//! Invariant: the upper two words of a key are a 64-bit counter, low word first. Used by the lowering of `rng_next`.

use crate::abi::Args;
use arenagrad_arena::philox::philox;

/// Words of a key: seed low, seed high, step low, step high.
pub const WORDS: usize = 4;

/// The key of the next step: the counter plus 1.
///
/// Reads key: `u32[4]`; writes key: `u32[4]`, in place or not. One unit.
pub fn step_key_kernel(args: &mut Args<'_>) {
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

/// Separates the counters of folding from those of drawing ("fold").
const FOLD: u32 = 0x666f_6c64;

/// A new key for the same step. Its seed is two random words derived from the old seed, the step and `number`.
pub fn derive_key(key: [u32; 4], number: u32) -> [u32; 4] {
    let words = philox([[number], [FOLD], [key[2]], [key[3]]], [key[0], !key[1]]);
    [words[0][0], words[1][0], key[2], key[3]]
}

/// The key of one loop iteration.
///
/// Reads key: `u32[4]`, number: `u32[1]`; writes `u32[4]`.
pub fn fold_key_kernel(args: &mut Args<'_>) {
    let mut key = [0; 4];
    key.copy_from_slice(args.read::<u32>(0));
    let number = args.read::<u32>(1)[0];
    args.write::<u32>(0).copy_from_slice(&derive_key(key, number));
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u32; 4] = [1, 2, 3, 4];

    #[test]
    fn folded_keys_differ_by_number_and_keep_the_step() {
        let keys: Vec<[u32; 4]> = (0..1000).map(|i| derive_key(KEY, i)).collect();
        let mut seeds: Vec<[u32; 2]> = keys.iter().map(|k| [k[0], k[1]]).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 1000);
        assert!(keys.iter().all(|k| k[2..] == KEY[2..]));
        assert_ne!(derive_key(KEY, 5), derive_key([1, 2, 4, 4], 5), "another step gives other seeds");
    }
}
