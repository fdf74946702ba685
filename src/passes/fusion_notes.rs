//! What passes did: nodes and time, and fusion reports: the rules that fired, and those that just missed with the
//! reason.
//!
//! Invariant: collecting a report does not change the graphs that passes write. Passes write reports, tools print them.

use super::simplify::Hits;
use crate::error::Location;
use std::time::Duration;

/// The outcome of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pattern was replaced.
    Fired {
        /// Number of nodes less.
        saved: usize,
    },
    /// One condition failed.
    Missed {
        /// The condition.
        reason: String,
    },
}

/// A pattern that a fusion rule found or just missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fusion {
    /// The rule.
    pub rule: &'static str,
    /// Op of the pattern's last node.
    pub op: &'static str,
    /// Location of that node.
    pub location: Location,
    /// The outcome.
    pub outcome: Outcome,
}

/// The notes of one pass.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// How often each named rule fired.
    pub hits: Hits,
    /// Outcomes of fusion rules: first those that fired, each group in the order of nodes.
    pub fusions: Vec<Fusion>,
    /// The steps of a pass that is made of several.
    pub parts: Vec<Trace>,
}

/// The record of one pass.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The pass.
    pub pass: &'static str,
    /// Number of nodes before and after.
    pub nodes: (usize, usize),
    /// Rule hits.
    pub hits: Hits,
    /// Outcomes of fusion rules.
    pub fusions: Vec<Fusion>,
    /// The steps of a pass that is made of several.
    pub parts: Vec<Trace>,
    /// Wall time.
    pub time: Duration,
}

impl Trace {
    /// The record of a pass without named rules.
    pub(super) fn of_nodes(pass: &'static str, nodes: (usize, usize), time: Duration) -> Trace {
        Trace { pass, nodes, hits: Hits::default(), fusions: Vec::new(), parts: Vec::new(), time }
    }
}

/// The outcomes of several passes: first those that fired, pass by pass, then those that just missed.
pub fn order_outcomes(passes: impl IntoIterator<Item = Vec<Fusion>>) -> Vec<Fusion> {
    let mut all: Vec<Fusion> = passes.into_iter().flatten().collect();
    all.sort_by_key(|f| matches!(f.outcome, Outcome::Missed { .. }));
    all
}
