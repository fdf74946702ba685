//! What a graph takes: the bytes of its columns, by node.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Graph, GraphBuf};
use arenagrad::tools::passes::pipeline::run_whole_pipeline;

/// Bytes of the columns that grow with nodes, without what is interned: shapes, strings and places.
fn bytes(g: Graph<'_>) -> usize {
    let by_node =
        [size_of_val(g.op), size_of_val(g.args_at), size_of_val(g.outs_at), size_of_val(g.attr), size_of_val(g.loc)];
    let by_value = [size_of_val(g.def), size_of_val(g.dtype), size_of_val(g.shape), size_of_val(g.names)];
    let pools = [size_of_val(g.args), size_of_val(g.extra)];
    let ends = [size_of_val(g.updates), size_of_val(g.yields), size_of_val(g.output_names)];
    [&by_node[..], &by_value, &pools, &ends].concat().iter().sum()
}

/// Forty bytes, and the words of attributes, most of which are of leaves and windows. Fused ops have more operands.
#[test]
fn a_node_takes_at_most_forty_bytes_beside_its_attributes() {
    for m in crate::common::zoo::ZOO {
        let step: GraphBuf = (m.small)();
        let ready = run_whole_pipeline(&step).unwrap();
        for (form, g, most) in [("as built", step.view(), [40.0, 20.0]), ("optimised", ready.view(), [48.0, 32.0])] {
            let [all, attributes] = [bytes(g), size_of_val(g.extra)].map(|b| b as f64 / g.nodes() as f64);
            let rest = all - attributes;
            println!("{} {form}: {} nodes, {rest:.1} + {attributes:.1} bytes each", m.name, g.nodes());
            assert!(g.nodes() > 20 && rest <= most[0] && attributes <= most[1], "{} {form}", m.name);
        }
    }
}
