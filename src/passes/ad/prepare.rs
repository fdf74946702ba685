//! Preparation: decomposes, inlines and unrolls until a graph has the form that derivatives or lowering need.
//!
//! Invariant: each function keeps the meaning of the graph, the names of leaves, and the number, order and types of
//! outputs.

use super::activity::{Mode, active_nodes};
use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::clock::Instant;
use crate::error::Result;
use crate::nodes::ir::opdef::{Deriv, Flags, Lower};
use crate::nodes::ops::control::custom_fn::has_derivative_rules;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, LeafKind, OpDef};
use crate::passes::ad::keep_every::write_loops_in_stretches;
use crate::passes::ad::residuals::keep_residuals;
use crate::passes::batch::{batch_independent_loops, has_independent_loops};
use crate::passes::copier::Copier;
use crate::passes::decompose::{expand_picked_nodes, pick_nodes_by_def};
use crate::passes::expand_blocks::{expand_blocks, has_blocks_to_expand};
use crate::passes::fuse::FusionPolicy;
use crate::passes::fusion_notes::Trace;
use crate::passes::hoist::move_out_for_adjoint;
use crate::passes::inline::{InlineCalls, inlined};
use crate::passes::last_of_stack::read_last_from_carries;
use crate::passes::patterns::{rules_before_ad, write_before_ad};
use crate::passes::rebuild::{finish_rebuild, rebuild_buf};

/// As [`expand_picked_nodes`], after `calls` are inlined at once. Round by round, nested regions would be written
/// again in each round.
fn inline_and_decompose(
    g: Graph<'_>,
    calls: InlineCalls,
    pick: impl FnMut(Graph<'_>) -> Side<Node, bool>,
) -> Result<GraphBuf> {
    match (0..g.nodes()).map(Node::new).any(|n| calls.has(g, n)) {
        true => expand_picked_nodes(inlined(g, calls)?.view(), calls, pick),
        false => expand_picked_nodes(g, calls, pick),
    }
}

/// The nodes with a statistic (a result after the first) that a derivative passes through: an active node, a region or
/// one of `results` reads it. A gradient that stands in the graph reads statistics, too, and is not differentiated.
fn find_used_stats(g: Graph<'_>, active: &Side<Node, bool>, results: &[&str]) -> Side<Node, bool> {
    let mut used = Side::filled(g.nodes(), false);
    let inner = (0..g.regions() - 1).map(Region::new).flat_map(|r| g.region_yields(r));
    let outputs = g.outputs().iter().zip(g.output_names).filter(|o| results.contains(&g.str(*o.1))).map(|o| o.0);
    let nodes = (0..g.nodes()).map(Node::new).filter(|&n| active[n]).flat_map(|n| g.args_of(n));
    for &v in nodes.chain(inner).chain(outputs) {
        let n = g.def[v.at()];
        if v != g.out(n) {
            used[n] = true;
        }
    }
    used
}

/// What is differentiated: outputs `results` with respect to leaves `wrt`.
pub struct Aim<'x> {
    pub(super) wrt: &'x [&'x str],
    pub(super) results: &'x [&'x str],
    pub(super) mode: Mode,
}

/// A step of the preparation: a pass that knows what is differentiated. `None` is an unchanged graph.
pub struct AdPass {
    /// The name in traces.
    pub name: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    run: fn(Graph<'_>, &Aim<'_>) -> Result<Option<GraphBuf>>,
}

/// The steps that bring a graph into the form that derivatives need, in order.
pub const AD_PREPARATION: &[AdPass] = &[
    // First: a batch has the derivatives of its ops, which a loop would write again as a loop.
    AdPass {
        name: "vmap",
        doc: "write loops whose iterations may run at once for all of them",
        run: |g, _| has_independent_loops(g).then(|| batch_independent_loops(g)).transpose(),
    },
    AdPass {
        name: "packs",
        doc: "put nodes into ops that have derivatives, by rules of packs",
        run: |g, _| {
            let rules = rules_before_ad(g);
            (!rules.is_empty()).then(|| write_before_ad(g, &rules)).transpose()
        },
    },
    // Before decompositions, which would write blocks in primitive ops.
    AdPass {
        name: "blocks",
        doc: "write blocks in ops that have derivatives",
        run: |g, _| has_blocks_to_expand(g).then(|| expand_blocks(g, FusionPolicy::for_autodiff())).transpose(),
    },
    AdPass {
        name: "decompose",
        doc: "on the way from leaves to results: decompose ops that are differentiated so, write regions in place",
        run: |g, aim| decompose_on_the_way(g, aim).map(Some),
    },
    AdPass {
        name: "last",
        doc: "read the last elements of stacks from carries, which have their derivatives without a stack",
        run: |g, _| read_last_from_carries(g),
    },
    AdPass {
        name: "hoist",
        doc: "move out of loops what their adjoints would compute again",
        run: |g, aim| if aim.mode == Mode::Reverse { move_out_for_adjoint(g) } else { Ok(None) },
    },
    AdPass {
        name: "keep_every",
        doc: "write loops that keep few carries as loops over stretches",
        run: |g, aim| write_loops_in_stretches(g, &active_nodes(g, aim.wrt, aim.results, aim.mode)).map(Some),
    },
    // Last: it reads what the derivative of each loop's body, and of each branch, will read.
    AdPass {
        name: "residuals",
        doc: "keep what the derivatives of loops and choices read",
        run: |g, aim| keep_residuals(g, aim.wrt, aim.results, aim.mode).map(Some),
    },
];

