//! The section and the buffer that each rule branches on, in states whose floors are set by hand.

use crate::sched::pack::branching::Choice;
use crate::sched::pack::search_state::SearchState;

const CAP: u32 = 20;

/// Sections of one buffer each. A row is the floor of a section, the number of buffers that are tied there, the units
/// that stay empty above, and the number of failures.
fn sections(rows: &[(u32, u32, u32, u64)]) -> SearchState<u32> {
    let n = rows.len() as u32;
    let weight = rows.iter().map(|r| r.3).collect();
    let mut s = SearchState::new((0..n).collect(), (1..=n).collect(), vec![1; rows.len()], n, CAP, weight);
    for (k, &(floor, tied, spare, _)) in rows.iter().enumerate() {
        (s.lo[k], s.eff[k], s.floor[k], s.tied[k]) = (floor, floor, floor, tied);
        s.total[k] = CAP - floor - spare;
    }
    s
}

/// The section that `choice` branches in, of sections `low..high`.
fn chosen(rows: &[(u32, u32, u32, u64)], low: u32, high: u32, choice: Choice) -> u32 {
    sections(rows).branch_candidate(low, high, choice).unwrap()
}

/// A wall between two valleys.
const WALL: (u32, u32, u32, u64) = (9, 1, 0, 1);

#[test]
fn only_valleys_are_branched_in() {
    // The first and the last section lie beside a lower one, and have the fewest ways.
    let rows = [(3, 1, 0, 1), (1, 3, 0, 1), (4, 1, 0, 1), (2, 2, 0, 1), (5, 1, 0, 1)];
    assert_eq!(chosen(&rows, 0, 5, Choice::Fewest), 3);
    assert_eq!(chosen(&rows, 0, 5, Choice::Weighted), 3);
    assert_eq!(chosen(&rows, 0, 5, Choice::Lowest), 1);
    // A range ends in a wall, whatever lies beside it.
    assert_eq!(chosen(&rows, 1, 3, Choice::Fewest), 1);
    assert_eq!(chosen(&rows, 2, 3, Choice::Fewest), 2);
    assert_eq!(chosen(&rows, 2, 5, Choice::Fewest), 3);
    assert_eq!(chosen(&[(4, 1, 0, 1), (2, 2, 0, 1), (1, 1, 0, 1)], 0, 2, Choice::Fewest), 1);
    assert_eq!(chosen(&[(1, 1, 0, 1), (3, 2, 0, 1), (2, 3, 0, 1), (3, 1, 0, 1)], 1, 4, Choice::Fewest), 2);
    // All sections of a valley count.
    let wide = [WALL, (2, 3, 0, 1), (2, 2, 0, 1), (2, 1, 0, 1), (2, 2, 0, 1), WALL];
    for choice in [Choice::Lowest, Choice::Fewest, Choice::Weighted, Choice::Fit] {
        assert_eq!(chosen(&wide, 0, 6, choice), 3, "{choice:?}");
    }
}

#[test]
fn the_lowest_valley_goes_before_the_fewest_ways_and_the_other_way_round() {
    let rows = [(2, 1, 0, 1), WALL, (1, 2, 0, 1), WALL, (1, 2, 0, 1), WALL, (2, 1, 0, 1)];
    assert_eq!(chosen(&rows, 0, 7, Choice::Lowest), 2);
    assert_eq!(chosen(&rows, 0, 7, Choice::Fewest), 0);
    // Equal ways: the lower floor. Equal floors: the fewer ways.
    let equal = [(2, 2, 0, 1), WALL, (1, 2, 0, 1), WALL, (1, 3, 0, 1)];
    assert_eq!(chosen(&equal, 0, 5, Choice::Fewest), 2);
    let equal = [(1, 3, 0, 1), WALL, (1, 2, 0, 1), WALL, (2, 1, 0, 1)];
    assert_eq!(chosen(&equal, 0, 5, Choice::Lowest), 2);
    // A section that is full has one way less.
    let spare = [(2, 2, 1, 1), WALL, (2, 2, 0, 1), WALL, (2, 2, 1, 1)];
    assert_eq!(chosen(&spare, 0, 5, Choice::Fewest), 2);
    assert_eq!(chosen(&spare, 0, 5, Choice::Lowest), 2);
    assert_eq!(chosen(&spare, 0, 5, Choice::Weighted), 2);
}

/// Ways are `2 * (tied - 1)`, and one more in a section that is not full. They are compared by the failures.
#[test]
fn failures_weigh_ways() {
    let two = |a: (u32, u32, u32, u64), b| [Choice::Weighted, Choice::Fit].map(|c| chosen(&[a, WALL, b], 0, 3, c));
    // 3 ways and 4 ways: 3 / 5 is more than 4 / 7, and less than 4 / 6.
    assert_eq!(two((2, 2, 1, 5), (2, 3, 0, 7)), [2, 2]);
    assert_eq!(two((2, 2, 1, 5), (2, 3, 0, 6)), [0, 0]);
    assert_eq!(two((2, 3, 0, 7), (2, 2, 1, 5)), [0, 0]);
    assert_eq!(two((2, 3, 0, 6), (2, 2, 1, 5)), [2, 2]);
    // 2 / 1 and 4 / 2: the lower floor, then the one that failed more often, then the first.
    assert_eq!(two((2, 2, 0, 1), (1, 3, 0, 2)), [2, 2]);
    assert_eq!(two((2, 2, 0, 1), (3, 3, 0, 2)), [0, 0]);
    assert_eq!(two((2, 2, 0, 1), (2, 3, 0, 2)), [2, 2]);
    assert_eq!(two((2, 3, 0, 2), (2, 2, 0, 1)), [0, 0]);
    assert_eq!(two((2, 2, 0, 1), (2, 2, 0, 1)), [0, 0]);
    // A lower floor alone is no reason.
    assert_eq!(two((2, 2, 0, 1), (1, 3, 0, 1)), [0, 0]);
}

