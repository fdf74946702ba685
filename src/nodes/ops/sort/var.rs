//! Sorting as methods of [`Var`]. Most ops of this family give positions; `take_along_axis` gives the values.

use crate::error::Kind;
use crate::nodes::arguments::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::sort::attrs::{ArgSortAttrs, TopKAttrs};

impl<'g> Var<'g> {
    /// Positions (`i32`) of the elements along `axis` in sorted order. Equal elements keep their order; NaN are last.
    #[track_caller]
    pub fn arg_sort(self, axis: i64, descending: bool) -> Var<'g> {
        let [positions] = self.sort_with_axis_last("arg_sort", axis, |x| {
            [x.g.emit1(Op::ARG_SORT, &[x], &ArgSortAttrs { descending }.list())]
        });
        positions
    }

    /// The elements along `axis` in sorted order, and their positions (`i32`). Equal elements keep their order; NaN are
    /// last. Gradients go back to where the values came from.
    #[track_caller]
    pub fn sort(self, axis: i64, descending: bool) -> (Var<'g>, Var<'g>) {
        let positions = self.arg_sort(axis, descending);
        (self.take_along_axis(positions, axis), positions)
    }

    /// The `k` largest elements along `axis`, largest first, and their positions (`i32`); of equals, the first. NaN
    /// come last, as in [`Var::sort`] (torch has them first). Gradients go back to where the values came from. It is an
    /// error if the axis has fewer than `k`.
    #[track_caller]
    pub fn top_k(self, k: usize, axis: i64) -> (Var<'g>, Var<'g>) {
        let n = self.axis_len(axis).unwrap_or(k);
        if self.is_some() && k > n {
            let none = self.g.fail(Kind::Shape, format!("top_k({self:?}): axis {axis} has {n} elements, k is {k}"));
            return (none, none);
        }
        let attrs = TopKAttrs { k: size_attr_to_i64(k) };
        let [values, positions] = self.sort_with_axis_last("top_k", axis, |x| {
            let outs = x.g.emit(Op::TOP_K, &[x], &attrs.list());
            [outs[0], outs[1]]
        });
        (values, positions)
    }

    /// The results of `f` of this with `axis` moved last, moved back.
    #[track_caller]
    fn sort_with_axis_last<const N: usize>(
        self,
        name: &str,
        axis: i64,
        f: impl FnOnce(Var<'g>) -> [Var<'g>; N],
    ) -> [Var<'g>; N] {
        // All nodes get the caller's location.
        self.g.with_caller(|| {
            if !self.is_some() {
                return [self; N];
            }
            if self.axis_len(axis).is_none() {
                let text = format!("{name}({self:?}): axis {axis} is outside rank {}", self.rank());
                return [self.g.fail(Kind::Shape, text); N];
            }
            let r = self.rank();
            let at = axis.rem_euclid(r as i64) as usize;
            if at == r - 1 {
                return f(self);
            }
            let mut perm: Vec<usize> = (0..r).collect();
            perm.swap(at, r - 1);
            f(self.permute(&perm)).map(|y| y.permute(&perm))
        })
    }
}
