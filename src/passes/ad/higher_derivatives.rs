//! Higher derivatives, composed of [`grad`], [`vjp`](super::grad::vjp) and [`jvp`].

use super::grad::{GradOptions, Missing, grad};
use super::jvp::jvp;
use crate::error::Result;
use crate::nodes::{Builder, Emit, Graph, GraphBuf};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuilt_by_pass};
use crate::passes::signature::{signature_leaf, signature_output, underivable_signature, unused_signature_name};

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
    let v = signature_leaf(g, leaf)?;
    if !g.dims(v).is_empty() {
        let text =
            format!("the n-th derivative by {leaf:?} needs a scalar, not {}; see hvp and jacobian", g.ty_text(v));
        return Err(underivable_signature(g, v, text));
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
    rebuilt_by_pass("nth_grad", |bump| {
        let src = buf.view();
        let b = Builder::rewriting(Emit::like(&src));
        let mut c = Copier::new(src, &b);
        c.run(&mut |_| None);
        for name in &keep {
            b.output(name, c.map[signature_output(src, name)?]);
        }
        b.output(&unused_signature_name(g, &format!("grad{n}.{leaf}")), c.map[signature_output(src, &last)?]);
        c.updates();
        drop(c);
        finish_rebuild(b, bump)
    })
}
