//! Packing: a place for each buffer of known life and size, in as little memory as can be found.
//!
//! This room knows nothing of graphs. [`pack`] takes lifetimes and sizes ([`Buffers`]), in any unit, and gives offsets
//! ([`Packing`]):
//!
//! 1. [`compress`]: moments become sections, sizes units, and the buffers fall into parts that never meet in time;
//! 2. [`skyline`]: skyline passes over static [`rank`]s and over ranks that learn ([`squeaky_wheel`]), until one
//!    reaches the largest load, which is a lower bound;
//! 3. [`exact`]: where a gap is left, branch and bound ([`search`], [`state`]) at the bound, then at caps in between;
//! 4. [`anneal`]: where a gap is still left, skyline passes over ranks that are changed little by little.
//!
//! The result depends on the input alone: budgets are counted in nodes and passes, ties go to the first. [`check`]
//! proves a packing without a word from the packers; [`greedy`] holds the usual packers for comparison, and
//! [`instances`] makes up problems.
//!
//! ```
//! use arenagrad::sched::pack::{self, Buffers, Options};
//!
//! // (first moment, one past the last, size)
//! let buffers = Buffers::from_rows([(0, 2, 4), (2, 4, 4), (1, 3, 8), (3, 5, 8)]);
//! let packing = pack::pack(&buffers, &Options::default())?;
//! assert_eq!((packing.height, packing.max_live), (12, 12));
//! assert!(packing.solved && packing.optimal());
//! pack::check::packing(&buffers, &packing.at, packing.height, 1)?;
//!
//! let tight = pack::pack(&buffers, &Options { capacity: Some(11), ..Options::default() })?;
//! assert!(!tight.solved, "12 are alive at moments 1 and 3");
//! # Ok::<(), arenagrad::error::Error>(())
//! ```

pub mod anneal;
pub mod branching;
pub mod buffers;
pub mod check;
pub mod compress;
pub mod exact;
pub mod greedy;
pub mod height;
pub mod index;
pub mod instances;
pub mod lines;
pub mod rank;
pub mod search;
pub mod skyline;
pub mod squeaky_wheel;
pub mod state;

pub use buffers::Buffers;

use crate::error::Result;
use compress::{Part, Problem};
use exact::Exact;
use rank::Facts;
use search::Outcome;

/// What to look for, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Any packing of this height or less will do. Without it, the lowest is looked for.
    pub capacity: Option<u64>,
    /// Nodes of branch and bound, of all parts and caps together; what is annealed after them is limited by it too.
    /// None are used where a skyline pass is enough.
    pub nodes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { capacity: None, nodes: 1_000_000 }
    }
}

/// Where each buffer lies, and how good that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// Offset of each buffer; 0 for those that take nothing.
    pub at: Vec<u64>,
    /// One past the last place taken.
    pub height: u64,
    /// The largest sum of sizes alive at one moment.
    pub max_live: u64,
    /// No packing is lower than this: `max_live`, or more if the search refuted what is below.
    pub bound: u64,
    /// Nodes of branch and bound.
    pub nodes: u64,
    /// Whether the height is within the capacity; without one, whether it is [`Packing::optimal`].
    pub solved: bool,
}

impl Packing {
    /// Whether no packing can be lower.
    pub fn optimal(&self) -> bool {
        self.height == self.bound
    }
}

/// Buffers of the largest part that branch and bound takes on: a node looks at each section.
const LARGEST: usize = 4096;

/// Pairs of buffers that meet, above which branch and bound leaves a part alone: they are listed.
const PAIRS: u64 = 1 << 23;

