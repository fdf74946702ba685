//! The results of a node, as a builder returns them.
//!
//! Invariant: indexing never panics. After an error there are no results, and every index gives [`Value::NONE`]; later
//! nodes on it are skipped.

use super::builder::{Builder, Var};
use crate::arena::Value;
use crate::error::Kind;
use std::ops::{Deref, Index};

/// The results of a node, as a slice of values. Empty after an error.
///
/// An index out of range records an error, if there is none yet, and gives [`Value::NONE`].
#[derive(Clone, Debug)]
pub struct Results<'g> {
    all: Vec<Var<'g>>,
    none: Var<'g>,
}

impl<'g> Results<'g> {
    pub(in crate::nodes) fn new(g: &'g Builder, all: Vec<Var<'g>>) -> Results<'g> {
        Results { all, none: g.var(Value::NONE) }
    }
}

impl<'g> Deref for Results<'g> {
    type Target = [Var<'g>];

    fn deref(&self) -> &[Var<'g>] {
        &self.all
    }
}

impl<'g> Index<usize> for Results<'g> {
    type Output = Var<'g>;

    #[track_caller]
    fn index(&self, i: usize) -> &Var<'g> {
        if i >= self.all.len() {
            let text = format!("result {i} is asked for, and the node has {}", self.all.len());
            self.none.g.fail(Kind::Arity, text);
        }
        self.all.get(i).unwrap_or(&self.none)
    }
}

impl<'g> IntoIterator for Results<'g> {
    type Item = Var<'g>;
    type IntoIter = std::vec::IntoIter<Var<'g>>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl<'g> From<Results<'g>> for Vec<Var<'g>> {
    fn from(results: Results<'g>) -> Vec<Var<'g>> {
        results.all
    }
}
