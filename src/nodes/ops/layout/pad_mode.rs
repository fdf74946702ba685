//! How padding continues a tensor.

/// How a tensor is continued beyond its edges, in the terms of `torch.nn.functional.pad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}
