//! Random problems of all kinds, the index against a plain scan, and training graphs up to ten thousand buffers.

use super::proven;
use crate::arena::rng::SplitMix64;
use crate::sched::pack::instances;
use crate::sched::pack::problem::Problem;
use crate::sched::pack::skyline_index::SkylineIndex;
use crate::sched::pack::{Buffers, Options};
use proptest::prelude::*;

fn buffers() -> impl Strategy<Value = Buffers> {
    let row = (0u64..40, 0u64..12, 0u64..9).prop_map(|(first, life, size)| (first, first + life, size * 16));
    prop::collection::vec(row, 0..60).prop_map(Buffers::from_rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packing_is_proven(v in buffers()) {
        let p = proven(&v, &Options { nodes: 5000, ..Options::default() });
        prop_assert!(p.at.iter().all(|a| a % 16 == 0), "offsets are multiples of what all sizes are multiples of");
        let top = p.height;
        let loose = proven(&v, &Options { capacity: Some(2 * top), nodes: 5000 });
        prop_assert!(loose.solved && loose.nodes == 0);
    }

    /// Two buffers share a section exactly if they share a moment, and loads are those of moments.
    #[test]
    fn sections_stand_for_moments(v in buffers()) {
        let p = Problem::new(&v).unwrap();
        for a in 0..p.id.len() {
            for b in 0..p.id.len() {
                let (i, j) = (p.id[a] as usize, p.id[b] as usize);
                let moments = v.first[i].max(v.first[j]) < v.end[i].min(v.end[j]);
                prop_assert_eq!(moments, p.start[a].max(p.start[b]) < p.end[a].min(p.end[b]));
            }
        }
        let live = |t: u64| (0..v.len()).filter(|&i| v.first[i] <= t && t < v.end[i]).map(|i| v.size[i]).sum::<u64>();
        prop_assert_eq!(p.max_live() * p.unit, (0..60).map(live).max().unwrap_or(0));
    }
}

#[test]
fn the_index_finds_the_best_rank_inside() {
    let mut dice = SplitMix64(4);
    for n in [1, 2, 7, 40, 300] {
        let span = 2 + dice.below(60) as u32;
        let mut rows: Vec<(u32, u32)> = (0..n)
            .map(|_| {
                let start = dice.below(u64::from(span)) as u32;
                (start, start + 1 + dice.below(u64::from(span - start)) as u32)
            })
            .collect();
        rows.sort_unstable();
        let (start, end): (Vec<u32>, Vec<u32>) = rows.iter().copied().unzip();
        let mut order: Vec<u32> = (0..n as u32).collect();
        (1..n).rev().for_each(|k| order.swap(k, dice.below(k as u64 + 1) as usize));
        let mut index = SkylineIndex::new(&start, &end, &order);
        let mut left = vec![true; n];
        for _ in 0..4 * n {
            let a = dice.below(u64::from(span)) as u32;
            let b = a + 1 + dice.below(u64::from(span - a)) as u32;
            let inside = |r: usize| left[r] && start[order[r] as usize] >= a && end[order[r] as usize] <= b;
            let best = (0..n).find(|&r| inside(r)).map(|r| r as u32);
            assert_eq!(index.best(a, b), best);
            if let Some(r) = best.filter(|_| dice.below(2) == 0) {
                index.remove(r);
                left[r as usize] = false;
            }
        }
    }
}

/// What a training step looks like needs no search: a skyline reaches the bound.
#[test]
fn training_graphs_are_packed_without_search() {
    for n in [100, 1000, 10_000] {
        let v = [
            instances::training_instance(n, 1),
            instances::training_instance(n, 2),
            instances::unrolled_instance(n),
            instances::power_law_instance(n, 1),
        ];
        for (kind, v) in v.iter().enumerate() {
            let p = proven(v, &Options { nodes: 0, ..Options::default() });
            assert_eq!(p.height, p.max_live, "kind {kind}, {n} buffers");
        }
    }
}
