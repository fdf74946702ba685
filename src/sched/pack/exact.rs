//! Restarts: many short searches with different orders and branching rules, and with budgets that grow.
//!
//! A search either finds a packing after few wrong decisions or made a wrong decision early, so another order is worth
//! more than another million nodes. Failures per section are carried over from one search to the next.

use super::branching::Choice;
use super::height::Height;
use super::problem::{Part, Problem};
use super::rank::{Rank, RankFacts};
use super::search::{Outcome, search};
use super::search_state::SearchState;
use crate::arena::rng::SplitMix64;

/// Orders and branching rules, those that solve the most problems alone first.
const STRATEGIES: &[(Rank, Choice)] = &[
    (*b"TZW", Choice::Weighted),
    (*b"TWA", Choice::Weighted),
    (*b"TWA", Choice::Rank),
    (*b"TWA", Choice::Fit),
    (*b"TAW", Choice::Weighted),
    (*b"TWA", Choice::Fewest),
    (*b"ZWT", Choice::Fit),
    (*b"CAT", Choice::Lowest),
];

/// The searches of one part.
pub struct ExactSearches<'a> {
    p: &'a Problem,
    part: Part,
    facts: &'a RankFacts,
    weight: Vec<u64>,
    /// Sum of all sizes: no height is above it.
    sum: u64,
    /// Nodes used so far.
    pub nodes: u64,
}

impl<'a> ExactSearches<'a> {
    /// The searches of part `part` of `p`.
    pub fn new(p: &'a Problem, part: Part, facts: &'a RankFacts) -> ExactSearches<'a> {
        ExactSearches {
            p,
            part,
            facts,
            weight: vec![1; (part.high - part.low) as usize],
            sum: p.size[part.from..part.to].iter().sum(),
            nodes: 0,
        }
    }

    /// Searches for a packing of height at most `cap`, with at most `budget` nodes. [`Outcome::Found`] has the offset
    /// of each buffer of the part.
    pub fn solve(&mut self, cap: u64, budget: u64) -> Outcome {
        let n = (self.part.to - self.part.from) as u64;
        let end = self.nodes + budget;
        // Enough for a search with few wrong decisions.
        let mut limit = 2 * n + 100;
        let mut dice = SplitMix64(cap);
        for round in 0.. {
            for &(rank, choice) in STRATEGIES {
                let left = end - self.nodes;
                if left == 0 {
                    return Outcome::Limit;
                }
                let mut order = self.facts.order(rank);
                swap_nearby(&mut order, &mut dice, round);
                // Heights must be below `FAR`, so that the sum of two fits.
                let sum = self.sum.max(cap);
                let outcome = if sum < u32::FAR.wide_height() {
                    self.attempt::<u32>(&order, cap, choice, limit.min(left))
                } else if sum < u64::FAR.wide_height() {
                    self.attempt::<u64>(&order, cap, choice, limit.min(left))
                } else {
                    return Outcome::Limit;
                };
                match outcome {
                    Outcome::Found(by_rank) => {
                        let mut at = vec![0; order.len()];
                        order.iter().zip(by_rank).for_each(|(&k, a)| at[k as usize] = a);
                        return Outcome::Found(at);
                    }
                    Outcome::Refuted => return Outcome::Refuted,
                    Outcome::Limit => {}
                }
            }
            limit += limit / 8;
            self.weight.iter_mut().for_each(|w| *w = *w / 2 + 1);
        }
        Outcome::Limit
    }

    /// One search, in heights of type `H`.
    fn attempt<H: Height>(&mut self, order: &[u32], cap: u64, choice: Choice, limit: u64) -> Outcome {
        let (from, low) = (self.part.from, self.part.low);
        let of = |v: &[u32]| order.iter().map(|&k| v[from + k as usize] - low).collect::<Vec<u32>>();
        let size = order.iter().map(|&k| H::narrow_height(self.p.size[from + k as usize])).collect();
        let weight = std::mem::take(&mut self.weight);
        let sections = self.part.high - low;
        let mut state =
            SearchState::new(of(&self.p.start), of(&self.p.end), size, sections, H::narrow_height(cap), weight);
        let outcome = search(&mut state, choice, limit, &mut self.nodes);
        self.weight = state.weight;
        outcome
    }
}

/// Swaps buffers with later ones nearby, at most 16 places away: none in round 0, more in each round.
fn swap_nearby(order: &mut [u32], dice: &mut SplitMix64, round: u64) {
    let n = order.len() as u64;
    let moves = if round == 0 { 0 } else { (n * round / 16).max(1) };
    for _ in 0..moves {
        let a = dice.below(n);
        let b = (a + 1 + dice.below(round.min(8) * 2)).min(n - 1);
        order.swap(a as usize, b as usize);
    }
}
