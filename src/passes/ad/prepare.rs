//! Preparation: brings a graph into the form that the next step sees, and says so by name.
//!
//! Each function preserves meaning, the names of leaves, and the number, order and types of outputs.

use super::activity::{depends, reaches};
use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::{Deriv, Flags, Lower};
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, OpDef, Var};
use crate::passes::ad::residuals::save;
use crate::passes::inline::{fits, inline_region, inlined};
use crate::passes::rebuild::{Copier, Signature, Visit, finish, rebuild_buf};

/// Rounds of expansion that a chain of decompositions may take.
const ROUNDS: usize = 16;
/// Nodes that one loop may become by unrolling.
const MAX_UNROLLED: usize = 1 << 20;

/// Whether a node stands for its region's body, once, unless it has a decomposition. The region is then its only
/// attribute, as in [`CallAttrs`].
pub(in crate::passes) fn is_inlined(def: &OpDef) -> bool {
    matches!(def.lower, Lower::Control) || def.flags.has(Flags::FUSED)
}

/// The iterations of the loop `v`, one after another.
fn unroll<'g>(v: &Visit<'_, 'g>) -> Vec<Var<'g>> {
    let s = Scan::of(&v.src.attrs(v.node));
    let nodes = s.length.saturating_mul(v.src.region_nodes(s.body).len());
    if nodes > MAX_UNROLLED {
        let none = v.g.fail(Kind::Verify, format!("scan: unrolled, it is {nodes} nodes; {MAX_UNROLLED} is the limit"));
        return vec![none; v.src.outs_of(v.node).len()];
    }
    let mut carries = v.args[..s.carries].to_vec();
    let mut rows: Vec<Vec<Var<'g>>> = vec![Vec::new(); v.src.outs_of(v.node).len() - s.carries];
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
        let yields = inline_region(v, s.body, &args);
        carries = yields[..s.carries].to_vec();
        for (rows, y) in rows.iter_mut().zip(&yields[s.carries..]) {
            rows.push(y.reshape([&[1], &y.dims()[..]].concat()));
        }
    }
    let stacked = rows.into_iter().zip(v.src.outs_of(v.node).skip(s.carries)).map(|(mut rows, out)| {
        if s.reverse {
            rows.reverse();
        }
        match rows.split_first() {
            Some((first, rest)) => first.concat(rest, 0),
            None => v.g.full(0.0, v.src.dims(out), v.src.dtype[out.at()]),
        }
    });
    carries.into_iter().chain(stacked).collect()
}

/// Replaces the nodes that `pick` picks by their decompositions, until none is left. Decompositions nest a few deep,
/// and a round takes one level of loops away: calls are inlined however deep they nest.
fn expand_while(g: Graph<'_>, mut pick: impl FnMut(Graph<'_>) -> Side<Node, bool>) -> Result<GraphBuf> {
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    let rounds = ROUNDS + g.regions();
    for round in 0..rounds {
        let picked = pick(buf.view());
        if !picked.as_slice().contains(&true) {
            if round == 0 {
                return Ok(buf);
            }
            // Regions that were inlined have no user left: one more rebuild drops them.
            return rebuild_buf(buf.view(), &mut |_| None);
        }
        fits(buf.view(), |n| picked[n])?;
        buf = rebuild_buf(buf.view(), &mut |v| {
            let region = || CallAttrs::of(&v.src.attrs(v.node)).body;
            match (picked[v.node], v.def.decompose) {
                (true, Some(expand)) => Some(expand(&v.site(&[]))),
                (true, None) if is_inlined(v.def) => Some(inline_region(v, region(), v.args)),
                (true, None) if matches!(v.def.lower, Lower::Loop) => Some(unroll(v)),
                _ => None,
            }
        })?;
    }
    Err(Error::new(Kind::Verify, format!("decompositions nest deeper than {rounds}")))
}

/// The same with calls replaced by their bodies first, all at once: in rounds, regions of regions would be written
/// again and again.
fn expand_all(g: Graph<'_>, pick: impl FnMut(Graph<'_>) -> Side<Node, bool>) -> Result<GraphBuf> {
    match g.op.contains(&Op::CALL) {
        true => expand_while(inlined(g)?.view(), pick),
        false => expand_while(g, pick),
    }
}

