//! The pipeline: the passes that run before lowering, in order, each with the reason for its position.

use super::fusion_notes::{Fusion, Notes, Trace};
use super::keep_half::{Keep, KeptHalf, keep_half};
use super::simplify::Hits;
use super::strip_checkpoints::strip_checkpoints;
use super::{
    batch, carried_sums, contract, decompose, fold, fuse, fusion_notes, hoist, inline, join_maps, known_branch,
    patterns, rebuild, simplify, trim,
};
use crate::arena::{Node, ids::Id};
use crate::clock::Instant;
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ir::verify;
use crate::nodes::ir::verify::Stage;
use crate::nodes::{Graph, GraphBuf, Op, OpDef};
use crate::passes::ad::prepare;
use crate::passes::expand_blocks::{expand_blocks, has_blocks_to_expand};
use crate::passes::fuse::FusionPolicy;

/// The most rounds of a pass that runs until nothing changes.
const ROUNDS: usize = 8;

/// A pass and its name for `opt --passes`.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name.
    pub name: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    /// The stage of the graph afterwards, if the pass changes it.
    stage: Option<Stage>,
    /// False if the pass would change nothing. It is then skipped, unless dead nodes must be dropped.
    needed: fn(Graph<'_>) -> bool,
    run: fn(Graph<'_>, &mut Notes) -> Result<GraphBuf>,
}

/// The passes that every program goes through, in the order in which they run.
pub const PIPELINE: &[Pass] = &[
    // First: later passes see the bodies of calls.
    Pass {
        name: "inline",
        doc: "replace calls by their bodies",
        stage: None,
        needed: |g| graph_has_op(g, |def| matches!(def.lower, Lower::Control)),
        run: |g, _| inline::inlined(g, inline::InlineCalls::All),
    },
    // Before passes that make fused ops, which have no batch rules.
    Pass {
        name: "vmap",
        doc: "write loops whose iterations may run at once for all of them",
        stage: None,
        needed: batch::has_independent_loops,
        run: |g, _| batch::batch_independent_loops(g),
    },
    // No derivative is taken after this point, so blocks become fused ops.
    Pass {
        name: "blocks",
        doc: "write blocks in fused ops",
        stage: Some(Stage::Fused),
        needed: has_blocks_to_expand,
        run: |g, _| expand_blocks(g, FusionPolicy::Direct),
    },
    // Before simplification, which cleans up after decompositions.
    Pass {
        name: "legalize",
        doc: "decompose ops that have no kernel",
        stage: None,
        needed: |g| graph_has_op(g, prepare::needs_preparing),
        run: |g, _| prepare::lowerable_form(g),
    },
    // Before passes that search for patterns: derivatives leave many values without a reader.
    Pass {
        name: "trim",
        doc: "drop results of loops and choices that have no reader",
        stage: None,
        needed: |g| graph_has_op(g, |def| matches!(def.lower, Lower::Loop | Lower::Choice)),
        run: |g, n| run_to_fixpoint(g, &mut n.hits, trim_and_count),
    },
    // Folds transposes into products, cancels moves and drops neutral operands, so that constants and patterns show.
    Pass {
        name: "simplify",
        doc: "algebra that holds for NaN, infinities and −0",
        stage: None,
        needed: always_runs,
        run: |g, n| run_to_fixpoint(g, &mut n.hits, simplify_and_count),
    },
    // After simplification, which turns broadcasts and reshapes of fills into fills.
    Pass {
        name: "fold",
        doc: "compute constants",
        stage: None,
        needed: always_runs,
        run: |g, _| GraphBuf::make(|b| fold::evaluate_constants(g, b)),
    },
    // After simplification, which joins broadcasts; before patterns, which give products their biases and activations.
    Pass {
        name: CONTRACT,
        doc: "write sums of products of broadcasts as products of matrices",
        stage: None,
        needed: |g| g.op.contains(&Op::REDUCE_SUM) || g.op.contains(&Op::REDUCE_MEAN),
        run: |g, n| contract_and_simplify(g, &mut n.hits),
    },
    // After folding, which may make a predicate a constant.
    Pass {
        name: "branches",
        doc: "replace choices by the branch that is known to run",
        stage: None,
        needed: |g| graph_has_op(g, |def| matches!(def.lower, Lower::Choice)),
        run: |g, n| run_to_fixpoint(g, &mut n.hits, resolve_branches),
    },
    // After derivatives, whose walk through a select would multiply NaN by 0; after passes that know branches.
    Pass {
        name: "selects",
        doc: "compute both branches of the choices of many members and select, where that is cheaper",
        stage: None,
        needed: batch::has_choices_of_members,
        run: |g, n| batch::select_for_members(g, &mut n.hits),
    },
    // After passes that make constants; before rematerialisation, which must see what loops keep.
    Pass {
        name: "hoist",
        doc: "move what no iteration changes out of loops",
        stage: None,
        needed: |g| graph_has_op(g, |def| matches!(def.lower, Lower::Loop)),
        run: |g, n| run_to_fixpoint(g, &mut n.hits, hoist_and_count),
    },
    // Rematerialisation runs just before this pass and needs the boundaries of blocks; later passes do not.
    Pass {
        name: STRIP_CHECKPOINTS,
        doc: "drop the boundaries of blocks",
        stage: None,
        needed: always_runs,
        run: |g, _| strip_checkpoints(g),
    },
    // After rematerialisation, which may compute a scan again for its gradient.
    #[cfg(feature = "recurrent")]
    Pass {
        name: "states",
        doc: "keep states of selective scans for their gradients",
        stage: Some(Stage::Fused),
        needed: super::keep_scan_states::has_scans_with_gradients,
        run: |g, _| super::keep_scan_states::keep_scan_states(g),
    },
    // After rematerialisation, which may run a loop in stretches; before patterns, which join a sum with its product.
    Pass {
        name: SUMS,
        doc: "take sums of products, and of what loops stack, out of loops",
        stage: Some(Stage::Fused),
        needed: |g| graph_has_op(g, |def| matches!(def.lower, Lower::Loop)),
        run: |g, n| move_sums_and_trim(g, &mut n.hits),
    },
    // Before pointwise fusion, which would put the activation of a product into a region.
    Pass {
        name: "patterns",
        doc: "put chains of ops into the fused ops that compute them",
        stage: Some(Stage::Fused),
        needed: always_runs,
        run: patterns::patterns,
    },
    // After all other passes that change ops: the remaining pointwise ops become regions.
    Pass {
        name: FUSE,
        doc: "make point-wise regions, which may end in a sum, mean, maximum or minimum",
        stage: Some(Stage::Fused),
        needed: always_runs,
        run: |g, n| fuse_and_note(g, fuse::Ends::Reductions, n),
    },
    // What is left to join are the regions themselves.
    Pass {
        name: "join",
        doc: "join point-wise regions in bodies of loops and branches",
        stage: Some(Stage::Fused),
        needed: join_maps::has_loop_or_choice,
        run: join_and_note,
    },
    // Fusion leaves behind the single ops that it copied into regions.
    Pass {
        name: "clean",
        doc: "drop nodes without a reader",
        stage: None,
        needed: always_runs,
        run: |g, _| rebuild::rebuild_buf(g, &mut |_| None),
    },
];

/// Names of the passes that every graph needs: without them some op has no kernel.
pub const MINIMAL: &[&str] = &["inline", "legalize", STRIP_CHECKPOINTS];

/// The pass that makes products of sums.
const CONTRACT: &str = "contract";

/// The pass that stacks factors of sums.
const SUMS: &str = "sums";

/// The first pass after rematerialisation.
const STRIP_CHECKPOINTS: &str = "strip_checkpoints";

/// The first pass after the one that keeps values in half precision.
const FUSE: &str = "fuse";

/// The pass in its place where kernels have no scratch.
const FUSE_MAPS: &str = "fuse_maps";

/// Passes outside the pipeline, for `opt --passes`.
pub const EXTRA: &[Pass] = &[
    Pass {
        name: FUSE_MAPS,
        doc: "as `fuse`, but no region ends in a reduction",
        stage: Some(Stage::Fused),
        needed: always_runs,
        run: |g, n| fuse_and_note(g, fuse::Ends::Maps, n),
    },
    Pass {
        name: "keep_bf16",
        doc: "keep what the backward half reads in bf16",
        stage: None,
        needed: always_runs,
        run: |g, _| Ok(keep_half(g, Keep::Bf16)?.0),
    },
    Pass {
        name: "keep_f16",
        doc: "keep what the backward half reads in f16",
        stage: None,
        needed: always_runs,
        run: |g, _| Ok(keep_half(g, Keep::F16)?.0),
    },
    Pass {
        name: "unfuse",
        doc: "write fused ops and blocks in primitive ones",
        stage: Some(Stage::Core),
        needed: always_runs,
        run: |g, _| decompose::unfuse(g),
    },
    Pass {
        name: "prepare",
        doc: "write the ops between params (without params: float leaves) and outputs as derivatives need them",
        stage: None,
        needed: always_runs,
        run: |g, notes| {
            let (buf, parts) = prepare::derivable_form_for_all(g)?;
            notes.parts = parts;
            Ok(buf)
        },
    },
];

fn always_runs(_: Graph<'_>) -> bool {
    true
}

fn graph_has_op(g: Graph<'_>, is: impl Fn(&OpDef) -> bool) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| is(g.def_of(n)))
}

/// One round of a pass.
type Round = fn(Graph<'_>, &mut Hits) -> Result<GraphBuf>;

fn simplify_and_count(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    GraphBuf::make(|b| simplify::simplify(g, b, hits))
}

fn contract_and_simplify(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    let buf = GraphBuf::make(|b| contract::contract_sums(g, b, hits))?;
    // Transposes of factors become flags of the products.
    if hits.is_empty() { Ok(buf) } else { run_to_fixpoint(buf.view(), hits, simplify_and_count) }
}

fn trim_and_count(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    GraphBuf::make(|b| trim::trim(g, b, hits))
}

fn resolve_branches(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    GraphBuf::make(|b| known_branch::known_branches(g, b, hits))
}

fn hoist_and_count(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    GraphBuf::make(|b| hoist::move_invariants_out(g, b, hits))
}

fn move_sums_and_trim(g: Graph<'_>, hits: &mut Hits) -> Result<GraphBuf> {
    let before = hits.get("carried-sum").copied();
    let buf = run_to_fixpoint(g, hits, |g, hits| GraphBuf::make(|b| carried_sums::move_sums_out(g, b, hits)))?;
    // Slices that only the sums read.
    if hits.get("carried-sum").copied() == before { Ok(buf) } else { run_to_fixpoint(buf.view(), hits, trim_and_count) }
}

/// Runs rounds until one changes nothing, at most [`ROUNDS`].
fn run_to_fixpoint(g: Graph<'_>, hits: &mut Hits, round: Round) -> Result<GraphBuf> {
    let count = |hits: &Hits| hits.values().sum::<usize>();
    let first = count(hits);
    let mut buf = round(g, hits)?;
    // A round without a hit that dropped no node wrote an equal graph.
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

fn join_and_note(g: Graph<'_>, notes: &mut Notes) -> Result<GraphBuf> {
    let joined = GraphBuf::make(|b| join_maps::join_maps(g, b, &mut notes.hits))?;
    // The bodies before have no user any more.
    rebuild::rebuild_buf(joined.view(), &mut |_| None)
}

fn fuse_and_note(g: Graph<'_>, ends: fuse::Ends, notes: &mut Notes) -> Result<GraphBuf> {
    let mut made = Vec::new();
    let buf = GraphBuf::make(|b| {
        let (fused, regions) = fuse::fuse(g, ends, b)?;
        made = regions;
        Ok::<_, Error>(fused)
    })?;
    if !made.is_empty() {
        *notes.hits.entry("map-region").or_default() += made.len();
    }
    notes.fusions.extend(made);
    Ok(buf)
}

/// The pass called `name`.
fn find_pass(name: &str) -> Result<&'static Pass> {
    PIPELINE.iter().chain(EXTRA).find(|p| p.name == name).ok_or_else(|| {
        let known: Vec<&str> = PIPELINE.iter().chain(EXTRA).map(|p| p.name).collect();
        Error::new(Kind::Name, format!("no pass is called {name:?}; there are {}", known.join(", ")))
    })
}

/// Runs the passes called `names`, in the given order. Verifies the graph after each pass in debug builds, or if
/// `verify`.
pub fn run_pipeline<'a>(g: impl Into<Graph<'a>>, names: &[&str], verify: bool) -> Result<(GraphBuf, Vec<Trace>)> {
    let g = g.into();
    let verify = verify || cfg!(debug_assertions);
    if verify {
        // An error of the input is not blamed on the first pass.
        verify::check(g, Stage::Block).map_err(|e| e.context("before all passes"))?;
    }
    let mut buf = rebuild::rebuild_buf(g, &mut |_| None)?;
    let mut traces = Vec::new();
    let mut stage = Stage::Block;
    // True if no pass has run since the plain rebuild: there are no dead nodes.
    let mut clean = true;
    for pass in names.iter().map(|n| find_pass(n)) {
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
        let (Notes { hits, fusions, parts }, nodes) = (notes, (before, buf.view().nodes()));
        traces.push(Trace { pass: pass.name, nodes, hits, fusions, parts, time: start.elapsed() });
    }
    Ok((buf, traces))
}

/// Names of the passes that every program goes through.
pub fn pipeline_passes() -> Vec<&'static str> {
    PIPELINE.iter().map(|p| p.name).collect()
}

