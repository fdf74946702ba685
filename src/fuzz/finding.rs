//! A finding of a check: the place where two results differ by more than rounding explains.

use crate::nodes::Graph;
use crate::nodes::ir::text::print;
use std::fmt;

/// Two elements that differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The output, or the param or state after the step.
    pub name: String,
    /// The position of the element, in row-major order.
    pub element: usize,
    /// The element on the left; in a check of a run, the engine's.
    pub left: f64,
    /// The element on the right; in a check of a run, the oracle's.
    pub right: f64,
    /// The most that rounding explains.
    pub bound: f64,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The check, with its options.
    pub check: String,
    /// What is wrong, in one sentence.
    pub what: String,
    /// The elements that differ, if that is it.
    pub difference: Option<Box<Difference>>,
    /// The seed of the leaves.
    pub seed: u64,
    /// The text of the graph.
    pub graph: String,
}

impl Finding {
    pub(super) fn new(check: impl Into<String>, what: impl Into<String>, seed: u64, graph: Graph<'_>) -> Finding {
        Finding { check: check.into(), what: what.into(), difference: None, seed, graph: print(graph) }
    }

    pub(super) fn differs(check: impl Into<String>, d: Difference, seed: u64, graph: Graph<'_>) -> Finding {
        let what = d.to_string();
        Finding { difference: Some(Box::new(d)), ..Finding::new(check, what, seed, graph) }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { name, element, left, right, bound } = self;
        write!(f, "element {element} of {name:?} is {left:e} against {right:e}, and rounding explains {bound:e}")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with seed {}: {}\n{}", self.check, self.seed, self.what, self.graph)
    }
}

impl std::error::Error for Finding {}
