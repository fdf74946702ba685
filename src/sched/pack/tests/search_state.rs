//! Decisions in small states, and the columns after them, worked out by hand.

use crate::sched::pack::height::Height;
use crate::sched::pack::search_state::SearchState;

/// The bound of a placed buffer.
const FAR: u32 = u32::FAR;

/// A state of (first section, one past the last, size) rows, by rank.
fn state(rows: &[(u32, u32, u32)], sections: u32, cap: u32) -> SearchState<u32> {
    let column = |f: fn(&(u32, u32, u32)) -> u32| rows.iter().map(f).collect::<Vec<u32>>();
    SearchState::new(column(|r| r.0), column(|r| r.1), column(|r| r.2), sections, cap, vec![1; sections as usize])
}

/// Each buffer reaches into the section of the next one.
const CHAIN: [(u32, u32, u32); 4] = [(0, 2, 3), (1, 3, 2), (2, 4, 1), (3, 4, 5)];

#[test]
fn a_new_state_knows_the_buffers_of_its_sections() {
    let s = state(&CHAIN, 4, 9);
    assert_eq!(s.live_at, [0, 1, 3, 5, 7]);
    assert_eq!(s.live, [0, 0, 1, 1, 2, 2, 3]);
    assert_eq!(s.tied, [1, 2, 2, 2]);
    assert_eq!(s.total, [3, 5, 3, 6]);
    assert_eq!(s.cuts, [0, 1, 1, 1]);
    assert_eq!(
        (&s.lo[..], &s.eff[..], &s.floor[..], &s.weight[..]),
        (&[0; 4][..], &[0; 4][..], &[0; 4][..], &[1; 4][..])
    );
    assert_eq!((s.mark(), s.sections, s.cap), (0, 4, 9));
    // The fullest section has 6.
    assert!(state(&CHAIN, 4, 6).sound() && !state(&CHAIN, 4, 5).sound());
}

#[test]
fn a_placed_buffer_lifts_its_neighbours_alone() {
    let mut s = state(&CHAIN, 4, 9);
    assert!(s.place(0));
    assert_eq!(s.lo, [0, 3, 0, 0]);
    assert_eq!(s.eff, [FAR, 3, 0, 0]);
    assert_eq!((&s.floor[1..], &s.tied[1..]), (&[3, 0, 0][..], &[1, 1, 2][..]));
    assert_eq!((&s.total[..], &s.cuts[..]), (&[0, 2, 3, 6][..], &[0, 0, 1, 1][..]));
    let mark = s.mark();
    // It ends below the second one, so that one stays.
    assert!(s.place(2));
    assert_eq!(s.lo, [0, 3, 0, 1]);
    assert_eq!(s.eff, [FAR, 3, FAR, 1]);
    assert_eq!((&s.floor[1..], &s.tied[1..]), (&[3, 3, 1][..], &[1, 1, 1][..]));
    assert_eq!((&s.total[..], &s.cuts[..]), (&[0, 2, 2, 5][..], &[0, 0, 1, 0][..]));
    s.undo(mark);
    assert_eq!((s.mark(), &s.lo[..], &s.eff[..]), (mark, &[0, 3, 0, 0][..], &[FAR, 3, 0, 0][..]));
    assert_eq!((&s.floor[1..], &s.tied[1..]), (&[3, 0, 0][..], &[1, 1, 2][..]));
    assert_eq!((&s.total[..], &s.cuts[..]), (&[0, 2, 3, 6][..], &[0, 0, 1, 1][..]));
    assert!(s.place(2) && s.place(1) && s.place(3));
    assert_eq!(s.offsets(), [0, 3, 0, 1]);
    assert_eq!((&s.total[..], &s.cuts[..]), (&[0; 4][..], &[0; 4][..]));
    s.undo(0);
    assert_eq!(
        (s.mark(), &s.tied[..], &s.total[..], &s.cuts[..]),
        (0, &[1, 2, 2, 2][..], &[3, 5, 3, 6][..], &[0, 1, 1, 1][..])
    );
}

