//! A graph with its plan and what that computes: what plans, right ones and wrong ones, are held against.

use super::simulate_plan::simulate_plan;
use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};
use crate::nodes::Graph;
use crate::sched::checker::Plan;
use crate::sched::instructions::{Instructions, Update};
use crate::sched::lower::lower;
use crate::sched::offsets;
use crate::sched::order::{self, Ordered};
use crate::sched::pack::lines;

/// A program with its order and its plan, and what it computes where no two buffers share a byte.
pub struct PlannedGraph {
    /// Order, in-place pairs, lifetimes.
    pub ordered: Ordered,
    /// The planner's plan, not checked.
    pub right: Plan,
    /// What [`simulate_plan`] says of the plan without reuse.
    pub want: Vec<u64>,
}

impl PlannedGraph {
    /// The plan of `prepared`, a graph that has been through the pipeline, for one thread.
    pub fn new(prepared: Graph<'_>) -> Result<PlannedGraph> {
        PlannedGraph::ordered(order::best_order(&lower(prepared, 1)?.code)?)
    }

    /// The plan of the instructions in `ordered`.
    pub fn ordered(ordered: Ordered) -> Result<PlannedGraph> {
        let (offset, bytes) = offsets(&ordered.code, &ordered.alias, &ordered.live, lines::pack_lines)?;
        let (code, inplace): (Instructions, _) = (ordered.code.clone(), ordered.alias.inplace.clone());
        let right = Plan { code, offset, inplace, bytes, threads: 1, foreign: Vec::new() };
        let outside = || Error::new(Kind::Plan, "the plan without reuse reaches outside its arena");
        let want = simulate_plan(&plan_graph_apart(&right)).ok_or_else(outside)?;
        Ok(PlannedGraph { ordered, right, want })
    }
}

/// The plan without reuse: nothing is in place but what the code itself asks for, and copies bring next values home.
pub fn plan_graph_apart(right: &Plan) -> Plan {
    let mut p = right.clone();
    let mut end = 0;
    for b in 0..p.offset.len() {
        p.offset[b] = end;
        end += p.code.bytes[b].div_ceil(LINE) * LINE;
    }
    for i in 0..p.code.len() {
        for (k, r) in p.code.read_range(i).enumerate() {
            let w = p.inplace[r];
            if w != u8::MAX && p.code.writes_of(i)[usize::from(w)].buf != p.code.reads_of(i)[k].buf {
                p.inplace[r] = u8::MAX;
            }
        }
    }
    let updates = p.code.updates.clone();
    let shared = |u: &Update| right.offset[u.leaf as usize] == right.offset[u.from.buf as usize];
    for u in updates.iter().filter(|u| shared(u)) {
        p.code.copy(u.from, u.leaf, p.code.node[0]);
    }
    p.inplace.resize(p.code.reads.len(), u8::MAX);
    p.bytes = end;
    p
}
