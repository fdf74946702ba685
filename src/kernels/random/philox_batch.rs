//! Philox4x32-10 on a batch of counters at once, in lanes that fill vectors.

use arenagrad_arena::philox::{philox_pairs, words_of_pair};

/// Counters of a batch.
pub(super) const LANES: usize = 16;
/// Pairs of counters of a batch.
pub(super) const PAIRS: usize = LANES / 2;

/// `words[w][i]` is word `w` of counter `i` of a batch, or of its result.
pub(super) type Words = [[u32; LANES]; 4];

/// The words of a batch: `c[w][i]` holds word `w` of counters `2 * i` and `2 * i + 1`.
#[inline(always)]
pub(super) fn philox_batch(c: [[u64; PAIRS]; 4], key: [u32; 2]) -> Words {
    let mut words = [[0; LANES]; 4];
    for (words, pairs) in words.iter_mut().zip(philox_pairs(c, key)) {
        for (words, pair) in words.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
            *words = words_of_pair(pair);
        }
    }
    words
}
