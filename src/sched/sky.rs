//! The skyline packer: always fill the lowest place.
//!
//! The skyline is the height reached at each moment. Its lowest segment `[a, b)` takes, of the unplaced buffers that
//! live inside it, the one of best static rank; if there is none, the segment rises to its lower neighbour and the two
//! become one. Times are fixed, so each buffer has one column range, and every plan without holes below a buffer is
//! reached by some rank. A pass costs O(N log N) on all graphs but contrived ones, for which a query that has an
//! answer gives up looking for a better one after [`PATIENCE`] nodes.

use super::live::Intervals;
use super::plan::Offsets;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nodes of the index that a query visits at most once it has an answer.
const PATIENCE: usize = 2048;

/// What a buffer is ranked by: the largest total of lines alive during its life, its length in sections, its area and
/// its size.
#[derive(Clone, Copy)]
struct Facts {
    total: u64,
    width: u64,
    area: u64,
    size: u64,
}

/// A rank: larger goes first.
type Rank = fn(&Facts) -> [u64; 3];

/// The ranks that are tried, those that are cheapest and most often enough first.
const RANKS: &[Rank] = &[
    |f| [f.total, f.width, f.area],
    |f| [f.total, f.area, f.width],
    |f| [f.area, f.width, f.total],
    |f| [f.size, f.width, f.total],
    |f| [f.width, f.area, f.total],
    |f| [f.total, f.size, f.width],
];

/// The best of one pass for each rank; the first that reaches the bound.
pub fn skyline(v: &Intervals) -> Offsets {
    let bound = v.max_live();
    let p = Problem::new(v);
    let mut best: Option<Vec<u64>> = None;
    let mut least = u64::MAX;
    for rank in RANKS {
        if least == bound {
            break;
        }
        let at = p.pack(*rank);
        let height = (0..at.len()).map(|i| at[i] + p.size[i]).max().unwrap_or(0);
        if height < least {
            (least, best) = (height, Some(at));
        }
    }
    let mut o = Offsets { at: vec![0; v.len()], height: if least == u64::MAX { 0 } else { least } };
    for (k, &at) in best.unwrap_or_default().iter().enumerate() {
        // Below the sum of all lines, which `pack` checked.
        o.at[p.id[k] as usize] = at as u32;
    }
    o
}

/// The buffers that take bytes, by start; times are numbers of sections.
struct Problem {
    id: Vec<u32>,
    start: Vec<u32>,
    end: Vec<u32>,
    size: Vec<u64>,
    facts: Vec<Facts>,
    sections: u32,
}

impl Problem {
    fn new(v: &Intervals) -> Problem {
        let mut id: Vec<u32> = (0..v.len() as u32)
            .filter(|&i| v.lines[i as usize] > 0 && v.first[i as usize] < v.end[i as usize])
            .collect();
        id.sort_by_key(|&i| (v.first[i as usize], i));
        let mut times: Vec<u32> = id.iter().flat_map(|&i| [v.first[i as usize], v.end[i as usize]]).collect();
        times.sort_unstable();
        times.dedup();
        let section = |t: u32| times.partition_point(|&x| x < t) as u32;
        let start: Vec<u32> = id.iter().map(|&i| section(v.first[i as usize])).collect();
        let end: Vec<u32> = id.iter().map(|&i| section(v.end[i as usize])).collect();
        let size: Vec<u64> = id.iter().map(|&i| u64::from(v.lines[i as usize])).collect();
        let sections = times.len().saturating_sub(1) as u32;
        let totals = totals(&start, &end, &size, sections as usize);
        let facts = (0..id.len()).map(|k| {
            let width = u64::from(end[k] - start[k]);
            let total = totals.most(start[k] as usize, end[k] as usize);
            Facts { total, width, area: width * size[k], size: size[k] }
        });
        Problem { facts: facts.collect(), id, start, end, size, sections }
    }

    /// One pass: the first line of each buffer.
    fn pack(&self, rank: Rank) -> Vec<u64> {
        let n = self.id.len();
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by_cached_key(|&k| (Reverse(rank(&self.facts[k as usize])), k));
        let mut rank_of = vec![0u32; n];
        order.iter().enumerate().for_each(|(r, &k)| rank_of[k as usize] = r as u32);
        let mut index = Index::new(&self.end, &rank_of);
        let mut sky = Skyline::new(self.sections);
        let mut at = vec![0u64; n];
        let mut left = n;
        while left > 0 {
            let Some((height, a, b)) = sky.lowest() else { break };
            let from = self.start.partition_point(|&s| s < a);
            let to = self.start.partition_point(|&s| s < b);
            match index.best(from, to, b) {
                Some(k) => {
                    at[k] = height;
                    index.remove(k);
                    sky.place(a, self.start[k], self.end[k], height + self.size[k]);
                    left -= 1;
                }
                None => sky.raise(a),
            }
        }
        at
    }
}

/// Sums of sizes alive in each section, with the largest of a range.
struct Totals(Vec<Vec<u64>>);

fn totals(start: &[u32], end: &[u32], size: &[u64], sections: usize) -> Totals {
    let mut change = vec![0i64; sections + 1];
    for k in 0..start.len() {
        change[start[k] as usize] += size[k] as i64;
        change[end[k] as usize] -= size[k] as i64;
    }
    let mut live = 0;
    let first = change[..sections].iter().map(|c| {
        live += c;
        live as u64
    });
    // Row `r` holds the largest of each 2^r sections in a row.
    let mut rows: Vec<Vec<u64>> = vec![first.collect()];
    let mut step = 1;
    while 2 * step <= sections {
        let last = &rows[rows.len() - 1];
        let next = (0..=sections - 2 * step).map(|i| last[i].max(last[i + step])).collect();
        rows.push(next);
        step *= 2;
    }
    Totals(rows)
}

