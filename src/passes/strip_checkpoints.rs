//! Drops the marks of block boundaries before lowering.

use super::rebuild::rebuild_buf;
use crate::error::Result;
use crate::nodes::ir::opdef::Op;
use crate::nodes::{Graph, GraphBuf};

/// Drops the `checkpoint` nodes, by which users mark the boundaries of blocks.
pub fn strip_checkpoints(g: Graph<'_>) -> Result<GraphBuf> {
    rebuild_buf(g, &mut |v| (v.op() == Op::CHECKPOINT).then(|| v.args.to_vec()))
}
