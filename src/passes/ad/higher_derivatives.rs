//! Higher derivatives, composed of [`grad`], [`vjp`](super::grad::vjp) and [`jvp`].

use super::grad::{GradOptions, Missing, differentiate_numbered, grad};
use super::jvp::{jvp, push_named_tangents};
use crate::error::Result;
use crate::nodes::{Builder, Emit, Graph, GraphBuf};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuild_buf, rebuilt_by_pass};
use crate::passes::signature::{leaf_by_name, output_by_name, underivable_error, unused_name};

/// Adds to `g` the gradient of the scalar output `loss` and its Hessian-vector product: inputs `tangent.<leaf>`,
/// outputs `grad.<leaf>` and `tangent.grad.<leaf>`, all of the leaf's type. The output `tangent.<loss>` is the
/// derivative of the loss along the tangents, ⟨grad, v⟩. An empty `wrt` stands for all params that are not frozen.
/// Computed forward over reverse.
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
    let leaves = GradOptions::wrt(wrt).leaves(g)?;
    let wrt: Vec<&str> = leaves.iter().map(String::as_str).collect();
    let first = grad(g, loss, &GradOptions { missing: Missing::Zero, ..GradOptions::wrt(&wrt) })?;
    let before = g.output_names.len();
    let v = first.view();
    let grads = v.output_names[before..].iter().map(|&s| v.str(s));
    jvp(v, &[loss].into_iter().chain(grads).collect::<Vec<_>>(), &wrt)
}

/// Adds to `g` the `n`-th derivative of the scalar output `output` with respect to the scalar leaf `leaf`, as output
/// `grad<n>.<leaf>`. It is an explicit zero once the derivative no longer depends on the leaf.
///
/// # Errors
/// A leaf that is not a scalar: repeated gradients would contract each derivative with ones.
pub fn nth_grad<'a>(g: impl Into<Graph<'a>>, output: &str, leaf: &str, n: usize) -> Result<GraphBuf> {
    let g = g.into();
    let v = leaf_by_name(g, leaf)?;
    if !g.dims(v).is_empty() {
        let text = format!(
            "the n-th derivative with respect to {leaf:?} needs a scalar, not {}; see hvp and jacobian",
            g.ty_text(v)
        );
        return Err(underivable_error(g, v, text));
    }
    let mut last = output.to_string();
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    for _ in 0..n {
        let options = GradOptions { missing: Missing::Zero, ..GradOptions::wrt(&[leaf]) };
        buf = differentiate_numbered(buf.view(), &last, &options)?;
        last = last_higher_derivative(&buf);
    }
    with_last_higher_derivative(g, buf.view(), &last, &format!("grad{n}.{leaf}"))
}

/// Adds to `g` the `n`-th derivative of `output` with respect to `leaf` along `n` directions: inputs `dir_0`, `dir_1`
/// …, of the leaf's type, and an output `tangent<n>.<output>` of the output's type, dⁿf\[d₀, d₁, …\]. It does not
/// depend on the order of the directions. There are `n` forward walks, one over the other, so the graph grows as 2ⁿ.
/// With a scalar leaf and ones as directions it is [`nth_grad`].
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
pub fn directional_nth_grad<'a>(g: impl Into<Graph<'a>>, output: &str, leaf: &str, n: usize) -> Result<GraphBuf> {
    let g = g.into();
    output_by_name(g, output)?;
    leaf_by_name(g, leaf)?;
    let mut last = output.to_string();
    let mut buf = rebuild_buf(g, &mut |_| None)?;
    for k in 0..n {
        buf = push_named_tangents(buf.view(), &[&last], &[leaf], &[format!("dir_{k}")])?;
        last = last_higher_derivative(&buf);
    }
    with_last_higher_derivative(g, buf.view(), &last, &format!("tangent{n}.{output}"))
}

/// The name of the last output.
fn last_higher_derivative(g: &GraphBuf) -> String {
    g.view().output_names.last().map(|&s| g.view().str(s).to_string()).unwrap_or_default()
}

/// `src` with the outputs of `g` and its output `last` alone, which is called `name` then.
fn with_last_higher_derivative(g: Graph<'_>, src: Graph<'_>, last: &str, name: &str) -> Result<GraphBuf> {
    rebuilt_by_pass("derivative", |bump| {
        let b = Builder::rewriting(Emit::like(&src));
        let mut c = Copier::new(src, &b);
        c.run(&mut |_| None);
        for &name in g.output_names {
            b.output(g.str(name), c.map[output_by_name(src, g.str(name))?]);
        }
        b.output(&unused_name(g, name), c.map[output_by_name(src, last)?]);
        c.updates();
        drop(c);
        finish_rebuild(b, bump)
    })
}
