//! A node as the rules of its op see it.

use super::attrs::Attrs;
use super::builder::{Builder, Var};
use super::op::Op;

/// A node as derivative rules and decompositions see it: op and attributes of the source node, operands in the new
/// graph.
#[non_exhaustive]
pub struct Site<'x, 'g> {
    /// The builder of the new graph.
    pub g: &'g Builder,
    /// The op.
    pub op: Op,
    /// Its attributes. Ids of shapes and strings are those of the builder.
    pub attrs: Attrs<'x>,
    /// Its operands in the new graph.
    pub args: &'x [Var<'g>],
    /// Its results in the new graph. Empty for a decomposition, which makes them.
    pub outs: &'x [Var<'g>],
}

impl<'g> Site<'_, 'g> {
    /// Adds the same op with other operands. Returns all its results.
    pub fn rebuild_with(&self, args: &[Var<'g>]) -> Vec<Var<'g>> {
        let owned: Vec<_> = self.attrs.iter().map(|(_, a)| a).collect();
        let attrs: Vec<_> = owned.iter().map(|a| a.as_attr()).collect();
        self.g.emit(self.op, args, &attrs).into()
    }
}
