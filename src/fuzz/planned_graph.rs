//! A graph with its plan, and wrong plans made from it: each has one mistake of a kind that planners made. Tests
//! compare what [`simulate_plan`] gives for such a plan with what it gives for a plan in which no two buffers share a
//! byte.

use super::draws::Draw;
use super::simulate_plan::{is_free_in_simulated_plan, simulate_plan};
use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};
use crate::nodes::Graph;
use crate::sched::instructions::{Instructions, Update};
use crate::sched::intervals::Intervals;
use crate::sched::lower::lower;
use crate::sched::order::{self, Ordered};
use crate::sched::pack::lines;
use crate::sched::plan::Plan;
use crate::sched::planned_offsets;

/// The ways in which a plan can be wrong.
pub const WRONG_PLANS: [&str; 10] = [
    "offset + 64",
    "two offsets swapped",
    "end − 1, replanned",
    "start + 1, replanned",
    "late reader forgotten, replanned",
    "size − 64, replanned",
    "in-place flag dropped",
    "copy dropped",
    "in place where not declared",
    "in place on a value that lives on",
];

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
        let (offset, bytes) = planned_offsets(&ordered.code, &ordered.alias, &ordered.live, lines::pack_lines)?;
        let (code, inplace): (Instructions, _) = (ordered.code.clone(), ordered.alias.inplace.clone());
        let right = Plan { code, offset, inplace, bytes, threads: 1, foreign: Vec::new() };
        let outside = || Error::new(Kind::Plan, "the plan without reuse reaches outside its arena");
        let want = simulate_plan(&plan_without_reuse(&right)).ok_or_else(outside)?;
        Ok(PlannedGraph { ordered, right, want })
    }
}

/// The plan without reuse: nothing is in place but what the code itself asks for, and copies bring next values home.
pub fn plan_without_reuse(right: &Plan) -> Plan {
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

impl PlannedGraph {
    fn wrongly_replanned(&self, live: &Intervals) -> Option<Plan> {
        let (offset, bytes) = planned_offsets(&self.right.code, &self.ordered.alias, live, lines::pack_lines).ok()?;
        Some(Plan { offset, bytes, ..self.right.clone() })
    }

    /// Moves everything that shares the place of class `root`.
    fn wrongly_moved(&self, p: &mut Plan, root: usize, to: usize) {
        let class = &self.ordered.alias.class;
        (0..class.len()).filter(|&b| class[b] as usize == root).for_each(|b| p.offset[b] = to);
    }

    /// A plan that is wrong in way `kind`; none if that way is not open.
    pub fn wrong_plan(&self, kind: usize, d: &mut Draw<'_>) -> Option<Plan> {
        let (mut p, mut live) = (self.right.clone(), self.ordered.live.clone());
        let below = |d: &mut Draw<'_>, n: usize| (n > 0).then(|| d(n as u32) as usize);
        let roots: Vec<usize> = (0..live.len())
            .filter(|&b| {
                live.lines[b] > 0 && is_free_in_simulated_plan(&p, b) && self.ordered.alias.class[b] as usize == b
            })
            .collect();
        let b = roots[below(d, roots.len())?];
        match kind {
            0 => self.wrongly_moved(&mut p, b, self.right.offset[b] + LINE),
            1 => {
                let c = roots[below(d, roots.len())?];
                self.wrongly_moved(&mut p, b, self.right.offset[c]);
                self.wrongly_moved(&mut p, c, self.right.offset[b]);
            }
            2 => live.end[b] = live.end[b].checked_sub(1)?,
            3 => live.first[b] += 1,
            4 => live.end[b] = self.wrong_plan_last_but_one(b)? + 1,
            5 => live.lines[b] -= 1,
            6 => {
                let pairs: Vec<usize> = (0..p.inplace.len()).filter(|&r| p.inplace[r] != u8::MAX).collect();
                p.inplace[pairs[below(d, pairs.len())?]] = u8::MAX;
            }
            7 => return self.wrong_plan_without_copy(d),
            _ => return self.wrong_plan_in_place(kind == 8, d),
        }
        if (2..6).contains(&kind) {
            p = self.wrongly_replanned(&live)?;
        }
        (p.offset != self.right.offset || p.inplace != self.right.inplace).then_some(p)
    }

    /// The instruction before the last that reads class `root`.
    fn wrong_plan_last_but_one(&self, root: usize) -> Option<u32> {
        let code = &self.right.code;
        let inside = |b: u32| self.ordered.alias.class[b as usize] as usize == root;
        let uses = |&i: &usize| code.reads_of(i).iter().chain(code.writes_of(i)).any(|o| inside(o.buf));
        let all: Vec<usize> = (0..code.len()).filter(uses).collect();
        (all.len() > 1).then(|| all[all.len() - 2] as u32)
    }

    fn wrong_plan_without_copy(&self, d: &mut Draw<'_>) -> Option<Plan> {
        let code = &self.right.code;
        let copies: Vec<u32> =
            (0..code.groups() as u32).filter(|&g| code.copies[code.group(g as usize).start]).collect();
        if copies.is_empty() {
            return None;
        }
        let drop = copies[d(copies.len() as u32) as usize];
        let rest: Vec<u32> = (0..code.groups() as u32).filter(|&g| g != drop).collect();
        let flags = |g: &u32| code.group(*g as usize).flat_map(|i| code.read_range(i)).map(|r| self.right.inplace[r]);
        let inplace = rest.iter().flat_map(flags).collect();
        Some(Plan { code: code.permuted(&rest), inplace, ..self.right.clone() })
    }

    /// Some result on some operand of one size: of a pair that no kernel declared, or of one that is declared and of
    /// no use here.
    fn wrong_plan_in_place(&self, undeclared: bool, d: &mut Draw<'_>) -> Option<Plan> {
        let (code, mut p) = (&self.right.code, self.right.clone());
        let mut open = Vec::new();
        for i in 0..code.len() {
            for (r, read) in code.reads_of(i).iter().enumerate() {
                for (w, write) in code.writes_of(i).iter().enumerate() {
                    let declared = code.pairs_of(i).contains(&(r as u8, w as u8));
                    let apart = self.right.offset[read.buf as usize] != self.right.offset[write.buf as usize];
                    if declared != undeclared && apart && read.bytes() == write.bytes() && read.bytes() > 0 {
                        open.push((code.read_range(i).start + r, w as u8, read.buf, write.buf));
                    }
                }
            }
        }
        if open.is_empty() {
            return None;
        }
        let (r, w, from, to) = open[d(open.len() as u32) as usize];
        p.inplace[r] = w;
        let root = self.ordered.alias.class[to as usize] as usize;
        self.wrongly_moved(&mut p, root, self.right.offset[from as usize]);
        Some(p)
    }
}
