//! Nodes whose operands are all known, computed while reading: the rule of the op writes a small graph, which runs
//! once. So shapes are computed by the same rules as everything else.

use super::cx::Cx;
use super::value::{Held, Val};
use crate::error::Result;
use crate::ops::Entry;
use crate::proto::NodeProto;
use crate::tensor::Tensor;
use arenagrad::graph::{Builder, DType};
use arenagrad::session::Session;
use std::rc::Rc;

/// The most elements of the operands and results of a node that is computed while reading.
const MOST_ELEMENTS: usize = 1 << 16;
/// The most elements of all values on the way.
const MOST_INSIDE: usize = 1 << 22;

/// The results, if all operands are known and small. `None`: the node belongs into the graph.
pub fn fold(entry: &Entry, node: &NodeProto, args: &[Option<Val<'_>>], opset: i64) -> Result<Option<Vec<Tensor>>> {
    let mut known: Vec<Option<Rc<Tensor>>> = Vec::new();
    for arg in args {
        match arg.as_ref().map(|v| &v.held) {
            None => known.push(None),
            Some(Held::Known(t)) => known.push(Some(t.clone())),
            Some(_) => return Ok(None),
        }
    }
    if entry.random || known.iter().flatten().any(|t| t.numel() > MOST_ELEMENTS) {
        return Ok(None);
    }
    let g = Builder::new("fold");
    let args = known.into_iter().map(|t| t.map(|t| Val { dtype: t.dtype, held: Held::Known(t) })).collect();
    let cx = Cx { g: &g, node, args, opset, raw: entry.raw(), place: None };
    let outs = entry.run(&cx)?;
    if outs.iter().map(|v| v.numel()).sum::<usize>() > MOST_ELEMENTS {
        return Ok(None);
    }
    let shapes: Vec<(DType, Vec<usize>)> = outs.iter().map(|v| (v.dtype(), v.dims().to_vec())).collect();
    for (i, v) in outs.into_iter().enumerate() {
        g.output(&format!("out{i}"), v);
    }
    let graph = g.finish([])?;
    // A rule may write values that are larger than its operands and results.
    let view = graph.view();
    if view.shape.iter().map(|&s| view.shape_dims(s).numel()).sum::<usize>() > MOST_INSIDE {
        return Ok(None);
    }
    let mut p = Session::new().threads(1).compile(&graph)?;
    p.step()?;
    let result = |(i, (dtype, dims)): (usize, (DType, Vec<usize>))| {
        let name = format!("out{i}");
        let bytes = p.bindings().iter().find(|b| b.name == name).map(|b| p.bytes_of(b).to_vec());
        Tensor::new(dtype, dims, bytes.unwrap_or_default())
    };
    shapes.into_iter().enumerate().map(result).collect::<Result<_>>().map(Some)
}
