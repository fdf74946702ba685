//! Higher derivatives, composed of [`grad`], [`vjp`](super::grad::vjp) and [`jvp`].

use super::grad::{GradOptions, Missing, Reverse, grad, unused_name};
use super::jvp::{jvp, jvp_with};
use super::prepare::for_autodiff;
use crate::arena::{Value, ids::Id};
use crate::error::Result;
use crate::nodes::{Builder, Emit, Graph, GraphBuf};
use crate::passes::rebuild::{Copier, finish, leaf_named, output_named, underivable, written};

/// The most reverse sweeps of one Jacobian.
pub const MAX_SWEEPS: usize = 4096;

/// Adds to `g` the gradient of the scalar output `loss` and its Hessian-vector product: inputs `tangent.<leaf>`,
/// outputs `grad.<leaf>` and `tangent.grad.<leaf>`, all of the leaf's type. The output `tangent.<loss>` is the
/// derivative of the loss along the tangents, ⟨grad, v⟩. Computed forward over reverse.
///
/// ```
/// use arenagrad::graph::hvp;
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("cubes");
/// let x = g.input("x", [2], DType::F64);
/// let graph = g.finish([(x * x * x).sum(..).named("loss")])?;
/// let mut p = Session::new().compile(&hvp(&graph, "loss", &["x"])?)?;
/// p.values_mut::<f64>("x")?.copy_from_slice(&[1.0, 2.0]);
/// p.values_mut::<f64>("tangent.x")?.copy_from_slice(&[1.0, -1.0]);
/// p.step()?;
/// assert_eq!(p.values::<f64>("tangent.grad.x")?, [6.0, -12.0]); // 6x·v
/// assert_eq!(p.values::<f64>("tangent.loss")?, [-9.0]); // 3·1 − 3·4
/// # Ok(())
/// # }
/// ```
pub fn hvp<'a>(g: impl Into<Graph<'a>>, loss: &str, wrt: &[&str]) -> Result<GraphBuf> {
    let g = g.into();
    let first = grad(g, loss, &GradOptions { missing: Missing::Zero, ..GradOptions::wrt(wrt) })?;
    let before = g.output_names.len();
    let v = first.view();
    let grads = v.output_names[before..].iter().map(|&s| v.str(s));
    jvp(v, &[loss].into_iter().chain(grads).collect::<Vec<_>>(), wrt)
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
    let mut last = output.to_string();
    let mut buf = crate::passes::rebuild::rebuild_buf(g, &mut |_| None)?;
    for _ in 0..n {
        let options = GradOptions { missing: Missing::Zero, ..GradOptions::wrt(&[leaf]) };
        buf = grad(buf.view(), &last, &options)?;
        last = last_output(&buf);
    }
    with_one(g, buf.view(), &last, &format!("grad{n}.{leaf}"))
}

/// Adds to `g` the `n`-th derivative of `output` by `leaf` along `n` directions: inputs `dir_0`, `dir_1` …, of the
/// leaf's type, and an output `tangent<n>.<output>` of the output's type, dⁿf\[d₀, d₁, …\]. It does not depend on the
/// order of the directions. There are `n` forward walks, one over the other, so the graph grows as 2ⁿ. With a scalar
/// leaf and ones as directions it is [`nth_grad`].
///
/// # Errors
/// Those of [`jvp`].
///
/// ```
/// use arenagrad::graph::directional_nth_grad;
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("cubes");
/// let x = g.input("x", [2], DType::F64);
/// let graph = g.finish([(x * x * x).sum(..).named("f")])?;
/// let mut p = Session::new().compile(&directional_nth_grad(&graph, "f", "x", 2)?)?;
/// for (name, data) in [("x", [1.0, 2.0]), ("dir_0", [1.0, 1.0]), ("dir_1", [0.5, 2.0])] {
///     p.values_mut::<f64>(name)?.copy_from_slice(&data);
/// }
/// p.step()?;
/// assert_eq!(p.values::<f64>("tangent2.f")?, [27.0]); // Σ 6x·d₀·d₁
/// # Ok(())
/// # }
/// ```
pub fn directional_nth_grad<'a>(
    g: impl Into<Graph<'a>>,
    output: &str,
    leaf: &str,
    n: usize,
) -> Result<GraphBuf> {
    let g = g.into();
    output_named(g, output)?;
    leaf_named(g, leaf)?;
    let mut last = output.to_string();
    let mut buf = crate::passes::rebuild::rebuild_buf(g, &mut |_| None)?;
    for k in 0..n {
        buf = jvp_with(buf.view(), &[&last], &[leaf], &[format!("dir_{k}")])?;
        last = last_output(&buf);
    }
    with_one(g, buf.view(), &last, &format!("tangent{n}.{output}"))
}

/// The name of the last output.
fn last_output(g: &GraphBuf) -> String {
    g.view().output_names.last().map(|&s| g.view().str(s).to_string()).unwrap_or_default()
}

/// `src` with the outputs of `g` and its output `last` alone, which is called `name` then.
fn with_one(g: Graph<'_>, src: Graph<'_>, last: &str, name: &str) -> Result<GraphBuf> {
    written("derivative", |bump| {
        let b = Builder::rewriting(Emit::like(&src));
        let mut c = Copier::new(src, &b);
        c.run(&mut |_| None);
        for &name in g.output_names {
            b.output(g.str(name), c.map[output_named(src, g.str(name))?]);
        }
        b.output(&unused_name(g, name), c.map[output_named(src, last)?]);
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
    let prepared = for_autodiff(g, &[leaf], &[output])?;
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
