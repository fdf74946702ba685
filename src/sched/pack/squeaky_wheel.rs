//! Skyline passes over several ranks, and over ranks that learn: buffers that end above the bound go first in the next
//! pass.
//!
//! The learning is squeaky wheel optimisation (Joslin and Clements, 1999). It packs long chains of equal steps with a
//! small conflict at the peak, which no static rank packs well.

use super::problem::{Part, Problem};
use super::rank::{Rank, RankFacts};
use super::skyline::{self, Limits, PartPacking};

/// Ranks, those that most often reach the bound first.
const RANKS: &[Rank] = &[*b"TWA", *b"TAW", *b"AWT", *b"ZWT", *b"WAT", *b"TEW", *b"TZW", *b"WZT"];

/// Most passes over one rank.
const TRIES: usize = 4;

/// Most buffers that all passes over a part place, or [`TRIES`] passes if those place more.
const EFFORT: usize = 1 << 22;

/// Number of ranks that are tried before branch and bound.
const FIRST: usize = 3;

/// [`try_ranks`] over the first [`FIRST`] ranks if branch and bound follows (`search`), else over all.
pub fn try_first_ranks(p: &Problem, part: Part, facts: &RankFacts, enough: u64, search: bool) -> PartPacking {
    try_ranks(p, part, facts, enough, if search { &RANKS[..FIRST] } else { RANKS })
}

/// [`try_ranks`] over the ranks that [`try_first_ranks`] leaves out.
pub fn try_other_ranks(p: &Problem, part: Part, facts: &RankFacts, enough: u64) -> PartPacking {
    try_ranks(p, part, facts, enough, &RANKS[FIRST..])
}

/// The lowest packing of `part` found. Ends at the first that is no higher than `enough`.
fn try_ranks(p: &Problem, part: Part, facts: &RankFacts, enough: u64, ranks: &[Rank]) -> PartPacking {
    let n = part.to - part.from;
    let size = &p.size[part.from..part.to];
    let mut left = (EFFORT / n.max(1)).max(TRIES);
    let mut best = PartPacking { at: Vec::new(), height: u64::MAX };
    for &rank in ranks {
        let mut order = facts.order(rank);
        for _ in 0..TRIES {
            if left == 0 {
                return best;
            }
            left -= 1;
            // If many stick out, none of them is the cause.
            let limits = Limits { enough, out: n / 16 + 4, least: best.height };
            let Some(found) = skyline::run_pass_within(p, part, &order, limits) else { break };
            let over = |k: u32| found.at[k as usize] + size[k as usize] > enough;
            let out: Vec<u32> = order.iter().copied().filter(|&k| over(k)).collect();
            if best.at.is_empty() || found.height < best.height {
                best = found.clone();
            }
            if best.height <= enough {
                return best;
            }
            if out.len() > limits.out {
                break;
            }
            let rest = order.iter().copied().filter(|&k| !over(k));
            order = out.iter().copied().chain(rest).collect();
        }
    }
    best
}
