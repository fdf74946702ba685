//! What single searches cost and find, and how a run over parts shares its nodes.

use super::{full, proven};
use crate::sched::pack::branching::Choice;
use crate::sched::pack::exact::ExactSearches;
use crate::sched::pack::instances;
use crate::sched::pack::problem::Problem;
use crate::sched::pack::rank::RankFacts;
use crate::sched::pack::search::{Outcome, search};
use crate::sched::pack::search_state::SearchState;
use crate::sched::pack::{Buffers, Options, pack};

const CHOICES: [Choice; 5] = [Choice::Rank, Choice::Lowest, Choice::Fewest, Choice::Weighted, Choice::Fit];

type Row = (u64, u64, u64);

/// At most 7 are alive, and no packing has that height.
const TIGHT: [Row; 8] = [(0, 1, 6), (0, 3, 1), (1, 2, 3), (1, 4, 3), (2, 3, 1), (2, 5, 2), (3, 4, 2), (4, 5, 5)];

/// Fits the height 7 at the first try.
const EASY: [Row; 5] = [(0, 3, 2), (0, 1, 3), (1, 2, 4), (2, 3, 2), (0, 2, 1)];

/// The rows, later by `by` moments, with sizes times `times`.
fn moved(rows: &[Row], by: u64, times: u64) -> Vec<Row> {
    rows.iter().map(|r| (r.0 + by, r.1 + by, r.2 * times)).collect()
}

/// One search of rows whose moments are sections: the outcome and the nodes.
fn searched(rows: &[Row], cap: u32, choice: Choice, limit: u64) -> (Outcome, u64) {
    let column = |f: fn(&Row) -> u64| rows.iter().map(|r| f(r) as u32).collect::<Vec<u32>>();
    let end = column(|r| r.1);
    let sections = end.iter().copied().max().unwrap();
    let weight = vec![1; sections as usize];
    let mut state = SearchState::new(column(|r| r.0), end, column(|r| r.2), sections, cap, weight);
    let mut nodes = 0;
    (search(&mut state, choice, limit, &mut nodes), nodes)
}

#[test]
fn a_search_takes_a_node_for_each_buffer_and_no_more_than_its_limit() {
    let rows = [(0, 1, 2), (0, 1, 3)];
    for choice in CHOICES {
        assert_eq!(searched(&rows, 5, choice, 0), (Outcome::Limit, 0));
        assert_eq!(searched(&rows, 5, choice, 1), (Outcome::Limit, 1));
        assert_eq!(searched(&rows, 5, choice, 2), (Outcome::Found(vec![0, 2]), 2));
        assert_eq!(searched(&rows, 4, choice, 2), (Outcome::Refuted, 0));
    }
    let mut state = SearchState::new(vec![0], vec![1], vec![3u32], 1, 3, vec![1]);
    let mut nodes = 40;
    assert_eq!((search(&mut state, Choice::Rank, 1, &mut nodes), nodes), (Outcome::Found(vec![0]), 41));
}

#[test]
fn a_height_is_refuted_once_all_decisions_fail() {
    for choice in CHOICES {
        assert_eq!(searched(&TIGHT, 6, choice, 1000), (Outcome::Refuted, 0), "{choice:?}");
        assert_eq!(searched(&TIGHT, 7, choice, 16), (Outcome::Refuted, 16), "{choice:?}");
        assert_eq!(searched(&TIGHT, 7, choice, 15), (Outcome::Limit, 15), "{choice:?}");
        assert_eq!(searched(&EASY, 7, choice, 5).1, 5, "{choice:?}");
    }
    let other = (Outcome::Found(vec![0, 6, 0, 3, 0, 1, 6, 3]), 11);
    assert_eq!(searched(&TIGHT, 8, Choice::Weighted, 1000), other);
    assert_eq!(searched(&TIGHT, 8, Choice::Fit, 1000), (Outcome::Found(vec![0, 7, 0, 4, 2, 0, 2, 2]), 8));
}

