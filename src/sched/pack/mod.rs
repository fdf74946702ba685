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
mod pack_run;
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
use pack_run::PackRun;
use problem::Problem;

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

#[cfg(test)]
mod tests;
