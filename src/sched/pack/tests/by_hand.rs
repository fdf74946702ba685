//! Small problems whose sections, loads, proofs and greedy packings were worked out by hand.

use crate::sched::intervals::Intervals;
use crate::sched::pack::height::Height;
use crate::sched::pack::problem::Problem;
use crate::sched::pack::{Buffers, Options, greedy, lines, pack, proof};

#[test]
fn columns_of_buffers() {
    assert!(Buffers::default().is_empty());
    let v = Buffers::from_rows([(3, 5, 1), (4, 4, 7), (5, 4, 7), (3, 5, 0)]);
    assert!(!v.is_empty());
    assert_eq!(
        (v.len(), &v.first[..], &v.end[..], &v.size[..]),
        (4, &[3, 4, 5, 3][..], &[5, 4, 4, 5][..], &[1, 7, 7, 0][..])
    );
    assert_eq!([0, 1, 2, 3].map(|i| v.takes(i)), [true, false, false, false]);
    v.valid().unwrap();
    let mut sizes = v.clone();
    sizes.size.push(1);
    assert!(sizes.valid().unwrap_err().message.contains("4 starts, 4 ends and 5 sizes"));
    let mut ends = v;
    ends.end.pop();
    assert!(ends.valid().unwrap_err().message.contains("4 starts, 3 ends and 4 sizes"));
}

#[test]
fn heights_of_both_types_keep_their_units() {
    assert_eq!((u32::narrow_height(77), u32::narrow_height(77).wide_height()), (77, 77));
    assert_eq!((u64::narrow_height(1 << 40), u64::narrow_height(1 << 40).wide_height()), (1 << 40, 1 << 40));
}

/// Buffers 2 and 5 are empty. At moment 10 and at moment 12, all that were alive have ended.
#[test]
fn moments_become_sections_and_parts() {
    let v = Buffers::from_rows([
        (10, 12, 4),
        (0, 3, 6),
        (5, 5, 8),
        (1, 2, 2),
        (2, 5, 4),
        (3, 9, 0),
        (12, 20, 8),
        (4, 5, 6),
        (0, 1, 10),
    ]);
    let p = Problem::new(&v).unwrap();
    assert_eq!(p.id, [1, 8, 3, 4, 7, 0, 6]);
    assert_eq!((p.unit, p.max_live()), (2, 8));
    assert_eq!(p.size, [3, 5, 1, 2, 3, 2, 4]);
    assert_eq!(p.life, [3, 1, 1, 3, 1, 2, 8]);
    assert_eq!(p.start, [0, 0, 1, 2, 3, 4, 5]);
    assert_eq!(p.end, [3, 1, 2, 4, 4, 5, 6]);
    assert_eq!(p.load, [8, 4, 5, 5, 2, 4]);
    let parts: Vec<_> = p.parts.iter().map(|part| (part.from, part.to, part.low, part.high)).collect();
    assert_eq!(parts, [(0, 5, 0, 4), (5, 6, 4, 5), (6, 7, 5, 6)]);
    let packing = pack(&v, &Options::default()).unwrap();
    assert_eq!((packing.height, packing.max_live, packing.bound, packing.nodes), (16, 16, 16, 0));
    assert_eq!([packing.at[2], packing.at[5]], [0, 0], "empty buffers lie at 0");
}

#[test]
fn a_problem_without_buffers_has_no_parts() {
    let p = Problem::new(&Buffers::from_rows([(4, 4, 1), (1, 2, 0)])).unwrap();
    assert_eq!((p.unit, p.max_live(), p.id.len(), p.load.len(), p.parts.len()), (1, 0, 0, 0, 0));
}

#[test]
fn options_and_whether_a_packing_is_optimal() {
    assert_eq!(Options::default(), Options { capacity: None, nodes: 1_000_000 });
    let mut p = pack(&Buffers::from_rows([(0, 1, 5)]), &Options::default()).unwrap();
    assert!(p.optimal() && p.solved);
    p.bound = 4;
    assert!(!p.optimal());
}

#[test]
fn as_many_lines_as_offsets_can_name_are_packed() {
    let most = Intervals { first: vec![0, 1], end: vec![1, 2], lines: vec![u32::MAX, 7] };
    let p = lines::pack_lines(&most).unwrap();
    assert_eq!((p.height, p.solved), (u64::from(u32::MAX), true));
    let p = lines::pack_lines_with(&most, greedy::first_fit).unwrap();
    assert_eq!((p.height, p.bound, p.nodes, p.at), (u64::from(u32::MAX), u64::from(u32::MAX), 0, vec![0, 0]));
}

