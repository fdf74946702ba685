//! Finds ops on the path of a gradient whose derivative is a convention, which finite differences cannot confirm.

use crate::arena::{Node, Side, ids::Id};
use crate::nodes::ir::attrs::Owned;
use crate::nodes::ir::opdef::Flags;
use crate::nodes::{DType, Graph, OpDef};
use crate::passes::ad::activity::active_from;
use crate::passes::ad::codes::Codes;

/// Straight-through ops, ops on codes, and those that count as constants.
fn is_convention(def: &OpDef) -> bool {
    [Flags::STRAIGHT, Flags::QUANT, Flags::STOP].into_iter().any(|flag| def.flags.has(flag))
}

/// Names of the ops through which the derivative with respect to `leaf` passes on the way to a float output, and whose
/// derivative is by definition that of another function. Those in a region count as on the way if its node is.
pub fn list_conventional_ops(g: Graph<'_>, leaf: &str) -> Vec<String> {
    let (mut names, nodes) = (Vec::new(), 0..g.nodes());
    let Some((leaf, _)) = g.find_leaf(leaf) else { return names };
    if !nodes.map(Node::new).any(|n| is_convention(g.def_of(n))) {
        return names;
    }
    let from = active_from(&Codes::of(g), g.entry(), &[leaf]);
    let mut read = Side::filled(g.values(), false);
    let floats = g.outputs().iter().filter(|v| g.ty(**v).dtype == DType::F64);
    floats.for_each(|&v| read[v] = true);
    for n in g.region_nodes(g.entry()).rev().filter(|&n| !g.def_of(n).is_leaf()) {
        if !g.outs_of(n).any(|v| read[v]) {
            continue;
        }
        g.args_of(n).iter().for_each(|&a| read[a] = true);
        if g.args_of(n).iter().any(|&a| from[a]) {
            add_names(g, n, &mut names);
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Adds the name of `n` if its derivative is a convention, and those of such nodes in its regions.
fn add_names(g: Graph<'_>, n: Node, names: &mut Vec<String>) {
    if is_convention(g.def_of(n)) {
        names.push(g.def_of(n).name.to_string());
    }
    for (_, attr) in g.attrs(n).iter() {
        if let Owned::Region(r) = attr {
            g.region_nodes(r).for_each(|n| add_names(g, n, names));
        }
    }
}

#[cfg(test)]
mod tests;
