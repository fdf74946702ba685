//! Grouped products as methods of [`Var`].

use crate::nodes::arguments::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::grouped::attrs::{GroupedMatmulAttrs, GroupedOuterAttrs};

impl<'g> Var<'g> {
    /// Each row times the matrix of its group: of this, `[rows, k]`, and `w`, `[groups, k, n]`, row i of the
    /// result `[rows, n]` is `x[i]·w[g[i]]`. `groups` holds the group of each row, `[rows]`, as `i32` or `i64`;
    /// one that is not in `0..groups` ends the step with an error that names row and value. This is the product
    /// of a mixture of experts: rows are sorted by group, and each group is one matrix product.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("experts");
    /// let (x, w) = (g.input("x", [3, 2], DType::F32), g.input("w", [2, 2, 1], DType::F32));
    /// let expert = g.input("expert", [3], DType::I32);
    /// let graph = g.finish([x.grouped_matmul(w, expert).named("y")])?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// p.values_mut::<f32>("w")?.copy_from_slice(&[1.0, 0.0, 0.0, 10.0]);
    /// p.values_mut::<i32>("expert")?.copy_from_slice(&[1, 0, 1]);
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("y")?, [20.0, 3.0, 60.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn grouped_matmul(self, w: Var<'g>, groups: Var<'g>) -> Var<'g> {
        self.grouped_matmul_t(w, groups, false)
    }

    /// As [`Var::grouped_matmul`], with the matrices stored as `[groups, n, k]` if `tw`. No copy of them is made.
    #[track_caller]
    pub fn grouped_matmul_t(self, w: Var<'g>, groups: Var<'g>, tw: bool) -> Var<'g> {
        let attrs = GroupedMatmulAttrs { tw, by_size: false };
        self.g.emit1(Op::GROUPED_MATMUL, &[self, w, groups], &attrs.list())
    }

    /// As [`Var::grouped_matmul_t`], for rows that are in the order of their groups already. `sizes` holds the number
    /// of rows of each group, `[groups]`. Sizes that do not sum to the number of rows end the step with an error.
    #[track_caller]
    pub fn sorted_grouped_matmul(self, w: Var<'g>, sizes: Var<'g>, tw: bool) -> Var<'g> {
        self.g.emit1(Op::GROUPED_MATMUL, &[self, w, sizes], &GroupedMatmulAttrs { tw, by_size: true }.list())
    }

    /// The sum of the outer products of the rows of each group: of this, `[rows, k]`, and `b`, `[rows, n]`, matrix e of
    /// the result `[count, k, n]` is Σ xᵢᵀ·bᵢ over the rows i of group e, and zeros if it has none. `groups` is that of
    /// [`Var::grouped_matmul`], of which this is the gradient of w.
    #[track_caller]
    pub fn grouped_outer(self, b: Var<'g>, groups: Var<'g>, count: usize) -> Var<'g> {
        let attrs = GroupedOuterAttrs { groups: size_attr_to_i64(count), by_size: false };
        self.g.emit1(Op::GROUPED_OUTER, &[self, b, groups], &attrs.list())
    }
}
