//! The one place of order: which passes run before lowering, and why each stands where it does.

use super::report::{Fusion, Notes};
use super::simplify::Hits;
use super::{fold, fuse, inline, patterns, rebuild, remat, simplify};
use crate::arena::{Node, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ir::verify;
use crate::nodes::ir::verify::Stage;
use crate::nodes::{Graph, GraphBuf, Op, OpDef};
use crate::passes::ad::prepare;
use crate::passes::ad::prepare::FusionPolicy;
use crate::passes::scan_dce as trim;
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
    /// How far a graph has come after it, where that changes.
    stage: Option<Stage>,
    /// Whether it has work on such a graph: where it has none, a graph without dead nodes is not written again.
    needed: fn(Graph<'_>) -> bool,
    run: fn(Graph<'_>, &mut Notes) -> Result<GraphBuf>,
}

/// All passes that programs go through, in the order in which they run before lowering.
pub const PIPELINE: &[Pass] = &[
    // First: bodies become visible to everything below.
    Pass {
        name: "inline",
        doc: "replace calls by their bodies",
        stage: None,
        needed: |g| g.op.contains(&Op::CALL),
        run: |g, _| inline::inlined(g),
    },
    // Derivatives have been taken: blocks become the ops that run fastest.
    Pass {
        name: "blocks",
        doc: "write blocks in fused ops",
        stage: Some(Stage::Fused),
        needed: prepare::has_blocks,
        run: |g, _| prepare::expand_blocks(g, FusionPolicy::Direct),
    },
    // Before simplification, which then sees what decompositions leave behind.
    Pass {
        name: "legalize",
        doc: "decompose ops that have no kernel",
        stage: None,
        needed: |g| any(g, prepare::has_no_kernel),
        run: |g, _| prepare::for_lowering(g),
    },
    // Before what looks for work: derivatives leave many values without a reader.
    Pass {
        name: "trim",
        doc: "drop results of loops that have no reader",
        stage: None,
        needed: |g| any(g, |def| matches!(def.lower, Lower::Loop)),
        run: |g, n| to_end(g, &mut n.hits, trim_once),
    },
    // Products take transposes in, moves cancel, neutral operands go.
    Pass {
        name: "simplify",
        doc: "algebra that holds for NaN, infinities and −0",
        stage: None,
        needed: always,
        run: |g, n| to_end(g, &mut n.hits, simplify_once),
    },
    // After simplification, which makes fills out of broadcast and reshaped ones.
    Pass {
        name: "fold",
        doc: "compute constants",
        stage: None,
        needed: always,
        run: |g, _| GraphBuf::make(|b| fold::fold(g, b)),
    },
    // Here a memory budget has what it needs recomputed; boundaries of blocks have then served.
    Pass {
        name: UNMARK,
        doc: "drop the boundaries of blocks",
        stage: None,
        needed: always,
        run: |g, _| remat::strip_checkpoints(g),
    },
    // Products take bias and activation in before point-wise regions could take the activation away.
    Pass {
        name: "patterns",
        doc: "put chains of ops into the fused ops that compute them",
        stage: Some(Stage::Fused),
        needed: always,
        run: patterns::patterns,
    },
    // Last of those that change ops: what is point-wise still becomes one sweep.
    Pass { name: "fuse", doc: "make point-wise regions", stage: Some(Stage::Fused), needed: always, run: fuse_regions },
    // Fusion leaves the single ops behind that it copied into regions.
    Pass {
        name: "clean",
        doc: "drop nodes without a reader",
        stage: None,
        needed: always,
        run: |g, _| rebuild::rebuild_buf(g, &mut |_| None),
    },
];

/// Names of the passes without which some op would have no kernel.
pub const MINIMAL: &[&str] = &["inline", "legalize", UNMARK];

/// The first pass behind the place where values may be chosen to be computed again.
const UNMARK: &str = "strip_checkpoints";

/// Passes that no program needs and that may be asked for by name.
pub const EXTRA: &[Pass] = &[Pass {
    name: "unfuse",
    doc: "write fused ops and blocks in primitive ones",
    stage: Some(Stage::Core),
    needed: always,
    run: |g, _| prepare::unfuse(g),
}];

fn always(_: Graph<'_>) -> bool {
    true
}

fn any(g: Graph<'_>, is: impl Fn(&OpDef) -> bool) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| is(g.def_of(n)))
}

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
    let count = |hits: &Hits| hits.values().sum::<usize>();
    let first = count(hits);
    let mut buf = round(g, hits)?;
    // A round that neither hit nor dropped anything wrote what it read, and the next one would, too.
    if count(hits) == first && buf.view().nodes() == g.nodes() {
        return Ok(buf);
    }
    for _ in 1..ROUNDS {
        let before = count(hits);
        buf = round(buf.view(), hits)?;
        if count(hits) == before {
            return Ok(buf);
        }
    }
    // The last round may have left a region without a user.
    rebuild::rebuild_buf(buf.view(), &mut |_| None)
}

fn fuse_regions(g: Graph<'_>, notes: &mut Notes) -> Result<GraphBuf> {
    let mut made = Vec::new();
    let buf = GraphBuf::make(|b| {
        let (fused, regions) = fuse::fuse(g, b)?;
        made = regions;
        Ok::<_, Error>(fused)
    })?;
    if !made.is_empty() {
        *notes.hits.entry("map-region").or_default() += made.len();
    }
    notes.fusions.extend(made);
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
    /// What fusion rules met.
    pub fusions: Vec<Fusion>,
    /// Time it took.
    pub time: Duration,
}

/// The pass called `name`.
fn named(name: &str) -> Result<&'static Pass> {
    PIPELINE.iter().chain(EXTRA).find(|p| p.name == name).ok_or_else(|| {
        let known: Vec<&str> = PIPELINE.iter().chain(EXTRA).map(|p| p.name).collect();
        Error::new(Kind::Name, format!("no pass is called {name:?}; there are {}", known.join(", ")))
    })
}

