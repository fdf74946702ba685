//! Jacobians: one reverse or forward walk for a batch of directions. The batch has a direction for each element of the
//! output or of the leaf.

use super::grad::{Missing, vjp_numbered};
use super::jvp::push_named_tangents;
use crate::arena::{Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ops::common::batch_site::swap_axis_runs;
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, Var};
use crate::passes::batch::vmap;
use crate::passes::batch::{Randomness, Vmap};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::{Signature, check_free_names, leaf_by_name, output_by_name};

/// Adds to `g` the Jacobian of `output` with respect to `leaf`, as output `jacobian.<leaf>`. Its shape is the output's
/// dimensions followed by the leaf's.
///
/// All directions are one batch: there is one reverse sweep for all elements of the output, or, if the leaf has fewer,
/// one forward sweep for all elements of the leaf. So the graph does not grow with the Jacobian; its memory does.
///
/// # Errors
/// An unknown name; `g` has a `jacobian.<leaf>` already: see [`rename`](fn@crate::graph::rename); an output or a leaf
/// of integers or bools; a Jacobian or a value of its sweep that is too large for memory.
pub fn jacobian<'a>(g: impl Into<Graph<'a>>, output: &str, leaf: &str) -> Result<GraphBuf> {
    let g = g.into();
    let (out, by) = (output_by_name(g, output)?, leaf_by_name(g, leaf)?);
    let name = format!("jacobian.{leaf}");
    check_free_names(g, "jacobian", [name.clone()])?;
    let forward = g.numel(by) < g.numel(out);
    let (sweep, directions) = match forward {
        true => (push_named_tangents(g, &[output], &[leaf], &[format!("tangent.{leaf}")])?, g.numel(by)),
        false => (vjp_numbered(g, &[output], &[leaf], Missing::Zero)?, g.numel(out)),
    };
    let v = sweep.view();
    // The sweep has one more input, the direction, and one more output, after those of `g`.
    let signature = Signature::new(g);
    let direction = v.leaves().find(|l| !signature.has_leaf(l.name)).map(|l| l.name);
    let result = v.output_names.get(g.outputs().len()).map(|&name| v.str(name));
    let (Some(direction), Some(result)) = (direction, result) else {
        return Err(Error::new(Kind::Derivative, format!("the derivative of {output:?} by {leaf:?} has no direction")));
    };
    let map = Vmap::new(directions).leaf(direction, 0).output(result, 0).randomness(Randomness::Same);
    let all = vmap(v, &map).map_err(|e| e.context(format!("the Jacobian of {output:?} by {leaf:?}")))?;
    let direction = leaf_by_name(all.view(), direction)?;
    let dims = [&g.dims(out)[..], &g.dims(by)[..]].concat();
    close_with_identity(all.view(), direction, result, |rows| {
        // Forward, the rows are those of the transpose.
        let rows = if forward { swap_axis_runs(rows, 0, 1, rows.rank().saturating_sub(1)) } else { rows };
        (name.clone(), rows.reshape(&dims))
    })
}

/// `g` with the identity in place of the leaf `direction`, and with what `close` makes of the output `result` in its
/// place.
fn close_with_identity(
    g: Graph<'_>,
    direction: Value,
    result: &str,
    close: impl for<'g> Fn(Var<'g>) -> (String, Var<'g>),
) -> Result<GraphBuf> {
    rebuilt_by_pass("jacobian", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let leaf = g.def[direction.at()];
        let mut c = Copier::new(g, &b).without(|n| n == leaf);
        let dims = g.dims(direction);
        let n = dims.first().copied().unwrap_or(0);
        let (row, column) = (b.iota(0, [n, n], DType::I64), b.iota(1, [n, n], DType::I64));
        c.map[direction] = row.equal(column).cast(g.dtype[direction.at()]).reshape(dims);
        c.run(&mut |_| None);
        for (&v, &name) in g.outputs().iter().zip(g.output_names) {
            match g.str(name) {
                name if name == result => {
                    let (name, all) = close(c.map[v]);
                    b.output(&name, all);
                }
                name => b.output(name, c.map[v]),
            }
        }
        c.updates();
        drop(c);
        finish_rebuild(b, bump)
    })
}