/// Ranges that share no buffer: those that were solved are not solved again for one that fails.
#[test]
fn ranges_that_no_buffer_joins_are_searched_one_by_one() {
    for choice in CHOICES {
        let first = [TIGHT.to_vec(), moved(&EASY, 5, 1)].concat();
        assert_eq!(searched(&first, 7, choice, 1000), (Outcome::Refuted, 5 + 16), "{choice:?}");
        let last = [EASY.to_vec(), moved(&TIGHT, 3, 1)].concat();
        assert_eq!(searched(&last, 7, choice, 1000), (Outcome::Refuted, 16), "{choice:?}");
        let (outcome, nodes) = searched(&last, 8, choice, 1000);
        assert!(matches!(outcome, Outcome::Found(_)), "{choice:?}");
        assert_eq!(nodes, if choice == Choice::Fit { 5 + 8 } else { 5 + 11 }, "{choice:?}");
    }
}

/// A sum of two heights must fit a u64.
#[test]
fn heights_above_what_fits_are_not_searched() {
    let p = Problem::new(&Buffers::from_rows([(0, 1, 3), (0, 1, 4)])).unwrap();
    let facts = RankFacts::new(&p, p.parts[0]);
    let solve = |cap: u64| {
        let mut searches = ExactSearches::new(&p, p.parts[0], &facts);
        (searches.solve(cap, 100), searches.nodes)
    };
    for cap in [7, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 63) - 1] {
        assert_eq!(solve(cap), (Outcome::Found(vec![4, 0]), 2), "{cap}");
    }
    assert_eq!(solve(1 << 63), (Outcome::Limit, 0));
    assert_eq!(solve(u64::MAX), (Outcome::Limit, 0));
}

/// Heights of more than 32 bits are searched in the same steps, within the same budgets.
#[test]
fn wide_heights_take_the_same_nodes() {
    let v = full(14, 6, 9, 31);
    // The last one keeps the unit at 1.
    let mut wide = v.clone();
    wide.size.iter_mut().for_each(|size| *size <<= 34);
    wide.push(100, 101, 1);
    for (nodes, height, used) in [(1000, 29, [299, 299]), (20, 30, [10, 17])] {
        let options = Options { nodes, ..Options::default() };
        let (p, w) = (proven(&v, &options), proven(&wide, &options));
        assert_eq!((p.height, w.height), (height, height << 34));
        // Where the height is not reached, there are more caps between more units.
        assert_eq!([p.nodes, w.nodes], used);
    }
}

/// The packing at 29 takes 299 nodes. The first search gets half of the budget, and 7/8 of it under a capacity.
#[test]
fn budgets_are_shared_between_caps() {
    let v = full(14, 6, 9, 31);
    let run = |nodes, capacity| {
        let p = proven(&v, &Options { capacity, nodes });
        (p.height, p.nodes, p.solved)
    };
    assert_eq!(run(341, Some(29)), (29, 299, true));
    assert_eq!(run(340, Some(29)), (30, 298, false));
    assert_eq!(run(598, None), (29, 299, true));
    assert_eq!(run(597, None), (30, 298, false));
    // The shares of few nodes.
    assert_eq!(
        [0, 1, 2, 3].map(|nodes| run(nodes, None)),
        [(30, 0, false), (30, 0, false), (30, 1, false), (30, 1, false)]
    );
    assert_eq!([0, 1, 2].map(|nodes| run(nodes, Some(29))), [(30, 0, false), (30, 1, false), (30, 2, false)]);
}

#[test]
fn a_capacity_is_in_the_unit_of_the_sizes() {
    let v = full(14, 6, 9, 31);
    let rows = (0..v.len()).map(|i| (v.first[i], v.end[i], 16 * v.size[i]));
    let v = Buffers::from_rows(rows);
    for (capacity, solved) in [(29 * 16, true), (29 * 16 + 15, true), (29 * 16 - 1, false)] {
        let p = proven(&v, &Options { capacity: Some(capacity), nodes: 1000 });
        assert_eq!((p.height, p.nodes, p.solved), (29 * 16, 299, solved));
    }
}

