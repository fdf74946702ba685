//! Many short searches instead of a long one: orders and choices take turns, with budgets that grow.
//!
//! A search either finds a packing with hardly a wrong turn or is lost early on, so that the next order is worth more
//! than the next million nodes. What failed where is remembered from one search to the next.

use super::branching::Choice;
use super::compress::{Part, Problem};
use super::height::Height;
use super::rank::{Facts, Rank};
use super::search::{Outcome, search};
use super::state::State;
use crate::arena::rng::SplitMix64;

/// Orders and choices, those that solve most alone first.
const TURNS: &[(Rank, Choice)] = &[
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
pub struct Exact<'a> {
    p: &'a Problem,
    part: Part,
    facts: &'a Facts,
    weight: Vec<u64>,
    /// All sizes together: above any height.
    sum: u64,
    /// Nodes so far.
    pub nodes: u64,
}

impl<'a> Exact<'a> {
    /// For a part of `p`.
    pub fn new(p: &'a Problem, part: Part, facts: &'a Facts) -> Exact<'a> {
        Exact {
            p,
            part,
            facts,
            weight: vec![1; (part.high - part.low) as usize],
            sum: p.size[part.from..part.to].iter().sum(),
            nodes: 0,
        }
    }

    /// Looks for a packing no higher than `cap` in at most `budget` nodes: offsets by buffer of the part.
    pub fn solve(&mut self, cap: u64, budget: u64) -> Outcome {
        let n = (self.part.to - self.part.from) as u64;
        let end = self.nodes + budget;
        // Enough for a search without many wrong turns.
        let mut limit = 2 * n + 100;
        let mut dice = SplitMix64(cap);
        for round in 0.. {
            for &(rank, choice) in TURNS {
                let left = end - self.nodes;
                if left == 0 {
                    return Outcome::Limit;
                }
                let mut order = self.facts.order(rank);
                shake(&mut order, &mut dice, round);
                // Sums of two heights must fit.
                let sum = self.sum.max(cap);
                let outcome = if sum < u32::FAR.wide() {
                    self.turn::<u32>(&order, cap, choice, limit.min(left))
                } else if sum < u64::FAR.wide() {
                    self.turn::<u64>(&order, cap, choice, limit.min(left))
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

    /// One search.
    fn turn<H: Height>(&mut self, order: &[u32], cap: u64, choice: Choice, limit: u64) -> Outcome {
        let (from, low) = (self.part.from, self.part.low);
        let of = |v: &[u32]| order.iter().map(|&k| v[from + k as usize] - low).collect::<Vec<u32>>();
        let size = order.iter().map(|&k| H::narrow(self.p.size[from + k as usize])).collect();
        let weight = std::mem::take(&mut self.weight);
        let sections = self.part.high - low;
        let mut state = State::new(of(&self.p.start), of(&self.p.end), size, sections, H::narrow(cap), weight);
        let outcome = search(&mut state, choice, limit, &mut self.nodes);
        self.weight = state.weight;
        outcome
    }
}

/// Moves some of the buffers a little, more of them each round; none in round 0.
fn shake(order: &mut [u32], dice: &mut SplitMix64, round: u64) {
    let n = order.len() as u64;
    let moves = if round == 0 { 0 } else { (n * round / 16).max(1) };
    for _ in 0..moves {
        let a = dice.below(n);
        let b = (a + 1 + dice.below(round.min(8) * 2)).min(n - 1);
        order.swap(a as usize, b as usize);
    }
}
