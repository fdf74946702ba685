//! A compiled graph whose buffers are divided into areas, for an arena that other graphs use too.
//!
//! `compile_all` and sized programs place their graphs by it.

use super::budget::{self, Fit};
use super::choices::Choices;
use super::compiled_graph::CompiledGraph;
use crate::arena::tensor::LINE;
use crate::clock::Instant;
use crate::error::Result;
use crate::nodes::Graph;
use crate::sched::areas::{Areas, Frame};

/// See the file's head.
pub struct Divided {
    pub ready: CompiledGraph,
    pub areas: Areas,
}

impl Divided {
    /// Divides `ready` into areas.
    pub fn new(ready: CompiledGraph, choices: &Choices) -> Result<Divided> {
        let areas = Areas::new(&ready.scheduled, choices.poison)?;
        Ok(Divided { ready, areas })
    }

    /// Bytes of an arena that holds it beside `others` lines of params, states and other graphs' own areas.
    pub fn bytes_beside(&self, others: u64) -> usize {
        total_area_bytes(&self.areas, others)
    }

    /// `g` in at most `bytes` bytes, beside `others` lines: some of its values are computed twice.
    pub fn within(g: Graph<'_>, choices: &Choices, bytes: usize, others: u64) -> Result<Fit<Divided>> {
        let start = Instant::now();
        let size = |r: &CompiledGraph| Ok(total_area_bytes(&Areas::new(&r.scheduled, choices.poison)?, others));
        let mut ready = match budget::compile_within(g, choices, bytes, &size)? {
            Fit::Fits(ready) => ready,
            Fit::Needs(least) => return Ok(Fit::Needs(least)),
        };
        ready.took = start.elapsed();
        Ok(Fit::Fits(Divided::new(ready, choices)?))
    }

    /// Gives it its places, and has the plan proved there.
    pub fn place(self, frame: &Frame<'_>, choices: &Choices) -> Result<Divided> {
        let Divided { ready, areas } = self;
        let scheduled = areas.place(ready.scheduled, frame)?;
        let tapes = choices.tapes(&scheduled.plan);
        Ok(Divided { ready: CompiledGraph { tapes, scheduled, ..ready }, areas })
    }
}

fn total_area_bytes(areas: &Areas, others: u64) -> usize {
    (others + areas.own + areas.workspace) as usize * LINE
}
