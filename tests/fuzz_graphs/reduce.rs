//! Planted failures in drawn graphs come down to a few nodes.

use arenagrad::graph::{Graph, GraphBuf};
use arenagrad::tools::arena::Node;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::fuzz::{
    GraphOptions, GraphSize, ReduceOptions, check_any_graph, draw_graph, seeded_draws, shrink_graph_counting,
};

fn def(g: Graph<'_>, v: arenagrad::tools::arena::Value) -> &'static str {
    g.def_of(g.def[v.at()]).name
}

/// Whether some node of op `op` has an operand of op `of`.
fn reads(g: &GraphBuf, op: &str, of: &str) -> bool {
    let v = g.view();
    let nodes = (0..v.nodes()).map(Node::new).filter(|&n| v.def_of(n).name == op);
    nodes.flat_map(|n| v.args_of(n)).any(|&a| def(v, a) == of)
}

/// Graphs with 30 to 60 nodes for which `fails` is true.
fn failing(options: &GraphOptions, seed: u64, count: usize, fails: &dyn Fn(&GraphBuf) -> bool) -> Vec<GraphBuf> {
    let mut draw = seeded_draws(seed);
    let mut drawn = (0..8000).map(|_| draw_graph(options, &mut draw).unwrap());
    let found: Vec<GraphBuf> =
        drawn.by_ref().filter(|g| (30..=60).contains(&g.view().nodes()) && fails(g)).take(count).collect();
    assert_eq!(found.len(), count, "too few graphs fail");
    found
}

fn reduced(g: &GraphBuf, fails: &dyn Fn(&GraphBuf) -> bool) -> GraphBuf {
    let small = shrink_graph_counting(g, &mut |g| fails(g), &ReduceOptions::default());
    assert!(fails(&small.graph) && small.is_minimal && small.checks < 1500, "{} checks", small.checks);
    check_any_graph(&small.graph);
    small.graph
}

#[test]
fn a_pair_of_ops_is_all_that_is_left() {
    let options = GraphOptions::default().nodes(40).ops("*,tanh=12,broadcast=12").unwrap();
    let fails = |g: &GraphBuf| reads(g, "tanh", "broadcast");
    for g in failing(&options, 103, 12, &fails) {
        let small = reduced(&g, &fails);
        assert!(small.view().nodes() <= 3, "{small:?}");
    }
}

#[test]
fn regions_go_or_shrink() {
    let options = GraphOptions::default().nodes(16).ops("*,scan=40,call=20,sin=20").unwrap();
    // A loop whose body has a sine.
    let fails = |g: &GraphBuf| {
        let v = g.view();
        let scans = (0..v.nodes()).map(Node::new).filter(|&n| v.def_of(n).name == "scan");
        scans.map(|n| v.attrs(n).region(0)).any(|r| v.region_nodes(r).any(|n| v.def_of(n).name == "sin"))
    };
    for g in failing(&options, 1107, 6, &fails) {
        let small = reduced(&g, &fails);
        assert!(small.view().nodes() <= 8 && small.view().regions() <= 3, "{small:?}");
    }
    let sine = |g: &GraphBuf| (0..g.view().nodes()).any(|n| g.view().def_of(Node::new(n)).name == "sin");
    for g in failing(&options, 106, 6, &|g| fails(g) && sine(g)) {
        let small = reduced(&g, &sine);
        // The sine of an input, or of the argument of a region that nothing runs.
        assert!(small.view().nodes() <= 2 && small.view().regions() <= 2, "{small:?}");
    }
}

/// A wrong pass, planted: it takes a product with itself along equal axes for symmetric.
#[test]
fn a_size_that_matters_stays_and_others_shrink() {
    let options = GraphOptions::default().nodes(40).ops("*,matmul=20,add=10").unwrap();
    let fails = |g: &GraphBuf| {
        let v = g.view();
        let products = (0..v.nodes()).map(Node::new).filter(|&n| v.def_of(n).name == "matmul");
        products.into_iter().any(|n| v.dims(v.args_of(n)[0]).iter().any(|&d| d >= 4) && v.dims(v.out(n)).numel() > 2)
    };
    for g in failing(&options, 35, 8, &fails) {
        let small = reduced(&g, &fails);
        assert!(small.view().nodes() <= 3 && GraphSize::of(small.view()).elements < 40, "{small:?}");
    }
}

#[test]
fn limits_and_equal_inputs_are_kept() {
    let options = GraphOptions::default().nodes(40).ops("*,tanh=12,broadcast=12").unwrap();
    let fails = |g: &GraphBuf| reads(g, "tanh", "broadcast");
    let g = &failing(&options, 35, 1, &fails)[0];
    let limit = ReduceOptions { max_checks: 7, ..ReduceOptions::default() };
    let mut asked = 0;
    let part = shrink_graph_counting(g, &mut |g| (asked += 1, fails(g)).1, &limit);
    assert!(fails(&part.graph) && !part.is_minimal && part.checks == 7 && asked == 7);
    assert!(reduced(g, &fails) == reduced(g, &fails));
    let none = shrink_graph_counting(g, &mut |_| false, &ReduceOptions::default());
    assert!(none.graph == *g && none.is_minimal);
}
