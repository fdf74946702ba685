//! The state of the search at a node, and the changes that decisions make.
//!
//! Invariants: for each unplaced buffer, `lo` is the largest end of the placed buffers below it, and `eff >= lo` is a
//! lower bound of its offset. For each section, `floor` is the least `eff` of its unplaced buffers, `tied` the number
//! of buffers with that `eff`, and `total` the sum of their sizes. `cuts` counts, for each border between two sections,
//! the unplaced buffers that are in both. Every change can be undone. Heights are `u32` where they fit, so loops over
//! sections use more SIMD lanes.

use super::height::Height;

/// No buffer, no goal.
pub const NONE: u32 = u32::MAX;

/// One change, to be undone.
#[derive(Clone, Copy)]
struct Change<H> {
    kind: Kind,
    /// The buffer or the section.
    at: u32,
    /// The old `eff` or `floor`.
    old: H,
    /// The old `lo`, for [`Kind::Bound`].
    more: H,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A buffer's `eff` and `lo`.
    Bound,
    /// A section's `floor`, which no buffer had any more.
    Floor,
    /// A buffer was placed.
    Place,
}

/// The columns. Buffers are sorted by rank.
pub struct SearchState<H> {
    /// Number of sections.
    pub sections: u32,
    pub(super) cap: H,
    pub(super) start: Vec<u32>,
    pub(super) end: Vec<u32>,
    size: Vec<H>,
    /// Buffers that share a section with buffer `i`: `neighbour[neighbour_at[i]..neighbour_at[i + 1]]`.
    neighbour_at: Vec<u32>,
    neighbour: Vec<u32>,
    /// Buffers of section `s`, by rank: `live[live_at[s]..live_at[s + 1]]`.
    pub(super) live_at: Vec<u32>,
    pub(super) live: Vec<u32>,
    /// The largest end of the placed buffers below each buffer.
    pub(super) lo: Vec<H>,
    /// A lower bound of the offset of each buffer; [`Height::FAR`] once it is placed.
    pub(super) eff: Vec<H>,
    /// The least `eff` in each section.
    pub(super) floor: Vec<H>,
    /// Number of buffers in each section whose `eff` is the floor.
    pub(super) tied: Vec<u32>,
    /// Sizes of unplaced buffers in each section.
    pub(super) total: Vec<H>,
    /// Unplaced buffers across the border before each section.
    pub(super) cuts: Vec<u32>,
    /// Number of failures in each section, for the weighted branching rules.
    pub weight: Vec<u64>,
    trail: Vec<Change<H>>,
    /// Postponed buffers rise by one unit instead of onto a neighbour: the search without inference, for comparison.
    #[cfg(test)]
    pub plain: bool,
    /// Offset of each placed buffer.
    at: Vec<H>,
}

impl<H: Height> SearchState<H> {
    /// A state without placed buffers. The columns list buffers by rank, best first. `cap` and all sums of sizes must
    /// be below [`Height::FAR`].
    pub fn new(
        start: Vec<u32>,
        end: Vec<u32>,
        size: Vec<H>,
        sections: u32,
        cap: H,
        weight: Vec<u64>,
    ) -> SearchState<H> {
        let (n, s) = (start.len(), sections as usize);
        let (live_at, live) = buffers_by_section(&start, &end, sections);
        let (neighbour_at, neighbour) = list_neighbours(&start, &end);
        let (mut total, mut cuts) = (vec![H::ZERO; s], vec![0u32; s]);
        for c in 0..n {
            let (a, b) = (start[c] as usize, end[c] as usize);
            total[a..b].iter_mut().for_each(|t| *t = *t + size[c]);
            cuts[a + 1..b].iter_mut().for_each(|x| *x += 1);
        }
        SearchState {
            sections,
            cap,
            neighbour_at,
            neighbour,
            lo: vec![H::ZERO; n],
            eff: vec![H::ZERO; n],
            floor: vec![H::ZERO; s],
            tied: live_at.windows(2).map(|w| w[1] - w[0]).collect(),
            total,
            cuts,
            weight,
            trail: Vec::new(),
            #[cfg(test)]
            plain: false,
            at: vec![H::ZERO; n],
            live_at,
            live,
            start,
            end,
            size,
        }
    }

    /// True if no section exceeds the cap from the beginning.
    pub fn sound(&self) -> bool {
        self.total.iter().all(|&t| t <= self.cap)
    }

    /// The offset of each buffer, by rank.
    pub fn offsets(&self) -> Vec<u64> {
        self.at.iter().map(|&a| a.wide_height()).collect()
    }

    /// The number of changes so far, for [`SearchState::undo`].
    pub fn mark(&self) -> u32 {
        self.trail.len() as u32
    }

    fn range(&self, i: usize) -> std::ops::Range<usize> {
        self.start[i] as usize..self.end[i] as usize
    }

    /// Places `c` at its lowest offset. False if no packing can follow.
    pub fn place(&mut self, c: u32) -> bool {
        let i = c as usize;
        let (low, size, range) = (self.lo[i], self.size[i], self.range(i));
        self.at[i] = low;
        let top = low + size;
        self.raise(i, H::FAR, low);
        self.trail.push(Change { kind: Kind::Place, at: c, old: low, more: low });
        self.total[range.clone()].iter_mut().for_each(|t| *t = *t - size);
        self.cuts[range.start + 1..range.end].iter_mut().for_each(|x| *x -= 1);
        let (mut from, mut to) = (range.start, range.end);
        for k in self.neighbour_at[i] as usize..self.neighbour_at[i + 1] as usize {
            let d = self.neighbour[k] as usize;
            if self.lo[d] >= top || self.eff[d] == H::FAR {
                continue;
            }
            let met = self.range(d);
            self.raise(d, self.eff[d].max(top), top);
            (from, to) = (from.min(met.start), to.max(met.end));
        }
        self.settle(from, to)
    }

