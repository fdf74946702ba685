//! List scheduling: a rule picks one ready group after another.
//!
//! Every rule respects data and the order of effects. A group with open preferences waits as long as another group can
//! run. Ties go to the smaller number, which is program order. O((V + E) log V) for each rule.

use super::deps::Deps;
use super::fitting_groups::FittingGroups;
use super::ready_groups::ReadyGroups;
use crate::sched::instructions::{BufKind, Instructions};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which of the ready groups runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The first in program order.
    Program,
    /// A group that only serves the update of a leaf; else the first in program order.
    Eager,
    /// The group with the largest difference of freed and allocated bytes: XLA's list scheduler.
    Net,
    /// Of the groups that fit below the peak so far, the one that leaves the fewest bytes alive; if none fits, the one
    /// that allocates least: PyTorch Inductor's least-peak-memory-first.
    Peak,
    /// Depth first from the sinks, in program order; the operand with the most bytes behind it comes first.
    Depth,
}

/// The order of all groups by `rule`.
pub fn order_by_rule(code: &Instructions, d: &Deps, rule: Rule) -> Vec<u32> {
    let n = code.groups();
    let allocates: Vec<i64> = match rule {
        Rule::Peak => (0..n).map(|g| allocated_bytes(code, d, g, true)).collect(),
        Rule::Net => (0..n).map(|g| allocated_bytes(code, d, g, false)).collect(),
        _ => Vec::new(),
    };
    let mut s = ListScheduler {
        code,
        d,
        rule,
        rank: if rule == Rule::Depth { walk_depth_first(code, d) } else { Vec::new() },
        needs: (0..n).map(|g| d.before.of(g).len() as u32).collect(),
        preferences: vec![0; n],
        left: (0..code.bytes.len()).map(|b| d.readers.of(b).len() as u32).collect(),
        one: (0..code.bytes.len()).map(|b| d.readers.of(b).iter().fold(0, |x, g| x ^ g)).collect(),
        done: vec![false; n],
        ready: ReadyGroups::new(n),
        fitting: (rule == Rule::Peak).then(|| FittingGroups::new(&allocates)),
        deferred: BinaryHeap::new(),
        stops: d.stops.iter().filter(|s| **s).count(),
        settling: false,
        order: Vec::with_capacity(n),
        alive: 0,
        peak: 0,
        allocates,
    };
    d.preferred.items.iter().chain(&d.waits).for_each(|&g| s.preferences[g as usize] += 1);
    (0..n).for_each(|g| s.arrive(g));
    while s.next() {}
    s.order
}

/// Bytes that `g` allocates, with or without temporaries.
fn allocated_bytes(code: &Instructions, d: &Deps, g: usize, scratch: bool) -> i64 {
    let bufs = d.writes.of(g).iter().map(|&b| b as usize).filter(|&b| !d.lands[b]);
    bufs.filter(|&b| scratch || code.kind[b] != BufKind::Scratch).map(|b| code.bytes[b] as i64).sum()
}

/// The position of each group in a depth-first walk from the sinks.
fn walk_depth_first(code: &Instructions, d: &Deps) -> Vec<u32> {
    let n = code.groups();
    // Bytes of results behind each group. Shared ancestors count once for each path: a measure, not a sum.
    let mut behind = vec![0u64; n];
    for g in 0..n {
        let own = d.writes.of(g).iter().map(|&b| code.bytes[b as usize] as u64).sum();
        behind[g] = d.before.of(g).iter().fold(own, |sum, &p| behind[p as usize].saturating_add(sum));
    }
    let mut rank = vec![u32::MAX; n];
    let (mut next, mut stack, mut seen) = (0, Vec::new(), vec![false; n]);
    for sink in (0..n).filter(|&g| d.after.of(g).is_empty()) {
        stack.push((sink as u32, false));
        while let Some((g, entered)) = stack.pop() {
            let at = g as usize;
            if entered {
                rank[at] = next;
                next += 1;
            } else if !std::mem::replace(&mut seen[at], true) {
                stack.push((g, true));
                let from = stack.len();
                stack.extend(d.before.of(at).iter().filter(|&&p| !seen[p as usize]).map(|&p| (p, false)));
                // The last is visited first: the one with the most bytes behind it, ties in program order.
                stack[from..].sort_by_key(|&(p, _)| (behind[p as usize], Reverse(p)));
            }
        }
    }
    rank
}

