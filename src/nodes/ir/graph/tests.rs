//! Graphs that are equal, that are dropped, and what their columns say of nodes, regions and bytes.

use super::GraphBuf;
use crate::arena::{Node, Region, ids::Id};
use crate::nodes::{Builder, DType, Init};

/// Miri sees whether a function that drops its argument has promised that the columns outlive it.
#[test]
fn a_function_may_drop_the_graph_that_it_takes() {
    let g = Builder::new("g");
    let x = g.input("x", [2], DType::F32);
    let graph = g.finish([(x + x).named("y")]).unwrap();
    let nodes = |g: GraphBuf| g.view().nodes();
    assert_eq!(nodes(graph.clone()), graph.view().nodes());
    drop(graph);
}

/// A graph of a few kinds of attributes, with one change.
fn changed(change: &str) -> GraphBuf {
    let g = Builder::new(if change == "name" { "h" } else { "g" });
    let x = match change {
        "default" => g.input_or("x", [6], DType::F32, 1.0),
        _ => g.input("x", [6], DType::F32),
    };
    let w = g.state(if change == "leaf" { "v" } else { "w" }, [6], DType::F32, Init::Ones);
    let y = if change == "op" { x.sin() } else { x.cos() };
    let y = if change == "operands" { w / y } else { y / w };
    let y = y.reshape(if change == "dims" { [3, 2] } else { [2, 3] });
    let z = y * y.full_like(if change == "zero" { -0.0 } else { 0.0 });
    if change != "update" {
        g.update(w, x);
    }
    let z = if change == "value name" { z.named("other") } else { z.named("z") };
    g.output(if change == "output name" { "b" } else { "a" }, if change == "output" { y } else { z });
    g.finish([]).unwrap()
}

#[test]
fn graphs_are_equal_if_all_but_their_lines_is() {
    let (one, same) = (changed(""), changed("nothing"));
    assert!(one == same && one == one.clone());
    let changes = ["name", "default", "leaf", "op", "operands", "dims", "zero", "update", "value name", "output name"];
    for change in changes.into_iter().chain(["output"]) {
        assert!(one != changed(change) && changed(change) != one, "{change}");
    }
}

/// A loop and its body.
fn looped() -> GraphBuf {
    let g = Builder::new("looped");
    let (x, start) = (g.input("x", [4, 2], DType::F32), g.full(0.0, [2], DType::F32));
    let (last, _) = g.scan(&[start], &[x], |h, x| (vec![h[0].sin() + x[0]], vec![]));
    g.finish([last[0].named("y")]).unwrap()
}

#[test]
fn nodes_know_their_region_and_have_the_words_of_their_op() {
    let graph = looped();
    let g = graph.view();
    assert_eq!((g.regions(), g.entry()), (2, Region::new(1)));
    for r in (0..g.regions()).map(Region::new) {
        assert!(g.region_nodes(r).all(|n| g.region_of(n) == r), "{r}");
    }
    for n in (0..g.nodes()).map(Node::new) {
        assert_eq!(g.attrs(n).validate(g.shapes.len(), g.strings.len(), g.regions()), Ok(()), "{n}");
    }
    assert_eq!(g.find_leaf("x").map(|(x, _)| g.ty_text(x)).as_deref(), Some("f32[4,2]"));
}

/// A node has an op of 2 bytes, and 4 each for its attributes, its location and its first operand and result. A
/// value has an element type of 1 byte, and 4 each for its node, its shape and its name.
#[test]
fn bytes_of_a_graph_grow_with_its_nodes_and_values() {
    // Chains of one shape without names: each link adds a node, a value and an operand to columns of fixed width.
    let bytes = |links: usize| {
        let g = Builder::new("chain");
        let y = (0..links).fold(g.input("x", [2], DType::F32), |y, _| y.tanh());
        g.finish([y]).unwrap().view().column_bytes()
    };
    let link = bytes(2) - bytes(1);
    assert!((10..100).contains(&link), "{link}");
    assert_eq!(bytes(101) - bytes(1), 100 * link);
}
