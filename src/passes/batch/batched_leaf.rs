//! Leaves with the batch's axis: the name, the rule of the start values and the default stay, and the shape has one
//! more axis.

use super::batched_region::BatchContext;
use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::attr_types::Choice;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::leaf::{InitKind, ParamAttrs, StateAttrs};
use crate::nodes::{Op, Var};

/// Writes the leaf `v`, with the batch's axis at `axis` if it has one.
pub(super) fn write_leaf_for_members<'g>(
    context: BatchContext<'_, '_, 'g>,
    v: Value,
    axis: Option<usize>,
) -> Result<Var<'g>> {
    let BatchContext { src, g, size, .. } = context;
    let n = src.def[v.at()];
    let name = src.leaf(v).map_or("", |l| l.1);
    let mut dims = src.dims(v).to_vec();
    let owned: Vec<_> = src.attrs(n).iter().skip(1).map(|(_, a)| a).collect();
    let mut attrs: Vec<_> = owned.iter().map(|a| a.as_attr()).collect();
    let start;
    if let Some(axis) = axis {
        start = repeat_start_values(context, v, axis)?;
        dims.insert(axis, size);
        for attr in &mut attrs {
            match attr {
                Attr::Shape(shape) => *shape = g.shape(&dims).unwrap_or(*shape),
                Attr::Floats(list) if start.is_some() => *list = start.as_deref().unwrap_or_default(),
                _ => {}
            }
        }
    }
    let leaf = g.var(g.with(|e| {
        e.set_loc(src.loc[n.at()]);
        e.leaf(src.op[n.at()], name, &attrs)
    }));
    match g.error() {
        Some(e) => Err(e.context(format!("vmap of leaf {name:?}"))),
        None => Ok(leaf),
    }
}

/// The listed start values of leaf `v`, repeated for each member; `None` without a list.
fn repeat_start_values(context: BatchContext<'_, '_, '_>, v: Value, axis: usize) -> Result<Option<Vec<f64>>> {
    let BatchContext { src, size, .. } = context;
    let n = src.def[v.at()];
    let (kind, start) = match src.op[n.at()] {
        Op::PARAM => (ParamAttrs::of(&src.attrs(n)).init, ParamAttrs::of(&src.attrs(n)).start),
        Op::STATE => (StateAttrs::of(&src.attrs(n)).init, StateAttrs::of(&src.attrs(n)).start),
        _ => return Ok(None),
    };
    match kind {
        InitKind::Eye | InitKind::Dirac | InitKind::Orthogonal => {
            let (name, rule) = (src.leaf(v).map_or("", |l| l.1), InitKind::NAMES[kind as usize]);
            let text = format!("vmap: the start values of {name:?}, {rule}, are those of one matrix, not of a batch");
            Err(Error::new(Kind::Verify, text).at(src.location(n)))
        }
        InitKind::Values => {
            let inner = src.dims(v)[axis..].iter().product::<usize>();
            let rows = start.iter().flat_map(|start| start.chunks(inner.max(1)));
            Ok(Some(rows.flat_map(|row| std::iter::repeat_n(row, size).flatten().copied()).collect()))
        }
        _ => Ok(None),
    }
}
