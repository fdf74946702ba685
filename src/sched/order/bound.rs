//! A certificate for orders: a lower bound, in lines, of the peak of every order.
//!
//! While group v runs, every value that an ancestor of v makes and a descendant of v reads is alive, in every order. So
//! are the leaves, the constants, and v's own operands, results and temporaries. Values that are alive together need
//! separate bytes, with two exceptions: the next value of a leaf may be made in the leaf (it is not counted), and a
//! result may take over an operand (its lines are subtracted).
//!
//! The bound of a group is at most the live lines of the group in any order. So groups are visited by falling live
//! lines in the best known order. [`BLOCK`] groups are visited at once: each is one bit of a set. The visit ends when
//! no remaining group can raise the bound, which is then the maximum over all groups. A budget of word operations,
//! [`BUDGET`], ends the search early on large programs (from some 10,000 groups on, if live lines hardly differ). Each
//! group's bound is valid on its own, so the result is valid then, too.

use super::deps::Deps;
use crate::error::Result;
use crate::sched::instructions::{BufKind, Instructions};
use crate::sched::intervals::interval_lines;

/// Words of a bit set of groups.
const WORDS: usize = 4;
/// Groups that are visited at once.
pub const BLOCK: usize = 64 * WORDS;
/// Most word operations, beyond those of the first [`BLOCK`] groups.
pub const BUDGET: usize = 1 << 25;

/// A set of groups of a block, by position in the block.
type Set = [u64; WORDS];

fn join_sets(a: &mut Set, b: &Set) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
}

fn is_in_set(s: &Set, k: usize) -> bool {
    s[k / 64] >> (k % 64) & 1 == 1
}

/// The bound in lines. `alive[g]` is the largest sum of live lines of group `g` in some order. An error if a buffer is
/// too large to be counted in lines.
pub fn order_bound(code: &Instructions, d: &Deps, alive: &[u64]) -> Result<u64> {
    let n = code.groups();
    let size = code.bytes.iter().map(|&b| interval_lines(b)).collect::<Result<Vec<u32>>>()?;
    let total = |kept: &dyn Fn(BufKind) -> bool| {
        (0..size.len()).filter(|&b| kept(code.kind[b])).map(|b| u64::from(size[b])).sum::<u64>()
    };
    let pinned = total(&BufKind::is_pinned);
    // At the end all outputs are alive.
    let mut best = total(&|k| k.is_pinned() || k == BufKind::Output);
    let mut groups: Vec<u32> = (0..n as u32).collect();
    groups.sort_by_key(|&g| (std::cmp::Reverse(alive[g as usize]), g));
    let mut b = OrderBoundBlock {
        code,
        d,
        size,
        anc: vec![[0; WORDS]; n],
        desc: vec![[0; WORDS]; n],
        position: vec![u32::MAX; n],
    };
    let cost = 2 * WORDS * d.after.items.len() + 16 * code.bytes.len() + 1;
    for (i, block) in groups.chunks(BLOCK).enumerate() {
        if alive[block[0] as usize] <= best || i * cost > BUDGET {
            break;
        }
        best = best.max(pinned + b.run(block));
    }
    Ok(best)
}

/// The visit of one block of groups.
struct OrderBoundBlock<'a> {
    code: &'a Instructions,
    d: &'a Deps,
    /// Lines of each buffer.
    size: Vec<u32>,
    /// For each group, the groups of the block that it is a proper ancestor of.
    anc: Vec<Set>,
    /// For each group, the groups of the block that it is a proper descendant of.
    desc: Vec<Set>,
    /// Position of each group in the block; `u32::MAX` for groups outside.
    position: Vec<u32>,
}

/// The instructions of a group at which a buffer is alive.
struct Span {
    buf: u32,
    first: usize,
    /// The last of them, included.
    last: usize,
}

