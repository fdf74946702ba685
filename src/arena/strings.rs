//! The interned strings of a graph: equal strings have equal ids.

use super::ids::{Id, Sym};
use super::intern::InternedRuns;
use super::pool::RunPool;
use bumpalo::Bump;

/// The strings of a graph under construction.
pub struct Strings(InternedRuns<u8>);

impl Default for Strings {
    fn default() -> Self {
        Strings(InternedRuns::new())
    }
}

impl Strings {
    /// Starts from the strings of a frozen graph, with the same ids.
    pub fn seeded(pool: RunPool<'_, u8>) -> Self {
        Strings(InternedRuns::seeded(pool))
    }

    /// The id of `s`.
    pub fn intern(&mut self, s: &str) -> Sym {
        Sym::new(self.0.intern(s.as_bytes()))
    }

    /// The string of `s`; empty for [`Sym::NONE`].
    pub fn str(&self, s: Sym) -> &str {
        if s == Sym::NONE { "" } else { std::str::from_utf8(self.0.run(s.at())).unwrap_or_default() }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the pool into `bump`.
    pub fn freeze<'b>(&self, bump: &'b Bump) -> RunPool<'b, u8> {
        self.0.freeze(bump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_pool_seeds_the_same_ids() {
        let mut s = Strings::default();
        let (a, b) = (s.intern("w"), s.intern(""));
        let bump = Bump::new();
        let mut t = Strings::seeded(s.freeze(&bump));
        assert_eq!((t.intern("w"), t.intern(""), t.str(a)), (a, b, "w"));
    }
}
