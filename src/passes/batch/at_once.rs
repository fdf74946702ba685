//! Loops whose iterations may run at once are written for all of them: the iterations become members of a batch.
//!
//! The pass is only an optimisation: without it, such a loop runs like any other.

use super::batched_region::{BatchContext, BatchMember, write_region_for_members};
use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::attrs::Kind as FieldKind;
use crate::nodes::ops::control::custom_fn::has_derivative_rules;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, GraphBuf, Op, Var};
use crate::passes::decompose::expand_picked_nodes;
use crate::passes::inline::InlineCalls;
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};

/// True if the iterations of node `n` may run at once.
fn is_independent_loop(g: Graph<'_>, n: Node) -> bool {
    g.op[n.at()] == Op::SCAN && Scan::of(&g.attrs(n)).at_once
}

/// True if `g` has a loop whose iterations may run at once.
pub fn has_independent_loops(g: Graph<'_>) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| is_independent_loop(g, n))
}

/// Writes every loop of `g` whose iterations may run at once for all of them.
///
/// # Errors
/// Those of batching an op: too large a value.
pub fn batch_independent_loops(g: Graph<'_>) -> Result<GraphBuf> {
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    // A round writes the loops of one level of nesting.
    while has_independent_loops(buf.view()) {
        let ready = decompose_loop_bodies(buf.view())?;
        let mut failed = None;
        buf = rebuild_buf(ready.view(), &mut |v| {
            if !is_independent_loop(v.src, v.node) || failed.is_some() {
                return None;
            }
            let written = write_iterations(v, &Scan::of(&v.src.attrs(v.node)), false);
            written.map_err(|e| failed = Some(e)).ok()
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        // One more rebuild drops the bodies, which have no user left.
        buf = rebuild_buf(buf.view(), &mut |_| None)?;
    }
    Ok(buf)
}

/// The form that batching needs, in the regions that loops at once run.
fn decompose_loop_bodies(g: Graph<'_>) -> Result<GraphBuf> {
    expand_picked_nodes(g, InlineCalls::WithoutRules, |g| {
        let mut inside = Side::<Region, bool>::filled(g.regions(), false);
        let mut pick = Side::filled(g.nodes(), false);
        // A region comes before those that run it.
        for r in (0..g.regions()).rev().map(Region::new) {
            for n in g.region_nodes(r) {
                let def = g.def_of(n);
                let call = def.decompose.is_none() && def.is_inlined() && !has_derivative_rules(g, n);
                let through = call || (def.decompose.is_some() && def.batch.is_via_decompose(&g.attrs(n)));
                pick[n] = inside[r] && through;
                if !inside[r] && !is_independent_loop(g, n) {
                    continue;
                }
                for (i, f) in def.attrs.iter().enumerate() {
                    if f.kind == FieldKind::Region && g.attrs(n).has(i) {
                        inside[g.attrs(n).region(i)] = true;
                    }
                }
            }
        }
        pick
    })
}

/// The results of the loop `v`, which is `scan`, for all iterations at once. With `selects`, choices become selects
/// where their predicate differs between iterations.
pub(super) fn write_iterations<'g>(v: &RebuildVisit<'_, 'g>, scan: &Scan, selects: bool) -> Result<Vec<Var<'g>>> {
    let draws = Side::filled(v.src.regions(), false);
    let context = BatchContext { src: v.src, g: v.g, regions: v.regions, draws: &draws, size: scan.length, selects };
    let arg = |(i, (value, &var)): (usize, (Value, &Var<'g>))| (value, BatchMember { var, batched: i >= scan.consts });
    let args: Vec<(Value, BatchMember<'g>)> = v.src.region_args(scan.body).zip(v.args).enumerate().map(arg).collect();
    let values = write_region_for_members(context, scan.body, &args)?;
    Ok(v.src.region_yields(scan.body).iter().map(|&y| values[y].for_all(scan.length)).collect())
}
