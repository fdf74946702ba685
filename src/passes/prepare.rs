//! Preparation: brings a graph into the form that the next step sees, and says so by name.
//!
//! Each function preserves meaning, the names of leaves, and the number, order and types of outputs.

use super::activity::{depends, reaches};
use super::rebuild::{Copier, Visit, finish, rebuild, rebuild_buf};
use crate::arena::{Region, Side, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::opdef::{Deriv, Flags, Lower};
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, Var};
use bumpalo::Bump;

/// Rounds of expansion that a chain of decompositions may take.
const ROUNDS: usize = 16;

/// The yields of region `r` of `v.src` on this node's operands, written in place of the call.
pub fn inline_region<'g>(v: &Visit<'_, 'g>, r: Region) -> Vec<Var<'g>> {
    let (src, g) = (v.src, v.g);
    let mut map = Window::<Value, Option<Var<'g>>>::filled(src.region_values(r), None);
    let none = g.var(Value::NONE);
    let mut args = v.args.iter();
    for n in src.region_nodes(r) {
        if src.op[n.at()] == Op::ARG {
            map[src.out(n)] = args.next().copied();
            continue;
        }
        let ops: Vec<Value> = src.args_of(n).iter().map(|&a| map[a].unwrap_or(none).v).collect();
        let outs = g.with(|e| e.copy(&src, n, &ops, v.regions));
        for (o, new) in src.outs_of(n).zip(outs.iter()) {
            map[o] = Some(g.var(new));
        }
    }
    src.region_yields(r).iter().map(|&y| map[y].unwrap_or(none)).collect()
}

/// Replaces calls by their bodies. The second rebuild drops the regions that nobody calls any more.
pub fn inline<'b>(g: Graph<'_>, bump: &'b Bump) -> Result<Graph<'b>> {
    let inlined = rebuild_buf(g, &mut |v| match v.op() {
        Op::CALL => Some(inline_region(v, v.src.attrs(v.node).region(0))),
        _ => None,
    })?;
    rebuild(inlined.view(), bump, &mut |_| None)
}

/// Replaces the nodes that `pick` picks by their decompositions, until none is left.
fn expand_while(g: Graph<'_>, mut pick: impl FnMut(Graph<'_>) -> Side<crate::arena::Node, bool>) -> Result<GraphBuf> {
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    for _ in 0..ROUNDS {
        let picked = pick(buf.view());
        if !picked.as_slice().contains(&true) {
            // Regions that were inlined have no user left: one more rebuild drops them.
            return rebuild_buf(buf.view(), &mut |_| None);
        }
        buf = rebuild_buf(buf.view(), &mut |v| {
            let region = || v.src.attrs(v.node).region(0);
            match (picked[v.node], v.def.decompose) {
                (true, Some(expand)) => Some(expand(&v.site(&[]))),
                (true, None) if matches!(v.def.lower, Lower::Control) || v.def.flags.has(Flags::FUSED) => {
                    Some(inline_region(v, region()))
                }
                _ => None,
            }
        })?;
    }
    Err(Error::new(Kind::Verify, format!("decompositions nest deeper than {ROUNDS}")))
}

/// Whether some statistic (a result after the first) of a node is read.
fn stats_used(g: Graph<'_>) -> Side<crate::arena::Node, bool> {
    let mut used = Side::filled(g.nodes(), false);
    let read = g.args.iter().chain(g.outputs()).chain(g.updates.iter().map(|u| &u.1));
    for &v in read {
        let n = g.def[v.at()];
        if v != g.out(n) {
            used[n] = true;
        }
    }
    used
}

/// The form that differentiation sees: on the paths from `wrt` to `results`, ops that are differentiated through their
/// decomposition are decomposed, regions are inlined, and ops whose statistics are read are decomposed too.
pub fn for_autodiff(g: Graph<'_>, wrt: &[&str], results: &[&str]) -> Result<GraphBuf> {
    expand_while(g, |g| {
        let leaves: Vec<Value> = wrt.iter().filter_map(|n| g.find_leaf(n)).map(|l| l.0).collect();
        let outs: Vec<Value> = results.iter().filter_map(|n| g.find_output(n)).collect();
        let (from, to, stats) = (depends(g, &leaves), reaches(g, &outs), stats_used(g));
        let mut pick = Side::filled(g.nodes(), false);
        for n in g.region_nodes(g.entry()) {
            let def = g.def_of(n);
            let active = g.args_of(n).iter().any(|&a| from[a]) && g.outs_of(n).any(|v| to[v]);
            let through = matches!(def.deriv, Deriv::ViaDecompose) || (def.flags.has(Flags::STATS) && stats[n]);
            let region = matches!(def.lower, Lower::Control) || def.flags.has(Flags::FUSED);
            pick[n] = active && (region || (through && def.decompose.is_some()));
        }
        pick
    })
}

/// The form that lowering sees: no op without a kernel.
pub fn for_lowering(g: Graph<'_>) -> Result<GraphBuf> {
    expand_while(g, |g| {
        let mut pick = Side::filled(g.nodes(), false);
        for n in g.region_nodes(g.entry()) {
            pick[n] = matches!(g.def_of(n).lower, Lower::Expand | Lower::Control);
        }
        pick
    })
}

/// Every op that has a decomposition replaced by it, fused regions inlined: the slow, obvious form of a graph, for
/// comparing.
pub fn decompose_all(g: Graph<'_>) -> Result<GraphBuf> {
    expand_while(g, |g| {
        let mut pick = Side::filled(g.nodes(), false);
        for n in g.region_nodes(g.entry()) {
            let def = g.def_of(n);
            pick[n] = def.decompose.is_some() || matches!(def.lower, Lower::Control) || def.flags.has(Flags::FUSED);
        }
        pick
    })
}

/// Calls and fused regions inlined, nothing else changed: a graph of one region.
pub fn flatten(g: Graph<'_>) -> Result<GraphBuf> {
    expand_while(g, |g| {
        let mut pick = Side::filled(g.nodes(), false);
        for n in g.region_nodes(g.entry()) {
            let def = g.def_of(n);
            pick[n] = matches!(def.lower, Lower::Control) || def.flags.has(Flags::FUSED);
        }
        pick
    })
}

/// The same graph without the outputs that `keep` refuses, and without what only they need.
pub fn keep_outputs(g: Graph<'_>, keep: impl Fn(&str) -> bool) -> Result<GraphBuf> {
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