/// Packs `v`.
///
/// Offsets and height are in the unit of `v.size`; they are multiples of the greatest common divisor of the sizes, so
/// that sizes in multiples of an alignment give aligned offsets. Never fails to place: a capacity that was not reached
/// leaves `solved` false. Errors: columns of different length, sizes that add up to more than `u64::MAX`, more than
/// `u32::MAX` buffers.
pub fn pack(v: &Buffers, options: &Options) -> Result<Packing> {
    v.valid()?;
    let p = Problem::new(v)?;
    let bound = p.max_live();
    let target = options.capacity.map_or(bound, |c| (c / p.unit).max(bound));
    let feasible = options.capacity.is_some();
    let mut run = Run { p: &p, at: vec![0; p.id.len()], height: 0, bound, nodes: 0, target, feasible };
    let mut open = run.skylines(options.nodes);
    // The highest first: what it comes to is enough for the others.
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
    facts: Facts,
    height: u64,
    /// Whether branch and bound may take it on.
    small: bool,
}

/// The packing so far, in units.
struct Run<'a> {
    p: &'a Problem,
    at: Vec<u64>,
    /// Height of the parts that are done.
    height: u64,
    bound: u64,
    nodes: u64,
    /// What is low enough.
    target: u64,
    /// Whether that is a capacity that the caller named.
    feasible: bool,
}

impl Run<'_> {
    /// The best skyline of each part; returns the parts that are still too high.
    fn skylines(&mut self, nodes: u64) -> Vec<Open> {
        let mut open = Vec::new();
        for &part in &self.p.parts {
            let facts = Facts::new(self.p, part);
            let small = nodes > 0 && part.to - part.from <= LARGEST && facts.pairs() <= PAIRS;
            let (at, height) = squeaky_wheel::first(self.p, part, &facts, self.target, small);
            self.at[part.from..part.to].copy_from_slice(&at);
            if height <= self.target {
                self.height = self.height.max(height);
            } else {
                open.push(Open { part, facts, height, small });
            }
        }
        open
    }

    /// Lowers a part towards the target, or to the height of the others.
    fn lower(&mut self, o: &Open, nodes: u64) {
        let enough = self.target.max(self.height);
        let mut height = o.height;
        if height > enough && o.small && nodes > self.nodes {
            height = self.search(o, enough, nodes - self.nodes);
        }
        if height > enough && o.small {
            height = self.keep(o.part, height, squeaky_wheel::rest(self.p, o.part, &o.facts, enough));
        }
        if height > enough {
            let from = &self.at[o.part.from..o.part.to];
            let found = anneal::anneal(self.p, o.part, from, height, enough, nodes);
            height = found.map_or(height, |f| self.keep(o.part, height, f));
        }
        self.height = self.height.max(height);
    }

    /// Keeps what was found for `part` if it is lower than `height`; the height then.
    fn keep(&mut self, part: Part, height: u64, found: (Vec<u64>, u64)) -> u64 {
        if found.1 < height {
            self.at[part.from..part.to].copy_from_slice(&found.0);
        }
        height.min(found.1)
    }

    /// Branch and bound at `enough`, then halfway between what failed and the best height, again and again. The first
    /// gets half of the budget, or most of it if a capacity was asked for, the others a quarter each of what is left.
    fn search(&mut self, o: &Open, enough: u64, budget: u64) -> u64 {
        let mut exact = Exact::new(self.p, o.part, &o.facts);
        let (mut low, mut high) = (enough, o.height);
        let (mut cap, mut share) = (enough, if self.feasible { budget - budget / 8 } else { budget / 2 });
        // The lowest cap that was not refuted: refuted caps are below all others.
        let mut proven = 0;
        while low < high && share > 0 {
            match exact.solve(cap, share) {
                Outcome::Found(at) => {
                    let size = &self.p.size[o.part.from..o.part.to];
                    let top = at.iter().zip(size).map(|(a, s)| a + s).max().unwrap_or(0);
                    high = self.keep(o.part, high, (at, top));
                }
                Outcome::Refuted => (low, proven) = (cap + 1, cap + 1),
                Outcome::Limit => low = cap + 1,
            }
            share = (budget - exact.nodes.min(budget)) / 4;
            // A find below a cap that the budget gave up on ends the search.
            cap = low + high.saturating_sub(low) / 2;
        }
        // All parts must fit, so that the bound of one is a bound of all.
        self.bound = self.bound.max(proven);
        self.nodes += exact.nodes;
        high
    }
}

#[cfg(test)]
mod tests;