/// Runs the passes called `names`, in the order given, verifying after each in debug builds or if `verify`.
pub fn run<'a>(g: impl Into<Graph<'a>>, names: &[&str], verify: bool) -> Result<(GraphBuf, Vec<Trace>)> {
    let g = g.into();
    let verify = verify || cfg!(debug_assertions);
    if verify {
        // What is wrong before is no fault of the first pass.
        verify::check(g, Stage::Block).map_err(|e| e.context("before all passes"))?;
    }
    let mut buf = rebuild::rebuild_buf(g, &mut |_| None)?;
    let mut traces = Vec::new();
    let mut stage = Stage::Block;
    // Whether the last thing done was a plain rebuild, which leaves nothing that another one would change.
    let mut clean = true;
    for pass in names.iter().map(|n| named(n)) {
        let pass = pass?;
        let start = Instant::now();
        let mut notes = Notes::default();
        let before = buf.view().nodes();
        if !clean || (pass.needed)(buf.view()) {
            buf = (pass.run)(buf.view(), &mut notes)?;
            clean = false;
        }
        stage = pass.stage.unwrap_or(stage);
        if verify {
            verify::check(buf.view(), stage).map_err(|e| e.context(format!("after pass {}", pass.name)))?;
        }
        let (Notes { hits, fusions }, nodes) = (notes, (before, buf.view().nodes()));
        traces.push(Trace { pass: pass.name, nodes, hits, fusions, time: start.elapsed() });
    }
    Ok((buf, traces))
}

/// Names of the passes that every program goes through.
pub fn default_passes() -> Vec<&'static str> {
    PIPELINE.iter().map(|p| p.name).collect()
}

/// The form that the scheduler takes.
pub fn optimise<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let g = g.into();
    Ok(run(g, &default_passes(), false)?.0)
}

/// The passes before and after the place where values may be chosen to be computed again: [`remat`] works on ops that
/// are simplified and not yet fused.
pub fn halves() -> (Vec<&'static str>, Vec<&'static str>) {
    cut(&default_passes())
}

/// As [`halves`], of [`MINIMAL`].
pub fn minimal_halves() -> (Vec<&'static str>, Vec<&'static str>) {
    cut(MINIMAL)
}

fn cut(names: &[&'static str]) -> (Vec<&'static str>, Vec<&'static str>) {
    let at = names.iter().position(|&p| p == UNMARK).unwrap_or(names.len());
    (names[..at].to_vec(), names[at..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, DType};
    use crate::passes::rebuild::written;

    #[test]
    fn what_is_wrong_is_the_fault_of_who_wrote_it() {
        let g = Builder::new("g");
        let x = g.input("x", [4], DType::F32);
        let sound: &'static GraphBuf = Box::leak(Box::new(g.finish([x.exp()]).unwrap()));
        let types = [DType::F32, DType::F64];
        let made = written("grad", |bump| Ok(Graph { dtype: bump.alloc_slice_copy(&types), ..sound.view() }));
        assert_eq!(made.is_err(), cfg!(debug_assertions));
        match made {
            Err(e) => assert!(e.to_string().starts_with("after pass grad: "), "{e}"),
            Ok(buf) => {
                let e = run(buf.view(), MINIMAL, true).unwrap_err().to_string();
                assert!(e.starts_with("before all passes: "), "{e}");
            }
        }
    }

    #[test]
    fn the_lists_of_passes_name_passes() {
        assert!(MINIMAL.iter().chain(&default_passes()).all(|name| named(name).is_ok()));
        for (first, second) in [halves(), minimal_halves()] {
            assert!(!first.is_empty() && second.first() == Some(&UNMARK));
        }
    }
}
