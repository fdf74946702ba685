//! Preparation: decomposes, inlines and unrolls until a graph has the form that derivatives or lowering need.
//!
//! Invariant: each function keeps the meaning of the graph, the names of leaves, and the number, order and types of
//! outputs.

use super::activity::{Mode, active_nodes};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::{Deriv, Flags, Lower};
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::custom_fn::has_custom_rules;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, LeafKind, OpDef, Var};
use crate::passes::ad::keep_every::write_keep_every;
use crate::passes::ad::residuals::save_residuals;
use crate::passes::copier::Copier;
use crate::passes::expand_blocks::{FusionPolicy, expand_blocks, has_blocks_to_expand};
use crate::passes::inline::{InlineCalls, fits_inlined, inline_region, inlined, is_inlined};
use crate::passes::rebuild::{RebuildVisit, finish_rebuild, rebuild_buf};

/// The most rounds of expansion of a chain of decompositions.
const ROUNDS: usize = 16;
/// The most nodes that unrolling one loop may write.
const MAX_UNROLLED: usize = 1 << 20;

/// Writes the iterations of the loop `v` one after another, with those `calls` in it written out. The results of the
/// loop.
fn prepare_by_unrolling<'g>(v: &RebuildVisit<'_, 'g>, calls: InlineCalls) -> Vec<Var<'g>> {
    let s = Scan::of(&v.src.attrs(v.node));
    let nodes = s.length.saturating_mul(v.src.region_nodes(s.body).len());
    if nodes > MAX_UNROLLED {
        let none = v.g.fail(Kind::Verify, format!("scan: unrolled, it is {nodes} nodes; {MAX_UNROLLED} is the limit"));
        return vec![none; v.src.outs_of(v.node).len()];
    }
    let mut carries = v.args[..s.carries].to_vec();
    let mut slices: Vec<Vec<Var<'g>>> = vec![Vec::new(); v.src.outs_of(v.node).len() - s.carries];
    for n in 0..s.length {
        if v.g.error().is_some() {
            break;
        }
        let i = if s.reverse { s.length - 1 - n } else { n };
        let slice = |x: &Var<'g>| {
            let dims = x.dims();
            let (mut from, mut to) = (vec![0; dims.len()], dims.to_vec());
            (from[0], to[0]) = (i, i + 1);
            x.slice(&from, &to, &vec![1; dims.len()]).reshape(&dims[1..])
        };
        let mut args = carries;
        args.extend_from_slice(&v.args[s.carries..s.xs()]);
        args.extend(v.args[s.xs()..].iter().map(slice));
        let yields = inline_region(v, s.body, &args, calls);
        carries = yields[..s.carries].to_vec();
        for (stack, y) in slices.iter_mut().zip(&yields[s.carries..]) {
            stack.push(y.reshape([&[1], &y.dims()[..]].concat()));
        }
    }
    let stacked = slices.into_iter().zip(v.src.outs_of(v.node).skip(s.carries)).map(|(mut stack, out)| {
        if s.reverse {
            stack.reverse();
        }
        match stack.split_first() {
            Some((first, rest)) => first.concat(rest, 0),
            None => v.g.full(0.0, v.src.dims(out), v.src.dtype[out.at()]),
        }
    });
    carries.into_iter().chain(stacked).collect()
}

/// Writes both branches of the choice `v`, and a `select` for each result. It keeps values, and not derivatives: the
/// branch that does not run may be NaN.
fn prepare_both_branches<'g>(v: &RebuildVisit<'_, 'g>, calls: InlineCalls) -> Vec<Var<'g>> {
    let IfAttrs { then, otherwise } = IfAttrs::of(&v.src.attrs(v.node));
    let [then, otherwise] = [then, otherwise].map(|r| inline_region(v, r, &v.args[1..], calls));
    let pred = v.args[0];
    then.into_iter().zip(otherwise).map(|(a, b)| pred.broadcast(&a.dims()[..]).select(a, b)).collect()
}

/// Replaces the nodes that `pick` picks by their decompositions or bodies, round by round, until none is left. A round
/// removes one level of decompositions or loops; calls are inlined at any depth in one round.
///
/// Calls inside a body are written out with it if they are among `calls`.
pub(in crate::passes) fn prepare_while(
    g: Graph<'_>,
    calls: InlineCalls,
    mut pick: impl FnMut(Graph<'_>) -> Side<Node, bool>,
) -> Result<GraphBuf> {
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    let rounds = ROUNDS + g.regions();
    for round in 0..rounds {
        let picked = pick(buf.view());
        if !picked.as_slice().contains(&true) {
            if round == 0 {
                return Ok(buf);
            }
            // One more rebuild drops the inlined regions, which have no user left.
            return rebuild_buf(buf.view(), &mut |_| None);
        }
        fits_inlined(buf.view(), |n| picked[n])?;
        buf = rebuild_buf(buf.view(), &mut |v| {
            let region = || CallAttrs::of(&v.src.attrs(v.node)).body;
            match (picked[v.node], v.def.decompose) {
                (true, Some(expand)) => Some(expand(&v.site(&[]))),
                (true, None) if is_inlined(v.def) => Some(inline_region(v, region(), v.args, calls)),
                (true, None) if matches!(v.def.lower, Lower::Choice) => Some(prepare_both_branches(v, calls)),
                (true, None) if matches!(v.def.lower, Lower::Loop) => Some(prepare_by_unrolling(v, calls)),
                _ => None,
            }
        })?;
    }
    Err(Error::new(Kind::Verify, format!("decompositions nest deeper than {rounds}")))
}

/// As [`prepare_while`], after `calls` are inlined at once. Round by round, nested regions would be written again in
/// each round.
fn prepare_all(g: Graph<'_>, calls: InlineCalls, pick: impl FnMut(Graph<'_>) -> Side<Node, bool>) -> Result<GraphBuf> {
    match (0..g.nodes()).map(Node::new).any(|n| calls.has(g, n)) {
        true => prepare_while(inlined(g, calls)?.view(), calls, pick),
        false => prepare_while(g, calls, pick),
    }
}

