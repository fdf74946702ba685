//! Memory budgets: the program with the fewest repeated operations that fits.
//!
//! Choices are tried in the order of what they repeat, which does not depend on the budget; the first that fits is
//! kept. So a larger budget never repeats more, and the arena grows with the budget only.

use super::{Ready, Recomputed};
use crate::error::{Error, Kind, Result};
use crate::nodes::Graph;
use crate::passes::{pipeline, remat};

/// Programs for `g` in an arena of at most `bytes` bytes.
pub fn fit(g: Graph<'_>, optimise: bool, lanes: usize, bytes: usize) -> Result<Ready> {
    let (first, second) = match optimise {
        true => pipeline::halves(),
        false => (vec!["inline", "legalize"], vec!["unmark"]),
    };
    let simple = pipeline::run(g, &first, false)?.0;
    let facts = remat::facts(simple.view());
    let mut least = usize::MAX;
    for choice in remat::choices(simple.view(), &facts) {
        let again = remat::apply(simple.view(), &facts, &choice)?;
        let graph = pipeline::run(again.view(), &second, false)?.0;
        let mut ready = Ready::new(graph, lanes)?;
        if ready.scheduled.plan.bytes <= bytes {
            ready.recomputed = Recomputed { what: choice.name, nodes: choice.nodes, flops: choice.flops };
            return Ok(ready);
        }
        least = least.min(ready.scheduled.plan.bytes);
    }
    let e = format!("the memory budget of {bytes} bytes is too small; the smallest that would do is {least} bytes");
    Err(Error::new(Kind::Plan, e))
}
