//! Random changes of an input: bytes, ranges, words of a dictionary, and parts of other inputs.

use arenagrad::tools::arena::rng::SplitMix64;

/// Bytes at which code often branches.
const BYTES: &[u8] = &[0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 254, 255, b'0', b'9', b'\n', b' ', b'"'];

/// Numbers as text at which readers often branch.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "7",
    "8",
    "9",
    "63",
    "64",
    "255",
    "256",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e999",
    "-1e999",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "-0.0",
    "1e-400",
    "0x10",
    "1_0",
    "+1",
];

/// What mutations draw from.
pub struct Mutator<'a> {
    /// The source of randomness.
    pub rng: SplitMix64,
    /// Words to insert.
    pub words: &'a [&'a str],
    /// The most bytes of an input.
    pub max_len: usize,
}

impl Mutator<'_> {
    /// A number below `n`, which counts as at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.rng.bits() % n.max(1) as u64) as usize
    }

    /// A range of `len` bytes, short more often than long.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.below(len + 1);
        let longest = 1 << self.below(8);
        let size = 1 + self.below(longest);
        from..(from + size).min(len)
    }

    /// `base` after one to sixteen changes; `other` is another input, for splices.
    pub fn mutated(&mut self, base: &[u8], other: &[u8]) -> Vec<u8> {
        let mut t = base.to_vec();
        let times = 1usize << self.below(5);
        for _ in 0..=self.below(times) {
            self.change(&mut t, other);
            t.truncate(self.max_len);
        }
        t
    }

    fn change(&mut self, t: &mut Vec<u8>, other: &[u8]) {
        let len = t.len();
        let at = self.below(len);
        match self.below(12) {
            0 if len > 0 => t[at] ^= 1 << self.below(8),
            1 if len > 0 => t[at] = self.rng.bits() as u8,
            2 if len > 0 => t[at] = BYTES[self.below(BYTES.len())],
            3 if len > 0 => self.add(t, at),
            4 => drop(t.drain(self.range(len))),
            5 => {
                let piece = t[self.range(len)].to_vec();
                self.insert(t, &piece);
            }
            6 => {
                let piece: Vec<u8> = (0..=self.below(8)).map(|_| self.rng.bits() as u8).collect();
                self.insert(t, &piece);
            }
            7 => {
                let piece = other[self.range(other.len())].to_vec();
                self.insert(t, &piece);
            }
            8 => {
                // The head of one input and the tail of another.
                let (cut, from) = (self.below(len + 1), self.below(other.len() + 1));
                t.truncate(cut);
                t.extend_from_slice(&other[from..]);
            }
            9 => {
                let piece = t[self.range(len)].to_vec();
                let end = (at + piece.len()).min(len);
                t[at.min(end)..end].copy_from_slice(&piece[..end - at.min(end)]);
            }
            10 if !self.words.is_empty() => self.change_number(t),
            _ => self.insert_word(t),
        }
    }

    /// Adds a small number to one byte or, as a number of either order, to two or four.
    fn add(&mut self, t: &mut [u8], at: usize) {
        let by = self.below(35) as i64 - 17;
        let width = [1, 2, 4][self.below(3)].min(t.len() - at);
        let little = self.below(2) == 0;
        let slice = &mut t[at..at + width];
        if !little {
            slice.reverse();
        }
        let n = slice.iter().rev().fold(0i64, |n, &b| n << 8 | i64::from(b)).wrapping_add(by);
        slice.iter_mut().enumerate().for_each(|(i, b)| *b = (n >> (8 * i)) as u8);
        if !little {
            slice.reverse();
        }
    }

    fn insert(&mut self, t: &mut Vec<u8>, piece: &[u8]) {
        let at = self.below(t.len() + 1);
        t.splice(at..at, piece.iter().copied());
    }

    fn insert_word(&mut self, t: &mut Vec<u8>) {
        if self.words.is_empty() {
            let piece = [BYTES[self.below(BYTES.len())]; 4];
            return self.insert(t, &piece[..]);
        }
        let word = self.words[self.below(self.words.len())];
        let at = self.below(t.len() + 1);
        let end = if self.below(2) == 0 { at } else { (at + word.len()).min(t.len()) };
        t.splice(at..end, word.bytes());
    }

    /// Replaces a number in a text by another.
    fn change_number(&mut self, t: &mut Vec<u8>) {
        let from = self.below(t.len());
        let is_number = |c: &u8| c.is_ascii_digit();
        let Some(start) = t[from..].iter().position(is_number).map(|i| from + i) else { return };
        let end = t[start..].iter().position(|c| !is_number(c)).map_or(t.len(), |i| start + i);
        let number = NUMBERS[self.below(NUMBERS.len())];
        t.splice(start..end, number.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_keep_to_the_limit_and_follow_from_the_seed() {
        let run = |seed| {
            let mut m = Mutator { rng: SplitMix64(seed), words: &["word", "12"], max_len: 40 };
            let mut t = b"graph 12 { 7 }".to_vec();
            for _ in 0..5000 {
                t = m.mutated(&t, b"another 99 input");
                assert!(t.len() <= 40);
            }
            t
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let mut blind = Mutator { rng: SplitMix64(3), words: &[], max_len: 9 };
        assert!((0..500).any(|_| blind.mutated(&[], &[]).len() > 3));
    }
}
