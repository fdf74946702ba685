//! How large a graph may grow.
//!
//! A few lines of text may describe any number of nodes: regions that call regions, loops that are unrolled, blocks
//! that are decomposed. All of them are written here, one by one, so here they are counted. Invariant: no writer holds
//! more than [`MAX_NODES`] nodes.

/// Most nodes of a graph, those of its regions among them. Planning takes about a kilobyte for each: four gigabytes.
pub const MAX_NODES: usize = 1 << 22;

/// Most operands of all nodes.
const MAX_OPERANDS: usize = 4 * MAX_NODES;

/// What has been written so far, in all regions.
#[derive(Default)]
pub(super) struct Count {
    nodes: usize,
    operands: usize,
}

impl Count {
    /// Counts one more node of `operands` operands and `words` attribute words, after `extra` words of other nodes. The
    /// error names the limit that is exceeded.
    pub(super) fn admit(&mut self, operands: usize, words: usize, extra: usize) -> Result<(), String> {
        if self.nodes >= MAX_NODES {
            return Err(format!("the graph has more than {MAX_NODES} nodes"));
        }
        if operands > MAX_OPERANDS - self.operands {
            return Err(format!("the nodes of the graph have more than {MAX_OPERANDS} operands"));
        }
        // Attributes are found by a number of 32 bits.
        if words >= u32::MAX as usize - extra {
            return Err("the constants of the graph take more than 16 GiB".to_string());
        }
        self.nodes += 1;
        self.operands += operands;
        Ok(())
    }
}
