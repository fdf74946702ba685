//! Jacobians: one reverse sweep for each element of an output.

use super::activity::Mode;
use super::grad::{Missing, ReverseGrad};
use super::prepare::prepare_for_autodiff;
use crate::arena::{Value, ids::Id};
use crate::error::Result;
use crate::nodes::{Builder, Emit, Graph, GraphBuf};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::{signature_leaf, signature_output, underivable_signature, unused_signature_name};

/// The most reverse sweeps of one Jacobian.
pub const MAX_SWEEPS: usize = 4096;

/// Adds to `g` the Jacobian of `output` by `leaf`, as output `jacobian.<leaf>`. Its shape is the output's dimensions
/// followed by the leaf's. There is one reverse sweep for each element of the output.
///
/// # Errors
/// An output of more than [`MAX_SWEEPS`] elements, or of integers or bools.
pub fn jacobian<'a>(g: impl Into<Graph<'a>>, output: &str, leaf: &str) -> Result<GraphBuf> {
    let g = g.into();
    let prepared = prepare_for_autodiff(g, &[leaf], &[output], Mode::Reverse)?;
    let g = prepared.view();
    let (out, by) = (signature_output(g, output)?, signature_leaf(g, leaf)?);
    if !g.dtype[out.at()].is_differentiable() {
        return Err(underivable_signature(g, out, format!("output {output:?} is {}: no derivative", g.ty_text(out))));
    }
    let sweeps = g.numel(out);
    if sweeps > MAX_SWEEPS {
        let text = format!("the Jacobian of {output:?} takes {sweeps} sweeps, more than {MAX_SWEEPS}; use jvp or vjp");
        return Err(underivable_signature(g, out, text));
    }
    rebuilt_by_pass("jacobian", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let (od, ld) = (g.dims(out), g.dims(by));
        let row = [&[1], &ld[..]].concat();
        let mut rows = Vec::new();
        for i in 0..sweeps {
            let seed = jacobian_seed(&b, g, out, i);
            let names = [leaf];
            let ds = ReverseGrad::new(g, &b, &c, &names)?.run(&[(output, seed)], Missing::Zero)?;
            rows.extend(ds.into_iter().map(|d| d.reshape(&row)));
        }
        let all = match rows.split_first() {
            Some((first, [])) => *first,
            Some((first, rest)) => first.concat(rest, 0),
            None => b.full(0.0, [&[0], &ld[..]].concat(), g.dtype[by.at()]),
        };
        b.output(&unused_signature_name(g, &format!("jacobian.{leaf}")), all.reshape([&od[..], &ld[..]].concat()));
        drop(c);
        finish_rebuild(b, bump)
    })
}

/// A value of `v`'s type that is 1 at element `i` and 0 elsewhere.
fn jacobian_seed<'g>(b: &'g Builder, g: Graph<'_>, v: Value, i: usize) -> crate::nodes::Var<'g> {
    let (n, dtype) = (g.numel(v), g.dtype[v.at()]);
    let part = |n: usize, x: f64| b.full(x, [n], dtype);
    part(i, 0.0).concat(&[part(1, 1.0), part(n - i - 1, 0.0)], 0).reshape(g.dims(v))
}
