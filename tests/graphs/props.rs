//! What holds of any graph and of any text, drawn at random: the bodies are in `arenagrad::tools::fuzz`, which the
//! fuzz targets call too.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::tools::fuzz::{
    check_any_graph, check_any_text, mutate_text, random_graph, scripted_draws, seeded_draws,
};
use arenagrad::tools::passes::pipeline;
use proptest::prelude::*;
use std::path::Path;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A drawn graph is sound, and its text is it.
    #[test]
    fn drawn_graphs_are_sound_and_round_trip(numbers in proptest::collection::vec(any::<u32>(), 0..600)) {
        check_any_graph(&random_graph(40, &mut scripted_draws(numbers)).unwrap());
    }

    /// No text makes the parser panic.
    #[test]
    fn any_text_is_a_graph_or_an_error(text in "(graph @g \\{|[%@a-z0-9\\[\\](){}=:,;\" \n-]|\\PC){0,80}") {
        check_any_text(&text);
    }
}

/// Every row takes part in some drawn graph.
#[test]
fn every_row_is_drawn() {
    let mut draw = seeded_draws(1);
    let mut seen = vec![0usize; arenagrad::tools::ops::table::OPS.len()];
    for _ in 0..300 {
        let g = random_graph(40, &mut draw).unwrap();
        g.view().op.iter().for_each(|op| seen[op.0 as usize] += 1);
    }
    let rows = arenagrad::tools::ops::table::OPS.iter().zip(&seen);
    let never: Vec<_> = rows.filter(|(d, n)| **n == 0 && d.cases.iter().any(|c| !c.attrs.contains('@'))).collect();
    assert!(never.is_empty(), "never drawn: {never:?}");
}

fn corpus(dir: &Path, into: &mut Vec<Vec<u8>>) {
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => corpus(&path, into),
            false => into.push(std::fs::read(path).unwrap()),
        }
    }
}

/// File tests with random cuts, copies and insertions: the parser's fuzz target without a fuzzer.
#[test]
fn mutated_file_tests_are_graphs_or_errors() {
    let mut texts = Vec::new();
    corpus(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests"), &mut texts);
    let mut draw = seeded_draws(2);
    for _ in 0..4000 {
        let text = &texts[draw(texts.len() as u32) as usize];
        let mutant = mutate_text(text, &mut draw);
        check_any_text(&String::from_utf8_lossy(&mutant));
    }
}

/// Each pass alone, and passes in any order, give graphs that verify.
#[test]
fn passes_in_any_order_give_sound_graphs() {
    let mut draw = seeded_draws(4);
    let names = ["inline", "legalize", "simplify", "fold", "clean"];
    for _ in 0..300 {
        let g = random_graph(24, &mut draw).unwrap();
        let order: Vec<&str> = (0..4).map(|_| names[draw(names.len() as u32) as usize]).collect();
        pipeline::run_pipeline(&g, &order, true).unwrap_or_else(|e| panic!("{order:?}: {e}\n{g:?}"));
        pipeline::run_pipeline(&g, &pipeline::pipeline_passes(), true).unwrap_or_else(|e| panic!("{e}\n{g:?}"));
    }
}
