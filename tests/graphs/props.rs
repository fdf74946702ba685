//! What holds of any graph and of any text, drawn at random: the bodies are in `arenagrad::tools::testing`, which the
//! fuzz targets call too.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{Draw, How, PLAIN, Tensor, distance, try_run};
use arenagrad::error::Kind;
use arenagrad::graph::GraphBuf;
use arenagrad::tools::passes::pipeline;
use arenagrad::tools::testing::{
    check_random_graph, check_random_text, mutate_text, random_graph, scripted_draws, seeded_draws,
};
use proptest::prelude::*;
use std::path::Path;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A drawn graph is sound, and its text is it.
    #[test]
    fn drawn_graphs_are_sound_and_round_trip(numbers in proptest::collection::vec(any::<u32>(), 0..600)) {
        check_random_graph(&random_graph(40, &mut scripted_draws(numbers)).unwrap());
    }

    /// No text makes the parser panic.
    #[test]
    fn any_text_is_a_graph_or_an_error(text in "(graph @g \\{|[%@a-z0-9\\[\\](){}=:,;\" \n-]|\\PC){0,80}") {
        check_random_text(&text);
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
        check_random_text(&String::from_utf8_lossy(&mutant));
    }
}

/// Inputs that are valid for any drawn graph: reals around 0, and index 0, which every non-empty axis has.
fn inputs(g: &GraphBuf, draw: &mut Draw) -> Vec<Tensor> {
    use arenagrad::tools::arena::ids::Id;
    use arenagrad::tools::ir::opdef::Domain;
    let v = g.view();
    let mut tensor = |x: arenagrad::tools::arena::Value| {
        let dtype = v.dtype[x.at()];
        let domain = if dtype.is_float() { Domain::Real } else { Domain::Index(1) };
        draw.tensor(dtype, &v.dims(x), domain)
    };
    v.leaves().map(|l| tensor(l.value)).collect()
}

/// The passes, each thread count, and poisoned dead bytes change no value of any drawn graph; every plan is proved
/// while compiling.
#[test]
fn passes_threads_and_poison_preserve_values() {
    let mut draw = seeded_draws(3);
    for seed in 0..1000u64 {
        let g = random_graph(24, &mut draw).unwrap();
        let runs = g.view().leaves().all(|l| {
            let d = g.view().ty(l.value).dtype;
            !matches!(d, arenagrad::graph::DType::F16 | arenagrad::graph::DType::BF16 | arenagrad::graph::DType::C64)
        });
        let outs = g.view().outputs().iter().all(|&v| {
            let d = g.view().ty(v).dtype;
            !matches!(d, arenagrad::graph::DType::F16 | arenagrad::graph::DType::BF16 | arenagrad::graph::DType::C64)
        });
        if !runs || !outs {
            continue;
        }
        let x = inputs(&g, &mut Draw(seed));
        let plain = try_run(&g, &x, How { optimise: false, ..PLAIN });
        for how in [PLAIN, How { threads: 3, share: true, ..PLAIN }, How { poison: true, ..PLAIN }] {
            let (plain, fast) = match (&plain, try_run(&g, &x, how)) {
                (Ok(plain), Ok(fast)) => (plain, fast),
                // A drawn index may be out of range: then it is so every way.
                (Err(a), Err(b)) if a.kind == Kind::Data && b.kind == Kind::Data => continue,
                (a, b) => panic!("seed {seed}: {a:?} against {b:?}\n{g:?}"),
            };
            for (a, b) in plain.iter().zip(&fast) {
                let d = distance(&a.data, &b.data);
                assert!(d < 1e-4, "seed {seed}: {d:e} off\n{:?}\n{:?}\n{g:?}", a.data, b.data);
            }
        }
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
