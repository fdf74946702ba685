//! Dead code elimination for choices: drops results without a reader, and the operands that only these read.

use super::rebuild::{RebuildVisit, rebuild};
use super::simplify::Hits;
use super::trimmed_region::{live_in_trimmed_region, trimmed_region};
use crate::arena::{Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::{Graph, Op, Var};
use bumpalo::Bump;

/// Drops the unused parts of the choices of `g`. Counts the choices that change in `hits`.
pub fn choice_dce<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    let mut read = Side::filled(g.values(), false);
    for &v in g.args.iter().chain(g.yields).chain(g.updates.iter().map(|u| &u.1)) {
        read[v] = true;
    }
    rebuild(g, bump, &mut |v| {
        if !matches!(v.def.lower, Lower::Choice) {
            return None;
        }
        let results: Vec<bool> = g.outs_of(v.node).map(|o| read[o]).collect();
        let rest = choice_dce_trimmed(v, &results)?;
        *hits.entry("choice-trim").or_default() += 1;
        Some(rest)
    })
}

/// The choice `v` with those `results` alone, and with the captured values that a branch still reads. Dropped results
/// become [`Value::NONE`]. `None` if nothing would be dropped, or all.
fn choice_dce_trimmed<'g>(v: &RebuildVisit<'_, 'g>, results: &[bool]) -> Option<Vec<Var<'g>>> {
    let (src, g) = (v.src, v.g);
    let IfAttrs { then, otherwise } = IfAttrs::of(&src.attrs(v.node));
    let live = [then, otherwise].map(|r| live_in_trimmed_region(src, r, results));
    let read =
        |i: usize| [then, otherwise].iter().zip(&live).any(|(&r, l)| src.region_args(r).nth(i).is_some_and(|a| l[a]));
    let captured: Vec<bool> = (0..v.args.len() - 1).map(read).collect();
    if captured.iter().chain(results).all(|k| *k) || !results.contains(&true) {
        return None;
    }
    let [then, otherwise] = [(then, &live[0]), (otherwise, &live[1])];
    let attrs = IfAttrs {
        then: trimmed_region(v, then.0, &captured, results, then.1),
        otherwise: trimmed_region(v, otherwise.0, &captured, results, otherwise.1),
    };
    g.with(|e| e.set_loc(src.loc[v.node.at()]));
    let kept = v.args[1..].iter().zip(&captured).filter(|a| *a.1).map(|a| *a.0);
    let args: Vec<Var<'g>> = std::iter::once(v.args[0]).chain(kept).collect();
    let mut outs = g.emit(Op::IF, &args, &attrs.list()).into_iter();
    let none = g.var(Value::NONE);
    Some(results.iter().map(|kept| if *kept { outs.next().unwrap_or(none) } else { none }).collect())
}