#[test]
fn a_capacity_that_is_met_is_not_undercut() {
    let tight = Buffers::from_rows(TIGHT);
    let p = proven(&tight, &Options { capacity: Some(9), ..Options::default() });
    assert_eq!((p.height, p.bound, p.nodes), (8, 7, 0));
    let p = proven(&tight, &Options::default());
    assert_eq!((p.height, p.bound, p.nodes, p.solved), (8, 8, 16, true));
    // The search ends at 143. Later ranks and annealing would both reach 142.
    let p = proven(&full(24, 10, 20, 9), &Options { capacity: Some(143), nodes: 3000 });
    assert_eq!((p.height, p.bound, p.nodes), (143, 135, 854));
}

/// With one more buffer throughout, no packing is below 17, and the other part may be as high as 16.
#[test]
fn the_highest_part_is_lowered_first() {
    let high = [moved(&TIGHT, 0, 2), vec![(0, 5, 1)]].concat();
    let alone = pack(&Buffers::from_rows(high.iter().copied()), &Options::default()).unwrap();
    assert_eq!((alone.height, alone.bound, alone.max_live, alone.nodes), (17, 17, 15, 85));
    for both in [[moved(&TIGHT, 0, 2), moved(&high, 10, 1)], [high.clone(), moved(&TIGHT, 10, 2)]] {
        let p = proven(&Buffers::from_rows(both.concat()), &Options::default());
        assert_eq!((p.height, p.bound, p.max_live, p.nodes), (17, 17, 15, 85), "the lower part is low enough");
    }
}

#[test]
fn all_parts_together_keep_to_the_budget() {
    let v = full(24, 10, 20, 59);
    let mut both = v.clone();
    (0..v.len()).for_each(|i| both.push(v.first[i] + 100, v.end[i] + 100, v.size[i]));
    let p = proven(&both, &Options { nodes: 2000, ..Options::default() });
    assert_eq!((p.height, p.nodes), (172, 1932));
}

/// 4096 parts of one buffer each, and then one that takes searches, later ranks and annealing.
#[test]
fn what_lies_before_a_part_does_not_change_its_packing() {
    for (seed, height, used) in [(59, 169, 1682), (31, 111, 1520)] {
        let v = full(24, 10, 20, seed);
        let options = Options { nodes: 2000, ..Options::default() };
        let alone = proven(&v, &options);
        assert_eq!((alone.height, alone.nodes), (height, used));
        let mut behind = Buffers::from_rows((0..4096).map(|t| (2 * t, 2 * t + 1, 1)));
        (0..v.len()).for_each(|i| behind.push(v.first[i] + 10_000, v.end[i] + 10_000, v.size[i]));
        let p = proven(&behind, &options);
        assert_eq!((p.height, p.bound, p.nodes), (height, alone.bound, used));
        assert_eq!(p.at[4096..], alone.at[..]);
    }
}

/// With one node there is no search, but the later ranks are tried, and they reach the largest load.
#[test]
fn later_ranks_follow_a_search_that_fails() {
    let v = full(18, 8, 9, 26);
    for nodes in [0, 1] {
        let p = proven(&v, &Options { nodes, ..Options::default() });
        assert_eq!((p.height, p.max_live, p.nodes), (29, 29, 0));
    }
}

#[test]
fn a_small_budget_is_kept_for_wide_heights() {
    let v = instances::perfect_instance(160, 1 << 12, (1 << 40) + 1, 0);
    for nodes in [1, 50, 400] {
        assert!(proven(&v, &Options { nodes, ..Options::default() }).nodes <= nodes);
    }
}
