//! A certificate for orders: lines that no order of the groups can do without.
//!
//! While group v runs, whatever was made before v in *every* order (by an ancestor) and is read after v in every order
//! (by a descendant) is alive, beside the leaves, the constants, and v's own operands, results and temporaries. Values
//! that are alive together need bytes of their own however bytes are shared, with two exceptions, which are left out
//! or taken off: the next value of a leaf may lie in the leaf, and a result in the operand that it may take over.
//!
//! The bound of a group is at most what any order has alive there. So groups are taken by falling need in the best
//! known order, [`LANES`] at once (a bit each), until no remaining group can raise the bound: then it is the maximum
//! over all groups. A budget of word operations, [`BUDGET`], ends the search early on large programs (from some 10,000
//! groups on, if needs are flat); each group's bound is valid on its own, so what was found until then is too.

use super::super::code::{BufKind, Code};
use super::super::live::lines;
use super::deps::Deps;
use crate::error::Result;

/// Words of a bit set of groups.
const WORDS: usize = 4;
/// Groups that are treated at once.
pub const LANES: usize = 64 * WORDS;
/// Word operations to spend at most, beyond those of the first [`LANES`] groups.
pub const BUDGET: usize = 1 << 25;

type Set = [u64; WORDS];

fn join(a: &mut Set, b: &Set) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
}

fn has(s: &Set, lane: usize) -> bool {
    s[lane / 64] >> (lane % 64) & 1 == 1
}

/// The bound in lines, given the most lines that each group has alive in some order.
pub fn bound(code: &Code, d: &Deps, alive: &[u64]) -> Result<u64> {
    let n = code.groups();
    let size = code.bytes.iter().map(|&b| lines(b)).collect::<Result<Vec<u32>>>()?;
    let total = |kept: &dyn Fn(BufKind) -> bool| {
        (0..size.len()).filter(|&b| kept(code.kind[b])).map(|b| u64::from(size[b])).sum::<u64>()
    };
    let pinned = total(&BufKind::is_pinned);
    // At the end all outputs are there.
    let mut best = total(&|k| k.is_pinned() || k == BufKind::Output);
    let mut groups: Vec<u32> = (0..n as u32).collect();
    groups.sort_by_key(|&g| (std::cmp::Reverse(alive[g as usize]), g));
    let mut b = Block { code, d, size, anc: vec![[0; WORDS]; n], desc: vec![[0; WORDS]; n], lane: vec![u32::MAX; n] };
    let cost = 2 * WORDS * d.after.items.len() + 16 * code.bytes.len() + 1;
    for (i, block) in groups.chunks(LANES).enumerate() {
        if alive[block[0] as usize] <= best || i * cost > BUDGET {
            break;
        }
        best = best.max(pinned + b.run(block));
    }
    Ok(best)
}

struct Block<'a> {
    code: &'a Code,
    d: &'a Deps,
    /// Lines of each buffer.
    size: Vec<u32>,
    /// Which of the block's groups each group is a proper ancestor of, and a proper descendant.
    anc: Vec<Set>,
    desc: Vec<Set>,
    /// Place of each group in the block, or `u32::MAX`.
    lane: Vec<u32>,
}

