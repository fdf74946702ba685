//! A function of one example on a batch: a scan without carries, whose iterations may all run at once.

use super::scan::Loop;
use crate::error::Kind;
use crate::nodes::ir::builder::{Builder, Var};

impl Builder {
    /// `f` of each member of a batch: `xs` have the batch's axis in front, and `f` takes one slice of each, without
    /// that axis. The results have it in front too. Values that `f` uses from outside are the same for all members.
    /// `f` runs once, while the graph is built.
    ///
    /// It computes what a [`scan`](Builder::scan) without carries computes, on all members at once where there are
    /// kernels for that. So it takes the memory of all members together. Each member draws random numbers of its own;
    /// what is drawn outside is the same for all.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// // The products of three pairs of matrices.
    /// let g = Builder::new("products");
    /// let (a, b) = (g.input("a", [3, 2, 4], DType::F64), g.input("b", [3, 4, 5], DType::F64));
    /// let c = g.vmap(&[a, b], |x| vec![x[0].matmul(x[1]).tanh()]);
    /// assert_eq!(c[0].dims()[..], [3, 2, 5]);
    /// # g.finish([c[0].named("c")])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See also [`vmap`](crate::graph::vmap), which makes a whole graph one for a batch.
    ///
    /// # Errors
    /// At [`Builder::finish`]: no operand, a scalar operand, operands of other numbers of members.
    #[track_caller]
    pub fn vmap<'g>(&'g self, xs: &[Var<'g>], f: impl FnOnce(&[Var<'g>]) -> Vec<Var<'g>>) -> Vec<Var<'g>> {
        if xs.is_empty() {
            self.fail(Kind::Shape, "vmap: the number of members is that of the slices of the operands; there is none");
        }
        if let Some(i) = xs.iter().position(|x| x.is_some() && x.rank() == 0) {
            self.fail(Kind::Shape, format!("vmap: operand {i} is a scalar; the batch's axis is its first one"));
        }
        let how = Loop::default().at_once(true);
        let how = if xs.is_empty() { how.length(0) } else { how };
        self.scan_with(how, &[], xs, |_, x| (Vec::new(), f(x))).1
    }
}
