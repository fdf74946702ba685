//! A node as the `cost` function of an op definition reads it.

use super::graph::Graph;
use crate::arena::Node;

/// The argument of the `cost` of an op definition.
#[non_exhaustive]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::ids::Id;
    use crate::nodes::{Builder, DType};

    #[test]
    fn elements_of_operands_and_results_are_counted() {
        let g = Builder::new("g");
        let (x, y) = (g.input("x", [2, 3], DType::F32), g.input("y", [3, 4], DType::F32));
        let graph = g.finish([x.matmul(y).named("z")]).unwrap();
        let view = graph.view();
        let cx = CostCx { graph: view, node: view.def[view.outputs()[0].at()] };
        assert_eq!((cx.arg(0), cx.arg(1), cx.args(), cx.out()), (6, 12, 18, 8));
    }
}