struct ListScheduler<'a> {
    code: &'a Instructions,
    d: &'a Deps,
    rule: Rule,
    rank: Vec<u32>,
    /// Data edges and preferences into each group that are still open.
    needs: Vec<u32>,
    preferences: Vec<u32>,
    /// Readers of each buffer that have not run, and the XOR of their numbers: the reader itself when one is left.
    left: Vec<u32>,
    one: Vec<u32>,
    done: Vec<bool>,
    ready: ReadyGroups,
    /// Replaces `ready` for [`Rule::Peak`].
    fitting: Option<FittingGroups>,
    /// Groups whose data is ready and whose preferences are open.
    deferred: BinaryHeap<Reverse<u32>>,
    /// Number of groups that may stop a step and have not run; and true if the last of them was the last group to run.
    /// Groups that wait for it come behind the next group, in front of which threads have a barrier anyway.
    stops: usize,
    settling: bool,
    order: Vec<u32>,
    /// Bytes of live results now, and the most so far.
    alive: i64,
    peak: i64,
    /// Bytes that each group allocates.
    allocates: Vec<i64>,
}

impl ListScheduler<'_> {
    /// Makes `g` ready, or defers it, if its data is ready.
    fn arrive(&mut self, g: usize) {
        if self.done[g] || self.needs[g] > 0 {
            return;
        }
        if self.preferences[g] > 0 {
            self.deferred.push(Reverse(g as u32));
            return;
        }
        let key = match self.rule {
            Rule::Program => 0,
            Rule::Eager => -i64::from(self.d.serves[g]),
            Rule::Depth => i64::from(self.rank[g]),
            Rule::Net => self.allocates[g] - self.frees(g),
            Rule::Peak => self.stays(g) - self.frees(g),
        };
        match &mut self.fitting {
            Some(f) => f.insert(g, key),
            None => self.ready.insert(g, key),
        }
    }

    /// Bytes of operands that no group reads after `g`.
    fn frees(&self, g: usize) -> i64 {
        let bufs = self.d.reads.of(g).iter().map(|&b| b as usize);
        let bufs = bufs.filter(|&b| self.left[b] == 1 && self.code.kind[b] == BufKind::Activation && !self.d.lands[b]);
        bufs.map(|b| self.code.bytes[b] as i64).sum()
    }

    /// Bytes of results that outlive `g`.
    fn stays(&self, g: usize) -> i64 {
        let bufs = self.d.writes.of(g).iter().map(|&b| b as usize).filter(|&b| !self.d.lands[b]);
        let outside = |b: &usize| {
            let kind = self.code.kind[*b];
            kind == BufKind::Output || (kind == BufKind::Activation && self.left[*b] > 0)
        };
        bufs.filter(outside).map(|b| self.code.bytes[b] as i64).sum()
    }

    /// Runs the best ready group, or, where preferences are circular, the first deferred one. False if there is none.
    fn next(&mut self) -> bool {
        let best = match &self.fitting {
            Some(f) => f.below(self.peak - self.alive),
            None => self.ready.least(),
        };
        if let Some(g) = best {
            self.run(g);
            return true;
        }
        while let Some(Reverse(g)) = self.deferred.pop() {
            if !self.done[g as usize] {
                self.run(g as usize);
                return true;
            }
        }
        false
    }

    fn run(&mut self, g: usize) {
        let d = self.d;
        if self.rule == Rule::Peak {
            self.peak = self.peak.max(self.alive + self.allocates[g]);
            self.alive += self.stays(g) - self.frees(g);
        }
        self.done[g] = true;
        match &mut self.fitting {
            Some(f) => f.remove(g),
            None => self.ready.remove(g),
        }
        self.order.push(g as u32);
        let by_memory = matches!(self.rule, Rule::Net | Rule::Peak);
        for &b in d.reads.of(g) {
            let b = b as usize;
            self.left[b] -= 1;
            self.one[b] ^= g as u32;
            if by_memory && self.left[b] == 1 {
                // If it is ready, it has another key now.
                self.arrive(self.one[b] as usize);
            }
        }
        for &s in d.after.of(g) {
            self.needs[s as usize] -= 1;
            self.arrive(s as usize);
        }
        self.stops -= usize::from(d.stops[g]);
        let settled = std::mem::replace(&mut self.settling, d.stops[g] && self.stops == 0);
        for &s in d.preferred.of(g).iter().chain(if settled { &d.waits[..] } else { &[] }) {
            self.preferences[s as usize] -= 1;
            if self.preferences[s as usize] == 0 {
                self.arrive(s as usize);
            }
        }
    }
}
