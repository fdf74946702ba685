//! Graphs that the generator draws: connected, and of the ops and types that were asked for.

use arenagrad::graph::{DType, Graph, GraphBuf};
use arenagrad::tools::arena::Node;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::fuzz::{GraphOptions, draw_graph, scripted_draws, seeded_draws};

fn is_leaf(g: Graph<'_>, n: Node) -> bool {
    g.def_of(n).is_leaf()
}

/// Of the operands in the entry: how many there are, and how many are no leaves.
fn operands(g: Graph<'_>) -> (usize, usize) {
    let nodes = g.region_nodes(g.entry());
    let args: Vec<Node> = nodes.flat_map(|n| g.args_of(n)).map(|a| g.def[a.at()]).collect();
    (args.len(), args.iter().filter(|&&n| !is_leaf(g, n)).count())
}

/// Nodes on the longest chain, leaves aside.
fn longest_chain(g: Graph<'_>) -> usize {
    let mut depth = vec![0; g.nodes()];
    for n in (0..g.nodes()).map(Node::new) {
        let before = g.args_of(n).iter().map(|a| depth[g.def[a.at()].at()]).max().unwrap_or(0);
        depth[n.at()] = before + usize::from(!is_leaf(g, n));
    }
    depth.into_iter().max().unwrap_or(0)
}

fn many(options: &GraphOptions, seed: u64, count: usize) -> Vec<GraphBuf> {
    let mut draw = seeded_draws(seed);
    (0..count).map(|_| draw_graph(options, &mut draw).unwrap()).collect()
}

/// Chains are long, and few operands are leaves.
#[test]
fn drawn_graphs_are_connected() {
    let graphs = many(&GraphOptions::default().nodes(40), 2, 200);
    let (all, inner) = graphs.iter().map(|g| operands(g.view())).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let share = inner as f64 / all as f64;
    let mean = |graphs: &[GraphBuf]| graphs.iter().map(|g| longest_chain(g.view())).sum::<usize>() / graphs.len();
    let depth = mean(&graphs);
    assert!(share > 0.6 && depth >= 12, "share {share:.2} of operands, mean depth {depth}");
    let (deep, flat) = (GraphOptions::default().nodes(40).depth(1), GraphOptions::default().nodes(40).depth(200));
    let (deep, flat) = (mean(&many(&deep, 3, 100)), mean(&many(&flat, 3, 100)));
    assert!(deep > flat + 3, "a depth of 1 gives chains of {deep}, of 200 {flat}");
}

#[test]
fn options_limit_ops_dtypes_and_sizes() {
    let options = GraphOptions::default().nodes(30).ops("tanh,add=3,mul").unwrap();
    let (mut tanh, mut add) = (0, 0);
    for g in many(&options, 4, 100) {
        for n in (0..g.view().nodes()).map(Node::new) {
            let name = g.view().def_of(n).name;
            assert!(["input", "param", "state", "tanh", "add", "mul"].contains(&name), "{name}\n{g:?}");
            tanh += usize::from(name == "tanh");
            add += usize::from(name == "add");
        }
    }
    assert!(tanh > 200 && add > 2 * tanh, "{tanh} {add}");
    let small = GraphOptions::default().largest_axis(6).largest_value(40);
    for g in many(&small.dtypes(&[DType::F32, DType::Bool]).regions(false), 5, 100) {
        let v = g.view();
        assert_eq!(v.regions(), 1);
        for x in (0..v.values()).map(Id::new) {
            assert!(matches!(v.ty(x).dtype, DType::F32 | DType::Bool), "{g:?}");
        }
    }
}

#[test]
fn loops_calls_and_custom_functions_have_drawn_bodies() {
    let (mut scans, mut calls, mut functions, mut drawn) = (0, 0, 0, 0);
    for g in many(&GraphOptions::default().nodes(30).ops("*,scan=12,call=12,custom_fn=6").unwrap(), 6, 100) {
        let v = g.view();
        let count = |name| (0..v.nodes()).filter(|&n| v.def_of(Node::new(n)).name == name).count();
        scans += count("scan");
        calls += count("call");
        functions += count("custom_fn");
        let name = |r: &usize| v.str(v.region_names[*r]);
        drawn += (0..v.regions() - 1).filter(|r| !name(r).starts_with("case_")).count();
    }
    assert!(scans > 60 && calls > 60 && functions > 25 && drawn > 120, "{scans} {calls} {functions} {drawn}");
}

#[test]
fn zeros_give_the_simplest_graph_and_equal_draws_equal_graphs() {
    let options = GraphOptions::default().nodes(40);
    let zeros = draw_graph(&options, &mut scripted_draws::<u32>([])).unwrap();
    assert!(zeros.view().nodes() <= 2 && zeros.view().outputs().len() == 1, "{zeros:?}");
    let again = |seed| many(&options, seed, 5);
    assert!(again(9) == again(9) && again(9) != again(10));
}