/// Ops with [`Deriv::ViaDecompose`] and ops whose statistics are read become their decompositions; calls and regions of
/// fused ops are written in place.
fn decompose_on_the_way(g: Graph<'_>, aim: &Aim<'_>) -> Result<GraphBuf> {
    expand_picked_nodes(g, InlineCalls::WithoutRules, |g| {
        let active = active_nodes(g, aim.wrt, aim.results, aim.mode);
        let stats = find_used_stats(g, &active, aim.results);
        let mut pick = Side::filled(g.nodes(), false);
        for n in (0..g.nodes()).map(Node::new).filter(|&n| active[n]) {
            let def = g.def_of(n);
            let through = matches!(def.deriv, Deriv::ViaDecompose) || (def.flags.has(Flags::STATS) && stats[n]);
            pick[n] = def.is_inlined() && !has_derivative_rules(g, n) || (through && def.decompose.is_some());
        }
        pick
    })
}

/// The form that differentiation needs, by [`AD_PREPARATION`]. Custom functions with rules stay; a rule that is
/// transposed is prepared too.
pub fn derivable_form(g: Graph<'_>, wrt: &[&str], results: &[&str], mode: Mode) -> Result<GraphBuf> {
    Ok(trace_derivable_form(g, &Aim { wrt, results, mode })?.0)
}

/// As [`derivable_form`], with a record of each step.
pub(super) fn trace_derivable_form(g: Graph<'_>, aim: &Aim<'_>) -> Result<(GraphBuf, Vec<Trace>)> {
    let (mut buf, mut traces) = (None::<GraphBuf>, Vec::new());
    for pass in AD_PREPARATION {
        let (start, now) = (Instant::now(), buf.as_ref().map_or(g, GraphBuf::view));
        let (before, next) = (now.nodes(), (pass.run)(now, aim)?);
        let after = next.as_ref().map_or(before, |next| next.view().nodes());
        traces.push(Trace::of_nodes(pass.name, (before, after), start.elapsed()));
        buf = next.or(buf);
    }
    match buf {
        Some(buf) => Ok((buf, traces)),
        None => Ok((rebuild_buf(g, &mut |_| None)?, traces)),
    }
}

/// [`derivable_form`] for all float outputs and all params; without params, for all float leaves. With a record
/// of each step.
pub fn derivable_form_for_all(g: Graph<'_>) -> Result<(GraphBuf, Vec<Trace>)> {
    let float = |v: Value| g.dtype[v.at()].is_differentiable();
    let leaves = |param: bool| {
        let wanted = g.leaves().filter(move |l| float(l.value) && (!param || l.kind == LeafKind::Param));
        wanted.map(|l| l.name).collect::<Vec<_>>()
    };
    let wrt = Some(leaves(true)).filter(|params| !params.is_empty()).unwrap_or_else(|| leaves(false));
    let outputs = g.outputs().iter().zip(g.output_names).filter(|o| float(*o.0)).map(|o| g.str(*o.1));
    trace_derivable_form(g, &Aim { wrt: &wrt, results: &outputs.collect::<Vec<_>>(), mode: Mode::Reverse })
}

/// The form that lowering needs: every op has a kernel.
pub fn lowerable_form(g: Graph<'_>) -> Result<GraphBuf> {
    inline_and_decompose(g, InlineCalls::All, |g| pick_nodes_by_def(g, needs_preparing))
}

/// True if the op must be decomposed or inlined before lowering.
pub(in crate::passes) fn needs_preparing(def: &OpDef) -> bool {
    matches!(def.lower, Lower::Expand | Lower::Control)
}

/// Replaces every op that has a decomposition, inlines all regions and unrolls all loops: a slow reference form, for
/// tests.
pub fn decompose_fully<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let g = g.into();
    inline_and_decompose(g, InlineCalls::All, |g| {
        pick_nodes_by_def(g, |def| {
            def.decompose.is_some() || def.is_inlined() || matches!(def.lower, Lower::Loop | Lower::Choice)
        })
    })
}

/// Inlines calls and fused regions and unrolls loops. Custom functions with derivative rules stay.
pub fn flatten_regions<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    inline_and_decompose(g.into(), InlineCalls::WithoutRules, |g| {
        let mut picked =
            pick_nodes_by_def(g, |def| def.is_inlined() || matches!(def.lower, Lower::Loop | Lower::Choice));
        (0..g.nodes()).map(Node::new).filter(|&n| has_derivative_rules(g, n)).for_each(|n| picked[n] = false);
        picked
    })
}

/// Inlines calls and fused regions. Loops, choices, and custom functions with derivative rules stay.
pub fn inline_called_regions(g: Graph<'_>) -> Result<GraphBuf> {
    inline_and_decompose(g, InlineCalls::WithoutRules, |g| {
        let mut picked = pick_nodes_by_def(g, OpDef::is_inlined);
        (0..g.nodes()).map(Node::new).filter(|&n| has_derivative_rules(g, n)).for_each(|n| picked[n] = false);
        picked
    })
}

/// `g` with only the outputs that `keep` picks, and without the nodes that only the others need.
pub fn keep_outputs<'a>(g: impl Into<Graph<'a>>, keep: impl Fn(&str) -> bool) -> Result<GraphBuf> {
    let g = g.into();
    GraphBuf::make(|bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        for (&v, &name) in g.outputs().iter().zip(g.output_names).filter(|(_, n)| keep(g.str(**n))) {
            b.output(g.str(name), c.map[v]);
        }
        c.updates();
        drop(c);
        finish_rebuild(b, bump)
    })
}
