//! An input read as a list of decisions: each takes as few bytes as its number of choices needs.
//!
//! Invariant: past its end an input reads as zeros, so a shorter input is a simpler case.

/// An input and how far it is read.
pub struct Script<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Script<'a> {
    /// The script in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script { bytes, at: 0 }
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// A number below `bound`, which counts as at least 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        let bytes = match bound {
            0..=1 => return 0,
            2..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        };
        (0..bytes).fold(0u64, |n, _| n << 8 | u64::from(self.byte())) as u32 % bound
    }

    /// One of `from`, which is not empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    /// True or false.
    pub fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// A number of 16 bits: the seed of values.
    pub fn seed(&mut self) -> u64 {
        u64::from(self.below(0x1_0000))
    }

    /// The rest of the input.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Whether all of the input is read.
    pub fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The script as the source of randomness of generators.
    pub fn draws(&mut self) -> impl FnMut(u32) -> u32 + '_ {
        |bound| self.below(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_take_the_bytes_that_they_need() {
        let mut s = Script::new(&[7, 1, 2, 3]);
        assert_eq!((s.below(1), s.below(5), s.below(1000), s.byte(), s.is_over()), (0, 2, 258, 3, true));
        assert_eq!((s.byte(), s.below(1 << 20), s.flag(), s.rest().len()), (0, 0, false, 0));
    }
}
