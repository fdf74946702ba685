//! Structured mutations: valid, mostly different, and the same for the same draws.

use arenagrad::tools::fuzz::{GraphOptions, check_random_graph, draw_graph, mutate_graph, seeded_draws};

#[test]
fn mutants_are_sound_and_mostly_differ() {
    let mut draw = seeded_draws(21);
    let (mut differ, mut all) = (0, 0);
    for _ in 0..150 {
        let g = draw_graph(&GraphOptions::default().nodes(20), &mut draw).unwrap();
        let mut now = mutate_graph(&g, &mut draw).unwrap();
        for _ in 0..20 {
            check_random_graph(&now);
            let next = mutate_graph(&now, &mut draw).unwrap();
            (differ, all) = (differ + usize::from(next != now), all + 1);
            now = next;
        }
    }
    assert!(differ * 100 > all * 97, "{differ} of {all} mutants differ");
}

#[test]
fn equal_draws_give_equal_mutants() {
    let g = draw_graph(&GraphOptions::default(), &mut seeded_draws(22)).unwrap();
    let mutant = |seed| mutate_graph(&g, &mut seeded_draws(seed)).unwrap();
    assert!(mutant(1) == mutant(1) && mutant(1) != mutant(2));
}
