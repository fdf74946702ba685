//! Simulated annealing over skyline ranks: buffers swap ranks, and a worse height is accepted now and then.
//!
//! The last resort, for parts that branch and bound could not settle. The number of passes and the stream of random
//! numbers are fixed, so the same input gives the same packing.

use super::problem::{Part, Problem};
use super::skyline::{self, PartPacking};
use crate::arena::rng::SplitMix64;

/// Most buffers that all passes together place.
const EFFORT: u64 = 1 << 20;

/// Tries to lower the packing of `part` with offsets `from` and height `height` to `enough`, placing at most `effort`
/// buffers in all. Returns the best packing if it is lower than `height`.
pub fn anneal(p: &Problem, part: Part, from: &[u64], height: u64, enough: u64, effort: u64) -> Option<PartPacking> {
    let n = from.len();
    // A skyline pass in order of offsets is no higher than the packing with these offsets.
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_by_key(|&k| (from[k as usize], k));
    let mut dice = SplitMix64(n as u64);
    let (mut now, mut best) = (height, None);
    let mut least = height;
    let passes = EFFORT.min(effort) / n.max(1) as u64;
    let mut heat = height / 200 + 1;
    for pass in 0..passes {
        let swaps = 1 + dice.below(3);
        let undo: Vec<(usize, usize)> = (0..swaps)
            .map(|_| {
                let a = dice.below(n as u64) as usize;
                let reach = 1 + dice.below(n as u64 / 4 + 1) as usize;
                (a, (a + reach) % n)
            })
            .collect();
        undo.iter().for_each(|&(a, b)| order.swap(a, b));
        let found = skyline::run_pass(p, part, &order);
        let reach = found.height;
        if reach < least {
            (least, best) = (reach, Some(found));
            if least <= enough {
                break;
            }
        }
        if reach <= now + dice.below(heat) {
            now = reach;
        } else {
            undo.iter().rev().for_each(|&(a, b)| order.swap(a, b));
        }
        if pass % (passes / 16 + 1) == 0 {
            heat = heat - heat / 4;
        }
    }
    best
}
