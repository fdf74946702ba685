//! Batch rules of 2-D convolutions.
//!
//! If the members share the weights, their images become one larger batch of images. If each member has its own
//! weights, the members become groups of channels. A batch of 0 members would make a convolution of 0 groups, so it is
//! left to a loop.

use super::attrs::{ConvAttrs, ConvInputGradAttrs, ConvWeightGradAttrs};
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, to_size_attr};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::BatchSite;
use crate::nodes::ops::common::batch_site::swap_axis_runs;

/// Images of all members, `[members, N, C, ..]`, as `[N, members · C, ..]`.
fn members_to_channels<'g>(x: Var<'g>) -> Var<'g> {
    swap_axis_runs(x, 0, 1, 1).flatten(1, 2)
}

/// The inverse of [`members_to_channels`].
fn channels_to_members<'g>(x: Var<'g>, size: usize, channels: usize) -> Var<'g> {
    swap_axis_runs(x.unflatten(1, &[size, channels]), 0, 1, 1)
}

/// `a` with the groups of `size` members.
fn multiply_groups(a: ConvAttrs, size: usize) -> ConvAttrs {
    ConvAttrs { groups: a.groups.saturating_mul(size_attr_to_i64(size)), ..a }
}

/// The rule of `conv2d`, from (x, w).
pub(super) fn convolve_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    if !s.batched[1] {
        return share_weights(s);
    }
    if s.size == 0 {
        return None;
    }
    let (x, w) = (members_to_channels(s.arg(0)), s.site.args[1]);
    let outs = w.axis_len(1)?;
    let y = s.emit(&[x, w.flatten(0, 1)], &multiply_groups(ConvAttrs::of(&s.site.attrs), s.size).list())?;
    Some(y.into_iter().map(|y| channels_to_members(y, s.size, outs)).collect())
}

/// The rule of `conv2d_input_grad`, from (dy, w).
pub(super) fn input_grad_of_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    if !s.batched[1] {
        return share_weights(s);
    }
    if s.size == 0 {
        return None;
    }
    let a = ConvInputGradAttrs::of(&s.site.attrs);
    let (dy, w) = (members_to_channels(s.arg(0)), s.site.args[1]);
    let channels = w.axis_len(2)? * to_size_attr(a.groups);
    let attrs = ConvInputGradAttrs { groups: a.groups.saturating_mul(size_attr_to_i64(s.size)), ..a };
    let dx = s.emit(&[dy, w.flatten(0, 1)], &attrs.list())?;
    Some(dx.into_iter().map(|dx| channels_to_members(dx, s.size, channels)).collect())
}

/// The rule of `conv2d_weight_grad`, from (x, dy): the weights differ from member to member.
pub(super) fn weight_grad_of_members<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    if s.size == 0 {
        return None;
    }
    let a = ConvWeightGradAttrs::of(&s.site.attrs);
    let (x, dy) = (s.arg(0), s.arg(1));
    let outs = dy.axis_len(2)?;
    let attrs = ConvWeightGradAttrs { groups: a.groups.saturating_mul(size_attr_to_i64(s.size)), ..a };
    let dw = s.emit(&[members_to_channels(x), members_to_channels(dy)], &attrs.list())?;
    Some(dw.into_iter().map(|dw| dw.unflatten(0, &[s.size, outs])).collect())
}

/// The op on the images of all members, with weights that they share.
fn share_weights<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let x = s.site.args[0];
    let images = x.axis_len(1)?;
    let y = s.site.rebuild_with(&[x.flatten(0, 1), s.site.args[1]]);
    Some(y.into_iter().map(|y| y.unflatten(0, &[s.size, images])).collect())
}
