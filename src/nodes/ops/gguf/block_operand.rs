//! Finds the operand of an op that holds blocks, and the matrix that they hold; checks it.

use super::attrs::{GgufDequantAttrs, GgufExpertsAttrs, GgufGroupedAttrs, GgufMatmulAttrs};
use crate::arena::{Node, ids::Id};
use crate::ensure;
use crate::kernels::gguf::BlockType;
use crate::nodes::Graph;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::pack::{EncodedOperand, Pack};

/// What the engine knows of blocks beside the definitions of their ops.
pub static PACK: Pack = Pack::new("gguf").encoded(block_operand);

/// The operand of node `n` that is blocks. A matrix of experts has the rows of all of them.
fn block_operand(g: &Graph<'_>, n: Node) -> Option<EncodedOperand> {
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
    Some(EncodedOperand { operand, encoding: block_type.name(), rows: size(rows), columns: size(columns) })
}

/// Requires that operand `i` is the blocks of a matrix of `rows` rows of `k` elements.
pub(super) fn check_gguf_blocks(
    cx: &Infer<'_>,
    i: usize,
    block_type: BlockType,
    rows: usize,
    k: usize,
) -> Result<(), String> {
    let (name, elements) = (block_type.name(), block_type.elements());
    ensure!(cx.dtype(i) == DType::U8, "the blocks are {}; they must be u8", cx.dtype(i));
    ensure!(k.is_multiple_of(elements), "rows of {k} elements are no whole {name} blocks, which have {elements}");
    let bytes = block_type.bytes_of(k).and_then(|row| row.checked_mul(rows));
    let bytes = bytes.ok_or_else(|| format!("{rows} rows of {k} elements are too many"))?;
    let held = cx.rank(i, "the blocks", 1)?[0];
    ensure!(held == bytes, "the blocks have {held} bytes; {rows} rows of {k} elements of {name} have {bytes}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Builder;

    #[test]
    fn each_op_names_the_operand_that_is_blocks() {
        let (g, t) = (Builder::new("blocks"), BlockType::Q8_0);
        let (x, at) = (g.input("x", [3, 32], DType::F32), g.input("at", [3], DType::I32));
        // Six rows of a block of 34 bytes each.
        let w = g.input("w", [6 * 34], DType::U8);
        let outs = [
            x.gguf_matmul(w, t, 6),
            x.gguf_grouped_matmul(w, t, at, [2, 3]),
            w.gguf_dequant_experts(t, [2, 3, 32]),
            w.gguf_dequant(t, [2, 3, 32]),
            x.exp(),
        ];
        let graph = g.finish(outs).unwrap();
        let v = graph.view();
        let of = |n: Node| block_operand(&v, n).map(|b| (b.operand, b.encoding, b.rows, b.columns));
        let got: Vec<_> = v.outputs().iter().map(|y| of(v.def[y.at()])).collect();
        let [second, first] = [1, 0].map(|operand: usize| Some((operand, "Q8_0", 6usize, 32usize)));
        assert_eq!(got, [second, second, first, first, None]);
    }
}
