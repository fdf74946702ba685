//! The order of instruction groups.
//!
//! A few candidates are made by list scheduling, each in O((V + E) log V), and scored by what they cost after sharing
//! of bytes: the largest sum of lines alive at once. The cheapest is kept; earlier candidates win ties, program order
//! first, because it is what the user wrote and what caches know. A heuristic alone is not to be trusted: on some
//! graphs the memory-aware rule needs twice what program order needs.
//!
//! Beside data, *wishes* order groups: readers of a leaf come before the group that makes its next value, so that the
//! value can be made in the leaf's bytes. A wish that data forbids is dropped.

use super::alias::{Alias, alias};
use super::code::{BufKind, Code};
use super::live::{Intervals, intervals};
use crate::error::Result;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An order with its consequences.
pub struct Ordered {
    /// The instructions, in order, with the copies that updates need.
    pub code: Code,
    /// Who shares bytes.
    pub alias: Alias,
    /// Lifetimes.
    pub live: Intervals,
    /// Lines alive at once.
    pub bound: u64,
    /// The candidate's name.
    pub name: &'static str,
}

/// How the next group is chosen among those that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The first in program order.
    Program,
    /// Groups that only serve the update of a leaf at once; else the first in program order.
    Eager,
    /// The one that frees most, net of what it takes; ties by program order.
    Memory,
}

/// The candidates, in the order in which they win ties.
pub const CANDIDATES: &[(&str, Rule)] = &[("program", Rule::Program), ("eager", Rule::Eager), ("memory", Rule::Memory)];

/// The best order of `code`.
pub fn best(code: &Code) -> Result<Ordered> {
    let deps = Deps::new(code);
    let mut best: Option<Ordered> = None;
    let mut seen: Vec<Vec<u32>> = Vec::new();
    for &(name, rule) in CANDIDATES {
        let order = schedule(code, &deps, rule);
        if seen.contains(&order) {
            continue;
        }
        let o = score(code, &order, name)?;
        if best.as_ref().is_none_or(|b| o.bound < b.bound) {
            best = Some(o);
        }
        seen.push(order);
    }
    match best {
        Some(b) => Ok(b),
        None => score(code, &[], "program"),
    }
}

fn score(code: &Code, order: &[u32], name: &'static str) -> Result<Ordered> {
    let mut code = code.permuted(order);
    let alias = alias(&mut code);
    let live = intervals(&code, &alias)?;
    let bound = live.max_live();
    Ok(Ordered { code, alias, live, bound, name })
}

/// Lists of `u32`, one for each index.
#[derive(Default)]
struct Lists {
    at: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// From pairs (index, item); items of an index keep their order.
    fn new(n: usize, pairs: &[(u32, u32)]) -> Lists {
        let mut at = vec![0u32; n + 1];
        pairs.iter().for_each(|p| at[p.0 as usize + 1] += 1);
        (0..n).for_each(|i| at[i + 1] += at[i]);
        let (mut next, mut items) = (at.clone(), vec![0; pairs.len()]);
        for &(i, item) in pairs {
            items[next[i as usize] as usize] = item;
            next[i as usize] += 1;
        }
        Lists { at, items }
    }

    fn of(&self, i: usize) -> &[u32] {
        &self.items[self.at[i] as usize..self.at[i + 1] as usize]
    }
}

/// What must come before what.
struct Deps {
    /// Groups that need what a group writes.
    after: Lists,
    /// Groups that should come after a group.
    wishes: Lists,
    /// Distinct buffers that a group reads.
    reads: Lists,
    /// Distinct buffers that a group writes.
    writes: Lists,
    /// Distinct groups that read a buffer.
    readers: Lists,
    /// Groups that only serve the update of a leaf.
    serves: Vec<bool>,
    /// Whether a buffer will be made in the bytes of a leaf.
    lands: Vec<bool>,
}

fn distinct(code: &Code, write: bool) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for g in 0..code.groups() {
        let start = pairs.len();
        for i in code.group(g) {
            let ops = if write { code.writes_of(i) } else { code.reads_of(i) };
            pairs.extend(ops.iter().map(|o| (g as u32, o.buf)));
        }
        pairs[start..].sort_unstable();
    }
    pairs.dedup();
    pairs
}

impl Deps {
    fn new(code: &Code) -> Deps {
        let (n, bufs) = (code.groups(), code.bytes.len());
        let (read, written) = (distinct(code, false), distinct(code, true));
        let mut writer = vec![u32::MAX; bufs];
        written.iter().for_each(|&(g, b)| writer[b as usize] = g);
        let by_buf = |pairs: &[(u32, u32)]| pairs.iter().map(|&(g, b)| (b, g)).collect::<Vec<_>>();
        let readers = Lists::new(bufs, &by_buf(&read));
        let mut edges = Vec::new();
        for &(g, b) in &read {
            let w = writer[b as usize];
            if w != u32::MAX && w != g {
                edges.push((w, g));
            }
        }
        let effects: Vec<u32> = (0..n as u32).filter(|&g| code.effect[g as usize]).collect();
        edges.extend(effects.windows(2).map(|w| (w[0], w[1])));
        let mut wishes = Vec::new();
        let mut lands = vec![false; bufs];
        for u in &code.updates {
            let maker = writer[u.from.buf as usize];
            if maker == u32::MAX || code.kind[u.from.buf as usize] != BufKind::Activation {
                continue;
            }
            lands[u.from.buf as usize] = code.is_whole(&u.from);
            let before = readers.of(u.leaf as usize).iter().filter(|&&r| r != maker);
            wishes.extend(before.map(|&r| (r, maker)));
        }
        let mut d = Deps {
            after: Lists::new(n, &edges),
            wishes: Lists::new(n, &wishes),
            reads: Lists::new(n, &read),
            writes: Lists::new(n, &written),
            readers,
            serves: Vec::new(),
            lands,
        };
        d.serves = d.servants(code);
        d
    }

