//! Local search over skyline ranks: buffers trade places in the order, and a worse height is kept now and then.
//!
//! The last resort, for parts that branch and bound could not settle. A fixed number of passes, a fixed stream of
//! numbers: the same input gives the same packing.

use super::compress::{Part, Problem};
use super::skyline;
use crate::arena::rng::SplitMix64;

/// Buffers that all passes together place at most.
const EFFORT: u64 = 1 << 20;

/// Tries to lower a packing of `part`, whose offsets are `from` and whose height is `height`, to `enough`, placing
/// no more than `effort` buffers in all. The best that was met, if it is lower.
pub fn anneal(p: &Problem, part: Part, from: &[u64], height: u64, enough: u64, effort: u64) -> Option<(Vec<u64>, u64)> {
    let n = from.len();
    // A skyline pass in order of the offsets is no higher than the packing that they came from.
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
        let (at, reach) = skyline::pass(p, part, &order);
        if reach < least {
            (least, best) = (reach, Some((at, reach)));
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