/// Runs the pipeline: the graph in the form that lowering takes.
pub fn run_whole_pipeline<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let g = g.into();
    Ok(run_pipeline(g, &pipeline_passes(), false)?.0)
}

/// As [`run_whole_pipeline`], for code without scratch: no region ends in a reduction.
pub fn run_pipeline_without_scratch<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let names: Vec<&str> = PIPELINE.iter().map(|p| if p.name == FUSE { FUSE_MAPS } else { p.name }).collect();
    Ok(run_pipeline(g, &names, false)?.0)
}

/// Runs the pipeline on `g` and lists the outcomes of fusion rules: first those that fired, pass by pass, then those
/// that just missed.
///
/// # Errors
/// Those of the passes.
pub fn report_pipeline<'a>(g: impl Into<Graph<'a>>) -> Result<Vec<Fusion>> {
    let g = g.into();
    let (_, traces) = run_pipeline(g, &pipeline_passes(), false)?;
    Ok(fusion_notes::order_outcomes(traces.into_iter().map(|t| t.fusions)))
}

/// The pipeline before and after rematerialisation.
pub fn full_halves() -> (Vec<&'static str>, Vec<&'static str>) {
    halves(&pipeline_passes())
}

/// Runs the passes called `names`, some of [`PIPELINE`], and keeps what the backward half reads in `keep`: before
/// pointwise fusion, or last where `names` has no fusion. The graph, and what is kept in half precision.
///
/// # Errors
/// Those of the passes.
pub fn run_and_keep_half(g: Graph<'_>, names: &[&'static str], keep: Keep) -> Result<(GraphBuf, KeptHalf)> {
    if keep == Keep::F32 {
        return Ok((run_pipeline(g, names, false)?.0, KeptHalf::default()));
    }
    let (first, second) = names.split_at(names.iter().position(|&p| p == FUSE).unwrap_or(names.len()));
    let before = run_pipeline(g, first, false)?.0;
    let (halved, kept) = keep_half(before.view(), keep)?;
    Ok((run_pipeline(halved.view(), second, false)?.0, kept))
}

