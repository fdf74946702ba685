//! Structured mutations: valid, mostly different, and the same for the same draws.

use arenagrad::graph::GraphBuf;
use arenagrad::tools::arena::Value;
use arenagrad::tools::fuzz::{GraphOptions, change_randomly, check_any_graph, draw_graph, seeded_draws};
use arenagrad::tools::ops::table::OPS;

#[test]
fn mutants_are_sound_and_mostly_differ() {
    let mut draw = seeded_draws(21);
    let (mut differ, mut all) = (0, 0);
    for _ in 0..150 {
        let g = draw_graph(&GraphOptions::default().nodes(20), &mut draw).unwrap();
        let mut now = change_randomly(&g, &mut draw).unwrap();
        for _ in 0..20 {
            check_any_graph(&now);
            let next = change_randomly(&now, &mut draw).unwrap();
            (differ, all) = (differ + usize::from(next != now), all + 1);
            now = next;
        }
    }
    assert!(differ * 100 > all * 97, "{differ} of {all} mutants differ");
}

/// Strides, paddings and numbers of rows are attributes, which results follow without bound.
#[test]
fn mutants_stay_small() {
    let largest = |g: &GraphBuf| {
        let v = g.view();
        (0..v.values()).map(|i| v.numel(Value(i as u32))).max().unwrap_or(0)
    };
    let ops = "conv_transpose1d,conv_transpose2d,conv_transpose3d,pad,iota,full,interpolate,unfold,one_hot";
    let known = ops.split(',').filter(|op| OPS.iter().any(|def| def.name == *op)).collect::<Vec<_>>().join(",");
    let options = GraphOptions::default().nodes(6).largest_axis(64).largest_value(1 << 9).ops(&known).unwrap();
    let (mut draw, mut grown) = (seeded_draws(23), 0);
    for _ in 0..60 {
        let mut now = draw_graph(&options, &mut draw).unwrap();
        let first = largest(&now);
        for _ in 0..40 {
            now = change_randomly(&now, &mut draw).unwrap();
            assert!(largest(&now) <= 1 << 16, "{} elements\n{now:?}", largest(&now));
        }
        grown += usize::from(largest(&now) > first);
    }
    assert!(grown > 10, "{grown} of 60 graphs grew");
}

#[test]
fn equal_draws_give_equal_mutants() {
    let g = draw_graph(&GraphOptions::default(), &mut seeded_draws(22)).unwrap();
    let mutant = |seed| change_randomly(&g, &mut seeded_draws(seed)).unwrap();
    assert!(mutant(1) == mutant(1) && mutant(1) != mutant(2));
}
