//! A finding of a check: what is wrong, and the place where two results differ by more than rounding explains.

use super::compare_arrays::ElementDifference;
use crate::nodes::Graph;
use crate::nodes::ir::text::print;
use std::fmt;

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The check, with its options.
    pub check: String,
    /// What is wrong, in one sentence.
    pub what: String,
    /// The elements that differ, if that is it.
    pub difference: Option<Box<ElementDifference>>,
    /// The seed of the leaves.
    pub seed: u64,
    /// The text of the graph.
    pub graph: String,
}

impl Finding {
    pub(super) fn new(check: impl Into<String>, what: impl Into<String>, seed: u64, graph: Graph<'_>) -> Finding {
        Finding { check: check.into(), what: what.into(), difference: None, seed, graph: print(graph) }
    }

    pub(super) fn differs(check: impl Into<String>, d: ElementDifference, seed: u64, graph: Graph<'_>) -> Finding {
        let what = d.to_string();
        Finding { difference: Some(Box::new(d)), ..Finding::new(check, what, seed, graph) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with seed {}: {}\n{}", self.check, self.seed, self.what, self.graph)
    }
}

impl std::error::Error for Finding {}
