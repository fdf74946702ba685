//! How large a graph may grow.
//!
//! A few lines of text may describe any number of nodes: regions that call regions, loops that are unrolled, blocks
//! that are decomposed. All of them are written here, one by one, so here they are counted. Invariant: no writer holds
//! more than [`MAX_NODES`] nodes.

use super::Emit;

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

impl Emit {
    /// Counts one more node, or says what there is too much of.
    pub(super) fn admit(&mut self, operands: usize, words: usize) -> Result<(), String> {
        if self.count.nodes >= MAX_NODES {
            return Err(format!("the graph has more than {MAX_NODES} nodes"));
        }
        if operands > MAX_OPERANDS - self.count.operands {
            return Err(format!("the nodes of the graph have more than {MAX_OPERANDS} operands"));
        }
        // Attributes are found by a number of 32 bits.
        if words >= u32::MAX as usize - self.extra.len() {
            return Err("the constants of the graph take more than 16 GiB".to_string());
        }
        self.count.nodes += 1;
        self.count.operands += operands;
        Ok(())
    }
}
