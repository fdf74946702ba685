//! Batch rules of ops that move elements: each applies the op to the axes of a member, and leaves the batch's axis
//! where it is.

use super::attrs::{ConcatAttrs, FlipAttrs, PadAttrs, SliceAttrs, ToShapeAttrs, TransposeAttrs};
use crate::nodes::arguments::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::BatchSite;
use crate::nodes::ops::common::batch_site::{behind_batch, prepend_batch_entry};

/// The dimensions that a reshape or a broadcast gives all members together.
fn join_member_dims(s: &BatchSite<'_, '_>) -> Vec<usize> {
    let dims = s.site.g.shape_dims(ToShapeAttrs::of(&s.site.attrs).shape);
    [&[s.size], &dims[..]].concat()
}

/// The rule of `reshape`.
pub(super) fn reshape_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    Some(vec![s.site.args[0].reshape(join_member_dims(s))])
}

/// The rule of `broadcast`.
pub(super) fn broadcast_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let dims = join_member_dims(s);
    Some(vec![s.aligned(0, dims.len() - 1).broadcast(dims)])
}

/// The rule of `transpose`.
pub(super) fn transpose_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let TransposeAttrs { perm } = TransposeAttrs::of(&s.site.attrs);
    s.emit(s.site.args, &TransposeAttrs { perm: prepend_batch_entry(0, &behind_batch(&perm)) }.list())
}

/// The rule of `slice`.
pub(super) fn slice_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let SliceAttrs { starts, limits, steps } = SliceAttrs::of(&s.site.attrs);
    let attrs = SliceAttrs {
        starts: prepend_batch_entry(0, &starts),
        limits: prepend_batch_entry(size_attr_to_i64(s.size), &limits),
        steps: prepend_batch_entry(1, &steps),
    };
    s.emit(s.site.args, &attrs.list())
}

/// The rule of `concat`.
pub(super) fn concat_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let ConcatAttrs { axis } = ConcatAttrs::of(&s.site.attrs);
    s.emit(&s.all(), &ConcatAttrs { axis: axis + 1 }.list())
}

/// The rule of `pad`.
pub(super) fn pad_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let PadAttrs { low, high, value } = PadAttrs::of(&s.site.attrs);
    let attrs = PadAttrs { low: prepend_batch_entry(0, &low), high: prepend_batch_entry(0, &high), value };
    s.emit(s.site.args, &attrs.list())
}

/// The rule of `flip`.
pub(super) fn flip_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let FlipAttrs { axes } = FlipAttrs::of(&s.site.attrs);
    s.emit(s.site.args, &FlipAttrs { axes: behind_batch(&axes) }.list())
}