    /// Decides that `c` is not at its lowest offset, but on a neighbour that is not placed yet. False if no packing can
    /// follow.
    pub fn postpone(&mut self, c: u32) -> bool {
        let i = c as usize;
        let reach = self.lo[i] + self.size[i];
        let range = self.neighbour_at[i] as usize..self.neighbour_at[i + 1] as usize;
        let mut least = H::FAR;
        for &d in &self.neighbour[range] {
            let eff = self.eff[d as usize];
            // Below a neighbour whose bound is `reach` or more, this buffer would sink back to its lowest offset.
            if eff < reach {
                least = least.min(eff + self.size[d as usize]);
            }
        }
        let eff = least.max(self.eff[i]);
        #[cfg(test)]
        let eff = if self.plain { self.eff[i] + H::narrow_height(1) } else { eff };
        if eff + self.size[i] > self.cap {
            return false;
        }
        self.raise(i, eff, self.lo[i]);
        let range = self.range(i);
        self.settle(range.start, range.end)
    }

    /// Sets the bounds of buffer `i`, and takes it out of the ties of its sections if `eff` changes.
    fn raise(&mut self, i: usize, eff: H, lo: H) {
        let old = self.eff[i];
        self.trail.push(Change { kind: Kind::Bound, at: i as u32, old, more: self.lo[i] });
        (self.eff[i], self.lo[i]) = (eff, lo);
        if eff != old {
            let range = self.range(i);
            let sections = self.tied[range.clone()].iter_mut().zip(&self.floor[range]);
            sections.for_each(|(t, f)| *t -= u32::from(*f == old));
        }
    }

    /// Finds new floors for the sections in `from..to` without ties. False if a section then exceeds the cap.
    fn settle(&mut self, from: usize, to: usize) -> bool {
        for s in from..to {
            if self.tied[s] > 0 || self.total[s] == H::ZERO {
                continue;
            }
            let (mut floor, mut tied) = (H::FAR, 0);
            for &c in &self.live[self.live_at[s] as usize..self.live_at[s + 1] as usize] {
                let eff = self.eff[c as usize];
                if eff < floor {
                    (floor, tied) = (eff, 1);
                } else if eff == floor {
                    tied += 1;
                }
            }
            self.trail.push(Change { kind: Kind::Floor, at: s as u32, old: self.floor[s], more: H::ZERO });
            (self.floor[s], self.tied[s]) = (floor, tied);
            if floor + self.total[s] > self.cap {
                self.weight[s] += 1;
                return false;
            }
        }
        true
    }

    /// Undoes changes until only the first `len` are left.
    pub fn undo(&mut self, len: u32) {
        while self.trail.len() > len as usize {
            let Some(c) = self.trail.pop() else { break };
            let i = c.at as usize;
            match c.kind {
                Kind::Bound => {
                    if self.eff[i] != c.old {
                        let range = self.range(i);
                        let sections = self.tied[range.clone()].iter_mut().zip(&self.floor[range]);
                        sections.for_each(|(t, f)| *t += u32::from(*f == c.old));
                    }
                    (self.eff[i], self.lo[i]) = (c.old, c.more);
                }
                Kind::Floor => (self.floor[i], self.tied[i]) = (c.old, 0),
                Kind::Place => {
                    let (range, size) = (self.range(i), self.size[i]);
                    self.total[range.clone()].iter_mut().for_each(|t| *t = *t + size);
                    self.cuts[range.start + 1..range.end].iter_mut().for_each(|x| *x += 1);
                }
            }
        }
    }
}

/// The buffers of each section, by rank: ranges, and the column that they index.
fn buffers_by_section(start: &[u32], end: &[u32], sections: u32) -> (Vec<u32>, Vec<u32>) {
    let mut at = vec![0u32; sections as usize + 1];
    for i in 0..start.len() {
        at[start[i] as usize + 1..end[i] as usize + 1].iter_mut().for_each(|x| *x += 1);
    }
    (1..at.len()).for_each(|s| at[s] += at[s - 1]);
    let mut next = at.clone();
    let mut live = vec![0u32; at[at.len() - 1] as usize];
    for i in 0..start.len() {
        for n in &mut next[start[i] as usize..end[i] as usize] {
            live[*n as usize] = i as u32;
            *n += 1;
        }
    }
    (at, live)
}

/// The buffers that share a section with each buffer: ranges, and the column that they index.
fn list_neighbours(start: &[u32], end: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut by_start: Vec<u32> = (0..start.len() as u32).collect();
    by_start.sort_unstable_by_key(|&i| (start[i as usize], i));
    let (mut at, mut list) = (vec![0u32], Vec::new());
    for i in 0..start.len() {
        for &j in &by_start {
            let j = j as usize;
            if start[j] >= end[i] {
                break;
            }
            if j != i && end[j] > start[i] {
                list.push(j as u32);
            }
        }
        at.push(list.len() as u32);
    }
    (at, list)
}