#[test]
fn a_proof_needs_columns_of_one_length() {
    let fails = |v: &Buffers, text: &str| {
        let e = proof::prove_packing(v, &[0, 4], 8, 1).unwrap_err();
        assert!(e.message.contains(text), "{e}");
    };
    let v = Buffers::from_rows([(0, 2, 4), (1, 3, 4)]);
    proof::prove_packing(&v, &[0, 4], 8, 1).unwrap();
    let mut ends = v.clone();
    ends.end.push(9);
    fails(&ends, "2 starts, 3 ends, 2 sizes and 2 offsets");
    let mut sizes = v.clone();
    sizes.size.push(9);
    fails(&sizes, "2 starts, 2 ends, 3 sizes and 2 offsets");
    let mut starts = v;
    starts.first.pop();
    fails(&starts, "1 starts, 2 ends, 2 sizes and 2 offsets");
}

/// Empty buffers lie anywhere, also above the height and off the alignment; those behind them are checked.
#[test]
fn a_proof_skips_empty_buffers_alone() {
    let rows = [(2, 2, 9), (3, 1, 9), (0, 4, 0), (0, 4, 1), (1, 2, 1)];
    let v = Buffers::from_rows(rows);
    let at = |a: u64, b: u64| [u64::MAX, u64::MAX, 7, a, b];
    proof::prove_packing(&v, &at(0, 1), 2, 1).unwrap();
    let e = proof::prove_packing(&v, &at(1, 1), 2, 1).unwrap_err();
    assert!(e.message.contains("at moment 1 buffer 4 at 1..2 overlaps buffer 3 at 1..2"), "{e}");
    let e = proof::prove_packing(&v, &at(0, 2), 2, 1).unwrap_err();
    assert!(e.message.contains("buffer 4 of size 1 lies at 2, above the height 2"), "{e}");
    let e = proof::prove_packing(&v, &at(0, 1), 2, 2).unwrap_err();
    assert!(e.message.contains("buffer 4 lies at 1, which is no multiple of 2"), "{e}");
}

/// Of equal sizes the longest life goes first, of equal lives the largest, and of equals the first.
#[test]
fn greedy_packers_break_ties_as_they_say() {
    let sizes = Buffers::from_rows([(0, 1, 4), (0, 3, 4), (2, 3, 4)]);
    for packer in [greedy::first_fit, greedy::best_fit] {
        assert_eq!(packer(&sizes), (vec![4, 0, 4], 8));
    }
    let lives = Buffers::from_rows([(0, 2, 3), (1, 3, 5), (5, 7, 2)]);
    assert_eq!(greedy::best_fit_by_life(&lives), (vec![5, 0, 0], 8));
    let equal = Buffers::from_rows([(0, 2, 4), (0, 2, 4)]);
    for packer in [greedy::first_fit, greedy::best_fit, greedy::best_fit_by_life] {
        assert_eq!(packer(&equal), (vec![0, 4], 8));
    }
    // Best fit by size and by life both reach 7: the one by size is taken.
    let either = Buffers::from_rows([(0, 1, 5), (0, 3, 2)]);
    assert_eq!(greedy::best_fit(&either), (vec![0, 5], 7));
    assert_eq!(greedy::best_fit_by_life(&either), (vec![2, 0], 7));
    assert_eq!(greedy::choose_as_xla(&either), (vec![0, 5], 7));
}

/// A at 0, B at 10, C at 20 and D at 24. The last one fits the gap between B and D to the unit.
#[test]
fn a_gap_of_the_very_size_is_taken() {
    let v = Buffers::from_rows([(0, 4, 10), (3, 6, 10), (1, 4, 4), (3, 6, 4), (5, 6, 4)]);
    assert_eq!(greedy::best_fit(&v), (vec![0, 10, 20, 24, 20], 28));
    assert_eq!(greedy::first_fit(&v), (vec![0, 10, 20, 24, 0], 28));
    // By life, with a gap of 10 and one of 6 for the last one.
    let v = Buffers::from_rows([(0, 4, 10), (3, 6, 10), (1, 4, 6), (3, 6, 5), (5, 6, 4)]);
    assert_eq!(greedy::best_fit_by_life(&v), (vec![0, 10, 20, 26, 20], 31));
}

#[test]
fn greedy_packers_leave_empty_buffers_at_zero() {
    let v = Buffers::from_rows([(2, 2, 9), (0, 1, 0)]);
    for packer in [greedy::first_fit, greedy::best_fit, greedy::best_fit_by_life] {
        assert_eq!(packer(&v), (vec![0, 0], 0));
    }
    assert_eq!(greedy::place_apart(&v), (vec![0, 9], 9));
}