/// `names` without the pass that takes sums out of loops.
pub fn with_sums_in_loops(names: &[&'static str]) -> Vec<&'static str> {
    names.iter().copied().filter(|&p| p != SUMS).collect()
}

/// `names` without the pass that makes products of sums.
pub fn with_sums_as_written(names: &[&'static str]) -> Vec<&'static str> {
    names.iter().copied().filter(|&p| p != CONTRACT).collect()
}

/// `names` before and after rematerialisation: [`remat`](super::remat) needs ops that are simplified and not yet fused.
pub fn halves(names: &[&'static str]) -> (Vec<&'static str>, Vec<&'static str>) {
    let at = names.iter().position(|&p| p == STRIP_CHECKPOINTS).unwrap_or(names.len());
    (names[..at].to_vec(), names[at..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, DType};
    use crate::passes::rebuild::rebuilt_by_pass;

    #[test]
    fn errors_name_the_pass_that_made_them() {
        let g = Builder::new("g");
        let x = g.input("x", [4], DType::F32);
        let sound: &'static GraphBuf = Box::leak(Box::new(g.finish([x.exp()]).unwrap()));
        let types = [DType::F32, DType::F64];
        let made = rebuilt_by_pass("grad", |bump| Ok(Graph { dtype: bump.alloc_slice_copy(&types), ..sound.view() }));
        assert_eq!(made.is_err(), cfg!(debug_assertions));
        match made {
            Err(e) => assert!(e.to_string().starts_with("after pass grad: "), "{e}"),
            Ok(buf) => {
                let e = run_pipeline(buf.view(), MINIMAL, true).unwrap_err().to_string();
                assert!(e.starts_with("before all passes: "), "{e}");
            }
        }
    }

    #[test]
    fn the_lists_of_passes_name_passes() {
        assert!(MINIMAL.iter().chain(&pipeline_passes()).all(|name| find_pass(name).is_ok()));
        for (first, second) in [full_halves(), halves(MINIMAL)] {
            assert!(!first.is_empty() && second.first() == Some(&STRIP_CHECKPOINTS));
        }
    }
}
