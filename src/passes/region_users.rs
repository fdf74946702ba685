//! Which regions a node runs, and how many nodes run a region.

use crate::arena::{Node, Region, Side, ids::Id};
use crate::nodes::Graph;
use crate::nodes::ir::attrs::Kind;

/// The regions that node `n` runs.
pub fn regions_of_node<'x>(g: Graph<'x>, n: Node) -> impl Iterator<Item = Region> + 'x {
    let attrs = g.attrs(n);
    let fields = g.def_of(n).attrs.iter().enumerate();
    fields.filter(move |(i, f)| f.kind == Kind::Region && attrs.has(*i)).map(move |(i, _)| attrs.region(i))
}

/// The number of nodes that run each region.
pub fn count_region_users(g: Graph<'_>) -> Side<Region, usize> {
    let mut users = Side::filled(g.regions(), 0);
    for r in (0..g.nodes()).map(Node::new).flat_map(|n| regions_of_node(g, n)) {
        users[r] += 1;
    }
    users
}
