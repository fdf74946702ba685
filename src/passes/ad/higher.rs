//! Higher derivatives, composed of [`grad`], [`vjp`](super::grad::vjp) and [`jvp`].

use super::activity::Mode;
use super::grad::{GradOptions, Missing, Reverse, grad, unused_name};
use super::jvp::jvp;
use super::prepare::for_autodiff;
use crate::arena::{Value, ids::Id};
use crate::error::Result;
use crate::nodes::{Builder, Emit, Graph, GraphBuf};
use crate::passes::rebuild::{Copier, finish, leaf_named, output_named, underivable, written};

/// The most reverse sweeps of one Jacobian.
pub const MAX_SWEEPS: usize = 4096;

/// Adds to `g` the gradient of the scalar output `loss` and its Hessian-vector product: inputs `tangent.<leaf>`,
/// outputs `grad.<leaf>` and `tangent.grad.<leaf>`, all of the leaf's type. Computed forward over reverse.
pub fn hvp<'a>(g: impl Into<Graph<'a>>, loss: &str, wrt: &[&str]) -> Result<GraphBuf> {
    let g = g.into();
    let first = grad(g, loss, &GradOptions { missing: Missing::Zero, ..GradOptions::wrt(wrt) })?;
    let before = g.output_names.len();
    let v = first.view();
    let grads: Vec<&str> = v.output_names[before..].iter().map(|&s| v.str(s)).collect();
    jvp(v, &grads, wrt)
}

/// Adds to `g` the `n`-th derivative of the scalar output `output` by the scalar leaf `leaf`, as output
/// `grad<n>.<leaf>`. It is an explicit zero once the derivative no longer depends on the leaf.
///
/// # Errors
/// A leaf that is not a scalar: repeated gradients would contract each derivative with ones.
pub fn nth_grad<'a>(g: impl Into<Graph<'a>>, output: &str, leaf: &str, n: usize) -> Result<GraphBuf> {
    let g = g.into();
    let v = leaf_named(g, leaf)?;
    if !g.dims(v).is_empty() {
        let text =
            format!("the n-th derivative by {leaf:?} needs a scalar, not {}; see hvp and jacobian", g.ty_text(v));
        return Err(underivable(g, v, text));
    }
    let keep: Vec<String> = g.output_names.iter().map(|&s| g.str(s).to_string()).collect();
    let mut last = output.to_string();
    let mut buf = crate::passes::rebuild::rebuild_buf(g, &mut |_| None)?;
    for _ in 0..n {
        let options = GradOptions { missing: Missing::Zero, ..GradOptions::wrt(&[leaf]) };
        buf = grad(buf.view(), &last, &options)?;
        let v = buf.view();
        last = v.output_names.last().map(|&s| v.str(s).to_string()).unwrap_or_default();
    }
    written("nth_grad", |bump| {
        let src = buf.view();
        let b = Builder::rewriting(Emit::like(&src));
        let mut c = Copier::new(src, &b);
        c.run(&mut |_| None);
        for name in &keep {
            b.output(name, c.map[output_named(src, name)?]);
        }
        b.output(&unused_name(g, &format!("grad{n}.{leaf}")), c.map[output_named(src, &last)?]);
        c.updates();
        drop(c);
        finish(b, bump)
    })
}

/// Adds to `g` the Jacobian of `output` by `leaf`, as output `jacobian.<leaf>`. Its shape is the output's dimensions
/// followed by the leaf's. There is one reverse sweep for each element of the output.
///
/// # Errors
/// An output of more than [`MAX_SWEEPS`] elements.
pub fn jacobian<'a>(g: impl Into<Graph<'a>>, output: &str, leaf: &str) -> Result<GraphBuf> {
    let g = g.into();
    let prepared = for_autodiff(g, &[leaf], &[output], Mode::Reverse)?;
    let g = prepared.view();
    let (out, by) = (output_named(g, output)?, leaf_named(g, leaf)?);
    let sweeps = g.numel(out);
    if sweeps > MAX_SWEEPS {
        let text = format!("the Jacobian of {output:?} takes {sweeps} sweeps, more than {MAX_SWEEPS}; use jvp or vjp");
        return Err(underivable(g, out, text));
    }
    written("jacobian", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let (od, ld) = (g.dims(out), g.dims(by));
        let row = [&[1], &ld[..]].concat();
        let mut rows = Vec::new();
        for i in 0..sweeps {
            let seed = one_hot(&b, g, out, i);
            let names = [leaf];
            let ds = Reverse::new(g, &b, &c, &names)?.run(&[(output, seed)], Missing::Zero)?;
            rows.extend(ds.into_iter().map(|d| d.reshape(&row)));
        }
        let all = match rows.split_first() {
            Some((first, [])) => *first,
            Some((first, rest)) => first.concat(rest, 0),
            None => b.full(0.0, [&[0], &ld[..]].concat(), g.dtype[by.at()]),
        };
        b.output(&unused_name(g, &format!("jacobian.{leaf}")), all.reshape([&od[..], &ld[..]].concat()));
        drop(c);
        finish(b, bump)
    })
}

/// A value of `v`'s type that is 1 at element `i` and 0 elsewhere.
fn one_hot<'g>(b: &'g Builder, g: Graph<'_>, v: Value, i: usize) -> crate::nodes::Var<'g> {
    let (n, dtype) = (g.numel(v), g.dtype[v.at()]);
    let part = |n: usize, x: f64| b.full(x, [n], dtype);
    part(i, 0.0).concat(&[part(1, 1.0), part(n - i - 1, 0.0)], 0).reshape(g.dims(v))
}