    /// Groups all of whose results are next values of leaves, or are read only by such groups for a value of the same
    /// size (the gradient itself, then): to be run as soon as they can be.
    fn servants(&self, code: &Code) -> Vec<bool> {
        let n = code.groups();
        let mut serves = vec![false; n];
        // Bytes of the leaves that a group serves; 0 for none.
        let mut size = vec![0usize; n];
        let mut next = vec![0usize; code.bytes.len()];
        code.updates.iter().for_each(|u| next[u.from.buf as usize] = u.from.bytes());
        for g in (0..n).rev() {
            let mut ok = !code.effect[g];
            for &b in self.writes.of(g) {
                let b = b as usize;
                let readers = self.readers.of(b);
                let own = readers.iter().all(|&r| r as usize == g);
                let kind = code.kind[b];
                if kind == BufKind::Scratch || (next[b] > 0 && own) {
                    size[g] = size[g].max(next[b]);
                    continue;
                }
                let all = readers.iter().all(|&r| {
                    let r = r as usize;
                    r == g || (r > g && serves[r] && (next[b] > 0 || size[r] == code.bytes[b]))
                });
                ok &= kind == BufKind::Activation && !readers.is_empty() && all;
                size[g] = size[g].max(code.bytes[b]);
            }
            serves[g] = ok && size[g] > 0;
        }
        serves
    }
}

/// A list schedule of all groups.
fn schedule(code: &Code, d: &Deps, rule: Rule) -> Vec<u32> {
    let n = code.groups();
    let mut s = Scheduler {
        code,
        d,
        rule,
        needs: vec![0; n],
        wished: vec![0; n],
        left: (0..code.bytes.len()).map(|b| d.readers.of(b).len() as u32).collect(),
        one: (0..code.bytes.len()).map(|b| d.readers.of(b).iter().fold(0, |x, g| x ^ g)).collect(),
        key: vec![i64::MAX; n],
        done: vec![false; n],
        ready: BinaryHeap::new(),
        held: BinaryHeap::new(),
        order: Vec::with_capacity(n),
    };
    d.after.items.iter().for_each(|&g| s.needs[g as usize] += 1);
    d.wishes.items.iter().for_each(|&g| s.wished[g as usize] += 1);
    (0..n).for_each(|g| s.arrive(g));
    while s.order.len() < n && s.next() {}
    s.order
}

struct Scheduler<'a> {
    code: &'a Code,
    d: &'a Deps,
    rule: Rule,
    /// Edges and wishes into each group that are still open.
    needs: Vec<u32>,
    wished: Vec<u32>,
    /// Readers of each buffer that are still to come, and the XOR of their ids: the reader itself when one is left.
    left: Vec<u32>,
    one: Vec<u32>,
    key: Vec<i64>,
    done: Vec<bool>,
    /// Ready groups by key; entries whose key is outdated are skipped.
    ready: BinaryHeap<Reverse<(i64, u32)>>,
    /// Groups whose data is there and whose wishes are not.
    held: BinaryHeap<Reverse<u32>>,
    order: Vec<u32>,
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
        self.key[g] = match self.rule {
            Rule::Program => 0,
            Rule::Eager => -i64::from(self.d.serves[g]),
            Rule::Memory => self.growth(g),
        };
        self.ready.push(Reverse((self.key[g], g as u32)));
    }

    /// Bytes that running `g` now takes, less those that it frees.
    fn growth(&self, g: usize) -> i64 {
        let own = |b: usize| matches!(self.code.kind[b], BufKind::Activation);
        let takes = self.d.writes.of(g).iter().map(|&b| b as usize);
        let takes = takes.filter(|&b| self.code.kind[b] != BufKind::Scratch && !self.d.lands[b]);
        let takes: i64 = takes.map(|b| self.code.bytes[b] as i64).sum();
        let frees = self.d.reads.of(g).iter().map(|&b| b as usize);
        let frees = frees.filter(|&b| own(b) && !self.d.lands[b] && self.left[b] == 1);
        takes - frees.map(|b| self.code.bytes[b] as i64).sum::<i64>()
    }

    /// Runs the best ready group, or, where wishes go in a circle, the first of those that data allows.
    fn next(&mut self) -> bool {
        while let Some(Reverse((key, g))) = self.ready.pop() {
            if !self.done[g as usize] && self.key[g as usize] == key {
                self.run(g as usize);
                return true;
            }
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
        self.done[g] = true;
        self.order.push(g as u32);
        let d = self.d;
        for &b in d.reads.of(g) {
            let b = b as usize;
            self.left[b] -= 1;
            self.one[b] ^= g as u32;
            if self.rule == Rule::Memory && self.left[b] == 1 {
                let last = self.one[b] as usize;
                if self.key[last] != i64::MAX {
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
        for &s in d.wishes.of(g) {
            self.wished[s as usize] -= 1;
            if self.wished[s as usize] == 0 {
                self.arrive(s as usize);
            }
        }
    }
}