/// Buffer 0 has two neighbours, of sizes 2 and 3, which do not meet.
#[test]
fn a_postponed_buffer_rests_on_the_neighbour_that_ends_first() {
    let mut s = state(&[(0, 2, 4), (0, 1, 2), (1, 2, 3)], 2, 9);
    assert!(s.postpone(0));
    assert_eq!((&s.eff[..], &s.lo[..]), (&[2, 0, 0][..], &[0, 0, 0][..]));
    assert_eq!((&s.floor[..], &s.tied[..]), (&[0, 0][..], &[1, 1][..]));
    assert!(s.place(1));
    assert_eq!((&s.eff[..], &s.lo[..]), (&[2, FAR, 0][..], &[2, 0, 0][..]));
    assert_eq!((&s.floor[..], &s.tied[..]), (&[2, 0][..], &[1, 1][..]));
    // The neighbour that is left ends at 3.
    assert!(s.postpone(0));
    assert_eq!((&s.eff[..], &s.lo[..]), (&[3, FAR, 0][..], &[2, 0, 0][..]));
    assert_eq!((&s.floor[..], &s.tied[..]), (&[3, 0][..], &[1, 1][..]));
    assert!(s.place(2));
    assert_eq!((&s.eff[..], &s.lo[..]), (&[3, FAR, FAR][..], &[3, 0, 0][..]));
    assert_eq!((&s.floor[..], &s.tied[..]), (&[3, 3][..], &[1, 1][..]));
    assert!(!s.postpone(0), "there is no neighbour left to rest on");
}

/// Below a neighbour that begins where it ends, a buffer would sink back.
#[test]
fn a_buffer_waits_for_no_neighbour_that_begins_at_its_end() {
    let rows = [(0, 1, 2), (0, 2, 3), (1, 2, 2)];
    let mut s = state(&rows, 2, 20);
    assert!(s.place(2));
    assert_eq!(s.eff, [0, 2, FAR]);
    assert!(!s.postpone(0));
    // One unit more, and it may lie on it.
    let mut s = state(&[(0, 1, 3), rows[1], rows[2]], 2, 20);
    assert!(s.place(2) && s.postpone(0));
    assert_eq!(s.eff, [5, 2, FAR]);
}

#[test]
fn a_bound_never_falls() {
    let mut s = state(&[(0, 1, 9), (0, 1, 2), (0, 1, 5)], 1, 40);
    s.eff[0] = 4;
    assert!(s.postpone(0));
    assert_eq!(s.eff, [4, 0, 0], "a neighbour ends at 2");
}

#[test]
fn buffers_may_end_at_the_cap_and_not_above() {
    for (cap, fits) in [(6, true), (5, false)] {
        // 2 are below, so it ends at 6.
        let mut s = state(&[(0, 1, 4), (0, 1, 2)], 1, cap);
        assert_eq!(s.postpone(0), fits);
        // 4 are below, so it ends at 6 too.
        let mut s = state(&[(0, 1, 2), (0, 1, 4)], 1, cap);
        assert_eq!(s.postpone(0), fits);
    }
    let mut s = state(&[(0, 1, 3), (0, 1, 4)], 1, 7);
    assert!(s.place(0));
    assert_eq!((&s.eff[..], &s.floor[..]), (&[FAR, 3][..], &[3][..]));
}

/// Under the first buffer lies one that only the other section has, so 2 units of the first section stay empty.
#[test]
fn a_section_that_fails_gains_weight() {
    let rows = [(0, 2, 3), (1, 2, 2), (0, 1, 2), (0, 1, 2)];
    for (cap, fits) in [(9, true), (8, false), (7, false)] {
        let mut s = state(&rows, 2, cap);
        assert!(s.sound() && s.place(1));
        assert_eq!(s.lo, [2, 0, 0, 0]);
        assert_eq!(s.place(0), fits, "5 and 2 and 2 of {cap}");
        assert_eq!(s.weight, [1 + u64::from(!fits), 1]);
        s.undo(0);
        assert_eq!((&s.total[..], &s.tied[..]), (&[7, 5][..], &[3, 2][..]));
    }
    // Both of the second section rest on others then: 1 unit stays empty below 7.
    let mut s = state(&[(0, 2, 3), (0, 1, 2), (1, 3, 4), (2, 3, 1)], 3, 7);
    assert!(s.sound() && s.place(3));
    assert_eq!((&s.lo[..], &s.floor[..]), (&[0, 0, 1, 0][..], &[0, 0, 1][..]));
    assert!(!s.postpone(0));
    assert_eq!((s.eff[0], &s.weight[..]), (2, &[1, 2, 1][..]));
}
