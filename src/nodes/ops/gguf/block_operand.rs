//! Finds the operand of an op that holds blocks, and the matrix that they hold.

use super::attrs::{GgufDequantAttrs, GgufExpertsAttrs, GgufGroupedAttrs, GgufMatmulAttrs};
use crate::arena::{Node, ids::Id};
use crate::kernels::gguf::BlockType;
use crate::nodes::Graph;
use crate::nodes::ir::opdef::Op;

/// An operand that is blocks.
pub struct BlockOperand {
    /// Its place among the operands.
    pub operand: usize,
    /// The type of the blocks.
    pub block_type: BlockType,
    /// Rows of the matrix, those of all experts together.
    pub rows: usize,
    /// Columns of the matrix.
    pub columns: usize,
}

/// The operand of node `n` that is blocks.
pub fn block_operand(g: &Graph<'_>, n: Node) -> Option<BlockOperand> {
    let attrs = &g.attrs(n);
    let (operand, block_type, rows, columns) = match g.op[n.at()] {
        Op::GGUF_MATMUL => {
            let a = GgufMatmulAttrs::of(attrs);
            (1, a.block_type, a.n, a.k)
        }
        Op::GGUF_GROUPED_MATMUL => {
            let a = GgufGroupedAttrs::of(attrs);
            (1, a.block_type, a.groups.saturating_mul(a.n), a.k)
        }
        Op::GGUF_DEQUANT_EXPERTS => {
            let a = GgufExpertsAttrs::of(attrs);
            (0, a.block_type, a.experts.saturating_mul(a.n), a.k)
        }
        Op::GGUF_DEQUANT => {
            let a = GgufDequantAttrs::of(attrs);
            let (&columns, lead) = a.dims.split_last()?;
            (0, a.block_type, lead.iter().product(), columns)
        }
        _ => return None,
    };
    let size = |x: i64| usize::try_from(x).unwrap_or(0);
    Some(BlockOperand { operand, block_type, rows: size(rows), columns: size(columns) })
}