impl Totals {
    fn most(&self, a: usize, b: usize) -> u64 {
        let row = (b - a).ilog2() as usize;
        self.0[row][a].max(self.0[row][b - (1 << row)])
    }
}

/// A segment tree over buffers by start: the least end and the least rank of the unplaced ones below each node.
struct Index {
    leaves: usize,
    end: Vec<u32>,
    rank: Vec<u32>,
}

impl Index {
    fn new(end: &[u32], rank: &[u32]) -> Index {
        let leaves = end.len().next_power_of_two();
        let mut t = Index { leaves, end: vec![u32::MAX; 2 * leaves], rank: vec![u32::MAX; 2 * leaves] };
        t.end[leaves..leaves + end.len()].copy_from_slice(end);
        t.rank[leaves..leaves + rank.len()].copy_from_slice(rank);
        (1..leaves).rev().for_each(|i| t.pull(i));
        t
    }

    fn pull(&mut self, i: usize) {
        self.end[i] = self.end[2 * i].min(self.end[2 * i + 1]);
        self.rank[i] = self.rank[2 * i].min(self.rank[2 * i + 1]);
    }

    fn remove(&mut self, k: usize) {
        let mut i = self.leaves + k;
        (self.end[i], self.rank[i]) = (u32::MAX, u32::MAX);
        while i > 1 {
            i /= 2;
            self.pull(i);
        }
    }

    /// Of the buffers `from..to`, the one of least rank that ends at `limit` or before.
    fn best(&self, from: usize, to: usize, limit: u32) -> Option<usize> {
        let mut q = Query { limit, best: None, rank: u32::MAX, visits: 0 };
        // The nodes that make up the range, from both ends inwards.
        let (mut a, mut b) = (from + self.leaves, to + self.leaves);
        while a < b {
            if a % 2 == 1 {
                self.descend(a, &mut q);
                a += 1;
            }
            if b % 2 == 1 {
                b -= 1;
                self.descend(b, &mut q);
            }
            (a, b) = (a / 2, b / 2);
        }
        q.best
    }

    fn descend(&self, i: usize, q: &mut Query) {
        q.visits += 1;
        if self.end[i] > q.limit || self.rank[i] >= q.rank || (q.best.is_some() && q.visits > PATIENCE) {
            return;
        }
        if i >= self.leaves {
            (q.best, q.rank) = (Some(i - self.leaves), self.rank[i]);
            return;
        }
        // The child with the better rank first: it cuts the other one off more often.
        let (l, r) = (2 * i, 2 * i + 1);
        let (x, y) = if self.rank[l] <= self.rank[r] { (l, r) } else { (r, l) };
        self.descend(x, q);
        self.descend(y, q);
    }
}

struct Query {
    limit: u32,
    best: Option<usize>,
    rank: u32,
    visits: usize,
}

/// The segments, keyed by their first section.
struct Skyline {
    /// One past the last section of the segment that starts here; 0 if none does.
    end: Vec<u32>,
    height: Vec<u64>,
    /// Start of the segment before the one that starts here.
    prev: Vec<u32>,
    /// (height, start, end), some outdated.
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    sections: u32,
}

impl Skyline {
    fn new(sections: u32) -> Skyline {
        let n = sections as usize + 1;
        let mut s =
            Skyline { end: vec![0; n], height: vec![0; n], prev: vec![0; n], heap: BinaryHeap::new(), sections };
        if sections > 0 {
            s.set(0, sections, 0);
        }
        s
    }

    fn set(&mut self, a: u32, b: u32, height: u64) {
        self.end[a as usize] = b;
        self.height[a as usize] = height;
        if b < self.sections {
            self.prev[b as usize] = a;
        }
        self.heap.push(Reverse((height, a, b)));
    }

    /// The lowest segment, the first of equals. It stays.
    fn lowest(&mut self) -> Option<(u64, u32, u32)> {
        while let Some(&Reverse((height, a, b))) = self.heap.peek() {
            if self.end[a as usize] == b && self.height[a as usize] == height {
                return Some((height, a, b));
            }
            self.heap.pop();
        }
        None
    }

    /// Raises sections `s..e` of the segment at `a` to `height`.
    fn place(&mut self, a: u32, s: u32, e: u32, height: u64) {
        let (low, b) = (self.height[a as usize], self.end[a as usize]);
        if a < s {
            self.set(a, s, low);
        }
        if e < b {
            self.set(e, b, low);
        }
        self.set(s, e, height);
        self.merge(s);
    }

    /// Raises the segment at `a` to its lower neighbour.
    fn raise(&mut self, a: u32) {
        let b = self.end[a as usize];
        let left = if a > 0 { self.height[self.prev[a as usize] as usize] } else { u64::MAX };
        let right = if b < self.sections { self.height[b as usize] } else { u64::MAX };
        self.set(a, b, left.min(right));
        self.merge(a);
    }

    /// Makes the segment at `a` one with neighbours of its height.
    fn merge(&mut self, a: u32) {
        let (mut a, mut b, height) = (a, self.end[a as usize], self.height[a as usize]);
        let was = (a, b);
        if b < self.sections && self.height[b as usize] == height {
            let e = self.end[b as usize];
            self.end[b as usize] = 0;
            b = e;
        }
        if a > 0 && self.height[self.prev[a as usize] as usize] == height {
            self.end[a as usize] = 0;
            a = self.prev[a as usize];
        }
        if (a, b) != was {
            self.set(a, b, height);
        }
    }
}
