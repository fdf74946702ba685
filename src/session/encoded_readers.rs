//! Finds the values of a graph whose bytes are matrices in an encoding, with the encoding and the shape that ops read.
//!
//! Invariant: a reader is found through views, moves, loops and branches. A move that drops or repeats bytes keeps the
//! encoding, but not the shape of the matrix.

use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::nodes::ir::opdef::{Flags, Lower, planned_regions};
use crate::nodes::ir::pack::EncodedOperand;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{DType, Graph};
use std::fmt;

/// As what an op reads bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedReader {
    /// The encoding.
    pub encoding: &'static str,
    /// Rows and columns; `None` if it reads some of the bytes.
    pub matrix: Option<[usize; 2]>,
}

impl fmt::Display for EncodedReader {
    /// `Q4_K[8, 256]`, or `Q4_K` of some of the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.encoding)?;
        self.matrix.map_or(Ok(()), |m| write!(f, "{m:?}"))
    }
}

/// The operand of node `n` that is a matrix in an encoding.
fn encoded_operand(g: &Graph<'_>, n: Node) -> Option<EncodedOperand> {
    (g.def_of(n).pack?.encoded)(g, n)
}

/// The readers of each value; `None` if no op of `g` reads an encoded operand.
pub fn encoded_readers(g: &Graph<'_>) -> Option<Side<Value, Vec<EncodedReader>>> {
    if !(0..g.nodes()).map(Node::new).any(|n| encoded_operand(g, n).is_some()) {
        return None;
    }
    let mut readers = Side::filled(g.values(), Vec::new());
    // Bodies of loops before the loops, and in each region readers before operands.
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r).rev() {
            for (i, &a) in g.args_of(n).iter().enumerate().filter(|(_, a)| g.dtype[a.at()] == DType::U8) {
                for reader in readers_by_node(g, n, i, &readers) {
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
fn readers_by_node(g: &Graph<'_>, n: Node, i: usize, known: &Side<Value, Vec<EncodedReader>>) -> Vec<EncodedReader> {
    if let Some(own) = encoded_operand(g, n) {
        let reader = EncodedReader { encoding: own.encoding, matrix: Some([own.rows, own.columns]) };
        return if own.operand == i { vec![reader] } else { Vec::new() };
    }
    let argument = |r: Region, at: usize| g.region_args(r).nth(at).map_or(Vec::new(), |v| known[v].clone());
    let partly = |readers: Vec<EncodedReader>| {
        readers.into_iter().map(|r| EncodedReader { matrix: None, ..r }).collect::<Vec<EncodedReader>>()
    };
    let def = g.def_of(n);
    match def.lower {
        _ if def.flags.has(Flags::SAME_BYTES) => known[g.out(n)].clone(),
        Lower::Loop => {
            let scan = Scan::of(&g.attrs(n));
            let readers = argument(scan.body, i);
            if i < scan.xs() { readers } else { partly(readers) }
        }
        Lower::Choice if i > 0 => planned_regions(*g, n).flat_map(|r| argument(r, i - 1)).collect(),
        _ if def.flags.has(Flags::MOVE) => g.outs_of(n).flat_map(|v| partly(known[v].clone())).collect(),
        _ => Vec::new(),
    }
}
