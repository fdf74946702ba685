//! The largest size of a graph.
//!
//! A short text may describe any number of nodes: regions that call regions, loops that are unrolled, blocks that are
//! decomposed. Every node passes through [`Emit`](super::Emit), which counts it here. Invariant: no graph under
//! construction has more than [`MAX_NODES`] nodes.

/// The most nodes of a graph, in all regions. Planning takes about 1 kB for each node: 4 GB.
pub const MAX_NODES: usize = 1 << 22;

/// The most operands of all nodes.
const MAX_OPERANDS: usize = 4 * MAX_NODES;

/// The nodes and operands so far, in all regions.
#[derive(Default)]
pub(super) struct LimitCount {
    nodes: usize,
    operands: usize,
}

impl LimitCount {
    /// Counts one more node of `operands` operands and `words` attribute words, after `extra` words of other nodes. The
    /// error names the limit that is exceeded.
    pub(super) fn admit(&mut self, operands: usize, words: usize, extra: usize) -> Result<(), String> {
        if self.nodes >= MAX_NODES {
            return Err(format!("the graph has more than {MAX_NODES} nodes"));
        }
        if operands > MAX_OPERANDS - self.operands {
            return Err(format!("the nodes of the graph have more than {MAX_OPERANDS} operands"));
        }
        // Positions of attribute words have 32 bits.
        if words >= u32::MAX as usize - extra {
            return Err("the constants of the graph take more than 16 GiB".to_string());
        }
        self.nodes += 1;
        self.operands += operands;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{DType, Emit, Op, Ty};

    #[test]
    fn each_limit_is_met_and_not_exceeded() {
        let mut all = LimitCount { nodes: MAX_NODES - 1, operands: 0 };
        assert_eq!(all.admit(2, 0, 0), Ok(()));
        assert_eq!(all.admit(0, 0, 0), Err("the graph has more than 4194304 nodes".to_string()));
        let mut all = LimitCount { nodes: 0, operands: MAX_OPERANDS - 5 };
        assert_eq!((all.admit(3, 0, 0), all.admit(2, 0, 0)), (Ok(()), Ok(())));
        assert_eq!(all.admit(1, 0, 0), Err("the nodes of the graph have more than 16777216 operands".to_string()));
        assert_eq!((all.admit(0, 0, 0), all.nodes, all.operands), (Ok(()), 3, MAX_OPERANDS));
        let (most, why) = (u32::MAX as usize, "the constants of the graph take more than 16 GiB");
        assert_eq!(LimitCount::default().admit(0, most - 11, 10), Ok(()));
        assert_eq!(LimitCount::default().admit(0, most - 10, 10), Err(why.to_string()));
    }

    #[test]
    fn a_full_graph_takes_no_new_node() {
        let mut e = Emit::new("g");
        let ty = Ty { dtype: DType::F32, shape: e.shapes.intern(&[2]).unwrap() };
        let x = e.region_arg(ty);
        e.count.nodes = MAX_NODES - 1;
        let last = e.emit(Op::EXP, &[x], &[]);
        assert!(e.emit(Op::SIN, &[x], &[]).is_empty());
        let why = "sin: the graph has more than 4194304 nodes".to_string();
        assert_eq!(e.take_error().map(|e| e.message), Some(why));
        // One that is there already is not new.
        assert_eq!((e.emit(Op::EXP, &[x], &[]), e.nodes(), e.error()), (last, 2, None));
    }
}
