//! Helpers of batch rules: operands with the batch's axis, and the op on them.

use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::BatchSite;

/// `x`, the same for all members, once for each of `size` members.
pub fn repeat_for_batch_members<'g>(x: Var<'g>, size: usize) -> Var<'g> {
    x.broadcast([&[size], &x.dims()[..]].concat())
}

/// `x` with two runs of axes exchanged: the `first` axes from `at` on, and the `second` axes behind them.
pub fn swap_axis_runs<'g>(x: Var<'g>, at: usize, first: usize, second: usize) -> Var<'g> {
    if first == 0 || second == 0 || !x.is_some() {
        return x;
    }
    let (middle, end) = (at + first, at + first + second);
    let perm: Vec<usize> = (0..at).chain(middle..end).chain(at..middle).chain(end..x.rank()).collect();
    x.permute(&perm)
}

impl<'g> BatchSite<'_, 'g> {
    /// Operand `i`, with the batch's axis first. One that all members share is repeated.
    pub fn arg(&self, i: usize) -> Var<'g> {
        match self.batched[i] {
            true => self.site.args[i],
            false => repeat_for_batch_members(self.site.args[i], self.size),
        }
    }

    /// All operands, with the batch's axis first.
    pub fn all(&self) -> Vec<Var<'g>> {
        (0..self.batched.len()).map(|i| self.arg(i)).collect()
    }

    /// The rank of operand `i` of one member.
    pub fn rank(&self, i: usize) -> usize {
        self.site.args[i].rank() - usize::from(self.batched[i])
    }

    /// Operand `i` with axes of length 1 in front of those of one member, so that these are the last of `rank` axes;
    /// before all stands the batch's axis, if it has one.
    pub fn aligned(&self, i: usize, rank: usize) -> Var<'g> {
        let x = self.site.args[i];
        let ones = rank.saturating_sub(self.rank(i));
        if !self.batched[i] || ones == 0 {
            return x;
        }
        let mut dims = x.dims().to_vec();
        dims.splice(1..1, std::iter::repeat_n(1, ones));
        x.reshape(&dims)
    }

    /// The op on `args`, with other attributes.
    pub fn emit(&self, args: &[Var<'g>], attrs: &[Attr<'_>]) -> Option<Vec<Var<'g>>> {
        Some(self.site.g.emit(self.site.op, args, attrs).into())
    }

    /// The op with the batch merged into the first axis of all operands and results, which counts independent members
    /// of its own, as the images of a convolution.
    pub fn merged(&self) -> Option<Vec<Var<'g>>> {
        let all = self.all();
        let own = all.first()?.axis_len(1)?;
        let outs = self.site.rebuild_with(&all.into_iter().map(|x| x.flatten(0, 1)).collect::<Vec<_>>());
        Some(outs.into_iter().map(|y| y.unflatten(0, &[self.size, own])).collect())
    }
}

/// `axes` of one member as axes of the batch.
pub fn behind_batch(axes: &[i64]) -> Vec<i64> {
    axes.iter().map(|a| a + 1).collect()
}

/// `list`, one number for each axis, with `first` for the batch's axis.
pub fn prepend_batch_entry(first: i64, list: &[i64]) -> Vec<i64> {
    [&[first], list].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::builder::Builder;
    use crate::nodes::ir::dtype::DType;

    #[test]
    fn two_runs_of_axes_change_places() {
        let g = Builder::new("axes");
        let x = g.input("x", [2, 3, 4, 5], DType::F32);
        assert_eq!(swap_axis_runs(x, 1, 1, 2).dims()[..], [2, 4, 5, 3]);
        assert_eq!(swap_axis_runs(x, 0, 2, 1).dims()[..], [4, 2, 3, 5]);
        for (first, second) in [(0, 2), (2, 0)] {
            assert_eq!(swap_axis_runs(x, 1, first, second).v, x.v);
        }
    }

    #[test]
    fn axes_and_lists_of_a_member_stand_behind_the_batch() {
        assert_eq!(behind_batch(&[0, 2]), [1, 3]);
        assert_eq!(prepend_batch_entry(7, &[1, 2]), [7, 1, 2]);
        let g = Builder::new("repeated");
        let x = g.input("x", [2, 3], DType::F32);
        assert_eq!(repeat_for_batch_members(x, 4).dims()[..], [4, 2, 3]);
    }
}