/// Buffers of a valley, sections `2..5`, by rank. Its section 3 has the fewest ways.
fn valley(rows: &[(u32, u32)]) -> SearchState<u32> {
    let (start, end) = (rows.iter().map(|r| r.0).collect(), rows.iter().map(|r| r.1).collect());
    let mut s = SearchState::new(start, end, vec![1; rows.len()], 6, CAP, vec![1; 6]);
    s.lo.fill(2);
    s.eff.fill(2);
    (s.floor, s.tied) = (vec![8, 5, 2, 2, 2, 7], vec![4, 4, 4, 1, 4, 4]);
    s
}

#[test]
fn a_buffer_that_touches_more_walls_fits_better() {
    const MIDDLE: (u32, u32) = (3, 4);
    const LEFT: (u32, u32) = (2, 4);
    const RIGHT: (u32, u32) = (3, 5);
    const BOTH: (u32, u32) = (2, 5);
    for (low, high) in [(0, 6), (1, 6), (2, 5)] {
        let best = |rows: &[(u32, u32)]| valley(rows).branch_candidate(low, high, Choice::Fit).unwrap();
        assert_eq!(best(&[MIDDLE, MIDDLE]), 0);
        assert_eq!(best(&[MIDDLE, LEFT]), 1);
        assert_eq!(best(&[MIDDLE, RIGHT]), 1);
        assert_eq!(best(&[MIDDLE, LEFT, RIGHT]), 1, "the first of those with one wall");
        assert_eq!(best(&[MIDDLE, RIGHT, LEFT, BOTH]), 3);
        assert_eq!(best(&[BOTH, RIGHT, LEFT]), 0);
        for choice in [Choice::Weighted, Choice::Fewest, Choice::Lowest] {
            assert_eq!(valley(&[MIDDLE, LEFT, BOTH]).branch_candidate(low, high, choice), Some(0), "{choice:?}");
        }
    }
}

/// Those above the floor are no candidates, wherever they stand by rank.
#[test]
fn a_candidate_lies_on_the_floor() {
    for choice in [Choice::Lowest, Choice::Fewest, Choice::Weighted, Choice::Fit] {
        let mut s = valley(&[(3, 4), (2, 5), (3, 4), (2, 5)]);
        (s.lo[0], s.eff[0]) = (6, 6);
        (s.lo[1], s.eff[1]) = (3, 3);
        assert_eq!(s.branch_candidate(0, 6, choice), Some(if choice == Choice::Fit { 3 } else { 2 }), "{choice:?}");
    }
}

/// Two ranges without a common buffer: 0 and 3 are in the later one.
#[test]
fn the_first_by_rank_of_the_lowest_in_the_range() {
    let rows = [(2, 4, 2), (0, 2, 2), (0, 1, 1), (3, 4, 1)];
    let column = |f: fn(&(u32, u32, u32)) -> u32| rows.iter().map(f).collect::<Vec<u32>>();
    let mut s = SearchState::new(column(|r| r.0), column(|r| r.1), column(|r| r.2), 4, 9, vec![1; 4]);
    assert_eq!(
        [(0, 2), (2, 4), (0, 4)].map(|(a, b)| s.branch_candidate(a, b, Choice::Rank)),
        [Some(1), Some(0), Some(0)]
    );
    // On buffer 3 it begins at 1, and is the only one in section 2.
    assert!(s.postpone(0));
    assert_eq!((&s.eff[..], &s.floor[..]), (&[1, 0, 0, 0][..], &[0, 0, 1, 0][..]));
    assert_eq!(
        [(0, 2), (2, 4), (0, 4)].map(|(a, b)| s.branch_candidate(a, b, Choice::Rank)),
        [Some(1), Some(3), Some(1)]
    );
    assert!(s.place(3));
    assert_eq!(s.branch_candidate(2, 4, Choice::Rank), Some(0));
}

const ALL: [Choice; 5] = [Choice::Rank, Choice::Lowest, Choice::Fewest, Choice::Weighted, Choice::Fit];

/// Buffer 0 was postponed to 1, and nothing ends there any more. Buffer 1 lies at 3, on buffer 2.
#[test]
fn a_postponed_buffer_that_rests_on_nothing_is_postponed_again() {
    for choice in ALL {
        for (size, next) in [(4, Some(1)), (3, None)] {
            let mut s = SearchState::new(vec![0, 0, 1], vec![1, 2, 2], vec![size, 1, 3], 2, CAP, vec![1; 2]);
            assert!(s.place(2));
            assert_eq!((&s.lo[..2], &s.eff[..2]), (&[0, 3][..], &[0, 3][..]));
            (s.eff[0], s.floor[0]) = (1, 1);
            assert_eq!(s.branch_candidate(0, 2, choice), next, "{choice:?}, size {size}");
            // One of size 3 ends where buffer 1 begins, so it cannot lie on it.
            assert_eq!(s.eff[0], if next.is_some() { 4 } else { 1 });
        }
    }
}
