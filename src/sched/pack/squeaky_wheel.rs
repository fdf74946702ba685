//! Skyline passes over one rank after another, and over ranks that learn: what sticks out goes first next time.
//!
//! The second idea is Joslin and Clements' squeaky wheel (1999). It settles the small knots that a chain of a thousand
//! equal steps ties at its peak, which no static rank sees.

use super::compress::{Part, Problem};
use super::rank::{Facts, Rank};
use super::skyline::{self, Limits};

/// Ranks, those that are most often enough first.
const RANKS: &[Rank] = &[*b"TWA", *b"TAW", *b"AWT", *b"ZWT", *b"WAT", *b"TEW", *b"TZW", *b"WZT"];

/// Passes over one rank.
const TRIES: usize = 4;

/// Buffers that all passes over a part place at most, if that is more than [`TRIES`] passes.
const EFFORT: usize = 1 << 22;

/// Ranks that a part is tried with before branch and bound takes it on.
const FIRST: usize = 3;

/// [`passes`] over the first few ranks, or over all if `search` will not come after them.
pub fn first(p: &Problem, part: Part, facts: &Facts, enough: u64, search: bool) -> (Vec<u64>, u64) {
    passes(p, part, facts, enough, if search { &RANKS[..FIRST] } else { RANKS })
}

/// [`passes`] over the ranks that [`first`] leaves out.
pub fn rest(p: &Problem, part: Part, facts: &Facts, enough: u64) -> (Vec<u64>, u64) {
    passes(p, part, facts, enough, &RANKS[FIRST..])
}

/// The best packing of `part` that was met, by offsets and height; the first that is no higher than `enough`.
fn passes(p: &Problem, part: Part, facts: &Facts, enough: u64, ranks: &[Rank]) -> (Vec<u64>, u64) {
    let n = part.to - part.from;
    let size = &p.size[part.from..part.to];
    let mut left = (EFFORT / n.max(1)).max(TRIES);
    let (mut best, mut least) = (Vec::new(), u64::MAX);
    for &rank in ranks {
        let mut order = facts.order(rank);
        for _ in 0..TRIES {
            if left == 0 {
                return (best, least);
            }
            left -= 1;
            // Many that stick out tell nothing about any of them.
            let limits = Limits { enough, out: n / 16 + 4, least };
            let Some((at, height)) = skyline::pass_within(p, part, &order, limits) else { break };
            let over = |k: u32| at[k as usize] + size[k as usize] > enough;
            let out: Vec<u32> = order.iter().copied().filter(|&k| over(k)).collect();
            if best.is_empty() || height < least {
                (best, least) = (at.clone(), height);
            }
            if least <= enough {
                return (best, least);
            }
            if out.len() > limits.out {
                break;
            }
            let rest = order.iter().copied().filter(|&k| !over(k));
            order = out.iter().copied().chain(rest).collect();
        }
    }
    (best, least)
}
