//! Packing: offsets for buffers of known lifetime and size, in as little memory as possible
//! (dynamic storage allocation).
//!
//! This module knows nothing of graphs. [`pack`] takes lifetimes and sizes
//! ([`Buffers`]) in any unit and returns offsets ([`Packing`]):
//!
//! 1. [`problem`] turns moments into sections and sizes into units, and splits the buffers into parts that share no
//!    section;
//! 2. [`skyline`] passes run over static [`rank`]s and over ranks that learn ([`squeaky_wheel`]), until one reaches the
//!    largest load, which is a lower bound;
//! 3. [`exact`]: where the height is still above that bound, branch and bound ([`search`], [`branching`],
//!    [`search_state`]). The *cap* is the height that a search must not exceed: first the bound, then larger heights;
//! 4. [`anneal`]: where it is still above the bound, skyline passes over ranks that change by small steps.
//!
//! The result depends on the input alone: budgets count search nodes and skyline passes, and ties go to the first.
//! [`proof`] proves a packing and shares no code with the packers; [`greedy`] has the usual packers for comparison, and
//! [`instances`] generates problems.
//!
//! ```
//! use arenagrad::tools::sched::pack::{self, Buffers, Options};
//!
//! // (first moment, one past the last, size)
//! let buffers = Buffers::from_rows([(0, 2, 4), (2, 4, 4), (1, 3, 8), (3, 5, 8)]);
//! let packing = pack::pack(&buffers, &Options::default())?;
//! assert_eq!((packing.height, packing.max_live), (12, 12));
//! assert!(packing.solved && packing.optimal());
//! pack::proof::prove_packing(&buffers, &packing.at, packing.height, 1)?;
//!
//! let tight = pack::pack(&buffers, &Options { capacity: Some(11), ..Options::default() })?;
//! assert!(!tight.solved, "12 are alive at moments 1 and 3");
//! # Ok::<(), arenagrad::error::Error>(())
//! ```

pub mod anneal;
pub mod branching;
pub mod buffers;
pub mod exact;
pub mod greedy;
pub mod height;
pub mod instances;
pub mod lines;
pub mod problem;
pub mod proof;
pub mod rank;
pub mod search;
pub mod search_state;
pub mod skyline;
pub mod skyline_index;
pub mod squeaky_wheel;

pub use buffers::Buffers;

use crate::error::Result;
use exact::ExactSearches;
use problem::{Part, Problem};
use rank::RankFacts;
use search::Outcome;
use skyline::PartPacking;

/// The goal of a packing, and the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A height that is low enough. `None` asks for the lowest packing.
    pub capacity: Option<u64>,
    /// Most nodes of branch and bound, over all parts and caps; annealing places at most as many buffers. Not used
    /// where a skyline pass is enough.
    pub nodes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { capacity: None, nodes: 1_000_000 }
    }
}

/// Offsets of buffers, and how good they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// Offset of each buffer; 0 for empty buffers.
    pub at: Vec<u64>,
    /// The largest end of a buffer.
    pub height: u64,
    /// The largest sum of live sizes at one moment.
    pub max_live: u64,
    /// Lower bound of all packings: `max_live`, or more if the search refuted heights below.
    pub bound: u64,
    /// Nodes of branch and bound that were used.
    pub nodes: u64,
    /// True if the height is within the capacity; without a capacity, true if it is [`Packing::optimal`].
    pub solved: bool,
}

impl Packing {
    /// True if no packing can be lower.
    pub fn optimal(&self) -> bool {
        self.height == self.bound
    }
}

/// Most buffers of a part for branch and bound: a node visits each section.
const LARGEST: usize = 4096;

/// Most pairs of overlapping lifetimes of a part for branch and bound, which lists them.
const PAIRS: u64 = 1 << 23;

/// Packs `v`.
///
/// Offsets and height are in the unit of `v.size`. They are multiples of the greatest common divisor of the sizes, so
/// sizes in multiples of an alignment give aligned offsets. There is always a packing; `solved` is false if it is above
/// the capacity. Errors: columns of different lengths, sizes that add up to more than `u64::MAX`, more than `u32::MAX`
/// buffers.
pub fn pack(v: &Buffers, options: &Options) -> Result<Packing> {
    v.valid()?;
    let p = Problem::new(v)?;
    let bound = p.max_live();
    let target = options.capacity.map_or(bound, |c| (c / p.unit).max(bound));
    let feasible = options.capacity.is_some();
    let mut run = PackRun { p: &p, at: vec![0; p.id.len()], height: 0, bound, nodes: 0, target, feasible };
    let mut open = run.skylines(options.nodes);
    // The highest part first: its final height is low enough for the others.
    open.sort_by_key(|o| (u64::MAX - o.height, o.part.from));
    for o in open {
        run.lower(&o, options.nodes);
    }
    let mut at = vec![0; v.len()];
    p.id.iter().zip(&run.at).for_each(|(&i, a)| at[i as usize] = a * p.unit);
    let (height, bound) = (run.height * p.unit, run.bound * p.unit);
    let solved = options.capacity.map_or(height == bound, |c| height <= c);
    Ok(Packing { at, height, max_live: p.max_live() * p.unit, bound, nodes: run.nodes, solved })
}

/// A part whose best skyline is above the target.
struct Open {
    part: Part,
    facts: RankFacts,
    height: u64,
    /// True if it is small enough for branch and bound.
    small: bool,
}

/// The packing so far, in units.
struct PackRun<'a> {
    p: &'a Problem,
    at: Vec<u64>,
    /// Height of the parts that are done.
    height: u64,
    bound: u64,
    nodes: u64,
    /// A height that is low enough.
    target: u64,
    /// True if the caller gave a capacity.
    feasible: bool,
}

impl PackRun<'_> {
    /// Finds the best skyline of each part. Returns the parts that are above the target.
    fn skylines(&mut self, nodes: u64) -> Vec<Open> {
        let mut open = Vec::new();
        for &part in &self.p.parts {
            let facts = RankFacts::new(self.p, part);
            let small = nodes > 0 && part.to - part.from <= LARGEST && facts.pairs() <= PAIRS;
            let PartPacking { at, height } =
                squeaky_wheel::squeaky_wheel_first(self.p, part, &facts, self.target, small);
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
    fn lower(&mut self, o: &Open, nodes: u64) {
        let enough = self.target.max(self.height);
        let mut height = o.height;
        if height > enough && o.small && nodes > self.nodes {
            height = self.search(o, enough, nodes - self.nodes);
        }
        if height > enough && o.small {
            height = self.keep(o.part, height, squeaky_wheel::squeaky_wheel_rest(self.p, o.part, &o.facts, enough));
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

#[cfg(test)]
mod tests;
