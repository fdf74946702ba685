//! List scheduling: among the groups whose data is there, one is picked again and again by a rule.
//!
//! Every rule keeps data and effects in order and holds back a group whose wishes are open, as long as anything else
//! can run. Ties go to the smaller number, which is program order. O((V + E) log V) for each rule.

use super::super::code::{BufKind, Code};
use super::deps::Deps;
use super::ready::{Fitting, Ready};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How the next group is picked among those that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The first in program order.
    Program,
    /// Groups that only serve the update of a leaf at once; else the first in program order.
    Eager,
    /// The one that frees most, net of what it takes: XLA's list scheduler.
    Net,
    /// Of those that fit below the peak so far the one that leaves least alive; if none fits, the one that takes least:
    /// PyTorch Inductor's least-peak-memory-first.
    Peak,
    /// What the first sink needs, operands with more behind them first; then what the next sink still needs.
    Depth,
}

/// A list schedule of all groups.
pub fn schedule(code: &Code, d: &Deps, rule: Rule) -> Vec<u32> {
    let n = code.groups();
    let takes: Vec<i64> = match rule {
        Rule::Peak => (0..n).map(|g| taken(code, d, g, true)).collect(),
        Rule::Net => (0..n).map(|g| taken(code, d, g, false)).collect(),
        _ => Vec::new(),
    };
    let mut s = Scheduler {
        code,
        d,
        rule,
        rank: if rule == Rule::Depth { depth_first(code, d) } else { Vec::new() },
        needs: (0..n).map(|g| d.before.of(g).len() as u32).collect(),
        wished: vec![0; n],
        left: (0..code.bytes.len()).map(|b| d.readers.of(b).len() as u32).collect(),
        one: (0..code.bytes.len()).map(|b| d.readers.of(b).iter().fold(0, |x, g| x ^ g)).collect(),
        done: vec![false; n],
        ready: Ready::new(n),
        fitting: (rule == Rule::Peak).then(|| Fitting::new(&takes)),
        held: BinaryHeap::new(),
        stops: d.stops.iter().filter(|s| **s).count(),
        settling: false,
        order: Vec::with_capacity(n),
        alive: 0,
        peak: 0,
        takes,
    };
    d.wishes.items.iter().chain(&d.waits).for_each(|&g| s.wished[g as usize] += 1);
    (0..n).for_each(|g| s.arrive(g));
    while s.order.len() < n && s.next() {}
    s.order
}

/// Bytes that running `g` takes, with or without temporaries.
fn taken(code: &Code, d: &Deps, g: usize, scratch: bool) -> i64 {
    let bufs = d.writes.of(g).iter().map(|&b| b as usize).filter(|&b| !d.lands[b]);
    bufs.filter(|&b| scratch || code.kind[b] != BufKind::Scratch).map(|b| code.bytes[b] as i64).sum()
}

/// The place of each group in a depth-first walk from the sinks.
fn depth_first(code: &Code, d: &Deps) -> Vec<u32> {
    let n = code.groups();
    // Bytes behind each group, counted once for each way: a measure, not a sum.
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
                // The last is visited first: the largest, of equals the first in program order.
                stack[from..].sort_by_key(|&(p, _)| (behind[p as usize], Reverse(p)));
            }
        }
    }
    rank
}

struct Scheduler<'a> {
    code: &'a Code,
    d: &'a Deps,
    rule: Rule,
    rank: Vec<u32>,
    /// Edges and wishes into each group that are still open.
    needs: Vec<u32>,
    wished: Vec<u32>,
    /// Readers of each buffer that are still to come, and the XOR of their ids: the reader itself when one is left.
    left: Vec<u32>,
    one: Vec<u32>,
    done: Vec<bool>,
    ready: Ready,
    /// Takes the place of `ready` for [`Rule::Peak`].
    fitting: Option<Fitting>,
    /// Groups whose data is there and whose wishes are not.
    held: BinaryHeap<Reverse<u32>>,
    /// Groups to come that may stop a step, and whether the last of them was the last group to run: what waits for it
    /// comes behind the next, before which threads meet anyway.
    stops: usize,
    settling: bool,
    order: Vec<u32>,
    /// Bytes of results alive now, and the most so far.
    alive: i64,
    peak: i64,
    takes: Vec<i64>,
}

impl Scheduler<'_> {
    /// Puts `g` where it belongs if its data is there.
    fn arrive(&mut self, g: usize) {
        if self.done[g] || self.needs[g] > 0 {
            return;
        }
        if self.wished[g] > 0 {
            self.held.push(Reverse(g as u32));
            return;
        }
        let key = match self.rule {
            Rule::Program => 0,
            Rule::Eager => -i64::from(self.d.serves[g]),
            Rule::Depth => i64::from(self.rank[g]),
            Rule::Net => self.takes[g] - self.frees(g),
            Rule::Peak => self.stays(g) - self.frees(g),
        };
        match &mut self.fitting {
            Some(f) => f.put(g, key),
            None => self.ready.put(g, key),
        }
    }

    /// Bytes of operands that no group needs after `g`.
    fn frees(&self, g: usize) -> i64 {
        let bufs = self.d.reads.of(g).iter().map(|&b| b as usize);
        let bufs = bufs.filter(|&b| self.left[b] == 1 && self.code.kind[b] == BufKind::Activation && !self.d.lands[b]);
        bufs.map(|b| self.code.bytes[b] as i64).sum()
    }

    /// Bytes of results that some group needs after `g`.
    fn stays(&self, g: usize) -> i64 {
        let bufs = self.d.writes.of(g).iter().map(|&b| b as usize).filter(|&b| !self.d.lands[b]);
        let outside = |b: &usize| {
            let kind = self.code.kind[*b];
            kind == BufKind::Output || (kind == BufKind::Activation && self.left[*b] > 0)
        };
        bufs.filter(outside).map(|b| self.code.bytes[b] as i64).sum()
    }

    /// Runs the best ready group, or, where wishes go in a circle, the first of those that data allows.
    fn next(&mut self) -> bool {
        let best = match &self.fitting {
            Some(f) => f.below(self.peak - self.alive),
            None => self.ready.least(),
        };
        if let Some(g) = best {
            self.run(g);
            return true;
        }
        while let Some(Reverse(g)) = self.held.pop() {
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
            self.peak = self.peak.max(self.alive + self.takes[g]);
            self.alive += self.stays(g) - self.frees(g);
        }
        self.done[g] = true;
        match &mut self.fitting {
            Some(f) => f.take(g),
            None => self.ready.take(g),
        }
        self.order.push(g as u32);
        let by_memory = matches!(self.rule, Rule::Net | Rule::Peak);
        for &b in d.reads.of(g) {
            let b = b as usize;
            self.left[b] -= 1;
            self.one[b] ^= g as u32;
            if by_memory && self.left[b] == 1 {
                let last = self.one[b] as usize;
                let waits = self.fitting.as_ref().map_or_else(|| self.ready.holds(last), |f| f.holds(last));
                if waits {
                    self.arrive(last);
                }
            }
        }
        for &s in d.after.of(g) {
            self.needs[s as usize] -= 1;
            if self.needs[s as usize] == 0 {
                self.arrive(s as usize);
            }
        }
        self.stops -= usize::from(d.stops[g]);
        let settled = std::mem::replace(&mut self.settling, d.stops[g] && self.stops == 0);
        for &s in d.wishes.of(g).iter().chain(if settled { &d.waits[..] } else { &[] }) {
            self.wished[s as usize] -= 1;
            if self.wished[s as usize] == 0 {
                self.arrive(s as usize);
            }
        }
    }
}
