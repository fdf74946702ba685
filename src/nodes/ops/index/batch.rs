//! Batch rules of gathers and scatters.
//!
//! If each member has indices of its own, the batch's axis is merged with the axis that the indices count along.
//! `ravel_index` turns an index into a position of the merged axis, and checks it.

use super::attrs::{GatherAttrs, RavelIndexAttrs, ScatterAddAttrs, ScatterAttrs};
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, to_size_attr};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{BatchSite, Op};
use crate::nodes::ops::common::batch_site::swap_axis_runs;

/// The indices of all members, `[members, ..]`, as positions in row-major order along axes of `size` and `n`.
pub(crate) fn flatten_member_indices<'g>(ids: Var<'g>, size: usize, n: usize) -> Var<'g> {
    let dims = ids.dims();
    let ids = ids.cast(DType::I64);
    let members = ids.g.iota(0, dims, DType::I64);
    let attrs = RavelIndexAttrs { sizes: vec![size_attr_to_i64(size), size_attr_to_i64(n)] };
    ids.g.emit1(Op::RAVEL_INDEX, &[members.stack(&[ids], -1)], &attrs.list())
}

/// `x`, `[members, before.., n, after..]` with `before` axes before `n`, as `[members · n, before.., after..]`.
fn merge_member_axis<'g>(x: Var<'g>, before: usize) -> Var<'g> {
    swap_axis_runs(x, 1, before, 1).flatten(0, 1)
}

/// The inverse of [`merge_member_axis`].
fn split_member_axis<'g>(x: Var<'g>, [size, n]: [usize; 2], before: usize) -> Var<'g> {
    swap_axis_runs(x.unflatten(0, &[size, n]), 1, 1, before)
}

/// The rule of `gather`.
pub(super) fn gather_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let GatherAttrs { axis } = GatherAttrs::of(&s.site.attrs);
    let (x, ids, before) = (s.site.args[0], s.site.args[1], to_size_attr(axis));
    Some(vec![match s.batched {
        [true, false] => x.gather(ids, axis + 1),
        [false, _] => swap_axis_runs(x.gather(ids, axis), 0, before, 1),
        _ => {
            let n = x.axis_len(axis + 1)?;
            let y = merge_member_axis(x, before).gather(flatten_member_indices(ids, s.size, n), 0);
            swap_axis_runs(y, 1, s.rank(1), before)
        }
    }])
}

/// The rule of `scatter_add`.
pub(super) fn scatter_add_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let ScatterAddAttrs { axis, size } = ScatterAddAttrs::of(&s.site.attrs);
    let (n, before) = (to_size_attr(size), to_size_attr(axis));
    if !s.batched[1] {
        return s.emit(s.site.args, &ScatterAddAttrs { axis: axis + 1, size }.list());
    }
    let updates = swap_axis_runs(s.arg(0), 1, before, s.rank(1));
    let y = updates.scatter_add(flatten_member_indices(s.site.args[1], s.size, n), 0, s.size * n);
    Some(vec![split_member_axis(y, [s.size, n], before)])
}

/// The rule of `take_along_axis`.
pub(super) fn take_members_along_axis<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let GatherAttrs { axis } = GatherAttrs::of(&s.site.attrs);
    s.emit(&s.all(), &GatherAttrs { axis: axis + 1 }.list())
}

/// The rule of `scatter_along_axis`.
pub(super) fn scatter_members_along_axis<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let ScatterAddAttrs { axis, size } = ScatterAddAttrs::of(&s.site.attrs);
    s.emit(&s.all(), &ScatterAddAttrs { axis: axis + 1, size }.list())
}

/// The rule of `scatter`.
pub(super) fn scatter_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let ScatterAttrs { axis, mode, own } = ScatterAttrs::of(&s.site.attrs);
    let (base, updates, ids) = (s.arg(0), s.arg(1), s.site.args[2]);
    if own {
        return s.emit(&s.all(), &ScatterAttrs { axis: axis + 1, mode, own }.list());
    }
    if !s.batched[2] {
        return s.emit(&[base, updates, ids], &ScatterAttrs { axis: axis + 1, mode, own }.list());
    }
    let before = to_size_attr(axis);
    let n = base.axis_len(axis + 1)?;
    let positions = flatten_member_indices(ids, s.size, n);
    let args = [merge_member_axis(base, before), swap_axis_runs(updates, 1, before, s.rank(2)), positions];
    let y = s.emit(&args, &ScatterAttrs { axis: 0, mode, own }.list())?;
    Some(y.into_iter().map(|y| split_member_axis(y, [s.size, n], before)).collect())
}
