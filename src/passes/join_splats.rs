//! `splat_prepare` and the `splat_rasterize` that reads its results become `splat_render`, which has derivatives.

use super::rebuild::rebuild_buf;
use crate::arena::{Node, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ops::splat::attrs::SplatAttrs;
use crate::nodes::{Graph, GraphBuf, Op};

/// The operands of the `splat_prepare` whose results and view the `splat_rasterize` `n` reads as they are.
pub(super) fn operands_of_join_splats(g: Graph<'_>, n: Node) -> Option<&[Value]> {
    if g.op[n.at()] != Op::SPLAT_RASTERIZE {
        return None;
    }
    let args = g.args_of(n);
    let first = g.def[args[0].at()];
    let split = g.op[first.at()] == Op::SPLAT_PREPARE
        && g.outs_of(first).eq(args[..3].iter().copied())
        && g.args_of(first).last() == args.last()
        && SplatAttrs::of(&g.attrs(first)) == SplatAttrs::of(&g.attrs(n));
    split.then(|| g.args_of(first))
}

/// True if [`join_splats`] changes `g`.
pub(super) fn has_splats_to_join(g: Graph<'_>) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| operands_of_join_splats(g, n).is_some())
}

/// `g` with each pair of stages as one op.
pub(super) fn join_splats(g: Graph<'_>) -> Result<GraphBuf> {
    rebuild_buf(g, &mut |v| {
        let operands = operands_of_join_splats(v.src, v.node)?;
        let args: Vec<_> = operands.iter().map(|&x| v.map[x]).collect();
        let attrs = SplatAttrs::of(&v.src.attrs(v.node));
        Some(v.g.emit(Op::SPLAT_RENDER, &args, &attrs.list()).to_vec())
    })
}