impl Block<'_> {
    /// The largest need of one of `groups`, without what is pinned.
    fn run(&mut self, groups: &[u32]) -> u64 {
        groups.iter().enumerate().for_each(|(k, &g)| self.lane[g as usize] = k as u32);
        self.reach();
        let through = self.through();
        let needs = groups.iter().enumerate().map(|(k, &g)| through[k] + self.own(g as usize, k));
        let most = needs.max().unwrap_or(0);
        groups.iter().for_each(|&g| self.lane[g as usize] = u32::MAX);
        most
    }

    fn reach(&mut self) {
        let n = self.lane.len();
        let own = |lane: u32, s: &mut Set| {
            if lane != u32::MAX {
                s[lane as usize / 64] |= 1 << (lane % 64);
            }
        };
        for g in (0..n).rev() {
            let mut set = [0; WORDS];
            for &s in self.d.after.of(g) {
                join(&mut set, &self.anc[s as usize]);
                own(self.lane[s as usize], &mut set);
            }
            self.anc[g] = set;
        }
        for g in 0..n {
            let mut set = [0; WORDS];
            for &p in self.d.before.of(g) {
                join(&mut set, &self.desc[p as usize]);
                own(self.lane[p as usize], &mut set);
            }
            self.desc[g] = set;
        }
    }

    /// Lines made by a proper ancestor and needed by a proper descendant (or by the caller), for each lane.
    fn through(&self) -> [u64; LANES] {
        let mut sum = [0u64; LANES];
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

    /// Whether buffer `b` needs bytes of its own: it is no leaf, and will not be made in one.
    fn counts(&self, b: usize) -> bool {
        !self.code.kind[b].is_pinned() && !self.d.lands[b]
    }

    /// The threads after whose groups some group needs buffer `b`.
    fn needed_after(&self, b: usize) -> Set {
        if self.code.kind[b] == BufKind::Output {
            return [u64::MAX; WORDS];
        }
        let mut set = [0; WORDS];
        self.d.readers.of(b).iter().for_each(|&r| join(&mut set, &self.desc[r as usize]));
        set
    }

    /// The most lines of buffers that only group `g` itself proves to be alive, at one of its instructions.
    fn own(&self, g: usize, lane: usize) -> u64 {
        let range = self.code.group(g);
        let mut most = 0;
        // (buffer, first and last instruction that it is alive at)
        let mut spans: Vec<(u32, usize, usize)> = Vec::new();
        for &b in self.d.reads.of(g).iter().chain(self.d.writes.of(g)) {
            let at = b as usize;
            let mine = self.d.writer[at] == g as u32;
            let through = !mine && has(&self.needed_after(at), lane);
            if through || !self.counts(at) || self.size[at] == 0 || spans.iter().any(|s| s.0 == b) {
                continue;
            }
            let uses = |i: &usize| self.code.reads_of(*i).iter().chain(self.code.writes_of(*i)).any(|o| o.buf == b);
            let first = if mine { range.clone().find(uses) } else { Some(range.start) };
            let outside = mine && self.kept(at, g);
            let last = if outside { Some(range.end - 1) } else { range.clone().rev().find(uses) };
            if let (Some(first), Some(last)) = (first, last) {
                spans.push((b, first, last));
            }
        }
        for i in range {
            let alive = spans.iter().filter(|s| s.1 <= i && i <= s.2).map(|s| u64::from(self.size[s.0 as usize]));
            most = most.max(alive.sum::<u64>() - self.shared(i, &spans));
        }
        most
    }

    /// Whether buffer `b`, which group `g` writes, is needed outside.
    fn kept(&self, b: usize, g: usize) -> bool {
        self.code.kind[b] == BufKind::Output || self.d.readers.of(b).iter().any(|&r| r as usize != g)
    }

    /// The most lines of `spans` that results of instruction `i` can share with operands that die there.
    fn shared(&self, i: usize, spans: &[(u32, usize, usize)]) -> u64 {
        let (mut over, mut under) = ((0u64, 0u64), (0u64, 0u64));
        let span = |b: u32| spans.iter().find(|s| s.0 == b);
        for &(r, w) in self.code.pairs_of(i) {
            let (read, write) = (&self.code.reads_of(i)[usize::from(r)], &self.code.writes_of(i)[usize::from(w)]);
            let (Some(old), Some(new)) = (span(read.buf), span(write.buf)) else { continue };
            if read.buf == write.buf
                || old.2 != i
                || new.1 != i
                || self.size[old.0 as usize] != self.size[new.0 as usize]
            {
                continue;
            }
            // Each position once: a bit for each of the 64 that a call may have.
            let lines = u64::from(self.size[new.0 as usize]);
            for (seen, position) in [(&mut under, r), (&mut over, w)] {
                let bit = 1u64 << (position % 64);
                // Beyond 64 operands a bit may stand for two; then both are taken off, which is safe.
                if seen.0 & bit == 0 || position >= 64 {
                    seen.0 |= bit;
                    seen.1 += lines;
                }
            }
        }
        over.1.min(under.1)
    }
}
