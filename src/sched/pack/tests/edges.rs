//! Edge cases: no buffers, sizes of 0, empty lifetimes, sums that overflow, columns of different lengths.

use super::proven;
use crate::error::Kind;
use crate::sched::intervals::Intervals;
use crate::sched::pack::problem::Problem;
use crate::sched::pack::{Buffers, Options, greedy, instances, lines, pack, proof};

fn best(rows: &[(u64, u64, u64)]) -> u64 {
    let p = proven(&Buffers::from_rows(rows.iter().copied()), &Options::default());
    assert!(p.solved, "{rows:?}");
    p.height
}

#[test]
fn few_and_empty_buffers() {
    assert_eq!(best(&[]), 0);
    assert_eq!(best(&[(3, 9, 5)]), 5);
    assert_eq!(best(&[(0, 0, 5), (4, 3, 5), (3, 4, 0)]), 0, "no life, less than none, no size");
    assert_eq!(best(&[(0, 4, 3), (2, 2, 9), (1, 3, 0), (1, 2, 4)]), 7);
    assert_eq!(best(&[(0, 1, 3); 40]), 120, "equal lives");
    assert_eq!(best(&[(0, 5, 3), (5, 9, 3), (9, 10, 3)]), 3, "touching lives share a place");
    assert_eq!(best(&[(0, u64::MAX, 1), (u64::MAX - 1, u64::MAX, 1)]), 2);
}

#[test]
fn nested_lives_are_stacked() {
    for n in [10, 100, 1000] {
        let v = Buffers::from_rows((0..n).map(|i| (i, 2 * n - i, 64 + i % 7)));
        let p = proven(&v, &Options::default());
        assert_eq!(p.height, p.max_live);
    }
}

#[test]
fn parts_do_not_see_each_other() {
    let a = instances::perfect_instance(60, 1 << 12, 1 << 12, 1);
    let mut both = a.clone();
    for i in 0..a.len() {
        both.push(a.first[i] + 5000, a.end[i] + 5000, a.size[i]);
    }
    assert_eq!(Problem::new(&both).unwrap().parts.len(), 2 * Problem::new(&a).unwrap().parts.len());
    assert_eq!(proven(&both, &Options::default()).height, 1 << 12);
}

#[test]
fn overflow_and_columns_of_unequal_length_are_errors() {
    let v = Buffers::from_rows([(0, 1, u64::MAX), (2, 3, 1)]);
    let e = pack(&v, &Options::default()).unwrap_err();
    assert!(e.kind == Kind::Plan && e.message.contains("add up"), "{e}");
    // The largest that add up.
    assert_eq!(best(&[(0, 2, u64::MAX - 1), (1, 3, 1)]), u64::MAX);
    let mut v = Buffers::from_rows([(0, 1, 1)]);
    v.end.push(4);
    let e = pack(&v, &Options::default()).unwrap_err();
    assert!(e.message.contains("2 ends"), "{e}");
    let wide = Intervals { first: vec![0, 0], end: vec![1, 1], lines: vec![u32::MAX, 1] };
    let e = lines::pack_lines(&wide).unwrap_err();
    assert!(e.kind == Kind::Plan && e.message.contains("4294967296 lines"), "{e}");
}

#[test]
fn a_capacity_is_a_bound_and_no_aim() {
    let v = Buffers::from_rows([(0, 2, 4), (2, 4, 4), (1, 3, 8), (3, 5, 8)]);
    let at = |capacity| proven(&v, &Options { capacity: Some(capacity), ..Options::default() });
    assert!(!at(0).solved && !at(11).solved && at(12).solved && at(13).solved && at(u64::MAX).solved);
    assert_eq!(at(0).height, 12, "the best is reported");
}

#[test]
fn the_same_input_gives_the_same_packing() {
    for seed in 0..4 {
        let v = instances::perfect_instance(150, 300, 200, seed);
        let options = Options { nodes: 20_000, ..Options::default() };
        assert_eq!(pack(&v, &options).unwrap(), pack(&v, &options).unwrap());
    }
}

/// Every way to be wrong that geometry shows.
#[test]
fn the_checker_finds_what_overlaps() {
    let v = Buffers::from_rows([(0, 4, 8), (2, 6, 8), (4, 8, 8)]);
    let fails = |at: [u64; 3], height, align, part: &str| {
        let e = proof::prove_packing(&v, &at, height, align).unwrap_err();
        assert!(e.message.contains(part), "{e}");
    };
    proof::prove_packing(&v, &[0, 8, 0], 16, 8).unwrap();
    fails([0, 7, 0], 16, 1, "at moment 2 buffer 1 at 7..15 overlaps buffer 0 at 0..8");
    fails([0, 8, 1], 16, 1, "overlaps buffer 1");
    fails([0, 9, 0], 16, 1, "above the height 16");
    fails([0, 12, 0], 24, 8, "buffer 1 lies at 12, which is no multiple of 8");
    fails([0, u64::MAX, 0], u64::MAX, 1, "above the height");
    fails([0, 8, 0], 16, 0, "no multiple of 0");
    assert!(proof::prove_packing(&v, &[0, 8], 16, 8).unwrap_err().message.contains("2 offsets"));
    let mut shifted = 0;
    let w = instances::perfect_instance(60, 1 << 10, 1 << 10, 5);
    let p = proven(&w, &Options::default());
    for i in 0..w.len() {
        let mut at = p.at.clone();
        at[i] ^= 1;
        shifted += usize::from(proof::prove_packing(&w, &at, p.height, 1).is_err());
    }
    assert_eq!(shifted, w.len(), "in a full packing nothing can move");
}

#[test]
fn a_packing_by_another_packer_is_solved_at_the_lower_bound() {
    let apart = Intervals { first: vec![0, 1], end: vec![1, 2], lines: vec![3, 3] };
    let none = lines::pack_lines_with(&apart, greedy::place_apart).unwrap();
    assert_eq!((none.height, none.max_live, none.solved), (6, 3, false));
    let best = lines::pack_lines_with(&apart, greedy::best_fit).unwrap();
    assert_eq!((best.height, best.max_live, best.solved), (3, 3, true));
}

#[test]
fn the_other_packers_are_right_too() {
    for seed in 0..20 {
        let v = instances::power_law_instance(200, seed);
        let bound = proven(&v, &Options::default()).max_live;
        for packer in
            [greedy::place_apart, greedy::first_fit, greedy::best_fit, greedy::best_fit_by_life, greedy::choose_as_xla]
        {
            let (at, height) = packer(&v);
            proof::prove_packing(&v, &at, height, 1).unwrap();
            assert!(height >= bound);
        }
    }
}

/// A part of very many buffers is not searched, even where few of them meet.
#[test]
fn a_part_of_many_buffers_is_packed_without_search() {
    // At most 7 are alive, and no packing has that height.
    let rows = [(0, 1, 6), (0, 3, 1), (1, 2, 3), (1, 4, 3), (2, 3, 1), (2, 6, 2), (3, 4, 2), (4, 5, 5)];
    for (more, searched) in [(0, true), (4088, true), (4089, false)] {
        let v = Buffers::from_rows(rows.into_iter().chain((5..5 + more).map(|t| (t, t + 2, 1))));
        assert_eq!(Problem::new(&v).unwrap().parts.len(), 1);
        let p = proven(&v, &Options { nodes: 100, ..Options::default() });
        assert!(p.max_live == 7 && p.height > 7, "{}", p.height);
        assert_eq!(p.nodes > 0, searched, "{} nodes for {} buffers", p.nodes, v.len());
    }
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
