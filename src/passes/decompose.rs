//! Decomposition of picked nodes, round by round: ops become their decompositions, calls become their bodies, choices
//! become both branches and a `select`, loops are [unrolled](super::unroll).

use crate::arena::{Node, Side, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::{Flags, Lower};
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, GraphBuf, OpDef, Var};
use crate::passes::inline::{InlineCalls, fits_inlined, write_region_in_place};
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};
use crate::passes::unroll;

/// The most rounds of expansion of a chain of decompositions.
const ROUNDS: usize = 16;

/// Writes both branches of the choice `v`, and a `select` for each result. It keeps values, and not derivatives: the
/// branch that does not run may be NaN.
fn write_choice_as_select<'g>(v: &RebuildVisit<'_, 'g>, calls: InlineCalls) -> Vec<Var<'g>> {
    let IfAttrs { then, otherwise } = IfAttrs::of(&v.src.attrs(v.node));
    let [then, otherwise] = [then, otherwise].map(|r| write_region_in_place(v, r, &v.args[1..], calls));
    let pred = v.args[0];
    then.into_iter().zip(otherwise).map(|(a, b)| pred.broadcast(&a.dims()[..]).select(a, b)).collect()
}

/// Replaces the nodes that `pick` picks by their decompositions or bodies, round by round, until none is left. A round
/// removes one level of decompositions or loops; calls are inlined at any depth in one round.
///
/// Calls inside a body are written out with it if they are among `calls`.
pub(in crate::passes) fn expand_picked_nodes(
    g: Graph<'_>,
    calls: InlineCalls,
    mut pick: impl FnMut(Graph<'_>) -> Side<Node, bool>,
) -> Result<GraphBuf> {
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    let rounds = ROUNDS + g.regions();
    for round in 0..rounds {
        let mut picked = pick(buf.view());
        // A loop without a bound cannot be unrolled.
        for n in (0..buf.view().nodes()).map(Node::new).filter(|&n| picked[n]).collect::<Vec<_>>() {
            picked[n] = !decomposes_unbounded_loop(buf.view(), n);
        }
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
                (true, None) if v.def.is_inlined() => Some(write_region_in_place(v, region(), v.args, calls)),
                (true, None) if matches!(v.def.lower, Lower::Choice) => Some(write_choice_as_select(v, calls)),
                (true, None) if matches!(v.def.lower, Lower::Loop) => Some(unroll::write_iterations(v, calls)),
                _ => None,
            }
        })?;
    }
    Err(Error::new(Kind::Verify, format!("decompositions nest deeper than {rounds}")))
}

fn decomposes_unbounded_loop(g: Graph<'_>, n: Node) -> bool {
    matches!(g.def_of(n).lower, Lower::Loop) && Scan::of(&g.attrs(n)).is_unbounded()
}

/// The nodes of all regions whose op definition `pick` picks.
pub(in crate::passes) fn pick_nodes_by_def(g: Graph<'_>, pick: impl Fn(&OpDef) -> bool) -> Side<Node, bool> {
    let mut picked = Side::filled(g.nodes(), false);
    for n in (0..g.nodes()).map(Node::new) {
        picked[n] = pick(g.def_of(n));
    }
    picked
}

/// Replaces block ops and fused ops by their decompositions, and inlines fused regions.
pub fn unfuse<'a>(g: impl Into<Graph<'a>>) -> Result<GraphBuf> {
    let g = g.into();
    expand_picked_nodes(g, InlineCalls::All, |g| {
        pick_nodes_by_def(g, |def| def.flags.has(Flags::BLOCK) || def.flags.has(Flags::FUSED))
    })
}
