//! Symbols: sizes that a graph is built for, by name.
//!
//! A graph has no symbols: all its sizes are numbers. Sizes that vary belong to a *recipe*, a function that builds the
//! graph once for each choice of sizes of its symbols. So sizes that become constants (the 1/N of a mean), loops and
//! branches are right at every size.
//!
//! Invariant: the names of [`Sizes`] are sorted, and no two are equal.

use crate::error::{Error, Kind, Result};
use std::fmt;

/// The largest size of a symbol: 2³² − 1. So `2 * batch + 1` fits a `usize` of 64 bits.
pub const MAX_SIZE: usize = u32::MAX as usize;

/// Symbols and their sizes: `batch=7, len=12`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub(super) names: Vec<String>,
    pub(super) sizes: Vec<usize>,
}

impl Sizes {
    /// Binds symbols to sizes, in any order. Errors (kind `Name`): a symbol is bound twice; (kind `Shape`): a size is
    /// above [`MAX_SIZE`].
    pub fn new(bound: &[(&str, usize)]) -> Result<Sizes> {
        let mut sorted = bound.to_vec();
        sorted.sort_unstable();
        if let Some(w) = sorted.windows(2).find(|w| w[0].0 == w[1].0) {
            let text = format!("symbol {:?} is bound twice, to {} and to {}", w[0].0, w[0].1, w[1].1);
            return Err(Error::new(Kind::Name, text));
        }
        if let Some((name, size)) = sorted.iter().find(|b| b.1 > MAX_SIZE) {
            let text = format!("symbol {name:?} is bound to {size}; the largest size is {MAX_SIZE}");
            return Err(Error::new(Kind::Shape, text));
        }
        let names = sorted.iter().map(|b| b.0.to_string()).collect();
        Ok(Sizes { names, sizes: sorted.iter().map(|b| b.1).collect() })
    }

    /// The size of the symbol called `name`.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.position(name).map(|i| self.sizes[i])
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|n| n.as_str().cmp(name)).ok()
    }

    /// The names of the symbols, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.names.iter().map(String::as_str)
    }

    /// The symbols and their sizes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> + Clone {
        self.names().zip(self.sizes.iter().copied())
    }

    /// True if these are the sizes that `bound` has, in any order.
    pub fn are(&self, bound: &[(&str, usize)]) -> bool {
        // As many as ours, and each of ours is there: none is left over, and none is there twice.
        bound.len() == self.names.len() && self.iter().all(|b| bound.contains(&b))
    }
}

/// `batch=7, len=12`; without symbols, `no symbol`.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.iter().map(|(name, size)| format!("{name}={size}")).collect();
        if list.is_empty() { f.write_str("no symbol") } else { f.write_str(&list.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_equal_in_any_order_and_only_if_all_are() {
        let sizes = Sizes::new(&[("len", 12), ("batch", 7)]).unwrap();
        assert_eq!(sizes.to_string(), "batch=7, len=12");
        assert_eq!((sizes.get("len"), sizes.get("le")), (Some(12), None));
        for same in [[("batch", 7), ("len", 12)], [("len", 12), ("batch", 7)]] {
            assert!(sizes.are(&same));
        }
        for other in [[("batch", 7), ("batch", 7)], [("batch", 7), ("len", 13)], [("len", 12), ("len", 12)]] {
            assert!(!sizes.are(&other), "{other:?}");
        }
        assert!(!sizes.are(&[("batch", 7)]) && !sizes.are(&[("batch", 7), ("len", 12), ("x", 1)]));
        assert!(Sizes::default().are(&[]) && Sizes::default().to_string() == "no symbol");
    }

    #[test]
    fn what_cannot_be_bound_is_refused() {
        let e = Sizes::new(&[("a", 1), ("b", 2), ("a", 3)]).unwrap_err().to_string();
        assert_eq!(e, "symbol \"a\" is bound twice, to 1 and to 3");
        let e = Sizes::new(&[("a", MAX_SIZE + 1)]).unwrap_err().to_string();
        assert!(e.contains("the largest size is 4294967295"), "{e}");
        assert!(Sizes::new(&[("a", MAX_SIZE), ("b", 0)]).is_ok());
    }
}
