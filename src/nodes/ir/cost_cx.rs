//! A node as the `cost` function of an op definition reads it.

use super::graph::Graph;
use crate::arena::Node;

/// The argument of the `cost` of an op definition.
pub struct CostCx<'x> {
    /// The graph.
    pub graph: Graph<'x>,
    /// The node.
    pub node: Node,
}

impl CostCx<'_> {
    /// Elements of operand `i`.
    pub fn arg(&self, i: usize) -> u64 {
        self.graph.numel(self.graph.args_of(self.node)[i]) as u64
    }

    /// Elements of all operands.
    pub fn args(&self) -> u64 {
        self.graph.args_of(self.node).iter().map(|&v| self.graph.numel(v) as u64).sum()
    }

    /// Elements of the first result.
    pub fn out(&self) -> u64 {
        self.graph.numel(self.graph.out(self.node)) as u64
    }
}
