//! The skyline packer: always fill the lowest segment.
//!
//! The skyline is the height reached in each section. A *segment* `[a, b)` is a run of sections of one height. The
//! lowest one gets the unplaced buffer of best rank whose lifetime is inside it. If there is none, the segment rises to
//! its lower neighbour and the two merge. Every packing in which each buffer rests on offset 0 or on another buffer is
//! reached by some rank. A *pass* goes over all buffers once and costs O(N log N) on training graphs: see
//! [`SkylineIndex`].

use super::problem::{Part, Problem};
use super::skyline_index::SkylineIndex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A packing of one part.
#[derive(Clone, Debug, Default)]
pub struct PartPacking {
    /// Offset of each buffer of the part, in units.
    pub at: Vec<u64>,
    /// The largest end of a buffer, in units.
    pub height: u64,
}

/// When a pass is given up.
#[derive(Clone, Copy)]
pub struct Limits {
    /// A buffer that ends above this height sticks out.
    pub enough: u64,
    /// Most buffers that may stick out of a pass that is as high as `least`.
    pub out: usize,
    /// The least height of earlier passes.
    pub least: u64,
}

/// One pass over a part. `order` lists its buffers by rank, best first.
pub fn run_pass(p: &Problem, part: Part, order: &[u32]) -> PartPacking {
    let all = Limits { enough: u64::MAX, out: usize::MAX, least: u64::MAX };
    // With these limits no pass is given up.
    run_pass_within(p, part, order, all).unwrap_or_default()
}

/// As [`run_pass`]; `None` if the pass is given up, because it is no lower than `limits.least` and more than
/// `limits.out` buffers stick out.
pub fn run_pass_within(p: &Problem, part: Part, order: &[u32], limits: Limits) -> Option<PartPacking> {
    let size = &p.size[part.from..part.to];
    let start = &p.start[part.from..part.to];
    let end = &p.end[part.from..part.to];
    let mut index = SkylineIndex::new(start, end, order);
    let mut skyline = Skyline::new(part.low, part.high);
    let mut at = vec![0u64; order.len()];
    let (mut left, mut top, mut out) = (order.len(), 0, 0);
    while left > 0 {
        let Some(Segment { height, start: a, end: b }) = skyline.lowest() else { break };
        match index.best(a, b) {
            Some(rank) => {
                let k = order[rank as usize] as usize;
                at[k] = height;
                index.remove(rank);
                let reach = height + size[k];
                top = top.max(reach);
                out += usize::from(reach > limits.enough);
                if out > limits.out && top >= limits.least {
                    return None;
                }
                skyline.place(a, start[k], end[k], reach);
                left -= 1;
            }
            None => skyline.raise(a),
        }
    }
    Some(PartPacking { at, height: top })
}

/// Sections `start..end` of one height. Ordered by height, then by start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Segment {
    height: u64,
    start: u32,
    end: u32,
}

/// The segments, keyed by their first section.
struct Skyline {
    /// First section.
    low: u32,
    /// One past the last section of the segment that starts here; 0 if none does.
    end: Vec<u32>,
    /// Height of the segment that starts here.
    height: Vec<u64>,
    /// Start of the segment before the one that starts here.
    prev: Vec<u32>,
    /// The rests of the lowest segment beside the buffer placed last, some outdated.
    rest: Vec<Segment>,
    /// All other segments, some outdated.
    heap: BinaryHeap<Reverse<Segment>>,
    /// One past the last section.
    high: u32,
}

impl Skyline {
    fn new(low: u32, high: u32) -> Skyline {
        let n = (high - low) as usize + 1;
        let (rest, heap) = (Vec::new(), BinaryHeap::new());
        let mut s = Skyline { low, end: vec![0; n], height: vec![0; n], prev: vec![0; n], rest, heap, high };
        s.join(low, high, 0);
        s
    }

    fn at(&self, a: u32) -> usize {
        (a - self.low) as usize
    }

    fn set(&mut self, a: u32, b: u32, height: u64) {
        let (i, j) = (self.at(a), self.at(b));
        self.end[i] = b;
        self.height[i] = height;
        self.prev[j] = a;
    }

    /// The lowest segment. Of equals, those beside the buffer placed last come first, then the first in time.
    fn lowest(&mut self) -> Option<Segment> {
        while let Some(s) = self.rest.pop().or_else(|| self.heap.pop().map(|s| s.0)) {
            let i = self.at(s.start);
            if self.end[i] == s.end && self.height[i] == s.height {
                return Some(s);
            }
        }
        None
    }

    /// Raises sections `s..e` of the segment at `a` to `height`.
    fn place(&mut self, a: u32, s: u32, e: u32, height: u64) {
        let (low, b) = (self.height[self.at(a)], self.end[self.at(a)]);
        if e < b {
            self.set(e, b, low);
            self.rest.push(Segment { height: low, start: e, end: b });
        }
        if a < s {
            self.set(a, s, low);
            self.rest.push(Segment { height: low, start: a, end: s });
        }
        self.join(s, e, height);
    }

    /// Raises the segment at `a` to its lower neighbour.
    fn raise(&mut self, a: u32) {
        let b = self.end[self.at(a)];
        let left = if a > self.low { self.height[self.at(self.prev[self.at(a)])] } else { u64::MAX };
        let right = if b < self.high { self.height[self.at(b)] } else { u64::MAX };
        self.join(a, b, left.min(right));
    }

    /// Makes `[a, b)` a segment of `height`, and merges it with neighbours of the same height.
    fn join(&mut self, a: u32, b: u32, height: u64) {
        let (mut a, mut b) = (a, b);
        let j = self.at(b);
        if b < self.high && self.height[j] == height {
            b = self.end[j];
            self.end[j] = 0;
        }
        if a > self.low {
            let prev = self.prev[self.at(a)];
            if self.height[self.at(prev)] == height {
                let i = self.at(a);
                self.end[i] = 0;
                a = prev;
            }
        }
        self.set(a, b, height);
        self.heap.push(Reverse(Segment { height, start: a, end: b }));
    }
}
