//! Fusion reports: the rules that fired, and the rules that just missed with the reason.
//!
//! Invariant: collecting a report does not change the graphs that passes write. Passes write reports, tools print them.

use super::pipeline::Trace;
use super::simplify::Hits;
use crate::error::Location;

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

/// The outcomes of several passes: first those that fired, pass by pass, then those that just missed.
pub fn order_outcomes(passes: impl IntoIterator<Item = Vec<Fusion>>) -> Vec<Fusion> {
    let mut all: Vec<Fusion> = passes.into_iter().flatten().collect();
    all.sort_by_key(|f| matches!(f.outcome, Outcome::Missed { .. }));
    all
}