impl OrderBoundBlock<'_> {
    /// The largest bound of one of `groups`, without pinned buffers.
    fn run(&mut self, groups: &[u32]) -> u64 {
        groups.iter().enumerate().for_each(|(k, &g)| self.position[g as usize] = k as u32);
        self.reach();
        let through = self.through();
        let needs = groups.iter().enumerate().map(|(k, &g)| through[k] + self.own(g as usize, k));
        let most = needs.max().unwrap_or(0);
        groups.iter().for_each(|&g| self.position[g as usize] = u32::MAX);
        most
    }

    fn reach(&mut self) {
        let n = self.position.len();
        let own = |k: u32, s: &mut Set| {
            if k != u32::MAX {
                s[k as usize / 64] |= 1 << (k % 64);
            }
        };
        for g in (0..n).rev() {
            let mut set = [0; WORDS];
            for &s in self.d.after.of(g) {
                join_sets(&mut set, &self.anc[s as usize]);
                own(self.position[s as usize], &mut set);
            }
            self.anc[g] = set;
        }
        for g in 0..n {
            let mut set = [0; WORDS];
            for &p in self.d.before.of(g) {
                join_sets(&mut set, &self.desc[p as usize]);
                own(self.position[p as usize], &mut set);
            }
            self.desc[g] = set;
        }
    }

    /// For each group of the block, lines of buffers that a proper ancestor writes and a proper descendant, or the
    /// caller, reads.
    fn through(&self) -> [u64; BLOCK] {
        let mut sum = [0u64; BLOCK];
        for b in 0..self.size.len() {
            let w = self.d.writer[b];
            if w == u32::MAX || self.size[b] == 0 || !self.counts(b) {
                continue;
            }
            let mut set = self.needed_after(b);
            set.iter_mut().zip(&self.anc[w as usize]).for_each(|(s, a)| *s &= a);
            for (word, &bits) in set.iter().enumerate() {
                let mut bits = bits;
                while bits != 0 {
                    sum[64 * word + bits.trailing_zeros() as usize] += u64::from(self.size[b]);
                    bits &= bits - 1;
                }
            }
        }
        sum
    }

    /// True if buffer `b` needs bytes of its own: it is not pinned, and is not expected to be made in a leaf.
    fn counts(&self, b: usize) -> bool {
        !self.code.kind[b].is_pinned() && !self.d.lands[b]
    }

    /// The groups of the block after which buffer `b` is still read, in every order.
    fn needed_after(&self, b: usize) -> Set {
        if self.code.kind[b] == BufKind::Output {
            return [u64::MAX; WORDS];
        }
        let mut set = [0; WORDS];
        self.d.readers.of(b).iter().for_each(|&r| join_sets(&mut set, &self.desc[r as usize]));
        set
    }

    /// The largest sum, over the instructions of group `g` at position `k`, of live lines that
    /// [`OrderBoundBlock::through`] does not count.
    fn own(&self, g: usize, k: usize) -> u64 {
        let range = self.code.group(g);
        let mut most = 0;
        let mut spans: Vec<Span> = Vec::new();
        for &b in self.d.reads.of(g).iter().chain(self.d.writes.of(g)) {
            let at = b as usize;
            let mine = self.d.writer[at] == g as u32;
            let through = !mine && is_in_set(&self.needed_after(at), k);
            if through || !self.counts(at) || self.size[at] == 0 || spans.iter().any(|s| s.buf == b) {
                continue;
            }
            let uses = |i: &usize| self.code.reads_of(*i).iter().chain(self.code.writes_of(*i)).any(|o| o.buf == b);
            let first = if mine { range.clone().find(uses) } else { Some(range.start) };
            let outside = mine && self.kept(at, g);
            let last = if outside { Some(range.end - 1) } else { range.clone().rev().find(uses) };
            if let (Some(first), Some(last)) = (first, last) {
                spans.push(Span { buf: b, first, last });
            }
        }
        for i in range {
            let alive =
                spans.iter().filter(|s| s.first <= i && i <= s.last).map(|s| u64::from(self.size[s.buf as usize]));
            most = most.max(alive.sum::<u64>() - self.shared(i, &spans));
        }
        most
    }

    /// True if buffer `b`, which group `g` writes, is read by other groups or by the caller.
    fn kept(&self, b: usize, g: usize) -> bool {
        self.code.kind[b] == BufKind::Output || self.d.readers.of(b).iter().any(|&r| r as usize != g)
    }

    /// The most lines of `spans` that results of instruction `i` can share with operands that die there.
    fn shared(&self, i: usize, spans: &[Span]) -> u64 {
        // Positions counted so far, as bits, and their lines.
        let (mut writes, mut reads) = ((0u64, 0u64), (0u64, 0u64));
        let span = |b: u32| spans.iter().find(|s| s.buf == b);
        for &(r, w) in self.code.pairs_of(i) {
            let (read, write) = (&self.code.reads_of(i)[usize::from(r)], &self.code.writes_of(i)[usize::from(w)]);
            let (Some(old), Some(new)) = (span(read.buf), span(write.buf)) else { continue };
            // What this group wrote before, and changes here, is no new buffer.
            let same = self.size[old.buf as usize] == self.size[new.buf as usize];
            if old.last != i || new.first != i || !same {
                continue;
            }
            // Each position counts once.
            let lines = u64::from(self.size[new.buf as usize]);
            for (seen, position) in [(&mut reads, r), (&mut writes, w)] {
                // Positions from 64 on have no bit and count each time, which only lowers the bound.
                let bit = 1u64.checked_shl(u32::from(position)).unwrap_or(0);
                if seen.0 & bit == 0 {
                    seen.0 |= bit;
                    seen.1 += lines;
                }
            }
        }
        writes.1.min(reads.1)
    }
}
