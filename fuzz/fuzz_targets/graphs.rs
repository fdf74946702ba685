//! Random graphs over the op table are valid, and their text parses to the same graph.

#![no_main]

use arbitrary::Unstructured;
use arenagrad::tools::testing::{check_random_graph, random_graph};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut u = Unstructured::new(data);
    let mut draw = |bound: u32| u.int_in_range(0..=bound.max(1) - 1).unwrap_or(0);
    let graph = random_graph(200, &mut draw);
    assert!(graph.is_ok(), "{graph:?}");
    graph.iter().for_each(check_random_graph);
});
