//! Compares the search with brute force, and with the same search without its strongest inference. Also tests perfect
//! packings.

use super::{brute_force, filled, proven, random};
use crate::arena::rng::SplitMix64;
use crate::sched::pack::branching::Choice;
use crate::sched::pack::exact::ExactSearches;
use crate::sched::pack::height::Height;
use crate::sched::pack::instances;
use crate::sched::pack::problem::Problem;
use crate::sched::pack::rank::RankFacts;
use crate::sched::pack::search::{Outcome, search};
use crate::sched::pack::search_state::SearchState;
use crate::sched::pack::{Buffers, Options};

const CHOICES: [Choice; 5] = [Choice::Rank, Choice::Lowest, Choice::Fewest, Choice::Weighted, Choice::Fit];

/// One search of all of `v` at `cap`, in the order of `dice`, which must fit a single part.
fn solve<H: Height>(v: &Buffers, cap: u64, choice: Choice, plain: bool, seed: u64) -> bool {
    let p = Problem::new(v).unwrap();
    let mut order: Vec<usize> = (0..p.id.len()).collect();
    let mut dice = SplitMix64(seed);
    (1..order.len()).rev().for_each(|k| order.swap(k, dice.below(k as u64 + 1) as usize));
    let of = |column: &[u32]| order.iter().map(|&k| column[k]).collect::<Vec<u32>>();
    let size: Vec<H> = order.iter().map(|&k| H::narrow_height(p.size[k])).collect();
    let sections = p.load.len() as u32;
    let weight = vec![1; sections as usize];
    let mut state =
        SearchState::new(of(&p.start), of(&p.end), size.clone(), sections, H::narrow_height(cap / p.unit), weight);
    state.plain = plain;
    let mut nodes = 0;
    match search(&mut state, choice, 1_000_000, &mut nodes) {
        Outcome::Found(at) => {
            let mut by_id = vec![0; v.len()];
            order.iter().zip(&at).for_each(|(&k, a)| by_id[p.id[k] as usize] = a * p.unit);
            crate::sched::pack::proof::prove_packing(v, &by_id, cap, 1).unwrap();
            true
        }
        Outcome::Refuted => false,
        Outcome::Limit => panic!("{} buffers took more than {nodes} nodes", v.len()),
    }
}

#[test]
fn the_best_height_is_that_of_brute_force() {
    let mut dice = SplitMix64(1);
    let (mut above, mut all) = (0, 0);
    for round in 0..600 {
        let v = random(&mut dice, 1 + round % 7, 2 + round as u64 % 7, 1 + round as u64 % 9);
        let best = brute_force(&v);
        let p = proven(&v, &Options::default());
        assert_eq!((p.height, p.bound), (best, best), "{v:?}");
        above += usize::from(best > p.max_live);
        all += 1;
        // A capacity just below is not reached, and the best height is reported.
        let tight = proven(&v, &Options { capacity: Some(best - 1), ..Options::default() });
        assert!(!tight.solved && tight.height >= best);
        assert!(proven(&v, &Options { capacity: Some(best), ..Options::default() }).solved);
    }
    assert!(above < all);
}

/// Moments that are all full leave no room for a wrong answer; few of them have no packing at all.
#[test]
fn full_moments_agree_with_brute_force() {
    let mut dice = SplitMix64(2);
    let (mut possible, mut impossible) = (0, 0);
    while possible + impossible < 400 {
        let base = random(&mut dice, 4, 4, 4);
        let Some(v) = filled(&base, 4, 7).filter(|v| v.len() <= 8) else { continue };
        let fits = brute_force(&v) == 7;
        for choice in CHOICES {
            assert_eq!(solve::<u32>(&v, 7, choice, false, 5), fits, "{choice:?} {v:?}");
        }
        possible += usize::from(fits);
        impossible += usize::from(!fits);
    }
    assert!(possible > 0);
}

/// Larger than brute force can check: what the search infers never changes its answer.
#[test]
fn inference_does_not_change_the_answer() {
    let mut dice = SplitMix64(3);
    let (mut fit, mut not) = (0, 0);
    for round in 0..6000u64 {
        let moments = 4 + round % 3;
        let base = random(&mut dice, 5 + round as usize % 4, moments, 9);
        let cap = Problem::new(&base).unwrap();
        let cap = cap.max_live() * cap.unit;
        let Some(v) = filled(&base, moments, cap) else { continue };
        let plain = solve::<u32>(&v, cap, Choice::Rank, true, 1);
        for (k, choice) in CHOICES.into_iter().enumerate() {
            assert_eq!(solve::<u32>(&v, cap, choice, false, k as u64), plain, "{choice:?} {v:?}");
        }
        assert_eq!(solve::<u64>(&v, cap, Choice::Weighted, false, 9), plain);
        fit += usize::from(plain);
        not += usize::from(!plain);
    }
    assert!(fit > 0 && not > 0, "both answers were met: {fit} and {not}");
}

#[test]
fn perfect_packings_are_found() {
    for (n, seeds) in [(20, 20), (60, 20), (120, 10), (200, 4)] {
        for seed in 0..seeds {
            let v = instances::perfect_instance(n, 1 << 16, 1 << 20, seed);
            let p = proven(&v, &Options::default());
            assert_eq!((p.max_live, p.height), (1 << 20, 1 << 20), "n {n}, seed {seed}, {} nodes", p.nodes);
        }
    }
}

/// Sizes that no `u32` holds are searched as well.
#[test]
fn heights_may_be_larger_than_u32() {
    for seed in 0..5 {
        let v = instances::perfect_instance(40, 1 << 16, (1 << 40) + 1, seed);
        let p = proven(&v, &Options::default());
        assert_eq!(p.height, (1 << 40) + 1, "seed {seed}");
    }
}

#[test]
fn a_small_budget_still_packs() {
    let v = instances::perfect_instance(200, 1 << 16, 1 << 20, 3);
    for nodes in [0, 1, 50] {
        let p = proven(&v, &Options { nodes, ..Options::default() });
        assert!(p.nodes <= nodes, "{} of {nodes} nodes", p.nodes);
    }
}

/// Neither a cap nor a size is cut to what a u32 holds, whatever the other one is.
#[test]
fn caps_may_be_larger_than_u32() {
    let solve = |rows: [(u64, u64, u64); 2], cap: u64| {
        let p = Problem::new(&Buffers::from_rows(rows)).unwrap();
        let facts = RankFacts::new(&p, p.parts[0]);
        ExactSearches::new(&p, p.parts[0], &facts).solve(cap, 100)
    };
    assert!(matches!(solve([(0, 1, 3), (0, 1, 4)], 1 << 40), Outcome::Found(_)));
    assert_eq!(solve([(0, 1, 1 << 40), (0, 1, 1)], 10), Outcome::Refuted);
}
