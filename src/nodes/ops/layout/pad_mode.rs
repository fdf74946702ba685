//! How padding continues a tensor.

/// How a tensor is continued beyond its edges, in the terms of `torch.nn.functional.pad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PadMode {
    /// Mirrored at the edge element, which is not repeated: `c b | a b c | b a`.
    Reflect,
    /// The edge element again and again: `a a | a b c | c c`.
    Replicate,
    /// From the other end: `b c | a b c | a b`.
    Circular,
}

impl PadMode {
    /// The element at position `i` (from −low to n + high) of an axis of `n`.
    pub(super) fn source_position(self, i: i64, n: i64) -> i64 {
        match self {
            PadMode::Reflect if i < 0 => -i,
            PadMode::Reflect if i >= n => 2 * (n - 1) - i,
            PadMode::Reflect => i,
            PadMode::Replicate => i.clamp(0, n - 1),
            PadMode::Circular => i.rem_euclid(n),
        }
    }

    /// The most that may be added to one side of an axis of `n`.
    pub(in crate::nodes::ops) fn most_padding(self, n: usize) -> usize {
        match self {
            PadMode::Reflect => n.saturating_sub(1),
            PadMode::Replicate if n == 0 => 0,
            PadMode::Replicate => usize::MAX,
            PadMode::Circular => n,
        }
    }

    /// Whether an axis of `n` can have `low` more elements before it and `high` behind it.
    pub(super) fn can_pad(self, n: usize, [low, high]: [usize; 2]) -> bool {
        let most = self.most_padding(n);
        low <= most && high <= most && low.saturating_add(high).saturating_add(n) <= LONGEST
    }
}

/// The longest axis that padding with the tensor's own elements makes: positions are i32.
const LONGEST: usize = 1 << 28;

#[cfg(test)]
mod tests {
    use super::*;
    use PadMode::{Circular, Reflect, Replicate};

    #[test]
    fn each_side_of_an_axis_has_a_limit() {
        assert_eq!([0, 1, 2, 3].map(|n| Reflect.most_padding(n)), [0, 0, 1, 2]);
        assert_eq!([0, 1, 3].map(|n| Replicate.most_padding(n)), [0, usize::MAX, usize::MAX]);
        assert_eq!([0, 1, 3].map(|n| Circular.most_padding(n)), [0, 1, 3]);
        for (mode, most) in [(Reflect, 2), (Circular, 3)] {
            assert!(mode.can_pad(3, [most, most]) && mode.can_pad(3, [0, 0]), "{mode:?}");
            assert!(!mode.can_pad(3, [most + 1, 0]) && !mode.can_pad(3, [0, most + 1]), "{mode:?}");
        }
    }

    #[test]
    fn the_padded_axis_has_a_limit() {
        for low in [0, 1, LONGEST / 2, LONGEST - 2] {
            let high = LONGEST - 2 - low;
            assert!(Replicate.can_pad(2, [low, high]), "{low}");
            assert!(!Replicate.can_pad(2, [low + 1, high]) && !Replicate.can_pad(2, [low, high + 1]), "{low}");
            assert!(!Replicate.can_pad(3, [low, high]), "{low}");
        }
        assert!(!Replicate.can_pad(1, [usize::MAX, 0]) && !Replicate.can_pad(1, [usize::MAX; 2]));
    }

    #[test]
    fn an_axis_goes_on_as_the_mode_says() {
        let sources = |mode: PadMode, range: std::ops::Range<i64>| -> Vec<i64> {
            range.map(|i| mode.source_position(i, 3)).collect()
        };
        assert_eq!(sources(Reflect, -2..5), [2, 1, 0, 1, 2, 1, 0]);
        assert_eq!(sources(Replicate, -2..5), [0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(sources(Circular, -3..6), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }
}
