//! Finds the values of a graph whose bytes are blocks of GGUF files, with the type and the shape that ops read.
//!
//! Invariant: a reader is found through views, moves, loops and branches. A move that drops or repeats bytes keeps the
//! type of the blocks, but not the shape of their matrix.

use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::kernels::gguf::BlockType;
use crate::nodes::ir::opdef::{Flags, Lower, opdef_regions};
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::gguf::block_operand;
use crate::nodes::{DType, Graph};
use std::fmt;

/// As what an op reads bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReader {
    block_type: BlockType,
    /// Rows and columns; `None` if it reads some of the bytes.
    matrix: Option<[usize; 2]>,
}

impl BlockReader {
    /// True if it reads a tensor of these blocks and dimensions as what it is.
    pub fn fits(&self, block_type: BlockType, dims: &[usize]) -> bool {
        let (columns, lead) = dims.split_last().unwrap_or((&1, &[]));
        let same = |m: [usize; 2]| m == [lead.iter().product(), *columns];
        self.block_type == block_type && self.matrix.is_none_or(same)
    }
}

impl fmt::Display for BlockReader {
    /// `Q4_K[8, 256]`, or `Q4_K` of some of the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.block_type.name())?;
        self.matrix.map_or(Ok(()), |m| write!(f, "{m:?}"))
    }
}

/// The readers of each value; `None` if no op of `g` reads blocks.
pub fn block_readers(g: &Graph<'_>) -> Option<Side<Value, Vec<BlockReader>>> {
    let reads = |n: Node| block_operand(g, n).is_some();
    if !(0..g.nodes()).map(Node::new).any(reads) {
        return None;
    }
    let mut readers = Side::filled(g.values(), Vec::new());
    // Bodies of loops before the loops, and in each region readers before operands.
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r).rev() {
            for (i, &a) in g.args_of(n).iter().enumerate().filter(|(_, a)| g.dtype[a.at()] == DType::U8) {
                for reader in block_readers_by_node(g, n, i, &readers) {
                    if !readers[a].contains(&reader) {
                        readers[a].push(reader);
                    }
                }
            }
        }
    }
    Some(readers)
}

/// The readers of operand `i` of node `n`, where `known` has those of its results and of its regions' arguments.
fn block_readers_by_node(g: &Graph<'_>, n: Node, i: usize, known: &Side<Value, Vec<BlockReader>>) -> Vec<BlockReader> {
    if let Some(own) = block_operand(g, n) {
        let reader = BlockReader { block_type: own.block_type, matrix: Some([own.rows, own.columns]) };
        return if own.operand == i { vec![reader] } else { Vec::new() };
    }
    let argument = |r: Region, at: usize| g.region_args(r).nth(at).map_or(Vec::new(), |v| known[v].clone());
    let partly = |readers: Vec<BlockReader>| {
        readers.into_iter().map(|r| BlockReader { matrix: None, ..r }).collect::<Vec<BlockReader>>()
    };
    let def = g.def_of(n);
    match def.lower {
        _ if def.flags.has(Flags::SAME_BYTES) => known[g.out(n)].clone(),
        Lower::Loop => {
            let scan = Scan::of(&g.attrs(n));
            let readers = argument(scan.body, i);
            if i < scan.xs() { readers } else { partly(readers) }
        }
        Lower::Choice if i > 0 => opdef_regions(*g, n).flat_map(|r| argument(r, i - 1)).collect(),
        _ if def.flags.has(Flags::MOVE) => g.outs_of(n).flat_map(|v| partly(known[v].clone())).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, Var};

    /// Blocks of 32 elements in 34 bytes.
    const T: BlockType = BlockType::Q8_0;

    /// As what ops read four blocks, in the graph of what `read` makes of them and of an x of 3 rows of 32 elements.
    fn readers(read: impl for<'g> Fn(&'g Builder, Var<'g>, Var<'g>) -> Var<'g>) -> Vec<String> {
        let g = Builder::new("blocks");
        let (w, x) = (g.input("w", [4, 34], DType::U8), g.input("x", [3, 32], DType::F32));
        let graph = g.finish([read(&g, w, x).named("y")]).unwrap();
        let view = graph.view();
        let (blocks, _) = view.find_leaf("w").unwrap();
        block_readers(&view).unwrap()[blocks].iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_bytes_of_a_view_are_read_as_the_view_is() {
        assert_eq!(readers(|_, w, x| x.gguf_matmul(w.reshape([136]), T, 4)), ["Q8_0[4, 32]"]);
        assert_eq!(readers(|_, w, _| w.reshape([2, 68]).reshape([136]).gguf_dequant(T, [2, 64])), ["Q8_0[2, 64]"]);
        // Two ops that read them alike are one reader.
        let twice = readers(|_, w, x| {
            let w = w.reshape([136]);
            x.gguf_matmul(w, T, 4) + (x * 2.0).gguf_matmul(w, T, 4) + w.gguf_dequant(T, [1, 128]).sum(..)
        });
        assert!(twice.len() == 2 && ["Q8_0[4, 32]", "Q8_0[1, 128]"].iter().all(|r| twice.iter().any(|t| t == r)));
    }

    #[test]
    fn of_a_part_the_type_is_known_and_not_the_matrix() {
        assert_eq!(readers(|_, w, x| x.gguf_matmul(w.narrow(0, 1, 2).reshape([68]), T, 2)), ["Q8_0"]);
        // Each iteration of a loop reads a row.
        let rows = readers(|g, w, x| {
            let start = g.full(0.0, [3, 1], DType::F32);
            g.scan(&[start], &[w], |c, w| (vec![c[0] + x.gguf_matmul(w[0], T, 1)], vec![])).0[0]
        });
        assert_eq!(rows, ["Q8_0"]);
    }

    #[test]
    fn loops_and_branches_read_what_they_capture() {
        let constant = readers(|g, w, x| {
            let (w, start) = (w.reshape([136]), g.full(0.0, [4], DType::F32));
            g.scan(&[start], &[x], |c, x| (vec![c[0] + x[0].gguf_matmul(w, T, 4)], vec![])).0[0]
        });
        assert_eq!(constant, ["Q8_0[4, 32]"]);
        let branches = readers(|g, w, _| {
            let (w, on) = (w.reshape([136]), g.input("on", [], DType::Bool));
            let other = || w.gguf_dequant(T, [2, 64]).reshape([4, 32]);
            g.cond(on, || vec![w.gguf_dequant(T, [4, 32])], || vec![other()])[0]
        });
        assert_eq!(branches, ["Q8_0[4, 32]", "Q8_0[2, 64]"]);
    }

    #[test]
    fn what_is_computed_of_bytes_says_nothing_about_them() {
        assert!(readers(|_, w, x| x.gguf_matmul((w + w).reshape([136]), T, 4)).is_empty());
        let g = Builder::new("none");
        let y = g.input("w", [4], DType::U8).reshape([2, 2]);
        assert!(block_readers(&g.finish([y.named("y")]).unwrap().view()).is_none());
    }
}
