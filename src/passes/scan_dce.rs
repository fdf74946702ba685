//! Dead code elimination for loops: drops stacked results without a reader, carries on which no result depends, and the
//! operands that only these read.
//!
//! A carry stays if its final value is read, if it ends the loop, or if a value that stays reads it in the next
//! iteration. Loops inside a loop are trimmed in a later round, when the outer loop no longer changes.

use super::rebuild::{RebuildVisit, rebuild};
use super::simplify::Hits;
use super::trimmed_region::{live_in_trimmed_region, trimmed_region};
use crate::arena::{Side, Value, Window, ids::Id};
use crate::error::Result;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, Op, Var};
use bumpalo::Bump;

/// Drops the unused parts of the loops of `g`. Counts the loops that change in `hits`.
pub fn scan_dce<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    let mut read = Side::filled(g.values(), false);
    for &v in g.args.iter().chain(g.yields).chain(g.updates.iter().map(|u| &u.1)) {
        read[v] = true;
    }
    rebuild(g, bump, &mut |v| {
        if !matches!(v.def.lower, Lower::Loop) {
            return None;
        }
        let kept = ScanDce::new(g, Scan::of(&g.attrs(v.node)), g.outs_of(v.node).map(|o| read[o]).collect());
        if kept.args.iter().chain(&kept.outs).all(|k| *k) || !kept.outs.contains(&true) {
            return None;
        }
        *hits.entry("loop-trim").or_default() += 1;
        Some(kept.emit(v))
    })
}

/// The parts of a loop that stay.
struct ScanDce {
    scan: Scan,
    /// By result, and by yield of the body.
    outs: Vec<bool>,
    /// By operand, and by argument of the body.
    args: Vec<bool>,
    /// By value of the body.
    live: Window<Value, bool>,
}

impl ScanDce {
    fn new(g: Graph<'_>, scan: Scan, mut outs: Vec<bool>) -> ScanDce {
        let args: Vec<Value> = g.region_args(scan.body).collect();
        let exit = scan.exit_operand();
        if let Some(flag) = exit.filter(|&i| i < scan.carries && outs.contains(&true)) {
            outs[flag] = true;
        }
        loop {
            let live = live_in_trimmed_region(g, scan.body, &outs);
            match (0..scan.carries).find(|&i| live[args[i]] && !outs[i]) {
                Some(i) => outs[i] = true,
                None => {
                    // The body may not read a carry whose final value is read.
                    let kept = |i: usize| if i < scan.carries { outs[i] } else { live[args[i]] || exit == Some(i) };
                    return ScanDce { scan, args: (0..args.len()).map(kept).collect(), outs, live };
                }
            }
        }
    }

    /// Writes the loop with the parts that stay. Dropped results become [`Value::NONE`].
    fn emit<'g>(&self, v: &RebuildVisit<'_, 'g>) -> Vec<Var<'g>> {
        let (src, g, s) = (v.src, v.g, &self.scan);
        let none = g.var(Value::NONE);
        let body = trimmed_region(v, s.body, &self.args, &self.outs, &self.live);
        g.with(|e| e.set_loc(src.loc[v.node.at()]));
        let args: Vec<Var<'g>> = v.args.iter().zip(&self.args).filter(|a| *a.1).map(|a| *a.0).collect();
        let count = |r: std::ops::Range<usize>| self.args[r].iter().filter(|k| **k).count();
        let attrs = s.over(body, count(0..s.carries), count(s.carries..s.xs()));
        let mut outs = g.emit(Op::SCAN, &args, &attrs.list()).into_iter();
        self.outs.iter().map(|kept| if *kept { outs.next().unwrap_or(none) } else { none }).collect()
    }
}