/// Whether some statistic (a result after the first) of a node is read.
fn stats_used(g: Graph<'_>) -> Side<Node, bool> {
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

/// The form that differentiation sees: on the paths from `wrt` to `results`, ops that are differentiated through their
/// decomposition are decomposed, regions are inlined, ops whose statistics are read are decomposed too, and loops stack
/// what their derivatives read.
pub fn for_autodiff(g: Graph<'_>, wrt: &[&str], results: &[&str]) -> Result<GraphBuf> {
    let written = has_blocks(g).then(|| expand_blocks(g, FusionPolicy::for_autodiff())).transpose()?;
    let ready = expand_while(written.as_ref().map_or(g, GraphBuf::view), |g| {
        let (active, stats) = (active(g, wrt, results), stats_used(g));
        let mut pick = Side::filled(g.nodes(), false);
        for n in (0..g.nodes()).map(Node::new).filter(|&n| active[n]) {
            let def = g.def_of(n);
            let through = matches!(def.deriv, Deriv::ViaDecompose) || (def.flags.has(Flags::STATS) && stats[n]);
            pick[n] = is_inlined(def) || (through && def.decompose.is_some());
        }
        pick
    })?;
    save(ready.view(), wrt, results)
}

/// The nodes on the paths from `wrt` to `results`, with all nodes of the bodies of loops among them.
pub fn active(g: Graph<'_>, wrt: &[&str], results: &[&str]) -> Side<Node, bool> {
    let signature = Signature::new(g);
    let leaves: Vec<Value> = wrt.iter().filter_map(|n| signature.leaf(n).ok()).collect();
    let outs: Vec<Value> = results.iter().filter_map(|n| signature.output(n).ok()).collect();
    let (from, to) = (depends(g, g.entry(), &leaves), reaches(g, g.entry(), &outs));
    let mut active = Side::filled(g.nodes(), false);
    let mut run = Side::<Region, bool>::filled(g.regions(), false);
    for r in (0..g.regions()).rev().map(Region::new) {
        for n in g.region_nodes(r) {
            let here = || g.args_of(n).iter().any(|&a| from[a]) && g.outs_of(n).any(|v| to[v]);
            active[n] = if r == g.entry() { here() } else { run[r] };
            if active[n] && matches!(g.def_of(n).lower, Lower::Loop) {
                run[Scan::of(&g.attrs(n)).body] = true;
            }
        }
    }
    active
}

/// The nodes of all regions whose row `pick` picks.
fn pick_all(g: Graph<'_>, pick: impl Fn(&OpDef) -> bool) -> Side<Node, bool> {
    let mut picked = Side::filled(g.nodes(), false);
    for n in (0..g.nodes()).map(Node::new) {
        picked[n] = pick(g.def_of(n));
    }
    picked
}

/// What blocks are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusionPolicy {
    /// Fused ops, for programs that run as they are written.
    Direct,
    /// Primitive ops, for transforms that look at each: derivatives, and rules that fuse across blocks.
    Fusable,
}

impl FusionPolicy {
    /// What derivatives need.
    pub fn for_autodiff() -> FusionPolicy {
        FusionPolicy::Fusable
    }
}

/// Replaces block ops, in fused ops or in primitive ones as `policy` says; the latter un-fuses a graph that has blocks
/// wholly, see [`unfuse`].
pub fn expand_blocks<'a>(g: impl Into<Graph<'a>>, policy: FusionPolicy) -> Result<GraphBuf> {
    let g = g.into();
    match (has_blocks(g), policy) {
        (false, _) => rebuild_buf(g, &mut |_| None),
        (true, FusionPolicy::Direct) => expand_while(g, |g| pick_all(g, |def| def.flags.has(Flags::BLOCK))),
        (true, FusionPolicy::Fusable) => unfuse(g),
    }
}

/// Whether `g` holds an op of a user's block.
pub(in crate::passes) fn has_blocks(g: Graph<'_>) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| g.def_of(n).flags.has(Flags::BLOCK))
}

/// Replaces block ops and fused ops by what they are made of, and inlines fused regions.
pub fn unfuse<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let g = g.into();
    expand_while(g, |g| pick_all(g, |def| def.flags.has(Flags::BLOCK) || def.flags.has(Flags::FUSED)))
}

/// The form that lowering sees: no op without a kernel.
pub fn for_lowering(g: Graph<'_>) -> Result<GraphBuf> {
    expand_all(g, |g| pick_all(g, has_no_kernel))
}

/// Whether `def` must be decomposed before lowering.
pub(in crate::passes) fn has_no_kernel(def: &OpDef) -> bool {
    matches!(def.lower, Lower::Expand | Lower::Control)
}

/// Every op that has a decomposition replaced by it, fused regions inlined: the slow, obvious form of a graph, for
/// comparing.
pub fn decompose_all<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let g = g.into();
    expand_all(g, |g| pick_all(g, |def| def.decompose.is_some() || is_inlined(def) || matches!(def.lower, Lower::Loop)))
}

/// Calls and fused regions inlined and loops unrolled, nothing else changed: a graph of one region.
pub fn inline_and_unroll<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let g = g.into();
    expand_all(g, |g| pick_all(g, |def| is_inlined(def) || matches!(def.lower, Lower::Loop)))
}

/// The same graph without the outputs that `keep` refuses, and without what only they need.
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
        finish(b, bump)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ops::table::OPS;

    #[test]
    fn ops_without_a_decomposition_that_are_inlined_have_a_region_alone() {
        let inlined: Vec<&OpDef> =
            OPS.iter().copied().filter(|def| def.decompose.is_none() && is_inlined(def)).collect();
        assert_eq!(inlined.iter().map(|def| def.name).collect::<Vec<_>>(), ["call", "map"]);
        assert!(inlined.iter().all(|def| def.attrs == CallAttrs::FIELDS));
    }
}