/// The nodes of which a statistic (a result after the first) is read.
fn prepare_stats_used(g: Graph<'_>) -> Side<Node, bool> {
    let mut used = Side::filled(g.nodes(), false);
    let read = g.args.iter().chain(g.yields).chain(g.updates.iter().map(|u| &u.1));
    for &v in read {
        let n = g.def[v.at()];
        if v != g.out(n) {
            used[n] = true;
        }
    }
    used
}

/// The form that differentiation needs. On the paths from `wrt` to `results`, ops with [`Deriv::ViaDecompose`] and ops
/// whose statistics are read are decomposed, regions are inlined, and loops stack their residuals. Custom functions
/// with rules stay; a rule that is transposed is prepared too.
pub fn prepare_for_autodiff(g: Graph<'_>, wrt: &[&str], results: &[&str], mode: Mode) -> Result<GraphBuf> {
    let written = has_blocks_to_expand(g).then(|| expand_blocks(g, FusionPolicy::for_autodiff())).transpose()?;
    let ready = prepare_while(written.as_ref().map_or(g, GraphBuf::view), InlineCalls::WithoutRules, |g| {
        let (active, stats) = (active_nodes(g, wrt, results, mode), prepare_stats_used(g));
        let mut pick = Side::filled(g.nodes(), false);
        for n in (0..g.nodes()).map(Node::new).filter(|&n| active[n]) {
            let def = g.def_of(n);
            let through = matches!(def.deriv, Deriv::ViaDecompose) || (def.flags.has(Flags::STATS) && stats[n]);
            pick[n] = is_inlined(def) && !has_custom_rules(g, n) || (through && def.decompose.is_some());
        }
        pick
    })?;
    let split = write_keep_every(ready.view(), &active_nodes(ready.view(), wrt, results, mode))?;
    save_residuals(split.view(), wrt, results, mode)
}

/// [`prepare_for_autodiff`] for all float outputs and all params; without params, for all float leaves.
pub fn prepare_for_all(g: Graph<'_>) -> Result<GraphBuf> {
    let float = |v: Value| g.dtype[v.at()].is_differentiable();
    let leaves = |param: bool| {
        let wanted = g.leaves().filter(move |l| float(l.value) && (!param || l.kind == LeafKind::Param));
        wanted.map(|l| l.name).collect::<Vec<_>>()
    };
    let wrt = Some(leaves(true)).filter(|params| !params.is_empty()).unwrap_or_else(|| leaves(false));
    let outputs = g.outputs().iter().zip(g.output_names).filter(|o| float(*o.0)).map(|o| g.str(*o.1));
    prepare_for_autodiff(g, &wrt, &outputs.collect::<Vec<_>>(), Mode::Reverse)
}

/// The nodes of all regions whose op definition `pick` picks.
pub(in crate::passes) fn pick_to_prepare(g: Graph<'_>, pick: impl Fn(&OpDef) -> bool) -> Side<Node, bool> {
    let mut picked = Side::filled(g.nodes(), false);
    for n in (0..g.nodes()).map(Node::new) {
        picked[n] = pick(g.def_of(n));
    }
    picked
}

/// The form that lowering needs: every op has a kernel.
pub fn prepare_for_lowering(g: Graph<'_>) -> Result<GraphBuf> {
    prepare_all(g, InlineCalls::All, |g| pick_to_prepare(g, needs_preparing))
}

/// True if the op must be decomposed or inlined before lowering.
pub(in crate::passes) fn needs_preparing(def: &OpDef) -> bool {
    matches!(def.lower, Lower::Expand | Lower::Control)
}

/// Replaces every op that has a decomposition, inlines all regions and unrolls all loops: a slow reference form, for
/// tests.
pub fn prepare_decomposed<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let g = g.into();
    prepare_all(g, InlineCalls::All, |g| {
        pick_to_prepare(g, |def| {
            def.decompose.is_some() || is_inlined(def) || matches!(def.lower, Lower::Loop | Lower::Choice)
        })
    })
}

/// Inlines calls and fused regions and unrolls loops. Custom functions with derivative rules stay.
pub fn prepare_one_region<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    prepare_all(g.into(), InlineCalls::WithoutRules, |g| {
        let mut picked = pick_to_prepare(g, |def| is_inlined(def) || matches!(def.lower, Lower::Loop | Lower::Choice));
        (0..g.nodes()).map(Node::new).filter(|&n| has_custom_rules(g, n)).for_each(|n| picked[n] = false);
        picked
    })
}

/// `g` with only the outputs that `keep` picks, and without the nodes that only the others need.
pub fn prepare_outputs<'a>(g: impl Into<Graph<'a>>, keep: impl Fn(&str) -> bool) -> Result<GraphBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ops::table::OPS;

    #[test]
    fn ops_without_a_decomposition_that_are_inlined_have_a_region_first() {
        let inlined: Vec<&OpDef> =
            OPS.iter().copied().filter(|def| def.decompose.is_none() && is_inlined(def)).collect();
        assert_eq!(inlined.iter().map(|def| def.name).collect::<Vec<_>>(), ["call", "custom_fn", "map"]);
        assert!(inlined.iter().all(|def| def.attrs.starts_with(CallAttrs::FIELDS)));
    }
}
