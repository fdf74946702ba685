//! Tests of the packers: against brute force, against each other, and on problems whose answer is known.

mod edges;
mod exact;
mod heights;
mod scale;

use super::problem::Problem;
use super::{Buffers, Options, Packing, pack, proof};
use crate::arena::rng::SplitMix64;

/// Packs `v` and proves the result.
pub fn proven(v: &Buffers, options: &Options) -> Packing {
    let p = pack(v, options).unwrap();
    proof::prove_packing(v, &p.at, p.height, 1).unwrap();
    let top = (0..v.len()).filter(|&i| v.takes(i)).map(|i| p.at[i] + v.size[i]).max();
    assert_eq!(p.height, top.unwrap_or(0), "the height is that of the highest buffer");
    assert!(p.max_live <= p.bound && p.bound <= p.height);
    let solved = options.capacity.map_or(p.optimal(), |c| p.height <= c);
    assert_eq!(p.solved, solved);
    p
}

/// `n` buffers in `moments` moments, of sizes up to `most`.
pub fn random(dice: &mut SplitMix64, n: usize, moments: u64, most: u64) -> Buffers {
    Buffers::from_rows((0..n).map(|_| {
        let first = dice.below(moments);
        (first, first + 1 + dice.below(moments - first), 1 + dice.below(most))
    }))
}

/// The least height of all packings: some order of dropping the buffers reaches it.
pub fn brute_force(v: &Buffers) -> u64 {
    let mut best = v.size.iter().sum();
    let mut at = vec![None; v.len()];
    drop_all(v, &mut at, 0, &mut best);
    best
}

fn drop_all(v: &Buffers, at: &mut Vec<Option<u64>>, height: u64, best: &mut u64) {
    if height >= *best {
        return;
    }
    if at.iter().all(Option::is_some) {
        *best = height;
        return;
    }
    for i in 0..v.len() {
        if at[i].is_some() {
            continue;
        }
        let overlap = |j: usize| v.first[i].max(v.first[j]) < v.end[i].min(v.end[j]);
        let below = (0..v.len()).filter(|&j| overlap(j)).filter_map(|j| at[j].map(|a| a + v.size[j])).max();
        at[i] = Some(below.unwrap_or(0));
        drop_all(v, at, height.max(below.unwrap_or(0) + v.size[i]), best);
        at[i] = None;
    }
}

/// Fills up each moment of `v` to `height` with buffers that live for one moment.
pub fn filled(v: &Buffers, moments: u64, height: u64) -> Option<Buffers> {
    let mut full = v.clone();
    for t in 0..moments {
        let live: u64 = (0..v.len()).filter(|&i| v.first[i] <= t && t < v.end[i]).map(|i| v.size[i]).sum();
        if live > height {
            return None;
        }
        if live < height {
            full.push(t, t + 1, height - live);
        }
    }
    Some(full)
}

/// [`random`] buffers, and others that fill each moment up to the largest load: hard to pack.
pub fn full(n: usize, moments: u64, most: u64, seed: u64) -> Buffers {
    let base = random(&mut SplitMix64(seed), n, moments, most);
    let p = Problem::new(&base).unwrap();
    filled(&base, moments, p.max_live() * p.unit).unwrap()
}
