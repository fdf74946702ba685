//! Ranges of keys that a query sees, and the mask of keys.

use super::attention_shape::{AttentionShape, BLOCK_KEYS, CHUNK, Element};
use std::ops::Range;

impl AttentionShape {
    /// The keys that query `i` may see. Both ends are monotonic in `i`.
    pub(super) fn visible(&self, i: usize) -> Range<usize> {
        if !self.causal {
            return 0..self.keys;
        }
        // The place, and the number of queries more, since it may lie before the first key.
        let place = i + if self.top_left { self.queries } else { self.keys };
        let end = (place + 1).saturating_add(self.ahead).saturating_sub(self.queries).min(self.keys);
        place.saturating_sub(self.queries.saturating_add(self.window)).min(end)..end
    }

    /// Number of keys, from key `j` of a block on, that are multiplied with queries that see no key from `end` on.
    pub(super) fn keys_before(&self, j: usize, end: usize) -> usize {
        let seen = end.saturating_sub(j).next_multiple_of(CHUNK);
        seen.min(BLOCK_KEYS).min(self.keys - j)
    }
}

/// The part of `seen` within the `n` keys from `j` on, relative to `j`.
pub(super) fn clip_to_block(seen: &Range<usize>, j: usize, n: usize) -> Range<usize> {
    let start = seen.start.saturating_sub(j).min(n);
    start..seen.end.saturating_sub(j).min(n).max(start)
}

/// `seen` widened to whole chunks, at most `n` keys.
pub(super) fn widen_to_chunks(seen: &Range<usize>, n: usize) -> Range<usize> {
    if seen.is_empty() {
        return seen.clone();
    }
    seen.start / CHUNK * CHUNK..seen.end.next_multiple_of(CHUNK).min(n)
}

/// `part`, relative to the start of `whole`.
pub(super) fn range_within(part: &Range<usize>, whole: &Range<usize>) -> Range<usize> {
    part.start - whole.start..part.end - whole.start
}

/// The mask of keys.
#[derive(Clone, Copy)]
pub(super) enum AttentionKeyMask<'a, T> {
    /// All keys are kept.
    All,
    /// Keys whose number is at least ½ are kept.
    Float(&'a [T]),
    /// Keys whose byte is not zero are kept.
    Bytes(&'a [u8]),
}

impl<T: Element> AttentionKeyMask<'_, T> {
    /// Writes 1 or 0 for each key from `at` on and returns them; returns an empty slice if all keys are kept.
    pub(super) fn write<'t>(&self, at: usize, to: &'t mut [T]) -> &'t [T] {
        let one = |keep: bool| if keep { T::ONE } else { T::ZERO };
        match self {
            AttentionKeyMask::All => return &[],
            AttentionKeyMask::Float(x) => {
                let half = T::from_f64(0.5);
                to.iter_mut().zip(&x[at..]).for_each(|(to, x)| *to = one(*x >= half));
            }
            AttentionKeyMask::Bytes(x) => to.iter_mut().zip(&x[at..]).for_each(|(to, x)| *to = one(*x != 0)),
        }
        to
    }
}
