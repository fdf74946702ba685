//! The number of operands of an op.

/// The number of operands of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arity {
    /// Exactly this many.
    Exactly(usize),
    /// From `.0` to `.1`, both included.
    Between(usize, usize),
    /// At least this many.
    AtLeast(usize),
}

impl Arity {
    /// True if `n` operands are allowed.
    pub const fn allows(self, n: usize) -> bool {
        match self {
            Arity::Exactly(k) => n == k,
            Arity::Between(a, b) => n >= a && n <= b,
            Arity::AtLeast(k) => n >= k,
        }
    }
}

impl std::fmt::Display for Arity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Arity::Exactly(k) => write!(f, "{k}"),
            Arity::Between(a, b) => write!(f, "{a} to {b}"),
            Arity::AtLeast(k) => write!(f, "at least {k}"),
        }
    }
}
