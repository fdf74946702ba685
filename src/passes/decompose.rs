//! Decomposition of picked nodes, round by round: ops become their decompositions, calls become their bodies, choices
//! become both branches and a `select`, loops are unrolled.

use crate::arena::{Node, Side, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::{Flags, Lower};
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::nodes::{Graph, GraphBuf, OpDef, Var};
use crate::passes::inline::{InlineCalls, fits_inlined, write_region_in_place};
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};

/// The most rounds of expansion of a chain of decompositions.
const ROUNDS: usize = 16;
/// The most nodes that unrolling one loop may write.
const MAX_UNROLLED: usize = 1 << 20;

/// The values `new` of an iteration if it runs, else `old`. `runs` is `bool[]`.
fn select_if_runs<'g>(runs: Option<Var<'g>>, new: Var<'g>, old: impl FnOnce() -> Var<'g>) -> Var<'g> {
    match runs {
        Some(runs) => runs.broadcast(&new.dims()[..]).select(new, old()),
        None => new,
    }
}

/// Writes the iterations of the loop `v` one after another, with those `calls` in it written out. The results of the
/// loop. What may end early is written under `select`, for values only.
fn unroll_loop<'g>(v: &RebuildVisit<'_, 'g>, calls: InlineCalls) -> Vec<Var<'g>> {
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
        let runs = s.exit.map(|exit| match exit {
            Exit::Flag => carries[0],
            Exit::Count => v.args[s.carries].greater(i as f64),
        });
        let mut args = carries.clone();
        args.extend_from_slice(&v.args[s.carries..s.xs()]);
        args.extend(v.args[s.xs()..].iter().map(slice));
        let yields = write_region_in_place(v, s.body, &args, calls);
        let next = yields[..s.carries].iter().zip(&carries);
        carries = next.map(|(&new, &old)| select_if_runs(runs, new, || old)).collect();
        for (stack, &y) in slices.iter_mut().zip(&yields[s.carries..]) {
            let y = select_if_runs(runs, y, || y.full_like(0.0));
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
                (true, None) if matches!(v.def.lower, Lower::Loop) => Some(unroll_loop(v, calls)),
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
