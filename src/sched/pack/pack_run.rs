//! The run of one packing over its parts: skylines first, then branch and bound, then annealing, each only while a part
//! is above the target.

use super::exact::ExactSearches;
use super::problem::{Part, Problem};
use super::rank::RankFacts;
use super::search::Outcome;
use super::skyline::PartPacking;
use super::{anneal, squeaky_wheel};

/// Most buffers of a part for branch and bound: a node visits each section.
const LARGEST: usize = 4096;

/// Most pairs of overlapping lifetimes of a part for branch and bound, which lists them.
const PAIRS: u64 = 1 << 23;

/// A part whose best skyline is above the target.
pub(super) struct Open {
    pub part: Part,
    facts: RankFacts,
    pub height: u64,
    /// True if it is small enough for branch and bound.
    small: bool,
}

/// The packing so far, in units.
pub(super) struct PackRun<'a> {
    pub p: &'a Problem,
    pub at: Vec<u64>,
    /// Height of the parts that are done.
    pub height: u64,
    pub bound: u64,
    pub nodes: u64,
    /// A height that is low enough.
    pub target: u64,
    /// True if the caller gave a capacity.
    pub feasible: bool,
}

impl PackRun<'_> {
    /// Finds the best skyline of each part. Returns the parts that are above the target.
    pub fn skylines(&mut self, nodes: u64) -> Vec<Open> {
        let mut open = Vec::new();
        for &part in &self.p.parts {
            let facts = RankFacts::new(self.p, part);
            let small = nodes > 0 && part.to - part.from <= LARGEST && facts.pairs() <= PAIRS;
            let PartPacking { at, height } = squeaky_wheel::try_first_ranks(self.p, part, &facts, self.target, small);
            self.at[part.from..part.to].copy_from_slice(&at);
            if height <= self.target {
                self.height = self.height.max(height);
            } else {
                open.push(Open { part, facts, height, small });
            }
        }
        open
    }

    /// Lowers a part towards the target, or towards the height of the finished parts if that is higher.
    pub fn lower(&mut self, o: &Open, nodes: u64) {
        let enough = self.target.max(self.height);
        let mut height = o.height;
        if height > enough && o.small && nodes > self.nodes {
            height = self.search(o, enough, nodes - self.nodes);
        }
        if height > enough && o.small {
            height = self.keep(o.part, height, squeaky_wheel::try_other_ranks(self.p, o.part, &o.facts, enough));
        }
        if height > enough {
            let from = &self.at[o.part.from..o.part.to];
            let found = anneal::anneal(self.p, o.part, from, height, enough, nodes);
            height = found.map_or(height, |f| self.keep(o.part, height, f));
        }
        self.height = self.height.max(height);
    }

    /// Keeps the packing `found` of `part` if it is lower than `height`. Returns the lower height.
    fn keep(&mut self, part: Part, height: u64, found: PartPacking) -> u64 {
        if found.height < height {
            self.at[part.from..part.to].copy_from_slice(&found.at);
        }
        height.min(found.height)
    }

    /// Branch and bound at the cap `enough`, then repeatedly halfway between the last cap that failed and the best
    /// height. Returns the best height. The first search gets half of the budget (7/8 if the caller gave a capacity),
    /// each later one a quarter of the rest.
    fn search(&mut self, o: &Open, enough: u64, budget: u64) -> u64 {
        let mut exact = ExactSearches::new(self.p, o.part, &o.facts);
        let (mut low, mut high) = (enough, o.height);
        let (mut cap, mut share) = (enough, if self.feasible { budget - budget / 8 } else { budget / 2 });
        // One above the highest refuted cap.
        let mut proven = 0;
        while low < high && share > 0 {
            match exact.solve(cap, share) {
                Outcome::Found(at) => {
                    let size = &self.p.size[o.part.from..o.part.to];
                    let top = at.iter().zip(size).map(|(a, s)| a + s).max().unwrap_or(0);
                    high = self.keep(o.part, high, PartPacking { at, height: top });
                }
                Outcome::Refuted => (low, proven) = (cap + 1, cap + 1),
                Outcome::Limit => low = cap + 1,
            }
            share = (budget - exact.nodes.min(budget)) / 4;
            // The search ends when a packing is found below a cap that ran out of budget.
            cap = low + high.saturating_sub(low) / 2;
        }
        // All parts must fit, so the bound of one part is a bound of the packing.
        self.bound = self.bound.max(proven);
        self.nodes += exact.nodes;
        high
    }
}
