//! The index on all segments of small lines, a skyline and its limits by hand, and the passes over several ranks.

use super::full;
use crate::sched::pack::Buffers;
use crate::sched::pack::problem::{Part, Problem};
use crate::sched::pack::rank::RankFacts;
use crate::sched::pack::skyline::{self, Limits};
use crate::sched::pack::skyline_index::SkylineIndex;
use crate::sched::pack::squeaky_wheel::{try_first_ranks, try_other_ranks};

/// Every `step`-th of all lifetimes in six sections from `low`, sorted by start.
fn lifetimes(low: u32, step: usize) -> Vec<(u32, u32)> {
    let all = (0..6).flat_map(|a| (a + 1..7).map(move |b| (low + a, low + b)));
    all.step_by(step).collect()
}

/// The best rank of all segments, while the buffers are removed from both ends of the order.
#[test]
fn the_index_is_right_on_every_segment() {
    for (low, step) in [0, 5].into_iter().flat_map(|low| [1, 2, 3, 5, 8, 21].map(|step| (low, step))) {
        let rows = lifetimes(low, step);
        let (start, end): (Vec<u32>, Vec<u32>) = rows.iter().copied().unzip();
        let n = rows.len();
        // 23 shares no factor with a number of buffers.
        let order: Vec<u32> = (0..n).map(|r| (r * 23 % n) as u32).collect();
        let mut index = SkylineIndex::new(&start, &end, &order);
        let mut left = vec![true; n];
        for removed in 0..=n {
            for (a, b) in (0..low + 8).flat_map(|a| (a + 1..low + 9).map(move |b| (a, b))) {
                let inside = |r: &usize| left[*r] && rows[order[*r] as usize].0 >= a && rows[order[*r] as usize].1 <= b;
                let best = (0..n).find(inside).map(|r| r as u32);
                assert_eq!(index.best(a, b), best, "{a}..{b} after {removed} of {n} from {low}");
            }
            if removed < n {
                let r = if removed % 2 == 0 { removed / 2 } else { n - 1 - removed / 2 };
                index.remove(r as u32);
                left[r] = false;
            }
        }
    }
    assert_eq!(SkylineIndex::new(&[], &[], &[]).best(2, 5), None);
}

/// A part of three sections, alone or behind another part: buffers that end at 5 on the left, at 1 in the middle and at
/// 3 on the right, one over the first two sections, and one over the last two.
fn steps(mirrored: bool, behind: bool) -> (Problem, Part) {
    let rows = match mirrored {
        false => [(0, 1, 5), (0, 2, 2), (1, 2, 1), (1, 3, 2), (2, 3, 3)],
        true => [(0, 1, 3), (0, 2, 2), (1, 2, 1), (1, 3, 2), (2, 3, 5)],
    };
    let before = behind.then_some((0, 1, 9));
    let rows = rows.into_iter().map(|(first, end, size)| (first + 10, end + 10, size));
    let p = Problem::new(&Buffers::from_rows(before.into_iter().chain(rows))).unwrap();
    let part = p.parts[usize::from(behind)];
    (p, part)
}

/// The middle rises to its lower neighbour, so the buffer over both goes there before the one over the others.
#[test]
fn a_segment_rises_to_its_lower_neighbour() {
    for behind in [false, true] {
        let (p, part) = steps(false, behind);
        let found = skyline::run_pass(&p, part, &[0, 2, 4, 1, 3]);
        assert_eq!((found.at, found.height), (vec![0, 5, 0, 3, 0], 7));
        let (p, part) = steps(true, behind);
        let found = skyline::run_pass(&p, part, &[4, 2, 0, 3, 1]);
        assert_eq!((found.at, found.height), (vec![0, 3, 0, 5, 0], 7));
    }
}

/// In this order the buffers end at 5, 1, 3, 5 and 7.
#[test]
fn a_pass_is_given_up_at_its_limits() {
    let (p, part) = steps(false, false);
    let passes = |enough, out, least| {
        let found = skyline::run_pass_within(&p, part, &[0, 2, 4, 1, 3], Limits { enough, out, least });
        assert!(found.as_ref().is_none_or(|f| f.height == 7 && f.at == [0, 5, 0, 3, 0]));
        found.is_some()
    };
    // Three end above 4, two of them at 5.
    assert!(!passes(4, 1, 5) && !passes(4, 2, 7) && passes(4, 2, 8) && passes(4, 3, 0));
    // One ends above 5, and none above 7.
    assert!(!passes(5, 0, 0) && !passes(5, 0, 7) && passes(5, 0, 8) && passes(5, 1, 0));
    assert!(!passes(6, 0, 0) && passes(7, 0, 0));
}

#[test]
fn a_part_without_buffers_has_no_height() {
    let none = Part { from: 0, to: 0, low: 0, high: 0 };
    let found = skyline::run_pass(&Problem::default(), none, &[]);
    assert_eq!((found.at.len(), found.height), (0, 0));
}

/// The first three ranks reach 31, and a later one reaches the largest load, 29.
#[test]
fn later_ranks_are_tried_where_no_search_follows() {
    let p = Problem::new(&full(18, 8, 9, 26)).unwrap();
    let [part] = p.parts[..] else { panic!("{} parts", p.parts.len()) };
    let facts = RankFacts::new(&p, part);
    assert_eq!(p.max_live(), 29);
    assert_eq!(try_first_ranks(&p, part, &facts, 29, true).height, 31);
    assert_eq!(try_first_ranks(&p, part, &facts, 29, false).height, 29);
    assert_eq!(try_other_ranks(&p, part, &facts, 29).height, 29);
    // The first pass is kept if it is low enough, also if a lower one would follow.
    let first = skyline::run_pass(&p, part, &facts.order(*b"TWA"));
    let found = try_first_ranks(&p, part, &facts, first.height, false);
    assert_eq!((first.height, found.height, found.at), (31, 31, first.at));
}
