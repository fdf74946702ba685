//! The optional check of a layer's number of inputs.

use crate::error::Kind;
use crate::nodes::Var;

/// The error of layer `name` if x does not have `asked` inputs along `axis`, which counts from the end if negative.
#[track_caller]
pub(super) fn refuse_inputs<'g>(name: &str, x: Var<'g>, axis: i64, asked: Option<usize>) -> Option<Var<'g>> {
    let (d, asked) = (x.dims(), asked.filter(|_| x.is_some())?);
    let at = if axis < 0 { d.len().checked_sub(axis.unsigned_abs() as usize) } else { Some(axis as usize) };
    let has = at.and_then(|at| d.get(at)).copied();
    if has == Some(asked) {
        return None;
    }
    let has = has.map_or("no such axis".to_string(), |n| format!("{n}"));
    let text = format!("{name}: x has shape {d}, axis {axis} is to have {asked} inputs and has {has}");
    Some(x.g.fail(Kind::Shape, text))
}
