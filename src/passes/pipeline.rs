//! The one place of order: which passes run before lowering, and why each stands where it does.

use super::simplify::Hits;
use super::{epilogue, fold, fuse, prepare, rebuild, remat, simplify, trim};
use crate::error::{Error, Kind, Result};
use crate::nodes::verify::{self, Stage};
use crate::nodes::{Graph, GraphBuf};
use std::time::{Duration, Instant};

/// Most rounds of one simplification.
const ROUNDS: usize = 8;

/// A pass, by the name that `opt --passes` takes.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name.
    pub name: &'static str,
    /// What it does, in a line.
    pub doc: &'static str,
    run: fn(Graph<'_>, &mut Hits) -> Result<GraphBuf>,
}

/// All passes, in the order in which they run before lowering.
pub const PIPELINE: &[Pass] = &[
    // First: bodies become visible to everything below.
    Pass {
        name: "inline",
        doc: "replace calls by their bodies",
        run: |g, _| GraphBuf::make(|b| prepare::inline(g, b)),
    },
    // Before simplification, which then sees what decompositions leave behind.
    Pass { name: "legalize", doc: "decompose ops that have no kernel", run: |g, _| prepare::for_lowering(g) },
    // Before what looks for work: derivatives leave much behind that nobody reads.
    Pass { name: "trim", doc: "drop what loops make for nobody", run: |g, h| to_end(g, h, trim_once) },
    // Products take transposes in, moves cancel, neutral operands go.
    Pass {
        name: "simplify",
        doc: "algebra that holds for NaN, infinities and −0",
        run: |g, h| to_end(g, h, simplify_once),
    },
    // After simplification, which makes fills out of broadcast and reshaped ones.
    Pass { name: "fold", doc: "compute constants", run: |g, _| GraphBuf::make(|b| fold::fold(g, b)) },
    // Here a memory budget has what it needs recomputed; boundaries of blocks have then served.
    Pass { name: "unmark", doc: "drop the boundaries of blocks", run: |g, _| remat::unmark(g) },
    // Products take bias and activation in before point-wise regions could take the activation away.
    Pass {
        name: "epilogue",
        doc: "put bias and activation into products",
        run: |g, h| GraphBuf::make(|b| epilogue::epilogue(g, b, h)),
    },
    // Last of those that change ops: from here on fused ops may occur.
    Pass { name: "fuse", doc: "make point-wise regions", run: fuse_regions },
    // Fusion leaves the single ops behind that it copied into regions.
    Pass { name: "clean", doc: "drop what nobody reads", run: |g, _| rebuild::rebuild_buf(g, &mut |_| None) },
];

/// One round of a pass.
type Round = fn(Graph<'_>, &mut Hits) -> Result<GraphBuf>;

fn simplify_once(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    GraphBuf::make(|b| simplify::simplify(g, b, hits))
}

fn trim_once(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    GraphBuf::make(|b| trim::trim(g, b, hits))
}

/// Rounds until one hits nothing.
fn to_end(g: Graph<'_>, hits: &mut Hits, round: Round) -> Result<GraphBuf> {
    let mut buf = round(g, hits)?;
    for _ in 1..ROUNDS {
        let before: usize = hits.values().sum();
        buf = round(buf.view(), hits)?;
        if hits.values().sum::<usize>() == before {
            break;
        }
    }
    Ok(buf)
}

fn fuse_regions(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    let mut made = 0;
    let buf = GraphBuf::make(|b| {
        let (fused, n) = fuse::fuse(g, b)?;
        made = n;
        Ok::<_, Error>(fused)
    })?;
    if made > 0 {
        *hits.entry("map-region").or_default() += made;
    }
    Ok(buf)
}

/// What one pass did.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The pass.
    pub pass: &'static str,
    /// Nodes before and after.
    pub nodes: (usize, usize),
    /// Rule hits.
    pub hits: Hits,
    /// Time it took.
    pub time: Duration,
}

/// Runs the passes called `names`, in the order given, verifying after each in debug builds or if `verify`.
pub fn run(g: Graph<'_>, names: &[&str], verify: bool) -> Result<(GraphBuf, Vec<Trace>)> {
    let mut buf = rebuild::rebuild_buf(g, &mut |_| None)?;
    let mut traces = Vec::new();
    for name in names {
        let pass = PIPELINE.iter().find(|p| p.name == *name).ok_or_else(|| {
            let known: Vec<&str> = PIPELINE.iter().map(|p| p.name).collect();
            Error::new(Kind::Name, format!("no pass is called {name:?}; there are {}", known.join(", ")))
        })?;
        let start = Instant::now();
        let mut hits = Hits::new();
        let before = buf.view().nodes();
        buf = (pass.run)(buf.view(), &mut hits)?;
        if verify || cfg!(debug_assertions) {
            verify::check(buf.view(), Stage::Fused).map_err(|e| e.context(format!("after pass {name}")))?;
        }
        traces.push(Trace { pass: pass.name, nodes: (before, buf.view().nodes()), hits, time: start.elapsed() });
    }
    Ok((buf, traces))
}

/// Names of the passes that every program goes through.
pub fn default_passes() -> Vec<&'static str> {
    PIPELINE.iter().map(|p| p.name).collect()
}

/// The form that the scheduler takes.
pub fn optimise(g: Graph<'_>) -> Result<GraphBuf> {
    Ok(run(g, &default_passes(), false)?.0)
}

/// The passes before and after the place where values may be chosen to be computed again: [`remat`] works on ops that
/// are simplified and not yet fused.
pub fn halves() -> (Vec<&'static str>, Vec<&'static str>) {
    let mut first = default_passes();
    let at = first.iter().position(|&p| p == "unmark").unwrap_or(first.len());
    let second = first.split_off(at);
    (first, second)
}
