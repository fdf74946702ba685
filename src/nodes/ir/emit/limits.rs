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
