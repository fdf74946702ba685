//! What fusion did, and what it just missed, for people who wonder why a graph is not faster.
//!
//! Invariant: collecting a report changes nothing in the graphs that passes write. Passes write it, tools print it.

use super::pipeline;
use super::simplify::Hits;
use crate::error::{Place, Result};
use crate::nodes::Graph;

/// What became of one pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was replaced; `saved` counts the nodes that went.
    Fired {
        /// Nodes saved.
        saved: usize,
    },
    /// It is there but for one thing.
    Missed {
        /// What that is.
        reason: String,
    },
}

/// One pattern that a fusion rule met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fusion {
    /// The rule.
    pub rule: &'static str,
    /// Op of the pattern's last node.
    pub op: &'static str,
    /// Where that node was asked for.
    pub place: Place,
    /// What became of it.
    pub outcome: Outcome,
}

/// What a pass tells about itself.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// How often each named rule fired.
    pub hits: Hits,
    /// What fusion rules met, the fired ones first, each kind in the order of nodes.
    pub fusions: Vec<Fusion>,
}

/// Fusions of `g` on its way through all passes: first what fired, pass by pass, then what was just missed.
///
/// # Errors
/// Those of the passes.
pub fn report<'a>(g: impl Into<Graph<'a>>) -> Result<Vec<Fusion>> {
    let g = g.into();
    let (_, traces) = pipeline::run(g, &pipeline::default_passes(), false)?;
    Ok(collected(traces.into_iter().map(|t| t.fusions)))
}

/// The fusions of several passes in the order of [`report`].
pub fn collected(passes: impl IntoIterator<Item = Vec<Fusion>>) -> Vec<Fusion> {
    let mut all: Vec<Fusion> = passes.into_iter().flatten().collect();
    all.sort_by_key(|f| matches!(f.outcome, Outcome::Missed { .. }));
    all
}
