//! Expansion of blocks: a block, which has no kernel, becomes fused or primitive ops.

use crate::arena::{Node, ids::Id};
use crate::error::Result;
use crate::nodes::ir::opdef::Flags;
use crate::nodes::{Graph, GraphBuf};
use crate::passes::decompose::{expand_picked_nodes, pick_nodes_by_def, unfuse};
use crate::passes::fuse::FusionPolicy;
use crate::passes::inline::InlineCalls;
use crate::passes::rebuild::rebuild_buf;

/// Replaces block ops by fused or by primitive ops, as `policy` says. With [`FusionPolicy::Fusable`], a graph that has
/// blocks is unfused as a whole: see [`unfuse`].
pub fn expand_blocks<'a>(g: impl Into<Graph<'a>>, policy: FusionPolicy) -> Result<GraphBuf> {
    let g = g.into();
    match (has_blocks_to_expand(g), policy) {
        (false, _) => rebuild_buf(g, &mut |_| None),
        (true, FusionPolicy::Direct) => {
            expand_picked_nodes(g, InlineCalls::All, |g| pick_nodes_by_def(g, |def| def.flags.has(Flags::BLOCK)))
        }
        (true, FusionPolicy::Fusable) => unfuse(g),
    }
}

/// True if `g` has a block op.
pub(in crate::passes) fn has_blocks_to_expand(g: Graph<'_>) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| g.def_of(n).flags.has(Flags::BLOCK))
}
