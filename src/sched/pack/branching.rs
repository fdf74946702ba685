//! Branching: which buffer the search decides on next.
//!
//! The floor of a section is the lowest offset that an unplaced buffer may still have there. A valley is a run of
//! sections with one floor, between sections with higher floors. The buffers that may start at that floor lie inside
//! the valley, and no unplaced buffer can go below them. So such a buffer is either at its lowest offset, or on a
//! neighbour that is not placed yet: two branches cover all packings. Any valley is correct; the choice decides how
//! soon a wrong decision fails.

use super::height::Height;
use super::search_state::SearchState;

/// The rule for the next buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first by rank of the buffers with the lowest floor.
    Rank,
    /// In the lowest valley, in the section with the fewest candidates.
    Lowest,
    /// In the section, of all valleys, with the fewest candidates.
    Fewest,
    /// In the section, of all valleys, with the fewest candidates relative to its number of failures (weighted degree:
    /// Boussemart, Hemery, Lecoutre and Sais, 2004).
    Weighted,
    /// As `Weighted`; of the candidates there, the one that touches the most walls of its valley, then the first by
    /// rank.
    Fit,
}

impl<H: Height> SearchState<H> {
    /// The buffer to decide on next in the connected sections `low..high`; `None` if they cannot be solved.
    pub fn branch_candidate(&mut self, low: u32, high: u32, choice: Choice) -> Option<u32> {
        loop {
            let (best, stale) = match choice {
                Choice::Rank => self.branch_lowest(low, high),
                _ => {
                    let (low, high) = (low as usize, high as usize);
                    self.branch_in_section(self.branching_section(low, high, choice), low, high, choice)
                }
            };
            let Some(stale) = stale else { return best };
            // It was postponed, and the buffers that it could rest on can only have risen since.
            if !self.postpone(stale) {
                return None;
            }
        }
    }

    /// The first by rank of the buffers tied for the lowest floor, and that buffer if it was postponed.
    fn branch_lowest(&self, low: u32, high: u32) -> (Option<u32>, Option<u32>) {
        let floor = self.floor[low as usize..high as usize].iter().copied().min().unwrap_or(H::FAR);
        let tied = (0..self.eff.len())
            .find(|&c| self.eff[c] == floor && self.start[c] >= low && self.end[c] <= high)
            .map(|c| c as u32);
        let stale = tied.filter(|&c| self.lo[c as usize] != floor);
        (tied, stale)
    }

    /// The first by rank of the buffers tied for the floor of section `s`, and one of them that was postponed.
    fn branch_in_section(&self, s: usize, low: usize, high: usize, choice: Choice) -> (Option<u32>, Option<u32>) {
        let floor = self.floor[s];
        let level = |f: &H| *f != floor;
        let from = self.floor[low..s].iter().rposition(level).map_or(low, |k| low + k + 1) as u32;
        let to = self.floor[s..high].iter().position(level).map_or(high, |k| s + k) as u32;
        let (mut best, mut stale) = (None, None);
        // 1 + the number of walls of the valley that the best one touches.
        let mut walls = 0;
        for &c in &self.live[self.live_at[s] as usize..self.live_at[s + 1] as usize] {
            let i = c as usize;
            if self.eff[i] != floor {
                continue;
            }
            if self.lo[i] != floor {
                stale = Some(c);
                continue;
            }
            let fit = match choice {
                Choice::Fit => 1 + u32::from(self.start[i] == from) + u32::from(self.end[i] == to),
                _ => 1,
            };
            if fit > walls {
                (best, walls) = (Some(c), fit);
            }
        }
        (best, stale)
    }

    /// The section to branch in.
    fn branching_section(&self, low: usize, high: usize, choice: Choice) -> usize {
        let mut best = Best { section: low, ways: u64::MAX, weight: 1, floor: H::FAR };
        let (mut s, mut before) = (low, H::FAR);
        while s < high {
            let floor = self.floor[s];
            let e = self.floor[s..high].iter().position(|&f| f != floor).map_or(high, |k| s + k);
            let after = if e < high { self.floor[e] } else { H::FAR };
            if before > floor && after > floor {
                (s..e).for_each(|i| self.weigh_branch(i, choice, &mut best));
            }
            (before, s) = (floor, e);
        }
        best.section
    }

    /// Keeps section `s` of a valley if it is better than the best so far.
    fn weigh_branch(&self, s: usize, choice: Choice, best: &mut Best<H>) {
        let floor = self.floor[s];
        // If the section has slack, it may also be that no candidate is at the floor.
        let spare = u64::from(self.cap - floor > self.total[s]);
        let ways = 2 * u64::from(self.tied[s] - 1) + spare;
        let better = match choice {
            Choice::Lowest => (floor, ways) < (best.floor, best.ways),
            Choice::Weighted | Choice::Fit => {
                let (mine, theirs) = (ways.saturating_mul(best.weight), best.ways.saturating_mul(self.weight[s]));
                mine < theirs || (mine == theirs && (floor, best.weight) < (best.floor, self.weight[s]))
            }
            _ => (ways, floor) < (best.ways, best.floor),
        };
        if better {
            *best = Best { section: s, ways, weight: self.weight[s], floor };
        }
    }
}

/// The best section so far.
struct Best<H> {
    section: usize,
    ways: u64,
    weight: u64,
    floor: H,
}
