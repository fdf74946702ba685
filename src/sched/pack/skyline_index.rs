//! The skyline's index: the unplaced buffer of best rank inside a segment.
//!
//! A buffer is inside `[a, b)` if it starts at `a` or later and ends at `b` or before. Buffers are grouped into classes
//! by length: class k has lengths from 2^k to 2^(k+1) - 1. A buffer of class k that starts in `[a, b - 2^(k+1)]` is
//! inside, whatever its end. So the best of these is the minimum of a range, which a tree over starts finds. A buffer
//! that starts later and is inside contains section `b - 2^k`. Such buffers are few, or nested like the activations of
//! a training step. They are searched by their ends.

/// A segment tree over the buffers of each class, by start.
pub struct SkylineIndex {
    /// First section.
    low: u32,
    class: Vec<SkylineIndexClass>,
    /// Leaf and class of each rank.
    leaf: Vec<(u32, u8)>,
}

/// The buffers of one class.
#[derive(Default)]
struct SkylineIndexClass {
    /// Start section of each.
    start: Vec<u32>,
    /// First buffer of each 2^k sections.
    bucket: Vec<u32>,
    leaves: usize,
    /// The tree: children of node `i` are `2 * i` and `2 * i + 1`; leaves start at `leaves`.
    node: Vec<Least>,
}

/// Minima over the unplaced buffers below a node of the tree.
#[derive(Clone, Copy, PartialEq)]
struct Least {
    end: u32,
    rank: u32,
}

/// The node of a removed buffer.
const GONE: Least = Least { end: u32::MAX, rank: u32::MAX };

impl SkylineIndex {
    /// An index of buffers that are sorted by start; `order` lists them by rank.
    pub fn new(start: &[u32], end: &[u32], order: &[u32]) -> SkylineIndex {
        let mut rank = vec![0u32; order.len()];
        order.iter().enumerate().for_each(|(r, &k)| rank[k as usize] = r as u32);
        let mut class: Vec<SkylineIndexClass> = Vec::new();
        let mut leaf = vec![(0, 0); order.len()];
        let of = |k: usize| (end[k] - start[k]).ilog2() as usize;
        for k in 0..start.len() {
            if of(k) >= class.len() {
                class.resize_with(of(k) + 1, SkylineIndexClass::default);
            }
            class[of(k)].start.push(start[k]);
        }
        let low = start.first().copied().unwrap_or(0);
        let last = start.last().copied().unwrap_or(low);
        for (k, c) in class.iter_mut().enumerate() {
            c.bucket = vec![0; ((last - low) >> k) as usize + 2];
            c.start.iter().for_each(|s| c.bucket[((s - low) >> k) as usize + 1] += 1);
            (1..c.bucket.len()).for_each(|i| c.bucket[i] += c.bucket[i - 1]);
            c.leaves = c.start.len().next_power_of_two();
            c.node = vec![GONE; 2 * c.leaves];
        }
        let mut filled = vec![0usize; class.len()];
        for k in 0..start.len() {
            let (c, at) = (&mut class[of(k)], &mut filled[of(k)]);
            leaf[rank[k] as usize] = ((c.leaves + *at) as u32, of(k) as u8);
            c.node[c.leaves + *at] = Least { end: end[k], rank: rank[k] };
            *at += 1;
        }
        class.iter_mut().for_each(|c| (1..c.leaves).rev().for_each(|i| c.pull(i)));
        SkylineIndex { low, class, leaf }
    }

    /// Removes the buffer of rank `rank`.
    pub fn remove(&mut self, rank: u32) {
        let (leaf, class) = self.leaf[rank as usize];
        let c = &mut self.class[class as usize];
        let mut i = leaf as usize;
        c.node[i] = GONE;
        while i > 1 {
            i /= 2;
            let old = c.node[i];
            c.pull(i);
            if c.node[i] == old {
                break;
            }
        }
    }

    /// The least rank inside `[a, b)`.
    pub fn best(&self, a: u32, b: u32) -> Option<u32> {
        let mut best = u32::MAX;
        for k in (0..=((b - a).ilog2() as usize)).rev() {
            let Some(c) = self.class.get(k) else { continue };
            if c.node[1].rank >= best || c.node[1].end > b {
                continue;
            }
            let from = c.first(k, self.low, a);
            // A buffer of this class has 2^k to 2^(k+1) - 1 sections.
            let to = c.first(k, self.low, b + 1 - (1 << k));
            if from == to {
                continue;
            }
            let sure = match (b - a).checked_sub((2 << k) - 1) {
                Some(d) => c.first(k, self.low, a + d + 1),
                None => from,
            };
            c.least(from, sure, &mut best);
            c.inside(sure, to, b, &mut best);
        }
        (best != u32::MAX).then_some(best)
    }
}

impl SkylineIndexClass {
    fn pull(&mut self, i: usize) {
        let (l, r) = (self.node[2 * i], self.node[2 * i + 1]);
        self.node[i] = Least { end: l.end.min(r.end), rank: l.rank.min(r.rank) };
    }

    /// The first buffer that starts at section `s` or later.
    fn first(&self, k: usize, low: u32, s: u32) -> usize {
        let i = ((s.max(low) - low) >> k) as usize;
        let Some(&[from, to]) = self.bucket.get(i..i + 2) else { return self.start.len() };
        from as usize + self.start[from as usize..to as usize].partition_point(|&x| x < s)
    }

    /// The least rank of buffers `from..to`.
    fn least(&self, from: usize, to: usize, best: &mut u32) {
        let (mut a, mut b) = (from + self.leaves, to + self.leaves);
        while a < b {
            if a % 2 == 1 {
                *best = self.node[a].rank.min(*best);
                a += 1;
            }
            if b % 2 == 1 {
                b -= 1;
                *best = self.node[b].rank.min(*best);
            }
            (a, b) = (a / 2, b / 2);
        }
    }

    /// The least rank of buffers `from..to` that end at `limit` or before.
    fn inside(&self, from: usize, to: usize, limit: u32, best: &mut u32) {
        let (mut a, mut b) = (from + self.leaves, to + self.leaves);
        while a < b {
            if a % 2 == 1 {
                self.descend(a, limit, best);
                a += 1;
            }
            if b % 2 == 1 {
                b -= 1;
                self.descend(b, limit, best);
            }
            (a, b) = (a / 2, b / 2);
        }
    }

    fn descend(&self, i: usize, limit: u32, best: &mut u32) {
        let Least { end, rank } = self.node[i];
        if end > limit || rank >= *best {
            return;
        }
        if i >= self.leaves {
            *best = rank;
            return;
        }
        // The child with the lesser rank first: it prunes the other one more often.
        let (l, r) = (2 * i, 2 * i + 1);
        let (x, y) = if self.node[l].rank <= self.node[r].rank { (l, r) } else { (r, l) };
        self.descend(x, limit, best);
        self.descend(y, limit, best);
    }
}
